"""Snapshots of a training, from which it goes on to the bit: tensors by name, and plain facts beside them.

On disk it is one file, written beside the last one and moved into its place, so that there is always a whole one.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from thereafter.base.config import Table
from thereafter.base.storage import map_arrays, write_arrays
from thereafter.errors import FormatError

FORMAT = 1
_KEY, _EARLIER, _TYPES = "training", "earlier", "types"
# Types that numpy does not have, such as that of a carried state in mixed precision: their bits are kept as integers.
_BITS = {torch.bfloat16: torch.int16}
_BY_NAME = {str(dtype).removeprefix("torch."): dtype for dtype in _BITS}
FACTS = frozenset({"at", "optimizer", "schedule", "guard", "log_bytes", "threads", "torch"})
"""What every checkpoint says beside its tensors."""


@dataclass(frozen=True)
class Snapshot:
    """A moment of a training. Tensors are copies, on the device they came from.

    `earlier` is the snapshot that the training would go back to from here, where that is another one: one taken when a
    training is stopped is at no step of its own choosing, and it must go back to where it would have without the stop.
    """

    tensors: Mapping[str, Tensor]
    facts: Table
    earlier: Snapshot | None = None

    def part(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose name begins with `prefix/`, without it."""
        return {
            name.removeprefix(f"{prefix}/"): tensor
            for name, tensor in self.tensors.items()
            if name.startswith(f"{prefix}/")
        }


def take(tensors: Mapping[str, Tensor], facts: Table, into: Snapshot | None = None) -> Snapshot:
    """Copy tensors and facts into a snapshot; the memory of an older one (`into`) is used again where it fits."""
    old = {} if into is None else into.tensors
    copies: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        place, tensor = old.get(name), tensor.detach()
        if place is not None and (place.shape, place.dtype, place.device) == (
            tensor.shape,
            tensor.dtype,
            tensor.device,
        ):
            copies[name] = place.copy_(tensor)
        else:
            copies[name] = tensor.clone(memory_format=torch.contiguous_format)
    return Snapshot(copies, dict(facts))


def write(path: Path, snapshot: Snapshot) -> None:
    """Write it in one move; a disk that is full leaves the one that was there."""
    tensors = dict(snapshot.tensors)
    if snapshot.earlier is not None:
        tensors |= {f"{_EARLIER}/{name}": tensor for name, tensor in snapshot.earlier.tensors.items()}
    types = {name: str(t.dtype).removeprefix("torch.") for name, t in tensors.items() if t.dtype in _BITS}
    facts: Table = {"format": FORMAT, _TYPES: types, **snapshot.facts}
    if snapshot.earlier is not None:
        facts[_EARLIER] = dict(snapshot.earlier.facts)
    arrays = {name: t.view(_BITS.get(t.dtype, t.dtype)).cpu().numpy() for name, t in tensors.items()}
    write_arrays(path, arrays, {_KEY: json.dumps(facts)}, durable=True)


def read(path: Path, counters: Collection[str]) -> Snapshot:
    """Read it back; FormatError where it is no checkpoint with all `counters`. Nothing in it is executed."""
    arrays, known = map_arrays(path)
    try:
        facts = json.loads(known[_KEY])
        version, before, types = facts.pop("format"), facts.pop(_EARLIER, None), facts.pop(_TYPES, {})
        for moment in (facts, *([] if before is None else [before])):
            if not moment.keys() >= FACTS or moment["at"].keys() != set(counters):
                raise ValueError("it is not complete")
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise FormatError(f"{path} is no checkpoint of a training ({error}); try training again") from error
    if version != FORMAT:
        raise FormatError(f"{path} is a checkpoint of format {version!r}; expected {FORMAT}; try training again")
    tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
    try:
        for name, kind in types.items():
            bits, dtype = tensors[name], _BY_NAME[kind]
            if bits.dtype != _BITS[dtype]:
                raise ValueError(f"{bits.dtype} in the place of {dtype}")
            tensors[name] = bits.view(dtype)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(f"{path}: the types of its tensors are damaged ({error}); try training again") from error
    own = {name: tensor for name, tensor in tensors.items() if not name.startswith(f"{_EARLIER}/")}
    earlier = None if before is None else Snapshot(Snapshot(tensors, before).part(_EARLIER), before)
    return Snapshot(own, facts, earlier)

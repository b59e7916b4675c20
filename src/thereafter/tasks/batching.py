"""Batches of examples of about one length, limited in rows times steps, and the codecs that turn them into numbers.

The batches are a pure function of lengths, settings, seed and epoch, as those of a text are (`training/blocks.py`): a
position is all that a resumed run needs. One very long example makes a batch of its own and cannot make all others
long; padding counts as steps. The codecs go by name; `CodecsFile` is how a run folder keeps them.

Shapes: R examples, K batches.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Protocol, Self, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from thereafter.base.storage import read_plain, write_text
from thereafter.data.codecs import StoredCodec, restore_codecs, store_codecs
from thereafter.errors import FormatError

_EXAMPLES = 17  # tells these draws from others of the same seed
_BUCKET = 32  # so many batches are sorted by length together


@dataclass(frozen=True)
class Batches:
    """The batches of one epoch; batch k is the examples order[bounds[k] : bounds[k + 1]]."""

    order_R: NDArray[np.int64]
    bounds_K1: NDArray[np.int64]
    carried: bool = False
    """Nothing is carried from batch to batch."""

    def __len__(self) -> int:
        return len(self.bounds_K1) - 1

    def examples(self, k: int) -> NDArray[np.int64]:
        """The examples of batch k."""
        return self.order_R[self.bounds_K1[k] : self.bounds_K1[k + 1]]


def batches(
    lengths_R: NDArray[np.int64], most: int, places: int, *, seed: int = 0, epoch: int = 0, shuffle: bool = True
) -> Batches:
    """At most `most` examples a batch, and rows times the longest at most `places` (but one example always goes).

    >>> plan = batches(np.array([3, 9, 2, 3]), most=3, places=9, shuffle=False)
    >>> [plan.examples(k).tolist() for k in range(len(plan))]
    [[2, 0, 3], [1]]
    """
    rng = np.random.default_rng([seed, epoch, _EXAMPLES]) if shuffle else None
    rows = len(lengths_R)
    order = np.arange(rows) if rng is None else rng.permutation(rows)
    span = rows if rng is None else most * _BUCKET
    pieces = np.split(order, range(span, rows, span)) if rows else []
    chosen = [
        batch
        for part in pieces
        for batch in _cut(part[np.argsort(lengths_R[part], kind="stable")], lengths_R, most, places)
    ]
    if rng is not None:
        chosen = [chosen[k] for k in rng.permutation(len(chosen))]
    bounds = np.cumsum([0, *(len(batch) for batch in chosen)])
    return Batches(np.concatenate(chosen) if chosen else np.empty(0, np.int64), bounds)


def _cut(sorted_R: NDArray[np.int64], lengths_R: NDArray[np.int64], most: int, places: int) -> list[NDArray[np.int64]]:
    """Batches of examples that come sorted by length."""
    chosen, begin = [], 0
    for end in range(1, len(sorted_R) + 1):
        longer = end == len(sorted_R) or (end + 1 - begin) * int(lengths_R[sorted_R[end]]) > places
        if longer or end - begin == most:
            chosen.append(sorted_R[begin:end])
            begin = end
    return chosen


@dataclass(frozen=True)
class TensorBatch:
    """To inherit from, as a dataclass of tensors with an example a row; one that is not known is None.

    See `task_net.Recordable`. Tensors `on_host` stay where the host can read them.
    """

    on_host: ClassVar[tuple[str, ...]] = ()

    def __len__(self) -> int:
        return len(next(iter(vars(self).values())))

    def each(self, change: Callable[[Tensor], Tensor]) -> Self:
        """The same with each of its tensors changed alike."""
        return replace(self, **{name: change(tensor) for name, tensor in self.tensors().items()})

    def to(self, device: torch.device) -> Self:
        """The same on another device."""
        return self.each(lambda tensor: tensor.to(device, non_blocking=device.type == "cuda"))

    def places(self) -> dict[str, Tensor] | None:
        """The tensors it is made of; None where one of them is not known."""
        return None if any(part is None for part in vars(self).values()) else self.tensors()

    def over(self, places: Mapping[str, Tensor]) -> Self:
        """The same over other tensors of the same shapes."""
        return replace(self, **places)

    def tensors(self) -> dict[str, Tensor]:
        """Its tensors by name, without those that stay on the host and those that are not known."""
        parts = vars(self).items()
        return {name: part for name, part in parts if isinstance(part, Tensor) and name not in self.on_host}


@dataclass(frozen=True)
class FillableBatch(TensorBatch):
    """Examples of any lengths; those that are filled up to a shape can be recorded. See `task_net.Fillable`."""

    on_host: ClassVar[tuple[str, ...]] = ("lengths_B",)

    @property
    def recorded(self) -> bool:
        """Whether it is filled up to a shape of which a step may be recorded as a graph."""
        return False

    def places(self) -> dict[str, Tensor] | None:
        return self.tensors() if self.recorded else None

    def tensors(self) -> dict[str, Tensor]:
        """As in any batch; where a graph reads them, the host need not."""
        parts = vars(self).items()
        return {name: part for name, part in parts if part is not None and (self.recorded or name not in self.on_host)}


Codecs = Mapping[str, StoredCodec]
_KEY = "lexicons"


@runtime_checkable
class Styled(Protocol):
    """A codec that brings plain text into the way its training text was written."""

    def verbatim(self) -> StoredCodec:
        """The same codec, leaving text as it is."""


def verbatim(codecs: Codecs) -> Codecs:
    """Codecs that read every text as it is written."""
    return {name: codec.verbatim() if isinstance(codec, Styled) else codec for name, codec in codecs.items()}


class CodecsFile:
    """Codecs in the place where a language model has its tokenizer: see `runs.writer.Codecs`."""

    def __init__(self, codecs: Codecs) -> None:
        self._codecs = codecs

    def save(self, path: Path) -> None:
        write_text(path, json.dumps({_KEY: store_codecs(self._codecs)}, ensure_ascii=False))


def read_codecs(path: Path) -> dict[str, StoredCodec]:
    """Read what `CodecsFile` wrote; nothing in it is executed."""
    try:
        return restore_codecs(json.loads(read_plain(path).decode("utf-8"))[_KEY])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError(f"{path} holds no lexicons ({error}); try training again") from error

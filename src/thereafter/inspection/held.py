"""How many bytes autograd holds for the way back, counted on the tensors themselves.

`layers.bptt.saved_for_backward` counts what operations of torch keep. Here what our own compiled operations keep is
counted too: their buffers have no history, so that only memory that was there before can be told apart, by its address.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass
class Held:
    """Bytes of distinct memory."""

    bytes: int = 0


@contextmanager
def held_for_backward(known: Iterable[Tensor]) -> Iterator[Held]:
    """Count what is kept of the operations inside the block, each piece of memory once; `known` (weights) not.

    >>> x = torch.ones(10, requires_grad=True)
    >>> with held_for_backward([x]) as held:
    ...     y = torch.tanh(x) * x
    >>> held.bytes
    40
    """
    held = Held()
    kept: dict[int, Any] = {tensor.untyped_storage().data_ptr(): None for tensor in known}

    def pack(tensor: Tensor) -> Tensor:
        memory = tensor.untyped_storage()
        if memory.data_ptr() not in kept:
            kept[memory.data_ptr()] = memory  # held on to, so that no address is used twice inside the block
            held.bytes += memory.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield held

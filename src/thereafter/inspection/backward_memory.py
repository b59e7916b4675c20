"""How many bytes autograd keeps for the backward pass, counted on the tensors themselves.

`layers.bptt.saved_for_backward` counts what operations of torch keep. Here what our own compiled operations keep is
counted too. Their buffers have no history, so that weights and inputs can only be left out by their addresses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class KeptBytes:
    """Bytes of distinct memory."""

    bytes: int = 0


@contextmanager
def kept_for_backward(known: Iterable[Tensor]) -> Iterator[KeptBytes]:
    """Count what is kept of the operations inside the block, each piece of memory once; `known` (weights) not.

    >>> x = torch.ones(10, requires_grad=True)
    >>> with kept_for_backward([x]) as kept:
    ...     y = torch.tanh(x) * x
    >>> kept.bytes
    40
    """
    kept = KeptBytes()
    seen: dict[int, torch.UntypedStorage | None] = {tensor.untyped_storage().data_ptr(): None for tensor in known}

    def pack(tensor: Tensor) -> Tensor:
        memory = tensor.untyped_storage()
        if memory.data_ptr() not in seen:
            seen[memory.data_ptr()] = memory  # a reference, so that no address is used twice inside the block
            kept.bytes += memory.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield kept

"""What operators lack: types for parts of torch that have none (autograd's `apply`, the backends), cells as strings.

The schemas of operators have no other place for a cell's name and its options.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from thereafter.cells import CELLS
from thereafter.cells.base import Cell
from thereafter.cells.options import OptionValue


def apply_one(function: type[torch.autograd.Function], *args: object) -> Tensor:
    """The one tensor that a function makes."""
    result: Tensor = function.apply(*args)  # type: ignore[no-untyped-call]
    return result


def apply_many(function: type[torch.autograd.Function], *args: object) -> tuple[Tensor, ...]:
    """The tensors that a function makes."""
    results: tuple[Tensor, ...] = function.apply(*args)  # type: ignore[no-untyped-call]
    return results


def traced() -> bool:
    """Whether torch is writing down what is computed, to compile or to export it: then numbers cannot be looked at."""
    return torch.compiler.is_compiling() or torch._C._is_tracing()


_unread: ContextVar[bool] = ContextVar("thereafter_unread", default=False)


@contextmanager
def leaving_unread() -> Iterator[None]:
    """Inside the block nobody looks at numbers on a GPU: a step is recorded, or will be."""
    token = _unread.set(True)
    try:
        yield
    finally:
        _unread.reset(token)


def is_unread(x: Tensor) -> bool:
    """Whether the numbers of a tensor cannot be looked at: torch writes down what is computed, or a graph does."""
    return traced() or (_unread.get() and x.device.type != "cpu")


def transformed() -> bool:
    """Whether torch.func (vmap, grad, jvp) or a forward derivative goes through what is computed: they know torch's own
    operators alone."""
    return torch._C._functorch.maybe_current_level() is not None or torch.autograd.forward_ad._current_level >= 0


def backends() -> Any:
    """`torch.backends`: its functions have no types, and its stubs take the switches for functions."""
    return torch.backends


MASKED = -1.0
"""Stands for a share of zoneout that is a tensor, in the list of shares that an operator is given."""


def spell(cell: Cell) -> str:
    """A cell as a string, from which any process can make it again.

    >>> from thereafter.cells.elman import Elman
    >>> spell(Elman(2, 3))
    'elman {"input_size": 2, "hidden_size": 3, "bias": "two", "nonlinearity": "tanh", "layer_norm": false}'
    """
    sizes: dict[str, OptionValue] = {"input_size": cell.input_size, "hidden_size": cell.hidden_size, "bias": cell.bias}
    listed = ", ".join([f'"{name}": {_as_json(value)}' for name, value in (sizes | vars(cell.options)).items()])
    return f"{cell.name} {{{listed}}}"


def _as_json(value: OptionValue) -> str:
    """What `json.dumps` writes, which torch.compile cannot follow."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else f"{value}"


@lru_cache
def cell_of(spelled: str) -> Cell:
    """The cell of such a string."""
    name, _, options = spelled.partition(" ")
    cell: Cell = CELLS.load(name)(**json.loads(options))
    return cell

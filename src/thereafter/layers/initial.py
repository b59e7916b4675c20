"""The state before the first step, given, zero, random or learned; and states in torch's stacked form.

Shapes: B rows, L layers times directions, S the size of a state field.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from thereafter.cells.base import Cell, State
from thereafter.errors import ShapeError

StateGiven = Tensor | Sequence[Tensor | Sequence[Tensor]]
"""A state as users give it: h, or (h, c), each stacked, or a sequence with one tensor for each layer and direction."""
INITIAL = ("zero", "random", "learned")
SPREAD = 0.1
"""Standard deviation of a random initial state: small beside the [-1, 1] of h, large enough to be noticed."""


def fresh_state(cell: Cell, kind: str, batch: int, like: Tensor, learned: dict[str, Tensor], training: bool) -> State:
    """The state of one cell where the caller gave none.

    "random" draws a normal state of spread 0.1 for each row and call while training, so that nothing can be learned
    from the start being always the same, and its mean 0 otherwise (Zimmermann, Tietz and Grothmann 2012). "learned" is
    one parameter for each state field, the same for all rows.
    """
    if kind == "learned":
        parts = [learned[name].to(like.dtype).expand(batch, size) for name, size in cell.state_sizes().items()]
        return cell.state_type(*parts)
    if kind == "random" and training:
        drawn = [
            SPREAD * torch.randn(batch, n, dtype=like.dtype, device=like.device) for n in cell.state_sizes().values()
        ]
        return cell.state_type(*drawn)
    return cell.zero_state(batch, like)


def split_state(
    given: Any, cells: Sequence[Cell], batch: int, like: Tensor, *, ragged: bool, batched: bool
) -> list[State]:
    """The state of every cell from what the user gave: h, or (h, c), stacked [L, B, S] or a sequence of [B, S].

    Without a batch the rows' axis is missing, as in torch.
    """
    fields = tuple(cells[0].state_sizes())
    if len(fields) == 1:
        if isinstance(given, tuple | list) and not ragged:
            raise ShapeError(f"the state is a {type(given).__name__}; expected one tensor, h; try hx[0]")
        given = (given,)
    elif not isinstance(given, tuple | list) or len(given) != len(fields):
        got = f"{len(given)} parts" if isinstance(given, tuple | list) else f"a {type(given).__name__}"
        raise ShapeError(
            f"the state is {got}; expected a pair of tensors ({', '.join(fields)}); try (h, torch.zeros_like(h))"
        )
    columns = [
        _split_field(name, field, cells, batch, like, ragged, batched)
        for name, field in zip(fields, given, strict=True)
    ]
    return [cell.state_type(*parts) for cell, *parts in zip(cells, *columns, strict=True)]


def _split_field(
    name: str, given: Any, cells: Sequence[Cell], batch: int, like: Tensor, ragged: bool, batched: bool
) -> list[Tensor]:
    sizes = [cell.state_sizes()[name] for cell in cells]
    rows = (batch,) if batched else ()
    if ragged:
        if not isinstance(given, tuple | list) or len(given) != len(cells):
            raise ShapeError(
                f"the state {name} is a {type(given).__name__}; expected {len(cells)} tensors, one for each layer and "
                "direction, since hidden_size is a list"
            )
        parts, expected = list(given), [(*rows, size) for size in sizes]
    else:
        parts, expected = [given], [(len(cells), *rows, sizes[0])]
    for part, shape in zip(parts, expected, strict=True):
        if not isinstance(part, Tensor):
            raise ShapeError(f"the state {name} is a {type(part).__name__}; expected a tensor of the shape {shape}")
        if tuple(part.shape) != shape:
            raise ShapeError(
                f"the state {name} has the shape {tuple(part.shape)}; expected {shape} for {batch} rows; "
                "try the state this layer returned for the same rows, or none"
            )
        mixed = part.dtype != like.dtype and not torch.is_autocast_enabled(like.device.type)
        if mixed or part.device != like.device:
            raise ShapeError(
                f"the state {name} is {part.dtype} on {part.device}; expected {like.dtype} on {like.device}; "
                f"try {name}.to(x)"
            )
    parts = parts if ragged else list(given)
    return parts if batched else [part.unsqueeze(0) for part in parts]


def join_state(states: Sequence[State], *, ragged: bool, batched: bool) -> Any:
    """What the user gets back: h, or (h, c), each stacked, or a tuple of tensors where sizes may differ."""
    fields = []
    for column in zip(*states, strict=True):
        parts = column if batched else tuple(part.squeeze(0) for part in column)
        fields.append(tuple(parts) if ragged else torch.stack(parts))
    return fields[0] if len(fields) == 1 else tuple(fields)

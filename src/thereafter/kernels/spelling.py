"""Cells as strings, for operators: their schemas have no other place for a name and its options."""

from __future__ import annotations

import json
from functools import lru_cache

from thereafter.cells import CELLS
from thereafter.cells.base import Cell
from thereafter.cells.options import OptionValue

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

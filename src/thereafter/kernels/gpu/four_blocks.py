"""Cells as the programs know them: a formula over four blocks of W x + U h + b.

A cell of fewer gates leaves blocks empty (weights of 0). A GRU that resets after its product needs W x and U h of its
candidate apart, so these are two blocks.
"""

from __future__ import annotations

from typing import NamedTuple

from thereafter.cells.base import Cell
from thereafter.cells.elman import Elman
from thereafter.cells.gru import GRU
from thereafter.cells.lstm import LSTM

Places = tuple[int | None, int | None, int | None, int | None]
"""For each block the cell's own gate that stands there, or none."""


class FourBlocks(NamedTuple):
    """`form`: as code/formulas.py names it. `of_input`, `of_state`: where the gates of W and b, of U and b' go."""

    form: str
    of_input: Places
    of_state: Places

    @property
    def has_memory(self) -> bool:
        """Whether there is a memory cell beside h."""
        return self.form in ("lstm", "coupled")


def four_blocks(cell: Cell) -> FourBlocks | None:
    """By the exact type: a cell that was made from one of these may compute something else."""
    if type(cell) is LSTM:
        places: Places = (0, None, 1, 2) if cell.options.coupled else (0, 1, 2, 3)
        return FourBlocks("coupled" if cell.options.coupled else "lstm", places, places)
    if type(cell) is GRU and cell.options.reset == "after":
        return FourBlocks(f"gru_{cell.options.update}", (0, 1, 2, None), (0, 1, None, 2))
    if type(cell) is Elman:
        return FourBlocks(cell.options.nonlinearity, (0, None, None, None), (0, None, None, None))
    return None

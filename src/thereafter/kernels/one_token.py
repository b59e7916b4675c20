"""The door to the programs of one generated token: a step of an LSTM language model, its head, and the draw.

Who steps a model or draws from it asks `lacks(device)` first: None where these programs run.
"""

from __future__ import annotations

from thereafter.kernels.gpu import lacks, one_row
from thereafter.kernels.gpu.drawing import MOST_WORDS, Cuts, Places, draw_rows
from thereafter.kernels.gpu.one_row import TILE, RowHeadProgram, VectorTile, segment_size

__all__ = [
    "MOST_WORDS",
    "TILE",
    "Cuts",
    "Places",
    "RowHeadProgram",
    "VectorTile",
    "draw_rows",
    "lacks",
    "one_row",
    "segment_size",
]

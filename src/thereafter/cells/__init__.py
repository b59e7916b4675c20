"""Recurrent cells, by name. A cell never sees time: it is one step, with its weights passed in.

base                the contract: sizes, gates, weights, `project`, `recur`, `pointwise`
options             the options of every cell, declared once, without torch
elman, lstm, gru    the cells that text books begin with, and their variants; lstm: one whose state is a map, too, for
                    frames of video
minimal             cells that are linear in their state, so that all steps can be computed at once
"""

from thereafter.base.kinds import CellTable

CELLS = CellTable(
    "cell",
    {
        "elman": "thereafter.cells.elman:Elman",
        "lstm": "thereafter.cells.lstm:LSTM",
        "gru": "thereafter.cells.gru:GRU",
        "conv_lstm": "thereafter.cells.lstm:ConvLSTM",
        "mingru": "thereafter.cells.minimal:MinGRU",
        "minlstm": "thereafter.cells.minimal:MinLSTM",
        "diagonal": "thereafter.cells.minimal:Diagonal",
    },
)

__all__ = ["CELLS"]

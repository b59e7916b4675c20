"""Recurrent cells, by name. A cell never sees time: it is one step, with its weights passed in."""

from thereafter.registry import Registry

CELLS = Registry(
    "cell",
    {
        "elman": "thereafter.cells.elman:Elman",
        "lstm": "thereafter.cells.lstm:LSTM",
        "gru": "thereafter.cells.gru:GRU",
        "mingru": "thereafter.cells.minimal:MinGRU",
        "minlstm": "thereafter.cells.minimal:MinLSTM",
        "diagonal": "thereafter.cells.diagonal:Diagonal",
    },
)

__all__ = ["CELLS"]

"""Architecture diagrams, each from the declarations of the cell or model it shows. Nothing is trained for them.

The encoder-decoder (003 fig. 16.5) has its place here once a model declares one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from thereafter.cells import CELLS
from thereafter.figures.diagrams.cell import cell_figure, cells_figure
from thereafter.figures.diagrams.context import context_figure
from thereafter.figures.diagrams.networks import (
    USES,
    bidirectional_figure,
    stacked_figure,
    unrolled_figure,
    use_figure,
)
from thereafter.figures.diagrams.paths import path_figure
from thereafter.figures.diagrams.transformer import transformer_figure
from thereafter.figures.diagrams.window import window_figure
from thereafter.gallery.picture import Picture
from thereafter.layers.lanes import Lane, build_lanes
from thereafter.models.settings import (
    AverageSettings,
    LstmSettings,
    RnnSettings,
    TransformerSettings,
    WindowSettings,
)
from thereafter.training.ngram import NgramSettings

if TYPE_CHECKING:
    from thereafter.figures.figure import Figure
    from thereafter.gallery.models import Models

_INPUTS, _UNITS, _WORDS = 128, 256, 10_000
_SENTENCE = ("the", "trophy", "that", "the", "athletes", "who", "trained", "won")


def _elman() -> list[tuple[Lane, ...]]:
    return build_lanes("elman", _INPUTS, [(_UNITS,)], {})


def _rnn_cell(models: Models) -> Figure:
    head = f"softmax over<br>{_WORDS:,} words"
    return cell_figure(
        CELLS.load("elman")(_INPUTS, _UNITS), head=head, name="rnn-cell", title="The cell of a simple RNN"
    )


def _lstm_cell(models: Models) -> Figure:
    return cell_figure(CELLS.load("lstm")(_INPUTS, _UNITS))


def _lstm_variants(models: Models) -> Figure:
    lstm = CELLS.load("lstm")
    cells = {"LSTM with peepholes": lstm(_INPUTS, _UNITS, peephole=True)}
    cells["LSTM with coupled gates"] = lstm(_INPUTS, _UNITS, coupled=True)
    return cells_figure(cells, "lstm-variants", "Two variants of the LSTM cell")


def _gru_and_lstm(models: Models) -> Figure:
    cells = {name: CELLS.load(name.lower())(_INPUTS, _UNITS) for name in ("GRU", "LSTM")}
    note = (
        "As in torch, update keeps the old state and reset acts on the product U h; "
        "the books' GRU, update='new' and reset='before', has the two the other way."
    )
    return cells_figure(cells, "gru-and-lstm", "The GRU cell and the LSTM cell", note)


def _mingru(models: Models) -> Figure:
    return cell_figure(CELLS.load("mingru")(_INPUTS, _UNITS))


def _highway(models: Models) -> Figure:
    kinds = {"LSTM": "lstm", "GRU": "gru", "minGRU": "mingru", "RNN": "elman"}
    return path_figure({label: CELLS.load(kind)(_INPUTS, _UNITS) for label, kind in kinds.items()})


def _context(models: Models) -> Figure:
    settings = {
        "5-gram": NgramSettings(order=5),
        "average": AverageSettings(window=6),
        "window": WindowSettings(),
        "LSTM": LstmSettings(),
        "Transformer": TransformerSettings(),
    }
    return context_figure(_SENTENCE, settings)


def _stacked_rnn(layers: int) -> Picture:
    def build(models: Models) -> Figure:
        settings = RnnSettings(hidden=_UNITS, layers=layers, tied=False, dropout=0.0)
        return stacked_figure("rnn", settings, _WORDS, name=f"stacked-rnn-{layers}")

    return Picture(f"stacked-rnn-{layers}", f"003 fig. 16.{16 + layers}", build)


def _stacked_lstm(models: Models) -> Figure:
    settings = LstmSettings(hidden=_UNITS, layers=3, dropout_input=0.2, dropout_hidden=0.25, connect="residual")
    return stacked_figure("lstm", settings, _WORDS)


def _use(name: str, documents: str) -> Picture:
    return Picture(name, documents, lambda models: use_figure(_elman(), name))


PICTURES: list[Picture] = [
    Picture("rnn-cell", "000 fig. 5.5", _rnn_cell),
    Picture("unrolled", "000 fig. 5.6", lambda models: unrolled_figure(_elman())),
    *(_use(name, f"003 fig. 16.{2 + place}") for place, name in enumerate(USES)),
    Picture("lstm-cell", "000 fig. 5.10, 003 fig. 16.15", _lstm_cell),
    Picture("lstm-variants", "", _lstm_variants),
    Picture("memory-highway", "000 fig. 5.12", _highway),
    Picture("gru-and-lstm", "000 fig. 5.17, 003 fig. 16.20", _gru_and_lstm),
    Picture("mingru-cell", "", _mingru),
    Picture("backpropagation", "000 fig. 5.20", lambda models: unrolled_figure(_elman(), backward=True)),
    Picture("context", "000 fig. 5.24", _context),
    _stacked_rnn(2),
    _stacked_rnn(3),
    Picture("stacked-lstm", "000 fig. 5.27", _stacked_lstm),
    Picture(
        "bidirectional",
        "",
        lambda models: bidirectional_figure(build_lanes("lstm", _INPUTS, [(_UNITS, _UNITS)], {})),
    ),
    Picture("window-network", "", lambda models: window_figure(WindowSettings(), _WORDS)),
    Picture("transformer-block", "002 section 8", lambda models: transformer_figure(TransformerSettings(), _WORDS)),
]

"""Architecture diagrams, each from the declarations of the cell or model it shows. Nothing is trained for them.

`context_figure` shows which of the words before each kind of model has, and in which form. The encoder-decoder has its
place here once a language model declares one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from thereafter.cells import CELLS
from thereafter.cells.base import Cell
from thereafter.errors import OptionError
from thereafter.figures.diagrams.cell import cell_figure, cells_figure, path_figure
from thereafter.figures.diagrams.drawing import Drawing
from thereafter.figures.diagrams.network import (
    USES,
    bidirectional_figure,
    layers_of,
    stacked_figure,
    transformer_figure,
    unrolled_figure,
    use_figure,
)
from thereafter.figures.figure import Figure
from thereafter.figures.style import BLUE
from thereafter.gallery.models import HOCHREITER, LECTURE, GalleryPicture, after_book
from thereafter.layers.inputs import Lane, build_lanes
from thereafter.models.build import NEURAL, settings_of
from thereafter.models.settings import (
    AverageSettings,
    LstmSettings,
    NeuralSettings,
    RecurrentSettings,
    RnnSettings,
    TransformerSettings,
    WindowSettings,
)
from thereafter.training.ngram import NgramSettings

if TYPE_CHECKING:
    from thereafter.gallery.models import Models


_INPUTS, _UNITS, _WORDS = 128, 256, 10_000
_SENTENCE = ("the", "trophy", "that", "the", "athletes", "who", "trained", "won")


def _elman() -> list[tuple[Lane, ...]]:
    return build_lanes("elman", _INPUTS, [(_UNITS,)], {})


def _cell(name: str, **options: object) -> Cell:
    cell: Cell = CELLS.load(name)(_INPUTS, _UNITS, **options)
    return cell


def _rnn_cell(models: Models) -> Figure:
    head = f"softmax over<br>{_WORDS:,} words"
    return cell_figure(_cell("elman"), head=head, name="rnn-cell", title="The cell of a simple RNN")


def _lstm_variants(models: Models) -> Figure:
    cells = {"LSTM with peepholes": _cell("lstm", peephole=True)}
    cells["LSTM with coupled gates"] = _cell("lstm", coupled=True)
    return cells_figure(cells, "lstm-variants", "Two variants of the LSTM cell")


def _gru_and_lstm(models: Models) -> Figure:
    cells = {name: _cell(name.lower()) for name in ("GRU", "LSTM")}
    note = (
        "As in torch, update keeps the old state and reset acts on the product U h; "
        "the books' GRU, update='new' and reset='before', has the two the other way."
    )
    return cells_figure(cells, "gru-and-lstm", "The GRU cell and the LSTM cell", note)


def _highway(models: Models) -> Figure:
    kinds = {"LSTM": "lstm", "GRU": "gru", "minGRU": "mingru", "RNN": "elman"}
    return path_figure({label: _cell(kind) for label, kind in kinds.items()})


def _context(models: Models) -> Figure:
    settings: dict[str, Settings] = {
        "5-gram": NgramSettings(order=5),
        "average": AverageSettings(window=6),
        "window": WindowSettings(),
        "LSTM": LstmSettings(),
        "Transformer": TransformerSettings(),
    }
    return context_figure(_SENTENCE, settings)


def _stacked_rnn(layers: int) -> GalleryPicture:
    def build(models: Models) -> Figure:
        settings = RnnSettings(hidden=_UNITS, layers=layers, tied=False, dropout=0.0)
        return stacked_figure("rnn", settings, _WORDS, name=f"stacked-rnn-{layers}")

    return GalleryPicture(f"stacked-rnn-{layers}", LECTURE, build)


def _stacked_lstm(models: Models) -> Figure:
    settings = LstmSettings(hidden=_UNITS, layers=3, dropout_input=0.2, dropout_hidden=0.25, connect="residual")
    return stacked_figure("lstm", settings, _WORDS)


def _use(name: str) -> GalleryPicture:
    return GalleryPicture(name, LECTURE, lambda models: use_figure(_elman(), name))


PICTURES: list[GalleryPicture] = [
    GalleryPicture("rnn-cell", after_book("Elman (1990)"), _rnn_cell),
    GalleryPicture("unrolled", after_book("Elman (1990)"), lambda models: unrolled_figure(_elman())),
    *map(_use, USES),
    GalleryPicture(
        "lstm-cell", after_book("Gers, Schmidhuber and Cummins (2000)"), lambda models: cell_figure(_cell("lstm"))
    ),
    GalleryPicture("lstm-variants", "Gers and Schmidhuber (2000) and Greff et al. (2017)", _lstm_variants),
    GalleryPicture("memory-highway", after_book(HOCHREITER), _highway),
    GalleryPicture("gru-and-lstm", after_book("Cho et al. (2014)"), _gru_and_lstm),
    GalleryPicture("mingru-cell", "Feng et al. (2024)", lambda models: cell_figure(_cell("mingru"))),
    GalleryPicture(
        "backpropagation", after_book("Werbos (1990)"), lambda models: unrolled_figure(_elman(), backward=True)
    ),
    GalleryPicture("context", after_book(), _context),
    _stacked_rnn(2),
    _stacked_rnn(3),
    GalleryPicture("stacked-lstm", after_book("Graves (2013)"), _stacked_lstm),
    GalleryPicture(
        "bidirectional",
        "Schuster and Paliwal (1997)",
        lambda models: bidirectional_figure(build_lanes("lstm", _INPUTS, [(_UNITS, _UNITS)], {})),
    ),
    GalleryPicture("window-network", "Bengio et al. (2003)", lambda models: window_figure(WindowSettings(), _WORDS)),
    GalleryPicture(
        "transformer-block", "Vaswani et al. (2017)", lambda models: transformer_figure(TransformerSettings(), _WORDS)
    ),
]


_COLUMN, _ROW = 96, 84


def window_figure(settings: WindowSettings, vocabulary: int) -> Figure:
    """The model of Bengio et al. 2003 with these settings."""
    settings = settings.complete(vocabulary)
    embed, count = settings.embed or 0, settings.window
    drawing = Drawing()
    middle = (count - 1) * _COLUMN / 2
    wide = max(220, count * _COLUMN - 20)
    joined = count * embed
    drawing.box("joined", middle, 2 * _ROW, f"side by side: {joined:,} numbers", "layer", wide, 36)
    for place in range(count):
        back = count - 1 - place
        word = f"w<sub>t−{back}</sub>" if back else "w<sub>t</sub>"
        drawing.box(f"word {place + 1}", place * _COLUMN, 0, word, "input", 60, 32)
        drawing.box(f"vector {place + 1}", place * _COLUMN, _ROW, f"vector<br>{embed}", "state", 70, 42)
        drawing.arrow(f"word {place + 1}", f"vector {place + 1}", label="E" if place == 0 else "")
        drawing.arrow(f"vector {place + 1}", "joined", end=(place * _COLUMN, 2 * _ROW - 18))
    drawing.box("hidden", middle, 3 * _ROW, f"tanh(A · + d): {settings.hidden} units", "candidate", 220, 40)
    drawing.arrow("joined", "hidden")
    drawing.box("head", middle, 4 * _ROW, f"{settings.head} softmax: {vocabulary:,} words", "output", 240, 40)
    drawing.arrow("hidden", "head", label=f"dropout {settings.dropout:g}" if settings.dropout else "")
    if settings.direct:
        side = middle + max(wide, 240) / 2 + 26
        via = [(side, 2 * _ROW), (side, 4 * _ROW)]
        start, end = (middle + wide / 2, 2 * _ROW), (middle + 120, 4 * _ROW)
        drawing.arrow("joined", "head", via=via, start=start, end=end, colour=BLUE, label="direct")
    return drawing.figure(
        "window-network",
        f"A network over the last {count} words",
        f"The window language model from its settings: {count} word vectors of {embed} numbers, one matrix E for all, "
        f"{settings.hidden} hidden units, {vocabulary:,} words{', direct connections' if settings.direct else ''}.",
    )


Settings = NgramSettings | NeuralSettings

_WORD, _MODEL = 74, 62


def context_figure(words: Sequence[str], models: Mapping[str, Settings]) -> Figure:
    """One row a model, by its settings: the words in sight, and what they become before the next word is predicted."""
    drawing = Drawing()
    last = len(words) * _WORD
    for row, (label, settings) in enumerate(models.items()):
        y = -row * _MODEL
        sight, becomes = context_of(settings)
        drawing.note(-46, y, f"<b>{label}</b>", "right")
        for place, word in enumerate(words):
            seen = sight is None or place >= len(words) - sight
            kind = "state" if seen else "faint"
            text = word if seen else f'<span style="color:#9a9a9a">{word}</span>'
            drawing.box(f"{label}: {place + 1} {word}", place * _WORD, y, text, kind, 68, 30)
        drawing.box(f"{label}: held", last + 138, y, becomes, "layer", 300, 44)
        drawing.arrow(f"{label}: {len(words)} {words[-1]}", f"{label}: held")
    return drawing.figure(
        "context",
        "What each model holds of the words before",
        "Green: the words that can change the next prediction, by the models' settings; right: what is kept of them.",
    )


def context_of(settings: Settings) -> tuple[int | None, str]:
    """How many words a model of these settings has in sight (None: all), and what it makes of them."""
    match settings:
        case NgramSettings():
            seen = settings.order - 1
            return seen, f"the last {seen} words as they are:<br>counted, nothing in between"
        case TransformerSettings():
            numbers = f"{settings.layers} × 2 × {settings.hidden}"
            most = f"numbers a word, {settings.context} words at most"
            return settings.context, f"keys and values of {settings.layers} blocks: {numbers}<br>{most}"
        case RecurrentSettings():
            kind = next(name for name in NEURAL if settings_of(name) is type(settings))
            sizes = [lane.cell.state_sizes() for lanes in layers_of(kind, settings.complete(0)) for lane in lanes]
            layers, total = f"{len(sizes)} layer{'s' * (len(sizes) > 1)}", sum(sum(one.values()) for one in sizes)
            return None, f"{' and '.join(sizes[0])} of {layers}: {total:,} numbers,<br>however long the text"
        case WindowSettings(window=seen):
            return seen, f"{seen} vectors of {settings.embed} in order,<br>{settings.hidden} hidden units"
        case AverageSettings(window=seen):
            return seen, f"the mean of {seen} vectors:<br>{settings.embed} numbers, no order"
    raise OptionError(f"settings of the type {type(settings).__name__} have no row here; try those of a language model")

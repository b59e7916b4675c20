"""How much context each kind of model has: which of the words before, and in which form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from thereafter.errors import OptionError
from thereafter.figures.diagrams.drawing import Drawing
from thereafter.figures.diagrams.network import layers_of
from thereafter.figures.figure import Figure
from thereafter.models.build import NEURAL, settings_of
from thereafter.models.settings import (
    AverageSettings,
    NeuralSettings,
    RecurrentSettings,
    TransformerSettings,
    WindowSettings,
)
from thereafter.training.ngram import NgramSettings

Settings = NgramSettings | NeuralSettings

_COLUMN, _ROW = 74, 62


def context_figure(words: Sequence[str], models: Mapping[str, Settings]) -> Figure:
    """One row a model, by its settings: the words in sight, and what they become before the next word is predicted."""
    drawing = Drawing()
    last = len(words) * _COLUMN
    for row, (label, settings) in enumerate(models.items()):
        y = -row * _ROW
        sight, becomes = context_of(settings)
        drawing.note(-46, y, f"<b>{label}</b>", "right")
        for place, word in enumerate(words):
            seen = sight is None or place >= len(words) - sight
            kind = "state" if seen else "faint"
            text = word if seen else f'<span style="color:#9a9a9a">{word}</span>'
            drawing.box(f"{label}: {place + 1} {word}", place * _COLUMN, y, text, kind, 68, 30)
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

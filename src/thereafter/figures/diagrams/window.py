"""A network over a window of words."""

from __future__ import annotations

from thereafter.figures.diagrams.drawing import Drawing
from thereafter.figures.figure import Figure
from thereafter.figures.style import BLUE
from thereafter.models.settings import WindowSettings

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

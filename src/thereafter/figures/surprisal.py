"""A text in the colours of its surprisal: the paler a word, the better it was expected."""

from __future__ import annotations

import html as markup
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thereafter.evaluation.text_units import LINE_END, count_words
from thereafter.figures import style
from thereafter.figures.figure import Cell, Figure
from thereafter.figures.plot import Plot
from thereafter.figures.spread import join_words
from thereafter.inspection.measurement import Measurement

WIDTH = 80
"""Characters in a line of the picture."""
LINES = 30
"""Lines of text for each model; what does not fit is counted in the caption."""
_ROW = 19  # pixels
_MONO = "DejaVu Sans Mono, Menlo, Consolas, monospace"
_COLOURS = ((0.0, "#FFFFFF"), (0.35, "#FBE3C0"), (0.7, "#F3B35C"), (1.0, "#E8824A"))  # black letters can be read on all
_LEAST = 8.0  # bits at which the colour is strongest, at least: a text without surprises is pale


@dataclass(frozen=True)
class PlacedWord:
    """A word in the picture: which one, its line and its first column."""

    word: int
    line: int
    column: int
    text: str


def lay_out(texts: list[str], lines: int = LINES) -> list[PlacedWord]:
    """Words in lines of at most `WIDTH` characters, a space between them; a line end begins a line, long words go on.

    >>> [(one.line, one.column, one.text) for one in lay_out(["a", "cat", "\\n", "sat"])]
    [(0, 0, 'a'), (0, 2, 'cat'), (0, 6, '¬'), (1, 0, 'sat')]
    """
    placed: list[PlacedWord] = []
    line = column = 0
    for number, text in enumerate(texts):
        ends = text == "\n"
        shown = "¬" if ends else "".join(char if char.isprintable() else "·" for char in text)
        if column and column + len(shown) > WIDTH:
            line, column = line + 1, 0
        for begin in range(0, max(1, len(shown)), WIDTH):
            part = shown[begin : begin + WIDTH]
            line, column = (line + 1, 0) if begin else (line, column)
            if line >= lines:
                return [one for one in placed if one.word < number]
            placed.append(PlacedWord(number, line, column, part))
            column += len(part) + 1
        if ends:
            line, column = line + 1, 0
    return placed


def coloured(measurement: Measurement, *, lines: int = LINES) -> Figure:
    """Each word as strong as its surprisal, for every model of the measurement one below the other.

    Example: figures.coloured_words(lm.surprisal("other.txt").measurement(), lines=20)
    """
    texts: list[str] = measurement["text"].tolist()
    models: list[str] = measurement["model"].tolist()
    placed = lay_out(texts, max(1, lines))
    if not placed:  # a first word longer than the picture
        placed = [PlacedWord(0, 0, 0, texts[0][: WIDTH - 1] + "…")]
    shown = placed[-1].word + 1
    rows = placed[-1].line + 1
    block = rows + (2 if len(models) > 1 else 0)
    bits_MU: NDArray[np.float64] = measurement["bits"][:, :shown]
    top = strongest(bits_MU)
    plot = style.canvas(width=900, height=110 + _ROW * block * len(models))
    total = block * len(models)
    value_LC = np.full((total, WIDTH), np.nan)
    letter_LC = np.full((total, WIDTH), "", dtype=object)
    hover_LC = np.full((total, WIDTH), "", dtype=object)
    for number, model in enumerate(models):
        above = number * block + (block - rows)
        if len(models) > 1:
            plot.add_annotation(
                x=0.5, y=above - 0.1, text=f"<b>{markup.escape(model)}</b>", showarrow=False, xanchor="left"
            )
        for one in placed:
            value = float(bits_MU[number, one.word])
            for step, letter in enumerate(one.text):
                at = (above + one.line, one.column + step)
                value_LC[at] = min(value, top)
                letter_LC[at], hover_LC[at] = letter, _hover(measurement, number, one.word)
            if measurement["unknown"][number, one.word]:
                _underline(plot, one, above)
    _add_letters(plot, value_LC, letter_LC, hover_LC, top)
    plot.update_xaxes(visible=False, range=[0.5, WIDTH + 0.5])
    plot.update_yaxes(visible=False, range=[total + 0.6, 0.0])
    plot.update_layout(margin={"l": 16, "r": 24, "t": 16, "b": 24})
    return Figure("surprisal", "A text by its surprisal", _caption(measurement, shown, top), plot, _table(measurement))


def strongest(bits_MU: NDArray[np.float64]) -> float:
    """The bits at which the colour is strongest: the 95th percentile, at least `_LEAST`."""
    finite = bits_MU[np.isfinite(bits_MU)]
    return max(_LEAST, float(np.ceil(np.percentile(finite, 95)))) if len(finite) else _LEAST


def _add_letters(
    plot: Plot,
    value_LC: NDArray[np.float64],
    letter_LC: NDArray[np.object_],
    hover_LC: NDArray[np.object_],
    top: float,
) -> None:
    plot.add_heatmap(
        z=value_LC,
        x=np.arange(1, WIDTH + 1),
        y=np.arange(1, len(value_LC) + 1),
        zmin=0,
        zmax=top,
        colorscale=[list(pair) for pair in _COLOURS],
        text=letter_LC,
        customdata=hover_LC,
        texttemplate="%{text}",
        textfont={"family": _MONO, "size": 12, "color": "#000000"},
        hovertemplate="%{customdata}<extra></extra>",
        hoverongaps=False,
        colorbar={
            "title": {"text": "bits", "side": "right"},
            "thickness": 12,
            "tickvals": [0, top / 2, top],
            "ticktext": ["0", f"{top / 2:g}", f"≥ {top:g}"],
        },
    )


def _underline(plot: Plot, one: PlacedWord, above: int) -> None:
    """Mark a word with unknown tokens: it is pale since `<unk>` is likely, not since the word was expected."""
    under = above + one.line + 1.42
    edge = {"color": "#444444", "width": 1.5, "dash": "dot"}
    begin = one.column + 0.6
    plot.add_shape(type="line", x0=begin, x1=begin + len(one.text) - 0.2, y0=under, y1=under, line=edge)


def _hover(measurement: Measurement, model: int, word: int) -> str:
    text = markup.escape(str(measurement["text"][word]).replace("\n", "line end"))
    parts = [f"{text}: {measurement['bits'][model, word]:.2f} bits"]
    if measurement["unknown"][model, word]:
        parts.append(f"unknown, {measurement['spelling_bits'][model, word]:.1f} bits of spelling")
    if "rank" in measurement.arrays:
        parts.append(f"rank {measurement['rank'][model, word]:.0f}")
        parts.append(f"entropy {measurement['entropy'][model, word]:.2f} bits")
    return "<br>".join(parts)


def _caption(measurement: Measurement, shown: int, top: float) -> str:
    models, unit = measurement["model"].tolist(), str(measurement.about.get("by", "word"))
    texts, name = measurement["text"].tolist(), str(measurement.about.get("text", "text"))
    count, pictured = _size(texts, unit), _size(texts[:shown], unit)
    means = [
        f"{model} {bits.sum() / max(1, count):.2f}" for model, bits in zip(models, measurement["bits"], strict=True)
    ]
    extent = f"all {count:,} {unit}s" if shown == len(texts) else f"the first {pictured:,} of {count:,} {unit}s"
    ends = " with the bits of line ends (¬)" if LINE_END in texts else ""
    unknown = int(measurement["unknown"].max(axis=0).astype(bool).sum())
    spelled = f"; underlined: {unknown:,} with unknown tokens, whose spelling is not counted" if unknown else ""
    return (
        f"Surprisal of each {unit} of {'the text' if name == 'text' else name} under {join_words(models)}: -log2 p, "
        f"white 0 bits, strongest from {top:g}; {extent}. Mean over all{ends}: "
        f"{', '.join(means)} bits a {unit}{spelled}."
    )


def _size(texts: list[str], unit: str) -> int:
    """How many words there are, line ends left out; of any other unit how many texts."""
    return sum(map(count_words, texts)) if unit == "word" else len(texts)


def _table(measurement: Measurement) -> dict[str, list[Cell]]:
    table: dict[str, list[Cell]] = {
        str(measurement.about.get("by", "word")): measurement["text"].tolist(),
        "line": measurement["line"].tolist(),
    }
    for name, bits in zip(measurement["model"].tolist(), measurement["bits"], strict=True):
        table[f"bits {name}"] = bits.round(6).tolist()
    return table

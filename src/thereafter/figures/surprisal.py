"""What a model did not expect: the words of a text in colours, the paler the better expected; points of series.

Distributions over words: temperature, and how sparse n-gram counts are.
"""

from __future__ import annotations

import html as markup
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thereafter.evaluation.text_units import LINE_END, count_words
from thereafter.figures import style
from thereafter.figures.figure import Cell, Figure
from thereafter.figures.lines import add_letters, join_words
from thereafter.figures.style import Plot
from thereafter.inspection.measurement import Measurement

WIDTH = 80
"""Characters in a line of the picture."""
LINES = 30
"""Lines of text for each model; what does not fit is counted in the caption."""
_ROW = 19  # pixels
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


def coloured_words(measurement: Measurement, *, lines: int = LINES) -> Figure:
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
    bar = style.colour_bar("bits", tickvals=[0, top / 2, top], ticktext=["0", f"{top / 2:g}", f"≥ {top:g}"])
    hover = {"customdata": hover_LC, "hovertemplate": "%{customdata}<extra></extra>", "hoverongaps": False}
    colours = [list(pair) for pair in _COLOURS]
    add_letters(plot, value_LC, letter_LC, (0, top), colorscale=colours, colorbar=bar, **hover)
    plot.update_xaxes(visible=False, range=[0.5, WIDTH + 0.5])
    plot.update_yaxes(visible=False, range=[total + 0.6, 0.0])
    plot.update_layout(margin={"l": 16, "r": 24, "t": 16, "b": 24})
    return Figure("surprisal", "A text by its surprisal", _caption(measurement, shown, top), plot, _table(measurement))


def strongest(bits_MU: NDArray[np.float64]) -> float:
    """The bits at which the colour is strongest: the 95th percentile, at least `_LEAST`."""
    finite = bits_MU[np.isfinite(bits_MU)]
    return max(_LEAST, float(np.ceil(np.percentile(finite, 95)))) if len(finite) else _LEAST


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


_FLOOR = 1e-30  # a probability of 0 stays 0 at every temperature


def temperature(
    probability_V: NDArray[np.float64],
    tokens: Sequence[str],
    *,
    model: str,
    prompt: str,
    temperatures: Sequence[float] = (0.2, 0.5, 1.0, 2.0),
    shown: int = 10,
) -> Figure:
    """p_T(w) = p(w)^(1/T) / sum p(v)^(1/T): the likeliest tokens at several temperatures, and the entropy of all.

    Example: figures.temperature(lm.distribution("the cat"), tokens, model="ngram", prompt="the cat")
    """
    p_V = np.asarray(probability_V, dtype=np.float64)
    best = np.argsort(-p_V, kind="stable")[:shown]
    names = [_visible(tokens[i]) for i in best]
    plot = style.canvas("next token", "probability", barmode="group", width=860)
    columns: dict[str, Sequence[Cell]] = {"token": names}
    entropies = []
    for place, warmth in enumerate(temperatures):
        warped = _warp(p_V, warmth)
        entropies.append(float(-(warped * np.log2(np.maximum(warped, _FLOOR))).sum()))
        label = f"T = {warmth:g}, {entropies[-1]:.1f} bits"
        plot.add_bar(x=names, y=warped[best], name=label, marker_color=_HEAT[place % len(_HEAT)])
        columns[f"T={warmth:g}"] = warped[best].round(6).tolist()
    plot.update_layout(legend={"x": 0.99, "xanchor": "right", "y": 0.98, "title": {"text": "temperature, entropy"}})
    plot.update_xaxes(type="category", tickfont_size=13)
    return Figure(
        "temperature",
        "Temperature and the distribution",
        f"What {model} expects after “{prompt}”: its {len(best)} likeliest next tokens at {len(temperatures)} "
        f"temperatures; the entropy is that of the whole distribution over {len(p_V):,} tokens.",
        plot,
        columns,
    )


def sparsity(measurement: Measurement) -> Figure:
    """How many n-grams were counted, of how many possible, and which share of new text's n-grams was among them.

    Example: figures.sparsity(sparsity.sparsity(lm.model, lm.encode("the cat sat")))
    """
    orders = measurement["order"].tolist()
    filled = measurement["counted"] / measurement["possible"]
    titles = ("n-grams of new text that were seen", "possible n-grams that were counted")
    plot = style.panels(1, 2, width=900, height=430, subplot_titles=titles, horizontal_spacing=0.16)
    marks = {"mode": "lines+markers", "line": {"width": 3}, "marker": {"size": 9}, "showlegend": False}
    percent = [f"{share:.0%}" if share >= 0.1 else f"{share:.2g}" for share in measurement["seen"]]
    plot.add_bar(
        x=orders, y=measurement["seen"], text=percent, textposition="outside", cliponaxis=False,
        marker_color=style.BLUE, showlegend=False, row=1, col=1,
    )  # fmt: skip
    plot.add_scatter(x=orders, y=filled, line_color=style.RED, **marks, row=1, col=2)
    lowest = int(np.floor(np.log10(filled.min()))) - 1
    step = max(1, -lowest // 6)
    ticks = [10.0**power for power in range(0, lowest, -step)]
    names = ["1" if t == 1 else f"10<sup>{round(np.log10(t))}</sup>" for t in ticks]
    plot.update_xaxes(title_text="order n", tickvals=orders)
    plot.update_yaxes(title_text="share", range=[0, 1.1], tickformat=".0%", row=1, col=1)
    logarithmic = {"type": "log", "range": [lowest, 0.8], "tickvals": ticks, "ticktext": names}
    plot.update_yaxes(title_text="share of V<sup>n</sup>", **logarithmic, row=1, col=2)
    plot.update_annotations(font_size=15)
    plot.update_layout(margin={"t": 48})
    return Figure(
        "ngram-sparsity",
        "n-grams: the longer, the fewer were ever seen",
        f"A {measurement.about['model']} model over {measurement.about['vocabulary']:,} forms, on "
        f"{measurement.about['new']:,} tokens of "
        f"{measurement.about['text']}: the share of their n-grams that training had seen, and the share of all "
        "possible n-grams that it had counted; forms it does not know count as one, <unk>.",
        plot,
        {
            "order": orders,
            "counted": measurement["counted"].tolist(),
            "possible": [f"{value:.4g}" for value in measurement["possible"]],
            "seen in new text": measurement["seen"].round(5).tolist(),
        },
    )


_HEAT = (style.BLUE, style.SKY, style.ORANGE, style.RED)


def _warp(p_V: NDArray[np.float64], warmth: float) -> NDArray[np.float64]:
    with np.errstate(divide="ignore"):
        logs = np.log(p_V) / warmth
    raised = np.exp(logs - logs.max())
    warped: NDArray[np.float64] = raised / raised.sum()
    return warped


def _visible(token: str) -> str:
    """A token one can see: its space as ␣, a line end as ¬."""
    shown = token.replace("\n", "¬").replace("\t", "→")
    return "␣" + shown[1:] if shown.startswith(" ") else shown

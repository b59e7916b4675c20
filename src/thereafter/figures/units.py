"""A text in the colours of a unit: blue where its value is low, red where it is high.

After Karpathy, Johnson and Li 2015. Colours run from the unit's 5th percentile over the text shown to its 95th.
"""

from __future__ import annotations

import html as markup
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import OptionError, nearest
from thereafter.figures import style
from thereafter.figures.figure import Figure
from thereafter.inspection.measurement import Measurement
from thereafter.packages import require

WIDTH = 80
"""Characters in a line of the picture; longer lines go on in the next."""
LINES = 22
_PALE = 0.62  # how much of the colour is left, so that black letters can be read on it
_MONO = "DejaVu Sans Mono, Menlo, Consolas, monospace"
_SHOWN = {"\n": "¬", "\t": "→", " ": " "}


@dataclass(frozen=True)
class Letter:
    """A character in its place, with the unit's value from -1 to 1, and whether the property holds (or its value)."""

    line: int
    column: int
    text: str
    value: float
    truth: float


def laid_out(tokens: Sequence[str], values: NDArray[Any], truth: NDArray[Any], lines: int = LINES) -> list[Letter]:
    """The characters of tokens in lines of at most `WIDTH`, each with its token's value, scaled to -1 .. 1."""
    letters = _placed(tokens, values, truth, lines)
    scaled = scale(np.array([letter.value for letter in letters]))
    return [replace(letter, value=float(value)) for letter, value in zip(letters, scaled, strict=True)]


def scale(values: NDArray[Any]) -> NDArray[np.float64]:
    """-1 at the 5th percentile, 1 at the 95th, no further."""
    low, high = np.percentile(values, [5, 95])
    middle, half = (low + high) / 2, max((high - low) / 2, 1e-12)
    found: NDArray[np.float64] = np.clip((np.asarray(values, dtype=np.float64) - middle) / half, -1.0, 1.0)
    return found


def shade(value: float) -> tuple[int, int, int]:
    """The colour of a value from -1 (blue) over 0 (white) to 1 (red), pale enough for black letters.

    >>> shade(0.0)
    (247, 247, 247)
    """
    end = _rgb(style.RED if value > 0 else style.BLUE)
    white = _rgb(str(style.SIGN[1][1]))
    share = _PALE * min(abs(value), 1.0)
    red, green, blue = (round(w + share * (e - w)) for w, e in zip(white, end, strict=True))
    return red, green, blue


def html(found: Measurement, property: str | None = None, *, lines: int = LINES) -> str:
    """The coloured text of a property's best unit as a block of HTML; where the property holds it is underlined."""
    row = _row(found, property)
    letters = laid_out(found["token"][row].tolist(), found["value"][row], found["truth"][row], lines)
    parts = [f'<pre style="font-family:{_MONO};line-height:1.35;color:#000;background:#fff">']
    line = 0
    for letter in letters:
        if letter.line > line:
            parts.append("\n")
            line = letter.line
        mark = ";text-decoration:underline" if found["yes_no"][row] and letter.truth else ""
        text = markup.escape(_visible(letter.text))
        parts.append(f'<span style="background:rgb{shade(letter.value)}{mark}">{text}</span>')
    return "".join(parts) + "</pre>"


def coloured(found: Measurement, property: str | None = None, *, lines: int = LINES) -> Figure:
    """The same as a picture, with the unit's selectivity in the caption."""
    row = _row(found, property)
    letters = laid_out(found["token"][row].tolist(), found["value"][row], found["truth"][row], lines)
    rows = letters[-1].line + 1
    value_LC = np.full((rows, WIDTH), np.nan)
    text_LC = np.full((rows, WIDTH), "", dtype=object)
    for letter in letters:
        value_LC[letter.line, letter.column] = letter.value
        text_LC[letter.line, letter.column] = _visible(letter.text)
    go = require("plotly.graph_objects", "drawing a picture")
    plot = style.canvas("column", "line", width=900, height=96 + 19 * rows)
    ends = [[at, f"rgb{shade(2 * at - 1)}"] for at in (0.0, 0.25, 0.5, 0.75, 1.0)]
    plot.add_trace(
        go.Heatmap(
            z=value_LC,
            x=np.arange(1, WIDTH + 1),
            y=np.arange(1, rows + 1),
            zmin=-1,
            zmax=1,
            colorscale=ends,
            text=text_LC,
            texttemplate="%{text}",
            textfont={"family": _MONO, "size": 12, "color": "#000000"},
            hovertemplate="%{text} %{z:.2f}<extra></extra>",
            colorbar={"title": {"text": "state", "side": "right"}, "tickvals": [-1, 0, 1], "thickness": 12}
            | {"ticktext": ["low", "", "high"]},
        )
    )
    for line, begin, end in _runs(letters) if found["yes_no"][row] else ():
        edge = {"color": "#000000", "width": 1.5}
        plot.add_shape(type="line", x0=begin + 0.5, x1=end + 0.5, y0=line + 1.45, y1=line + 1.45, line=edge)
    plot.update_xaxes(showgrid=False, range=[0.5, WIDTH + 0.5])
    plot.update_yaxes(showgrid=False, range=[rows + 0.6, 0.4], tickvals=list(range(1, rows + 1, 3)))
    name, unit = str(found["property"][row]), str(found["unit"][row, 0])
    measure = "AUC" if found["yes_no"][row] else "Correlation"
    meaning = found.about.get("meaning", {}).get(name, name)
    under = "; underlined where it holds" if found["yes_no"][row] else ""
    away = "" if found["direction"][row, 0] > 0 else ", low where the property is high"
    return Figure(
        f"unit-{name.strip('/')}" if name in found.about.get("meaning", {}) else "unit",
        f"A unit that follows: {meaning}",
        f"State of unit {unit} of {found.about['model']} over held-out text of {found.about.get('text', 'the source')}"
        f", blue low to red high{under}; ¬ is a line end. {measure} {found['held_out'][row, 0]:.2f} on the half of "
        f"the text it was not chosen on{away}; the shifted control reaches {found['control'][row]:.2f}.",
        plot,
        {
            "line": [letter.line + 1 for letter in letters],
            "column": [letter.column + 1 for letter in letters],
            "character": [letter.text for letter in letters],
            "state": [round(letter.value, 4) for letter in letters],
            "property": [letter.truth for letter in letters],
        },
    )


def ranking(found: Measurement) -> Figure:
    """The best unit of each property on held-out text against the control, as bars."""
    names = found["property"].tolist()
    score = found["held_out"][:, 0]
    # both kinds on one scale: 0 is chance, 1 is perfect
    units, control = (np.where(found["yes_no"], 2 * part - 1, part) for part in (score, found["control"]))
    plot = style.canvas("property", "selectivity (2 AUC − 1, or correlation)", barmode="group", width=980)
    plot.add_bar(x=names, y=units, name="best unit", marker_color=style.BLUE, text=found["unit"][:, 0].tolist())
    plot.add_bar(x=names, y=np.maximum(control, 0.0), name="shifted control", marker_color=style.GREY)
    plot.update_traces(textposition="outside", textangle=0, textfont_size=12, cliponaxis=False)
    plot.update_layout(uniformtext={"minsize": 12, "mode": "show"})
    plot.update_yaxes(range=[0, 1.1])
    plot.update_layout(legend={"orientation": "h", "x": 0, "y": 1.08}, margin={"t": 48, "b": 96})
    plot.update_xaxes(tickangle=0, tickfont_size=12)
    return Figure(
        "unit-ranking",
        "Units that follow the text",
        f"The best of {found.about['units']:,} state numbers of {found.about['model']} for each property, chosen on "
        f"one half of {found.about['tokens']:,} held-out tokens of {found.about.get('text', 'the source')} and "
        "measured on the other; above a bar the unit, as layer, state (h hidden, c cell) and number; grey: the same "
        "search for the property moved along the text.",
        plot,
        {
            "property": names,
            "unit": found["unit"][:, 0].tolist(),
            "measure": ["AUC" if kind else "correlation" for kind in found["yes_no"]],
            "chosen on": found["chosen"][:, 0].round(4).tolist(),
            "held out": score.round(4).tolist(),
            "control": found["control"].round(4).tolist(),
        },
    )


def _row(found: Measurement, property: str | None) -> int:
    names = found["property"].tolist()
    if property is None:
        return 0
    if property not in names:
        raise OptionError(f"the measurement has no property {property!r}; {nearest(property, names)}")
    return int(names.index(property))


def _placed(tokens: Sequence[str], values: NDArray[Any], truth: NDArray[Any], lines: int) -> list[Letter]:
    """The characters in their lines, as many as there is room for, with values as they are."""
    spaced = not any(token[:1].isspace() for token in tokens) and any(len(token) > 1 for token in tokens)
    letters: list[Letter] = []
    line = column = 0
    for token, value, true in zip(tokens, values, truth, strict=True):
        for letter in token + (" " if spaced and token != "\n" else ""):
            if column == WIDTH:
                line, column = line + 1, 0
            if line == lines:
                return letters
            letters.append(Letter(line, column, letter, float(value), float(true)))
            column += 1
            if letter == "\n":
                line, column = line + 1, 0
    return letters


def _runs(letters: Sequence[Letter]) -> list[tuple[int, int, int]]:
    """Stretches of one line where the property holds: (line, first column, column behind the last)."""
    runs: list[tuple[int, int, int]] = []
    for letter in letters:
        if not letter.truth:
            continue
        if runs and runs[-1][0] == letter.line and runs[-1][2] == letter.column:
            runs[-1] = (letter.line, runs[-1][1], letter.column + 1)
        else:
            runs.append((letter.line, letter.column, letter.column + 1))
    return runs


def _visible(letter: str) -> str:
    return _SHOWN.get(letter, letter if letter.isprintable() else "·")


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)

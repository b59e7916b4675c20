"""One unit of a model: a text in the colours of its values, or a sentence with the unit of the subject's number.

After Karpathy, Johnson and Li 2015: blue is low, red high, from the unit's 5th percentile over the text shown to its
95th. The number's unit is drawn over a sentence and its twin in the other number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import OptionError, nearest
from thereafter.figures import style
from thereafter.figures.figure import Cell, Figure
from thereafter.figures.lines import add_curve, add_letters
from thereafter.figures.style import Plot
from thereafter.inspection.dynamics import gates_of
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.trace import Trace

WIDTH = 80
"""Characters in a line of the picture; longer lines go on in the next."""
LINES = 22
_PALE = 0.62  # how much of the colour is left, so that black letters can be read on it
_SHOWN = {"\n": "¬", "\t": "→", " ": " "}


@dataclass(frozen=True)
class Character:
    """A character with its line and column, the unit's value from -1 to 1, and the property (0 or 1, or its value)."""

    line: int
    column: int
    text: str
    value: float
    truth: float


def lay_out(
    tokens: Sequence[str], values: NDArray[np.float64], truth: NDArray[np.float64], lines: int = LINES
) -> list[Character]:
    """The characters of tokens in lines of at most `WIDTH`, each with its token's value, scaled to -1 .. 1."""
    characters = _place_characters(tokens, values, truth, lines)
    scaled = scale(np.array([character.value for character in characters]))
    return [replace(character, value=float(value)) for character, value in zip(characters, scaled, strict=True)]


def scale(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """-1 at the 5th percentile, 1 at the 95th, no further."""
    low, high = np.percentile(values, [5, 95])
    middle, half = (low + high) / 2, max((high - low) / 2, 1e-12)
    scaled: NDArray[np.float64] = np.clip((np.asarray(values, dtype=np.float64) - middle) / half, -1.0, 1.0)
    return scaled


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


def coloured_units(measurement: Measurement, property: str | None = None, *, lines: int = LINES) -> Figure:
    """The text in the colours of a property's best unit, underlined where the property holds.

    The unit's selectivity is in the caption.

    Example: figures.coloured_units(instruments.units(lm, "python-code", "quotes"), "quotes")
    """
    row = _row(measurement, property)
    characters = lay_out(
        measurement["token"][row].tolist(), measurement["value"][row], measurement["truth"][row], lines
    )
    rows = characters[-1].line + 1
    value_LC = np.full((rows, WIDTH), np.nan)
    text_LC = np.full((rows, WIDTH), "", dtype=object)
    for character in characters:
        value_LC[character.line, character.column] = character.value
        text_LC[character.line, character.column] = _visible(character.text)
    plot = style.canvas("column", "line", width=900, height=96 + 19 * rows)
    ends = [[at, f"rgb{shade(2 * at - 1)}"] for at in (0.0, 0.25, 0.5, 0.75, 1.0)]
    bar = style.colour_bar("state", tickvals=[-1, 0, 1], ticktext=["low", "", "high"])
    hover = "%{text} %{z:.2f}<extra></extra>"
    add_letters(plot, value_LC, text_LC, (-1, 1), colorscale=ends, colorbar=bar, hovertemplate=hover)
    for line, begin, end in _runs(characters) if measurement["yes_no"][row] else ():
        edge = {"color": "#000000", "width": 1.5}
        plot.add_shape(type="line", x0=begin + 0.5, x1=end + 0.5, y0=line + 1.45, y1=line + 1.45, line=edge)
    plot.update_xaxes(showgrid=False, range=[0.5, WIDTH + 0.5])
    plot.update_yaxes(showgrid=False, range=[rows + 0.6, 0.4], tickvals=list(range(1, rows + 1, 3)))
    name, unit = str(measurement["property"][row]), str(measurement["unit"][row, 0])
    measure = "AUC" if measurement["yes_no"][row] else "Correlation"
    meaning = measurement.about.get("meaning", {}).get(name, name)
    under = "; underlined where it holds" if measurement["yes_no"][row] else ""
    away = "" if measurement["direction"][row, 0] > 0 else ", low where the property is high"
    return Figure(
        f"unit-{name.strip('/')}" if name in measurement.about.get("meaning", {}) else "unit",
        f"A unit that follows: {meaning}",
        f"State of unit {unit} of {measurement.about['model']} over held-out text of "
        f"{measurement.about.get('text', 'the source')}"
        f", blue low to red high{under}; ¬ is a line end. {measure} {measurement['held_out'][row, 0]:.2f} on the "
        f"half of the text it was not chosen on{away}; the shifted control reaches {measurement['control'][row]:.2f}.",
        plot,
        {
            "line": [character.line + 1 for character in characters],
            "column": [character.column + 1 for character in characters],
            "character": [character.text for character in characters],
            "state": [round(character.value, 4) for character in characters],
            "property": [character.truth for character in characters],
        },
    )


def unit_ranking(measurement: Measurement) -> Figure:
    """The best unit of each property on held-out text against the control, as bars.

    Example: figures.unit_ranking(instruments.units(lm, "python-code", "quotes", "line-position"))
    """
    names = measurement["property"].tolist()
    score = measurement["held_out"][:, 0]
    # both kinds on one scale: 0 is chance, 1 is perfect
    units, control = (np.where(measurement["yes_no"], 2 * part - 1, part) for part in (score, measurement["control"]))
    plot = style.canvas("property", "selectivity (2 AUC − 1, or correlation)", barmode="group", width=980)
    plot.add_bar(x=names, y=units, name="best unit", marker_color=style.BLUE, text=measurement["unit"][:, 0].tolist())
    plot.add_bar(x=names, y=np.maximum(control, 0.0), name="shifted control", marker_color=style.GREY)
    plot.update_traces(textposition="outside", textangle=0, textfont_size=12, cliponaxis=False)
    plot.update_layout(uniformtext={"minsize": 12, "mode": "show"})
    plot.update_yaxes(range=[0, 1.1])
    plot.update_layout(legend={"orientation": "h", "x": 0, "y": 1.08}, margin={"t": 48, "b": 96})
    plot.update_xaxes(tickangle=0, tickfont_size=12)
    return Figure(
        "unit-ranking",
        "Units that follow the text",
        f"The best of {measurement.about['units']:,} state numbers of {measurement.about['model']} for each "
        f"property, chosen on one half of {measurement.about['tokens']:,} held-out tokens of "
        f"{measurement.about.get('text', 'the source')} and "
        "measured on the other; above a bar the unit, as layer, state (h hidden, c cell) and number; grey: the same "
        "search for the property moved along the text.",
        plot,
        {
            "property": names,
            "unit": measurement["unit"][:, 0].tolist(),
            "measure": ["AUC" if kind else "correlation" for kind in measurement["yes_no"]],
            "chosen on": measurement["chosen"][:, 0].round(4).tolist(),
            "held out": score.round(4).tolist(),
            "control": measurement["control"].round(4).tolist(),
        },
    )


def _row(measurement: Measurement, property: str | None) -> int:
    names = measurement["property"].tolist()
    if property is None:
        return 0
    if property not in names:
        raise OptionError(f"the measurement has no property {property!r}; {nearest(property, names)}")
    return int(names.index(property))


def _place_characters(
    tokens: Sequence[str], values: NDArray[np.float64], truth: NDArray[np.float64], lines: int
) -> list[Character]:
    """The characters with their lines and columns, as many as fit, with their values unscaled."""
    spaced = not any(token[:1].isspace() for token in tokens) and any(len(token) > 1 for token in tokens)
    characters: list[Character] = []
    line = column = 0
    for token, value, true in zip(tokens, values, truth, strict=True):
        for character in token + (" " if spaced and token != "\n" else ""):
            if column == WIDTH:
                line, column = line + 1, 0
            if line == lines:
                return characters
            characters.append(Character(line, column, character, float(value), float(true)))
            column += 1
            if character == "\n":
                line, column = line + 1, 0
    return characters


def _runs(characters: Sequence[Character]) -> list[tuple[int, int, int]]:
    """Stretches of one line where the property holds: (line, first column, column after the last)."""
    runs: list[tuple[int, int, int]] = []
    for character in characters:
        if not character.truth:
            continue
        if runs and runs[-1][0] == character.line and runs[-1][2] == character.column:
            runs[-1] = (character.line, runs[-1][1], character.column + 1)
        else:
            runs.append((character.line, character.column, character.column + 1))
    return runs


def _visible(character: str) -> str:
    return _SHOWN.get(character, character if character.isprintable() else "·")


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


_TINTS = {"singular": style.BLUE, "plural": style.RED}


def number_along(
    best: Measurement, singular: Trace, plural: Trace, *, subject: int, verb: int, model: str, name: str = "number-unit"
) -> Figure:
    """The best unit of a "number-unit" measurement in both sentences, its gates, and the mean of all units' gates.

    The sentences differ in the subject and its verb alone, which stand at the places `subject` and `verb`.

    Example: figures.number_along(best, singular, plural, subject=1, verb=6, model="lstm")
    """
    if len(singular.tokens) != len(plural.tokens):
        raise OptionError(
            f"the sentences have {len(singular.tokens)} and {len(plural.tokens)} tokens; expected as many of each"
        )
    field, unit = str(best["unit"][0]).removesuffix("]").split("[")
    layer, state = field.split(".")
    both = {"singular": singular, "plural": plural}
    value = {number: _column(trace, field, unit) for number, trace in both.items()}
    own = {
        gate.rpartition(".")[2]: {number: _column(trace, gate, unit) for number, trace in both.items()}
        for gate in gates_of(singular)
        if gate.startswith(f"{layer}.")
    }
    mean = {gate: singular[f"{layer}.{gate}"].mean(axis=1, dtype=np.float64) for gate in own}
    pairs = [(one.strip(), other.strip()) for one, other in zip(singular.tokens, plural.tokens, strict=True)]
    words = [one if one == other else f"{one} / {other}" for one, other in pairs]
    table: dict[str, Sequence[Cell]] = {"word": words}
    table |= {f"{state}, {number}": values.round(5).tolist() for number, values in value.items()}
    for gate, values in own.items():
        table |= {f"{gate} gate, {number}": values[number].round(5).tolist() for number in both}
        table[f"{gate} gate, mean of all units"] = mean[gate].round(5).tolist()
    table["between subject and verb"] = [subject < place < verb for place in range(len(words))]
    control, against = float(best["control"].max()), float(best["against"][0])
    attracted = "" if np.isnan(against) else f", {against:.2f} after a noun of the other number"
    return Figure(
        name,
        "The unit that carries the number",
        f"Unit {best['unit'][0]} of {model}: of {best.about['units']:,} state numbers the one that best tells a plural "
        f"subject from a singular one on the way to the verb (AUC {float(best['held_out'][0]):.2f} on sentences it was "
        f"not chosen on{attracted}; for numbers dealt out at random at most {control:.2f}). Above, its state over "
        f"“{' '.join(one for one, _ in pairs)}” (blue) and the same in the plural (red); below, its gates in both "
        "(black line: the mean over all units).",
        _plot(value, own, mean, words, state, subject, verb),
        table,
    )


def _plot(
    value: dict[str, NDArray[np.float64]],
    own: dict[str, dict[str, NDArray[np.float64]]],
    mean: dict[str, NDArray[np.float64]],
    words: Sequence[str],
    state: str,
    subject: int,
    verb: int,
) -> Plot:
    rows = 1 + len(own)
    share = [0.4, *([0.6 / len(own)] * len(own))] if own else [1.0]
    width, height = max(640, 190 + 46 * len(words)), 300 + 100 * len(own)
    spaces = {"row_heights": share, "vertical_spacing": 0.04, "shared_xaxes": True}
    grid = style.panels(rows, 1, width=width, height=height, **spaces)
    places = list(range(len(words)))
    for number, states in value.items():
        line = {"color": _TINTS[number], "width": 3}
        grid.add_scatter(x=places, y=states, name=number, line=line, mode="lines+markers", row=1, col=1)
    grid.update_yaxes(title_text=f"state {state}", row=1, col=1, zeroline=True, zerolinecolor="#999999")
    for row, (gate, values) in enumerate(own.items(), start=2):
        for number, one in values.items():
            dash = "solid" if number == "singular" else "dot"
            line = {"color": _TINTS[number], "width": 2.5, "dash": dash}
            grid.add_scatter(x=places, y=one, line=line, mode="lines+markers", showlegend=False, row=row, col=1)
        line = {"color": "#000000", "width": 1.2}
        add_curve(grid, places, mean[gate], "mean of all units", line, showlegend=row == 2, row=row, col=1)
        grid.update_yaxes(title_text=gate, range=[-0.05, 1.05], tickvals=[0, 0.5, 1], row=row, col=1)
    for place in (subject, verb):
        grid.add_vline(x=place, line={"color": style.GREY, "width": 1, "dash": "dash"})
    grid.update_xaxes(range=[-0.5, len(words) - 0.5], tickvals=places, ticktext=[""] * len(words))
    grid.update_xaxes(ticktext=list(words), tickangle=-50, title_text="word read", row=rows, col=1)
    grid.update_yaxes(title_standoff=8)
    grid.update_layout(margin={"l": 92, "b": 130, "t": 44}, legend={"orientation": "h", "x": 0, "y": 1.09})
    return grid


def _column(trace: Trace, field: str, unit: str) -> NDArray[np.float64]:
    return np.asarray(trace[field][:, int(unit)], dtype=np.float64)

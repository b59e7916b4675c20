"""The unit that carries the subject's number, over a sentence and its twin in the other number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import OptionError
from thereafter.figures import style
from thereafter.figures.figure import Cell, Figure
from thereafter.figures.plot import Plot
from thereafter.inspection.dynamics import gates_of
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.trace import Trace
from thereafter.packages import require

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
    words = _words(singular.tokens, plural.tokens)
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
        f"“{_text(singular)}” (blue) and the same in the plural (red); below, its gates in both (black line: the mean "
        "over all units).",
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
    subplots = require("plotly.subplots", "drawing a picture")
    rows = 1 + len(own)
    share = [0.4, *([0.6 / len(own)] * len(own))] if own else [1.0]
    grid: Plot = subplots.make_subplots(rows, 1, row_heights=share, vertical_spacing=0.04, shared_xaxes=True)
    width, height = max(640, 190 + 46 * len(words)), 300 + 100 * len(own)
    grid.update_layout(style.canvas(width=width, height=height).layout)
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
        grid.add_scatter(
            x=places,
            y=mean[gate],
            line=line,
            mode="lines",
            name="mean of all units",
            showlegend=row == 2,
            row=row,
            col=1,
        )
        grid.update_yaxes(title_text=gate, range=[-0.05, 1.05], tickvals=[0, 0.5, 1], row=row, col=1)
    for place in (subject, verb):
        grid.add_vline(x=place, line={"color": style.GREY, "width": 1, "dash": "dash"})
    grid.update_xaxes(linecolor="#444444", gridcolor="#E6E6E6", range=[-0.5, len(words) - 0.5], tickvals=places)
    grid.update_xaxes(ticktext=[""] * len(words))
    grid.update_xaxes(ticktext=list(words), tickangle=-50, title_text="word read", row=rows, col=1)
    grid.update_yaxes(linecolor="#444444", gridcolor="#E6E6E6", title_standoff=8)
    grid.update_layout(margin={"l": 92, "b": 130, "t": 44}, legend={"orientation": "h", "x": 0, "y": 1.09})
    return grid


def _column(trace: Trace, field: str, unit: str) -> NDArray[np.float64]:
    return np.asarray(trace[field][:, int(unit)], dtype=np.float64)


def _words(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """The words of both, each once: "trophy / trophies" where they differ."""
    pairs = zip(first, second, strict=True)
    return [one.strip() if one == other else f"{one.strip()} / {other.strip()}" for one, other in pairs]


def _text(trace: Trace) -> str:
    return " ".join(token.strip() for token in trace.tokens)

"""Figures of series: what they share, gates over a window, and rows as they were forecast k steps ahead.

Shared are times along an axis, bands around a line, and one small plot a series. Gates are those of a recurrent
forecaster while it reads a window, under its values. Of forecasts k steps ahead there are the rows, and the error by k.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thereafter.base.packages import require
from thereafter.errors import OptionError
from thereafter.figures import style
from thereafter.figures.figure import Cell, Figure
from thereafter.figures.lines import add_line, by_model, join_words, legend_beside
from thereafter.figures.style import Plot
from thereafter.inspection.dynamics import gates_of
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.trace import Trace

SEEN = "#333333"
"""The colour of values that came."""
MOST_SERIES = 6
"""Series that a figure shows; of more it shows the first and counts the rest."""
Times = NDArray[np.datetime64] | NDArray[np.int64]
Place = dict[str, int]
"""Row and column of a small plot."""


def axis_values(times_T: Times) -> list[str] | list[int]:
    """Times as plotly takes them: days and clocks as text, counted rows as numbers.

    >>> axis_values(np.array(["2024-01-31T06:00:00"], "datetime64[s]"))
    ['2024-01-31T06:00:00']
    """
    if np.issubdtype(times_T.dtype, np.datetime64):
        return [str(time) for time in times_T.astype("datetime64[s]")]
    return [int(time) for time in times_T.tolist()]


def axis_of_names(names: Sequence[object]) -> list[str] | list[float]:
    """Times as tables have them: numbers where all of them are counted rows."""
    texts = [str(name) for name in names]
    return [float(text) for text in texts] if all(text.lstrip("-").isdecimal() for text in texts) else texts


def small_plots(
    names: Sequence[str], x: str, y: str, *, height: int = 230, width: int = 860
) -> tuple[Plot, list[Place]]:
    """An empty plot for each name, two beside each other where there are several."""
    columns = 1 if len(names) == 1 else 2
    rows = -(-len(names) // columns)
    subplots = require("plotly.subplots", "drawing a picture")
    titles = list(names) if len(names) > 1 else None
    grid: Plot = subplots.make_subplots(
        rows, columns, subplot_titles=titles, vertical_spacing=0.32 / rows, horizontal_spacing=0.1
    )
    whole = 460 if len(names) == 1 else 110 + height * rows
    layout = style.canvas(width=width, height=whole).layout
    grid.update_layout(layout, legend={"orientation": "h", "x": 0, "y": 1 + 30 / whole, "yanchor": "bottom"})
    grid.update_layout(margin={"l": 84, "r": 24, "t": 84, "b": 64})
    axis = {"showgrid": True, "gridcolor": "#E6E6E6", "zeroline": False, "linecolor": "#444444", "ticks": "outside"}
    grid.update_xaxes(**axis, nticks=8 if columns == 1 else 5)
    grid.update_yaxes(**axis)
    places = [{"row": at // columns + 1, "col": at % columns + 1} for at in range(len(names))]
    for place in places:
        if place["col"] == 1:
            grid.update_yaxes(title_text=y, **place)
        if place["row"] == rows or (place["row"] == rows - 1 and len(names) % 2 and place["col"] == 2):
            grid.update_xaxes(title_text=x, **place)
    return grid, places


class BandLook(NamedTuple):
    """What the legend calls an area, and how it is filled."""

    name: str
    colour: str
    opacity: float


def add_band(
    plot: Plot,
    x: Sequence[object],
    low: Sequence[float],
    high: Sequence[float],
    look: BandLook,
    *,
    shown: bool = True,
    place: Place | None = None,
) -> None:
    """The area between two lines; `shown` in the legend."""
    plot.add_scatter(
        x=[*x, *reversed(x)],
        y=[*high, *reversed(low)],
        fill="toself",
        fillcolor=look.colour,
        opacity=look.opacity,
        line={"width": 0},
        mode="lines",
        hoverinfo="skip",
        name=look.name,
        legendgroup=look.name,
        showlegend=shown,
        **(place or {}),
    )


_MOST_STEPS = 240
_TICKS = 12
_EVERY = (1, 2, 3, 4, 6, 12, 24)  # steps between two names below the axis


def gates_over_series(
    trace: Trace, *, model: str = "the forecaster", layer: str = "l0", text: str = "", last: int = 0
) -> Figure:
    """The values of a window, the mean of each gate over the units of a layer, and the size of its state, by step.

    `last`: draw the last so many steps of the window alone.

    Example: figures.gates_over_series(model.trace(window), model="lstm", text="seasonal", last=48)
    """
    if "past" not in trace.arrays or trace.axes["past"] != ("row", "target"):
        raise OptionError("the trace has no window of a series; expected the trace of a forecaster: model.trace(...)")
    steps = len(trace.tokens)
    drawn = slice(-(last or steps), None)
    tokens = trace.tokens[drawn]
    if len(tokens) > _MOST_STEPS:
        raise OptionError(f"the window is read in {steps} steps; a picture has room for {_MOST_STEPS}; try last=48")
    names = [one for one in gates_of(trace) if one.startswith(f"{layer}.")]
    gates = {one.rpartition(".")[2] + " gate": trace[one][drawn].mean(axis=1, dtype=np.float64) for one in names}
    memory = "c" if f"{layer}.c" in trace.arrays else "h"
    size_T = np.abs(trace[f"{layer}.{memory}"][drawn]).mean(axis=1, dtype=np.float64)
    value_T = trace["past"][:, 0].reshape(steps, -1).mean(axis=1, dtype=np.float64)[drawn]
    plot = _plot(value_T.tolist(), gates, size_T.tolist(), memory, tokens)
    columns: dict[str, Sequence[Cell]] = {"time": tokens, "value": value_T.tolist()}
    columns |= {one: values.round(5).tolist() for one, values in gates.items()} | {f"mean |{memory}|": size_T.tolist()}
    rows = len(trace["past"]) // steps
    read = "one row at a time" if rows == 1 else f"{rows} rows at a time, whose mean is drawn"
    on = f" of {text}" if text else ""
    state = "cell state" if memory == "c" else "state"
    return Figure(
        "series-gates",
        "Gates over a series",
        f"Above the standardised values{on} from {tokens[0]} to {tokens[-1]}, the end of a window of {steps * rows} "
        f"rows, read {read}. Below, after each step, the mean over the {trace[names[0]].shape[1]} units of layer "
        f"{int(layer[1:]) + 1} of {model} of each gate, and of the size of the {state}.",
        plot,
        columns,
    )


def _plot(
    value: list[float],
    gates: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float64]]],
    size: list[float],
    memory: str,
    names: Sequence[str],
) -> Plot:
    subplots = require("plotly.subplots", "drawing a picture")
    grid: Plot = subplots.make_subplots(3, 1, row_heights=[0.34, 0.38, 0.28], vertical_spacing=0.05, shared_xaxes=True)
    grid.update_layout(style.canvas(width=900, height=560).layout)
    places = list(range(len(value)))
    axis = {"showgrid": True, "gridcolor": "#E6E6E6", "zeroline": False, "linecolor": "#444444"}
    grid.update_yaxes(**axis)
    grid.update_xaxes(**axis)
    line = {"color": SEEN, "width": 1.8}
    grid.add_scatter(x=places, y=value, mode="lines+markers", line=line, marker={"size": 4}, showlegend=False)
    for at, (gate, mean_T) in enumerate(gates.items()):
        look = {"color": style.CYCLE[at], "width": 2.2, "dash": style.DASHES[at % len(style.DASHES)]}
        grid.add_scatter(x=places, y=mean_T.tolist(), mode="lines", line=look, name=gate, row=2, col=1)
    grid.add_bar(x=places, y=size, marker_color=style.PURPLE, showlegend=False, row=3, col=1)
    every = next(step for step in _EVERY if len(places) <= _TICKS * step)
    grid.update_xaxes(tickvals=places[::every], ticktext=_short(names[::every]), tickangle=0)
    grid.update_xaxes(title_text="read at", title_standoff=8, row=3, col=1)
    for row, title in enumerate(("value", "mean gate", f"mean |{memory}|"), start=1):
        grid.update_yaxes(title_text=title, row=row, col=1)
    grid.update_layout(
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}, margin={"l": 80, "t": 48, "b": 84}
    )
    return grid


def _short(names: Sequence[str]) -> list[str]:
    """Times with their day below, where it is another than before.

    >>> _short(["2024-01-31 22:00", "2024-01-31 23:00", "2024-02-01 00:00", "7"])
    ['22:00<br>2024-01-31', '23:00', '00:00<br>2024-02-01', '7']
    """
    short, before = [], ""
    for name in names:
        day, _, clock = name.partition(" ")
        short.append(name if not clock else clock if day == before else f"{clock}<br>{day}")
        before = day
    return short


_KIND = "steps-ahead"
_COLOURS = (style.BLUE, style.GREEN, style.ORANGE, style.RED, style.PURPLE, style.SKY, style.GREY)
_MOST_ROWS = 400
_MOST_LINES = len(_COLOURS)


def steps_ahead(measurement: Measurement, *, rows: int = _MOST_ROWS) -> Figure:
    """The rows of a series, and each as it was forecast k steps before: the last `rows` that all k reach.

    Example: figures.steps_ahead(measurement, rows=300)
    """
    if measurement.kind != _KIND:
        raise OptionError(f"got a measurement of kind {measurement.kind!r}; expected {_KIND!r}")
    steps = measurement["ahead"].tolist()
    if len(steps) > _MOST_LINES:
        raise OptionError(f"the measurement has {len(steps)} numbers of steps; expected at most {_MOST_LINES} to draw")
    about = measurement.about
    begin = max(0, len(measurement["time"]) - rows)
    times = [str(time) for time in measurement["time"][begin:]]
    x = axis_of_names(times)
    actual = measurement["actual"][begin:].tolist()
    plot = style.canvas("time" if about.get("row") != "1 row" else "t", str(about.get("target", "value")), width=880)
    plot.add_scatter(x=x, y=actual, name="observed", mode="lines", line={"color": "#B5B5B5", "width": 1.2})
    columns: dict[str, Sequence[Cell]] = {"time": times, "actual": actual}
    for place, k in enumerate(steps):
        predicted = [None if math.isnan(one) else one for one in measurement["predicted"][place, begin:].tolist()]
        name = f"{k} step{'' if k == 1 else 's'} ahead"
        plot.add_scatter(
            x=x,
            y=predicted,
            name=name,
            mode="lines",
            line={"color": _COLOURS[place], "width": 1.6 + 0.4 * place, "dash": style.DASHES[place % 4]},
        )
        columns[name] = predicted
    plot.update_layout(legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}, margin={"t": 52})
    error = ", ".join(f"{one:.3g}" for one in measurement["rmse"].tolist())
    return Figure(
        _KIND,
        "One step ahead and many",
        f"Rows of {about['text']} that {about['model']} was not fitted to, each forecast from the rows up to k before "
        f"it, k = {', '.join(map(str, steps))}; beyond what it gives at once it reads its own predictions. Root mean "
        f"squared errors over the {about['compared_rows']:,} rows that every k reaches: {error}.",
        plot,
        columns,
    )


def error_by_steps(measurements: Sequence[Measurement]) -> Figure:
    """The root mean squared error by the number of steps ahead, of several forecasters of one series.

    Example: figures.error_by_steps([linear, recurrent])
    """
    groups = by_model(measurements, _KIND)
    first = measurements[0]
    plot = style.canvas("steps ahead", "root mean squared error", width=820)
    columns: dict[str, list[Cell]] = {"model": [], "steps": [], "rmse": []}
    for place, (model, group) in enumerate(groups.items()):
        steps = group[0]["ahead"].tolist()
        if any(one["ahead"].tolist() != steps for one in group):
            raise OptionError(f"the measurements of {model} have different steps ahead; expected the same in all")
        rows = np.stack([one["rmse"] for one in group])
        add_line(plot, model, steps, rows, place)
        columns["model"] += [model] * len(steps)
        columns["steps"] += steps
        columns["rmse"] += rows.mean(axis=0).tolist()
    steps, last = first["ahead"].tolist(), first["last_value_rmse"].tolist()
    plot.add_scatter(
        x=steps, y=last, name="last value", mode="lines", line={"color": SEEN, "width": 1.4, "dash": "dot"}
    )
    columns["model"] += ["last value"] * len(steps)
    columns["steps"] += steps
    columns["rmse"] += last
    ticks = sorted({*steps} if len(steps) < 12 else {2**p for p in range(11) if 2**p <= steps[-1]})
    plot.update_xaxes(type="log", tickvals=ticks, ticktext=[str(tick) for tick in ticks])
    plot.update_yaxes(rangemode="tozero")
    legend_beside(plot, 190)
    texts = join_words(one.about["text"] for one in measurements)
    return Figure(
        "error-by-steps",
        "Error by steps ahead",
        f"Root mean squared error of {join_words(groups)} on {texts}, by how many steps before a row the forecast was "
        f"made, over the {first.about['compared_rows']:,} rows that every number of steps reaches; dotted the error of "
        "the value that came so many steps before.",
        plot,
        columns,
    )

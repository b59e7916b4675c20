"""Pictures of forecasts: fan charts of what came and what is expected, and the error from rolling origins by step.

Shapes: T rows of history, H steps, D targets, S samples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thereafter.base.tabular import Row, Tabular
from thereafter.errors import OptionError
from thereafter.figures import style
from thereafter.figures.figure import Cell, Figure
from thereafter.figures.lines import add_curve, add_line, by_model, join_words, legend_beside
from thereafter.figures.style import Plot
from thereafter.inspection.dynamics import gates_of
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.trace import Trace
from thereafter.series.forecasting.answers import Forecast, ForecastTable, spelled_times
from thereafter.series.forecasting.asking import Backtest

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
    titles = list(names) if len(names) > 1 else None
    whole = 460 if len(names) == 1 else 110 + height * rows
    spaces = {"vertical_spacing": 0.32 / rows, "horizontal_spacing": 0.1}
    grid = style.panels(rows, columns, width=width, height=whole, subplot_titles=titles, **spaces)
    grid.update_layout(legend={"orientation": "h", "x": 0, "y": 1 + 30 / whole, "yanchor": "bottom"})
    grid.update_layout(margin={"l": 84, "r": 24, "t": 84, "b": 64})
    grid.update_xaxes(**style.AXIS, nticks=8 if columns == 1 else 5)
    grid.update_yaxes(**style.AXIS)
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
    shares = {"row_heights": [0.34, 0.38, 0.28], "vertical_spacing": 0.05, "shared_xaxes": True}
    grid = style.panels(3, 1, width=900, height=560, **shares)
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
        "the value that many steps before.",
        plot,
        columns,
    )


COVERAGES = (0.95, 0.8, 0.5)
"""The bands of a fan, the widest first."""
_OPACITY = (0.18, 0.26, 0.36)
_PATHS = 20  # sampled futures that are drawn
_TIMES = 4  # rows of history for each step of the forecast
_LEAST = 48  # rows of history


class _Fan(NamedTuple):
    """One series and target."""

    forecast: Forecast
    target: int
    times_T: Times
    values_T: NDArray[np.float64]


def forecast_fan(table: ForecastTable, *, model: str = "", series: Sequence[str] = ()) -> Figure:
    """The last rows of each series, and after them the forecast: its mean, the bands of 50, 80 and 95 %, sampled paths.

    `series`: the names of those to draw; without it the first six, and the caption counts the rest.

    Example: figures.forecast_fan(table, model="gru", series=["s001", "s002"])
    """
    fans = _fans(table, series)
    drawn = fans[:MOST_SERIES]
    names = [_name(fan) for fan in drawn]
    one = drawn[0].forecast
    plot, places = small_plots(names, "time", one.targets[drawn[0].target] if len(drawn) == 1 else "value")
    for at, (fan, place) in enumerate(zip(drawn, places, strict=True)):
        _add_fan(plot, fan, place, first=at == 0)
    steps = {len(fan.forecast) for fan in fans}
    longest = max(steps)
    count = f"{longest:,} steps" if longest > 1 else "1 step"
    whose, whom = f" of {model}" if model else "", ", ".join(names[:3]) + (" and others" if len(names) > 3 else "")
    left = len(fans) - len(drawn)
    rest = f" Drawn are {len(drawn)} of {len(fans):,} series." if left else ""
    paths = " Thin lines are sampled paths." if len(one.paths_SHD) else ""
    about = f" {table.note[0].upper()}{table.note[1:].rstrip('.')}." if table.note else ""
    return Figure(
        "forecast-fan",
        f"Forecast of the next {count}",
        f"The last rows of {whom}, and the forecast{whose} of the next {count}: the mean, and calibrated "
        f"bands that should hold 50, 80 and 95 % of what comes.{paths}{rest}{about}",
        plot,
        _columns(drawn),
    )


def _fans(table: ForecastTable, series: Sequence[str]) -> list[_Fan]:
    if not table.forecasts:
        raise OptionError("the table has no forecast to draw; expected at least one")
    known = [one.series for one in table.forecasts]
    for name in series:
        if name not in known:
            raise OptionError(f"the table has no series {name!r}; expected one of {', '.join(known[:6])}")
    fans = []
    for at, one in enumerate(table.forecasts):
        if series and one.series not in series:
            continue
        times_T, values_TD = table.history[at] if at < len(table.history) else (one.times_H[:0], one.mean_HD[:0])
        rows = max(_LEAST, _TIMES * len(one))
        fans += [_Fan(one, target, times_T[-rows:], values_TD[-rows:, target]) for target in range(len(one.targets))]
    return fans


def _name(fan: _Fan) -> str:
    target = fan.forecast.targets[fan.target]
    if len(fan.forecast.targets) > 1:
        return f"{fan.forecast.series}, {target}" if fan.forecast.series else target
    return fan.forecast.series or target


def _add_fan(plot: Plot, fan: _Fan, place: Place, *, first: bool) -> None:
    forecast, target = fan.forecast, fan.target
    past, ahead = axis_values(fan.times_T), axis_values(forecast.times_H)
    mean_H = forecast.mean_HD[:, target].tolist()
    for coverage, opacity in zip(COVERAGES, _OPACITY, strict=True):
        low_HD, high_HD = forecast.band(coverage)
        name = f"{coverage:.0%} band".replace("%", " %")
        low, high = low_HD[:, target].tolist(), high_HD[:, target].tolist()
        look = BandLook(name, style.BLUE, opacity)
        add_band(plot, ahead, low, high, look, shown=first, place=place)
    for number, path_H in enumerate(forecast.paths_SHD[:_PATHS, :, target]):
        plot.add_scatter(
            x=ahead, y=path_H.tolist(), mode="lines", line={"color": style.ORANGE, "width": 0.8}, opacity=0.7,
            name="sampled paths", legendgroup="paths", showlegend=first and not number, hoverinfo="skip", **place,
        )  # fmt: skip
    plot.add_scatter(
        x=past, y=fan.values_T.tolist(), mode="lines", line={"color": SEEN, "width": 1.5}, name="observed",
        legendgroup="came", showlegend=first, **place,
    )  # fmt: skip
    plot.add_scatter(
        x=ahead, y=mean_H, mode="lines+markers" if len(mean_H) == 1 else "lines",
        line={"color": style.BLUE, "width": 2.4}, name="mean", legendgroup="mean", showlegend=first, **place,
    )  # fmt: skip


def _columns(fans: Sequence[_Fan]) -> dict[str, list[Cell]]:
    """A row for every time that is drawn."""
    bands = [f"{side}_{coverage:.0%}".rstrip("%") for coverage in reversed(COVERAGES) for side in ("low", "high")]
    columns: dict[str, list[Cell]] = {name: [] for name in ("series", "target", "time", "value", "mean", *bands)}
    for fan in fans:
        forecast, rows, steps = fan.forecast, len(fan.values_T), len(fan.forecast)
        columns["series"] += [forecast.series] * (rows + steps)
        columns["target"] += [forecast.targets[fan.target]] * (rows + steps)
        columns["time"] += [*spelled_times(fan.times_T), *spelled_times(forecast.times_H)]
        columns["value"] += [*fan.values_T.tolist(), *[None] * steps]
        columns["mean"] += [*[None] * rows, *forecast.mean_HD[:, fan.target].tolist()]
        for coverage in COVERAGES:
            for side, edge_HD in zip(("low", "high"), forecast.band(coverage), strict=True):
                columns[f"{side}_{coverage:.0%}".rstrip("%")] += [*[None] * rows, *edge_HD[:, fan.target].tolist()]
    return columns


def draw_forecasts(table: ForecastTable, name: str | None) -> Figure:
    """What `ForecastTable.figure` draws; there is one figure, so that none is named."""
    return forecast_fan(table)


def draw_backtest(tested: Backtest, name: str | None) -> Figure:
    """What `Backtest.figure` draws: the mean absolute error by step with its 95 % interval, of all series together and
    of each of the first, beside that of the simple forecast."""
    series = [str(row["series"]) for row in tested.errors("series").rows]
    drawn = ["all", *series[: MOST_SERIES - 1]] if len(series) > 1 else ["all"]
    unit = ", ".join(tested.windows.table.targets)
    plot, places = small_plots(drawn, "steps ahead", f"mean absolute error ({unit})" if len(drawn) == 1 else "MAE")
    columns: dict[str, list[Cell]] = {}
    for at, (one, place) in enumerate(zip(drawn, places, strict=True)):
        rows = tested.errors("step", series=one if at else "").rows
        steps, mae, simple = (_numbers(rows, column) for column in ("step", "mae", "baseline_mae"))
        low, high = (_numbers(rows, f"mae_{end}") for end in ("low", "high"))
        if not np.isnan([*low, *high]).any():
            add_band(plot, steps, low, high, BandLook("95 % interval", style.BLUE, 0.25), shown=not at, place=place)
        mode = "lines+markers" if len(steps) < 40 else "lines"
        plot.add_scatter(
            x=steps, y=mae, mode=mode, line={"color": style.BLUE, "width": 2.4}, name="this model",
            legendgroup="model", showlegend=not at, **place,
        )  # fmt: skip
        plot.add_scatter(
            x=steps, y=simple, mode=mode, line={"color": SEEN, "width": 1.5, "dash": "dot"}, name=tested.baseline,
            legendgroup="simple", showlegend=not at, **place,
        )  # fmt: skip
        for row in rows:
            for column, cell in ({"series": one} | row).items():
                columns.setdefault(column, []).append(cell if isinstance(cell, str) else _plain(cell))
    plot.update_yaxes(rangemode="tozero")
    rest = f" Drawn are {len(drawn) - 1} of {len(series):,} series." if len(series) >= MOST_SERIES else ""
    return Figure("backtest", "Error by steps ahead", tested.note().replace("\n", ". ") + f".{rest}", plot, columns)


def _numbers(rows: tuple[Row, ...], column: str) -> list[float]:
    return [_plain(row[column]) for row in rows]


def _plain(cell: object) -> float:
    return float(cell) if isinstance(cell, int | float) else float("nan")


_NEEDED = ("series", "time", "value", "expected", "low", "high", "nats", "unusual")
_MOST_ROWS = 1000  # of a series that are drawn: those around its most surprising point


def unusual_points(surprises: Tabular, *, model: str = "", text: str = "", rows: int = _MOST_ROWS) -> Figure:
    """Each series with what was expected one step before, and its surprising points marked.

    `surprises` is a table with a row a value: series, time, value, expected, low, high, nats (-log p), unusual.

    Example: figures.unusual_points(model.surprises("sales.csv"), model="ar", text="sales.csv")
    """
    groups = _by_series(surprises.to_rows())
    drawn = {name: _around(group, rows) for name, group in list(groups.items())[:MOST_SERIES]}
    plot, places = small_plots(list(drawn), "time", "value")
    for at, (group, place) in enumerate(zip(drawn.values(), places, strict=True)):
        _add_series(plot, group, place, first=at == 0)
    every = [row for group in groups.values() for row in group]
    marked = [row for row in every if row["unusual"]]
    by, on = (f" by {model}" if model else ""), (f" of {text}" if text else "")
    count, where = sum(map(len, drawn.values())), ""
    if len(groups) > len(drawn) or len(every) > count:
        which = f"{len(drawn):,} of {len(groups):,} series" if len(groups) > 1 else "the series"
        where = f" Drawn are {count:,} values of {which}, those around the most surprising one."
    dearest = max(every, key=lambda row: _number(row["nats"], -math.inf))
    return Figure(
        "unusual-points",
        "Unusual points",
        f"Values{on} as expected{by} from the rows before them, with the band of what was expected. Marked are the "
        f"{len(marked):,} of {len(every):,} values that are unusual; the most surprising, {dearest['value']:.4g} at "
        f"{dearest['time']}, cost {_number(dearest['nats'], math.nan):.1f} nats (−log p).{where}",
        plot,
        {name: [_cell(row[name]) for group in drawn.values() for row in group] for name in _NEEDED},
    )


def draw_points(surprises: Tabular, name: str | None) -> Figure:
    """What `PointTable.figure` draws; there is one figure, so that none is named."""
    return unusual_points(surprises)


def _by_series(rows: Sequence[Row]) -> dict[str, list[Row]]:
    if not rows:
        raise OptionError("there are no values to draw; expected a row for each value of a series")
    missing = [name for name in _NEEDED if name not in rows[0]]
    if missing:
        raise OptionError(f"the table has no column {', '.join(missing)}; expected {', '.join(_NEEDED)}")
    several = len({row.get("target") for row in rows}) > 1
    groups: dict[str, list[Row]] = {}
    for row in rows:
        name = str(row["series"])
        groups.setdefault(f"{name}, {row['target']}" if several else name, []).append(row)
    return groups


def _around(rows: Sequence[Row], most: int) -> list[Row]:
    """The stretch around the most surprising row."""
    if len(rows) <= most:
        return list(rows)
    at = max(range(len(rows)), key=lambda place: _number(rows[place]["nats"], -math.inf))
    begin = min(max(0, at - most // 2), len(rows) - most)
    return list(rows[begin : begin + most])


def _add_series(plot: Plot, rows: Sequence[Row], place: Place, *, first: bool) -> None:
    x = axis_of_names([row["time"] for row in rows])
    low, high = ([_number(row[side], math.nan) for row in rows] for side in ("low", "high"))
    known = [at for at in range(len(rows)) if math.isfinite(low[at]) and math.isfinite(high[at])]
    inside = ([x[at] for at in known], [low[at] for at in known], [high[at] for at in known])
    add_band(plot, *inside, BandLook("expected band", style.BLUE, 0.2), shown=first, place=place)
    expected = [_number(row["expected"], math.nan) for row in rows]
    value = [_number(row["value"], math.nan) for row in rows]
    look = {"showlegend": first, **place}
    add_curve(plot, x, expected, "expected", {"color": style.BLUE, "width": 1.2}, legendgroup="e", **look)
    add_curve(plot, x, value, "value", {"color": SEEN, "width": 1.3}, legendgroup="v", **look)
    marked = [at for at, row in enumerate(rows) if row["unusual"]]
    plot.add_scatter(
        x=[x[at] for at in marked],
        y=[value[at] for at in marked],
        mode="markers",
        marker={"color": style.RED, "size": 9, "symbol": "circle-open", "line": {"width": 2.4}},
        text=[f"{_number(rows[at]['nats'], math.nan):.1f} nats" for at in marked],
        name="unusual",
        legendgroup="u",
        **look,
    )


def _number(cell: object, otherwise: float) -> float:
    return float(cell) if isinstance(cell, int | float) else otherwise


def _cell(value: object) -> Cell:
    return value if isinstance(value, int | float) or value is None else str(value)

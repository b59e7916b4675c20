"""One step ahead and many: the rows of a series as forecast k steps ahead, and the error by k."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from thereafter.errors import OptionError
from thereafter.figures import style
from thereafter.figures.figure import Cell, Figure
from thereafter.figures.lines import add_line, by_model, join_words, legend_beside
from thereafter.inspection.measurement import Measurement
from thereafter.series.lines import SEEN, axis_of_names

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

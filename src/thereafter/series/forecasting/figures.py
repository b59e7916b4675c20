"""Pictures of forecasts: fan charts of what came and what is expected, and the error from rolling origins by step.

Shapes: T rows of history, H steps, D targets, S samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thereafter.base.tabular import Row
from thereafter.errors import OptionError
from thereafter.figures import style
from thereafter.figures.figure import Cell, Figure
from thereafter.figures.style import Plot
from thereafter.series.forecasting.answers import Forecast, ForecastTable, spelled_times
from thereafter.series.forecasting.backtest import Backtest
from thereafter.series.lines import (
    MOST_SERIES,
    SEEN,
    BandLook,
    Place,
    Times,
    add_band,
    axis_values,
    small_plots,
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
    whose = f" of {model}" if model else ""
    left = len(fans) - len(drawn)
    rest = f" Drawn are {len(drawn)} of {len(fans):,} series." if left else ""
    paths = " Thin lines are sampled paths." if len(one.paths_SHD) else ""
    about = f" {table.note[0].upper()}{table.note[1:].rstrip('.')}." if table.note else ""
    return Figure(
        "forecast-fan",
        f"Forecast of the next {count}",
        f"The last rows of {_listed(names)}, and the forecast{whose} of the next {count}: the mean, and calibrated "
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


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and others"


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

"""The error of forecasts from rolling origins, by step of the horizon."""

from __future__ import annotations

import numpy as np

from thereafter.figures import style
from thereafter.figures.figure import Cell, Figure
from thereafter.figures.series_lines import MOST_SERIES, SEEN, BandLook, add_band, small_plots
from thereafter.tabular import Row
from thereafter.tasks.forecast_backtest import Backtest


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

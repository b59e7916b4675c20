"""Series with the points marked that a forecaster did not expect."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from thereafter.errors import OptionError
from thereafter.figures import style
from thereafter.figures.figure import Cell, Figure
from thereafter.figures.plot import Plot
from thereafter.figures.series_lines import MOST_SERIES, SEEN, BandLook, Place, add_band, axis_of_names, small_plots
from thereafter.tabular import Row, Tabular

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
    where = (
        f" {_drawn(groups, drawn)}" if len(groups) > len(drawn) or len(every) > sum(map(len, drawn.values())) else ""
    )
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


def _drawn(groups: Mapping[str, Sequence[Row]], drawn: Mapping[str, Sequence[Row]]) -> str:
    count = f"{len(drawn):,} of {len(groups):,} series" if len(groups) > 1 else "the series"
    return f"Drawn are {sum(map(len, drawn.values())):,} values of {count}, those around the most surprising one."


def _add_series(plot: Plot, rows: Sequence[Row], place: Place, *, first: bool) -> None:
    x = axis_of_names([row["time"] for row in rows])
    low, high = ([_number(row[side], math.nan) for row in rows] for side in ("low", "high"))
    known = [at for at in range(len(rows)) if math.isfinite(low[at]) and math.isfinite(high[at])]
    inside = ([x[at] for at in known], [low[at] for at in known], [high[at] for at in known])
    add_band(plot, *inside, BandLook("expected band", style.BLUE, 0.2), shown=first, place=place)
    expected = [_number(row["expected"], math.nan) for row in rows]
    value = [_number(row["value"], math.nan) for row in rows]
    look = {"mode": "lines", "showlegend": first}
    plot.add_scatter(
        x=x, y=expected, line={"color": style.BLUE, "width": 1.2}, name="expected", legendgroup="e", **look, **place
    )
    plot.add_scatter(x=x, y=value, line={"color": SEEN, "width": 1.3}, name="value", legendgroup="v", **look, **place)
    marked = [at for at, row in enumerate(rows) if row["unusual"]]
    plot.add_scatter(
        x=[x[at] for at in marked],
        y=[value[at] for at in marked],
        mode="markers",
        marker={"color": style.RED, "size": 9, "symbol": "circle-open", "line": {"width": 2.4}},
        text=[f"{_number(rows[at]['nats'], math.nan):.1f} nats" for at in marked],
        name="unusual",
        legendgroup="u",
        showlegend=first,
        **place,
    )


def _number(cell: object, otherwise: float) -> float:
    return float(cell) if isinstance(cell, int | float) else otherwise


def _cell(value: object) -> Cell:
    return value if isinstance(value, int | float) or value is None else str(value)

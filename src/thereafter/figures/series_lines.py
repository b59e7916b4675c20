"""What figures of series share: times along an axis, bands around a line, one small plot a series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thereafter.figures import style
from thereafter.figures.plot import Plot
from thereafter.packages import require

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

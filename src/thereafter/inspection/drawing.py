"""From a measurement to its picture. Pictures stand a floor above: named here, imported when one is asked for."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Protocol

from thereafter.base.registry import Registry
from thereafter.base.tabular import Row

DRAWERS = Registry(
    "way to draw",
    {
        "measurement": "thereafter.figures.choosing:draw_measurement",
        "trace": "thereafter.figures.choosing:draw_trace",
        "comparison": "thereafter.figures.choosing:draw_comparison",
        "forecasts": "thereafter.series.forecasting.figures:draw_forecasts",
        "points": "thereafter.figures.surprisal:draw_points",
        "backtest": "thereafter.series.forecasting.figures:draw_backtest",
    },
)
"""Who draws what; each takes the object, the name of a figure or None, and the options of that figure."""


class DrawnFigure(Protocol):
    """What `figure()` returns, a `figures.figure.Figure`: shown by a notebook, saved as a file, read as a table."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def caption(self) -> str: ...
    def save(self, path: str | PathLike[str]) -> Path: ...
    def to_rows(self) -> list[Row]: ...
    def _repr_html_(self) -> str: ...


def draw(kind: str, shown: object, name: str | None, *others: object, **options: object) -> DrawnFigure:
    """The picture of a measurement, a trace or a comparison, by the drawer of that kind."""
    drawer: Callable[..., DrawnFigure] = DRAWERS.load(kind)
    return drawer(shown, name, *others, **options)

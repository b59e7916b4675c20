"""What the commands print and write of a forecaster: forecasts with their bands, and points with their surprise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from thereafter.cli.tables import print_rows, save_rows
from thereafter.errors import OptionError

if TYPE_CHECKING:
    from thereafter.series.forecasting.answers import ForecastTable, PointTable

_FIGURES = (".html", ".png", ".svg")


def figure_file(path: Path | None) -> Path | None:
    """The file of a figure. An unknown file ending is refused before anything is computed."""
    if path is not None and path.suffix.lower() not in _FIGURES:
        raise OptionError(
            f"--figure is {path.name!r}; expected a name that ends in {', '.join(_FIGURES)}; try {path.stem}.html"
        )
    return path


def print_forecast(table: ForecastTable, out: Path | None, figure: Path | None, *, as_csv: bool, as_json: bool) -> None:
    """The forecasts as text, CSV or JSON; also to a file and as a figure, where they are asked for."""
    printed = print_rows(table.to_rows() if as_csv or as_json else [], as_csv=as_csv, as_json=as_json)
    typer.echo(f"forecast {table.note}; the mean, and the band of 80 %", err=True)
    if not printed and out is None:
        typer.echo(str(table))
    save_rows(table.to_rows() if out is not None else [], out)
    if figure is not None:
        from thereafter.figures import forecast_fan

        typer.echo(f"saved {forecast_fan(table).save(figure)}", err=True)


def print_points(table: PointTable, out: Path | None, figure: Path | None, *, as_csv: bool, as_json: bool) -> None:
    """The sums and the most unusual points; all of them as CSV or JSON, or to a file."""
    if not print_rows(table.to_rows() if as_csv or as_json else [], as_csv=as_csv, as_json=as_json):
        typer.echo(str(table))
    save_rows(table.to_rows() if out is not None else [], out)
    if figure is not None:
        from thereafter.figures import unusual_points

        typer.echo(f"saved {unusual_points(table).save(figure)}", err=True)

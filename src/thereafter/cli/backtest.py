"""`thereafter backtest`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thereafter.cli.app import Device, app
from thereafter.cli.forecasts import figure_file
from thereafter.cli.tables import AsCsv, AsJson, TableFile, print_rows, save_rows


@app.command()
def backtest(
    run: Annotated[str, typer.Argument(help="Run folder of a forecaster (train --task forecast).", show_default=False)],
    table: Annotated[str, typer.Argument(help="A table of series, such as the one it was trained on.")],
    horizon: Annotated[int | None, typer.Option(help="Steps to forecast. Default: those of the run.")] = None,
    every: Annotated[int, typer.Option(help="Rows from one origin to the next.")] = 1,
    by: Annotated[str, typer.Option(help="Rows of --csv and --json: step, series or all.")] = "step",
    device: Device = "auto",
    out: TableFile = None,
    figure: Annotated[
        Path | None, typer.Option(callback=figure_file, help="Draw the error by step: .html, .png or .svg.")
    ] = None,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Test a forecaster on rows that it did not learn from: forecast from one origin after the other.

    Errors are by step and by series, with 95 % intervals, beside the seasonal naive forecast; --out has every value.

    Example: thereafter backtest runs/sales sales.csv --every 24 --figure backtest.html
    """
    from thereafter.task_model import load_task

    tested = load_task(run, device=device).backtest(table, horizon=horizon, every=every)
    if not print_rows([*tested.errors(by).rows], as_csv=as_csv, as_json=as_json):
        typer.echo(str(tested))
    save_rows(tested.to_rows() if out is not None else [], out)
    if figure is not None:
        typer.echo(f"saved {tested.figure().save(figure)}", err=True)

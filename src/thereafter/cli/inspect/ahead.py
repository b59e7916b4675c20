"""`thereafter inspect ahead`."""

from __future__ import annotations

from typing import Annotated

import typer

from thereafter.cli.app import Numbers, Run, inspect_app
from thereafter.cli.inspect.gradients import Picture
from thereafter.cli.tables import AsCsv, AsJson, print_rows
from thereafter.errors import OptionError


@inspect_app.command()
def ahead(
    run: Run,
    source: Annotated[
        str | None, typer.Argument(help="A table of series. Default: the one that the run was trained on.")
    ] = None,
    steps: Annotated[str, typer.Option(help="Numbers of steps ahead, separated by commas.")] = "1,4,16,64",
    series: Annotated[str, typer.Option(help="Name of the series. Default: the first.")] = "",
    part: Annotated[str, typer.Option(help="The part to forecast.")] = "test",
    out: Numbers = None,
    figure: Picture = None,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Forecast every row of a part k steps ahead, from the model's own predictions, and measure the error by k.

    Example: thereafter inspect ahead runs/sine noisy-sine --steps 1,4,16,64 --figure ahead.html
    """
    from thereafter import instruments
    from thereafter.figures.export import write
    from thereafter.series.lines import error_by_steps, steps_ahead
    from thereafter.task_model import load_task

    measured = instruments.steps_ahead(load_task(run), source, _numbers(steps), series=series, part=part)
    if not print_rows(measured.to_rows(), as_csv=as_csv, as_json=as_json):
        about = measured.about
        typer.echo(f"{about['model']} on {about['text']}, {about['compared_rows']:,} rows of {about['target']}")
        typer.echo(f"{'steps ahead':>12}{'RMSE':>12}{'MAE':>12}{'value before':>14}")
        columns = (measured[name].tolist() for name in ("ahead", "rmse", "mae", "last_value_rmse"))
        for count, rmse, mae, before in zip(*columns, strict=True):
            typer.echo(f"{count:>12}{rmse:>12.4g}{mae:>12.4g}{before:>14.4g}")
    if out is not None:
        typer.echo(f"saved {measured.save(out)}", err=as_csv or as_json)
    if figure is not None:
        drawn = write([steps_ahead(measured), error_by_steps([measured])], figure)
        typer.echo(f"drawn {drawn}", err=as_csv or as_json)


def _numbers(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise OptionError(f"the steps are {text!r}; expected whole numbers with commas between them, such as 1,4,16,64")
    return [int(part) for part in parts]

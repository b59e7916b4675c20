"""`thereafter inspect memory`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from thereafter.cli.app import Numbers, Run, inspect_app, load
from thereafter.cli.inspect.gradients import Picture
from thereafter.cli.tables import AsCsv, AsJson, print_rows

if TYPE_CHECKING:
    from thereafter.inspection.measurement import Measurement


@inspect_app.command()
def memory(
    run: Run,
    name: Annotated[
        str | None,
        typer.Option(
            "--task", help="remember-first, count-and-fire or balanced-brackets. Default: the corpus it was trained on."
        ),
    ] = None,
    longest: Annotated[int | None, typer.Option(help="Largest n to test. Default: the largest of the corpus.")] = None,
    count: Annotated[int, typer.Option(help="Number of lines per n.")] = 100,
    seed: Annotated[int, typer.Option(help="Random seed of the lines.")] = 0,
    out: Numbers = None,
    figure: Picture = None,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Measure how far back a model remembers: its accuracy in a memory task by the number of steps n.

    First: thereafter train remember-first --model lstm --out runs/first

    Example: thereafter inspect memory runs/first --longest 60 --figure memory.html
    """
    from thereafter import instruments

    measured = instruments.memory(load(run), name, longest=longest, count=count, seed=seed)
    if not print_rows(measured.to_rows(), as_csv=as_csv, as_json=as_json):
        _print_by_n(measured)
    if out is not None:
        typer.echo(f"saved {measured.save(out)}", err=as_csv or as_json)
    if figure is not None:
        from thereafter.figures.export import write
        from thereafter.figures.memory import accuracy_by_n

        typer.echo(f"drawn {write([accuracy_by_n([measured])], figure)}", err=as_csv or as_json)


def _print_by_n(measured: Measurement) -> None:
    from thereafter.inspection.memory import remembered
    from thereafter.text.memory import task

    typer.echo(f"{measured.about['model']} asked {task(measured.about['task']).question}")
    typer.echo(f"{'n':>4}{'accuracy':>10}{'chance':>10}{'questions':>11}")
    for n, right, chance, total in zip(*(measured[key] for key in ("n", "accuracy", "chance", "total")), strict=True):
        typer.echo(f"{n:>4}{right:>10.1%}{chance:>10.1%}{total:>11,}")
    typer.echo(remembered(measured))

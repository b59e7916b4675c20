"""`thereafter inspect memory`."""

from __future__ import annotations

from typing import Annotated

import typer

from thereafter.cli.app import Numbers, Run, inspect_app, load
from thereafter.cli.inspect.gradients import Picture


@inspect_app.command()
def memory(
    run: Run,
    name: Annotated[
        str | None,
        typer.Option(
            "--task", help="remember-first, count-and-fire or balanced-brackets. Default: the corpus it was trained on."
        ),
    ] = None,
    longest: Annotated[
        int | None, typer.Option(help="The longest n to ask for; else the longest of the corpus.")
    ] = None,
    count: Annotated[int, typer.Option(help="How many lines for each n.")] = 100,
    seed: Annotated[int, typer.Option(help="Random seed of the lines.")] = 0,
    out: Numbers = None,
    figure: Picture = None,
) -> None:
    """How far back a model remembers: its accuracy in a memory task by the number of steps n.

    First: thereafter train remember-first --model lstm --out runs/first

    Example: thereafter inspect memory runs/first --longest 60 --figure memory.html
    """
    from thereafter import instruments
    from thereafter.inspection.memory import remembered
    from thereafter.text.memory import task

    measured = instruments.memory(load(run), name, longest=longest, count=count, seed=seed)
    typer.echo(f"{measured.about['model']} asked {task(measured.about['task']).question}")
    typer.echo(f"{'n':>4}{'accuracy':>10}{'chance':>10}{'questions':>11}")
    for n, right, chance, total in zip(*(measured[key] for key in ("n", "accuracy", "chance", "total")), strict=True):
        typer.echo(f"{n:>4}{right:>10.1%}{chance:>10.1%}{total:>11,}")
    typer.echo(remembered(measured))
    if out is not None:
        typer.echo(f"saved {measured.save(out)}")
    if figure is not None:
        from thereafter.figures.export import write
        from thereafter.figures.memory import accuracy_by_n

        typer.echo(f"drawn {write([accuracy_by_n([measured])], figure)}")

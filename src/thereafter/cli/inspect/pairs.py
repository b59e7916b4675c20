"""`thereafter inspect pairs`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thereafter.cli.app import ArpaTokens, Encoding, Numbers, Run, inspect_app, load
from thereafter.cli.inspect.gradients import Picture


@inspect_app.command()
def pairs(
    run: Run,
    file: Annotated[
        Path, typer.Argument(help="Two sentences a line with a tab between, the good one first; or BLiMP's jsonl.")
    ],
    tokens: ArpaTokens = "word",
    encoding: Encoding = None,
    beginnings: Annotated[
        bool, typer.Option("--beginnings", help="The sentences may be cut short: their line end is not counted.")
    ] = False,
    out: Numbers = None,
    figure: Picture = None,
) -> None:
    """Score minimal pairs: how often a model gives the good sentence the higher probability. For any model.

    Example: thereafter inspect pairs runs/book agreement_pairs.tsv
    """
    from thereafter import instruments

    scores = instruments.pairs(load(run, tokens), file, encoding=encoding, whole=not beginnings)
    width = max(12, *(len(name) + 2 for name in scores["group"].tolist()))
    typer.echo(f"{'':18}{'group':{width}}{'pairs':>8}{'accuracy':>10}{'nats':>9}")
    for row in zip(*(scores[name].tolist() for name in ("by", "group", "total", "accuracy", "nats")), strict=True):
        by, group, total, accuracy, nats = row
        typer.echo(f"{by:18}{group:{width}}{total:>8,}{accuracy:>10.1%}{nats:>+9.3f}")
    typer.echo(f"{scores.about['model']} finds the good sentence likelier in {scores['accuracy'][0]:.1%} of the pairs")
    if out is not None:
        typer.echo(f"saved {scores.save(out)}")
    if figure is not None:
        from thereafter.figures.export import write
        from thereafter.figures.pairs import accuracy_by_group

        typer.echo(f"drawn {write([accuracy_by_group([scores])], figure)}")

"""`thereafter inspect agreement`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from thereafter.cli.app import Numbers, Run, inspect_app, load
from thereafter.cli.tables import AsCsv, AsJson, print_rows

if TYPE_CHECKING:
    from thereafter.inspection.measurement import Measurement


@inspect_app.command()
def agreement(
    run: Run,
    corpus: Annotated[
        str | None,
        typer.Option(help="agreement, reflexives or filler-gap. Default: the corpus the model was trained on."),
    ] = None,
    longest: Annotated[
        int | None, typer.Option(help="Maximum number of words between the two. Default: as in the corpus.")
    ] = None,
    count: Annotated[int, typer.Option(help="Number of sentences.")] = 2000,
    seed: Annotated[int, typer.Option(help="Random seed of the sentences.")] = 0,
    out: Numbers = None,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Measure how often a model prefers the form that agrees with a word far back, by the number of words between.

    First: thereafter train reflexives --model lstm --out runs/reflexives

    Example: thereafter inspect agreement runs/reflexives
    """
    from thereafter import instruments

    verdicts = instruments.agreement(load(run), corpus, longest=longest, count=count, seed=seed)
    if not print_rows(verdicts.to_rows(), as_csv=as_csv, as_json=as_json):
        _print_by_distance(verdicts)
    if out is not None:
        typer.echo(f"saved {verdicts.save(out)}", err=as_csv or as_json)


def _print_by_distance(verdicts: Measurement) -> None:
    from thereafter.evaluation.agreement import BINS
    from thereafter.text.agreement import sentence_corpus

    question = sentence_corpus(verdicts.about["corpus"]).question
    about = verdicts.about
    typer.echo(f"{about['model']} asked {question}; chance is 50 %")
    typer.echo(f"it knows {about['known_words']:,} of the {about['words']:,} words of these sentences")
    typer.echo(f"{'words between':>13}{'right':>8}{'sentences':>11}")
    distance = verdicts["distance"]
    for low, high in BINS:
        inside = (distance >= low) & (distance <= high)
        total = int(verdicts["total_distance"][inside].sum())
        if total:
            right = float(verdicts["right_distance"][inside].sum()) / total
            typer.echo(f"{low if low == high else f'{low}-{high}':>13}{right:>8.1%}{total:>11,}")

"""`thereafter inspect pairs`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thereafter.base.config import Table
from thereafter.base.progress import print_caution
from thereafter.cli import inspect_app, load
from thereafter.cli.options import ItemColumn, Picture, command, table_or_arrays
from thereafter.cli.tables import draw, print_conditions, print_rows, save_rows, tell_written
from thereafter.errors import OptionError

if TYPE_CHECKING:
    from thereafter.inspection.pairs import PairScores


@command(inspect_app)
def pairs(
    runs: Annotated[list[str], typer.Argument(metavar="RUN... FILE")],
    tokens: str = "word",
    as_written: bool = False,
    encoding: str | None = None,
    beginnings: bool = False,
    context: Annotated[str, typer.Option(metavar="N|item|document")] = "item",
    by: str | None = None,
    item: ItemColumn = None,
    out: Annotated[Path | None, typer.Option(callback=table_or_arrays)] = None,
    figure: Picture = None,
    form: str = "",
) -> None:
    """Score minimal pairs: how often a model gives the good sentence the higher probability. For any model.

    Pairs that differ in a word that the model does not know are counted separately, not in the accuracy. Several runs
    are compared on the pairs that all of them judge, with 95 % intervals.

    Example: thereafter inspect pairs runs/book 'blimp/*.jsonl' --out pairs.csv

    Example: thereafter inspect pairs runs/ngram runs/lstm pairs.csv --by condition

    Args:
        runs: One or more runs, then the pairs: two sentences per line with a tab between, the good one first; a .csv
            with columns good and bad; or BLiMP's jsonl. Several files, a folder, or a glob in quotes.
        beginnings: The sentences may be cut short: their line end is not counted.
        context: What a sentence is read after. item: nothing, a fresh state; N: the good sentences of the N pairs
            before it; document: those of all pairs before it.
        by: A column of the file, such as condition: accuracy and difference by condition.
        out: Write one row per pair to this file (.csv, .tsv or .json); or the figures of the groups (.npz).
    """
    from thereafter import instruments
    from thereafter.comparing.rows import ComparedPairs
    from thereafter.evaluation.text_reading import items_before

    if item is not None and by is None:
        raise OptionError(f"--item is {item!r} without --by; expected a column of conditions too; try --by condition")
    items_before(context, of_table=True)
    names, files = _split(runs)
    if len(names) > 1 and out is not None and out.suffix.lower() == ".npz":
        raise OptionError(f"{out.name!r} takes the groups of one run; got {len(names)}; try {out.stem}.csv")
    models = [load(name, tokens, as_written=as_written) for name in names]
    options: Table = {"encoding": encoding, "whole": not beginnings, "context": context}
    if len(models) > 1:
        called = [Path(name).name or name for name in names]
        compared = instruments.compare_pairs(models, files, names=called, **options)
    else:
        compared = ComparedPairs((instruments.pair_table(models[0], files, **options),))
    several = compared.scores
    for lm in models:
        tell_written(lm, *(pair.good for pair in several[0].pairs[:20]))
    rows = [row for scores in several for row in (scores.groups() if by is None else scores.conditions(by, item))]
    if by is None and len(several) > 1:
        rows = [{"model": scores.about["model"]} | row for scores in several for row in scores.groups()]
    if print_rows(rows, form):
        typer.echo(several[0].about["context"], err=True)
    else:
        for scores in several:
            _print_groups(scores)
        if by is not None:
            print_conditions(rows)
        for difference in compared.differences:
            typer.echo(str(difference))
        typer.echo(several[0].about["context"])
    for scores in several:
        if scores.caution:
            print_caution(f"caution: {scores.caution}", err=True)
    if out is not None and out.suffix.lower() == ".npz":
        typer.echo(f"saved {several[0].measurement().save(out)}", err=True)
    else:
        save_rows(compared.to_rows() if len(several) > 1 else several[0].to_rows(), out)
    if figure is not None:
        from thereafter.figures.memory import accuracy_by_group

        draw([accuracy_by_group([one.measurement() for one in several])], figure, quiet=True)


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """The runs, and the files of pairs after them."""
    from thereafter.runs.folder import is_run

    runs = 1
    while runs < len(arguments) and (is_run(Path(arguments[runs])) or ".arpa" in arguments[runs]):
        runs += 1
    if runs == len(arguments):
        raise OptionError(
            f"got {', '.join(arguments)} and no pairs; expected a file after the runs; "
            f"try: thereafter inspect pairs {' '.join(arguments)} pairs.tsv"
        )
    return arguments[:runs], arguments[runs:]


def _print_groups(scores: PairScores) -> None:
    """The table of groups, and the accuracy in a sentence."""
    figures = scores.measurement()
    width = max(12, *(len(name) + 2 for name in figures["group"].tolist()))
    typer.echo(
        f"{'':18}{'group':{width}}{'pairs':>8}{'judged':>8}{'accuracy':>10}{'95 % interval':>16}{'nats':>9}"
        f"{'unknown':>9}{'same':>7}"
    )
    names = ("by", "group", "total", "judged", "accuracy", "low", "high", "nats", "unknown", "same")
    for row in zip(*(figures[name].tolist() for name in names), strict=True):
        by, group, total, judged, accuracy, low, high, nats, unknown, same = row
        between = f"{low:.1%} - {high:.1%}" if judged else "-"
        share, mean = (f"{accuracy:.1%}", f"{nats:+.3f}") if judged else ("-", "-")
        typer.echo(
            f"{by:18}{group:{width}}{total:>8,}{judged:>8,}{share:>10}{between:>16}{mean:>9}{unknown:>9,}{same:>7,}"
        )
    if math.isnan(scores.accuracy):
        typer.echo(f"{scores.about['model']} can judge none of the pairs; {scores.left_out}")
        return
    left = f"; {scores.left_out}" if scores.left_out else ""
    typer.echo(
        f"{scores.about['model']} finds the good sentence likelier in {scores.accuracy:.1%} of the pairs "
        f"({figures['low'][0]:.1%} to {figures['high'][0]:.1%}){left}"
    )

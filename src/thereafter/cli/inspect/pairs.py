"""`thereafter inspect pairs`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thereafter.cli.app import ArpaTokens, AsWritten, Encoding, Run, inspect_app, load
from thereafter.cli.inspect.gradients import Picture
from thereafter.cli.tables import AsCsv, AsJson, print_rows, save_rows
from thereafter.cli.written import tell_written
from thereafter.errors import OptionError
from thereafter.tabular import ENDINGS
from thereafter.terminal import print_caution

if TYPE_CHECKING:
    from thereafter.inspection.pairs import PairScores


def _pairs_file(path: Path | None) -> Path | None:
    """The file to write. An unknown file ending is refused before anything is measured."""
    if path is not None and path.suffix.lower() not in (".npz", *ENDINGS):
        raise OptionError(
            f"{path.name!r} ends in {path.suffix!r}; expected {', '.join(ENDINGS)} (a row a pair) or .npz (the figures "
            f"of the groups, which can be drawn later); try {path.stem}.csv"
        )
    return path


@inspect_app.command()
def pairs(
    run: Run,
    files: Annotated[
        list[str],
        typer.Argument(
            help="Two sentences a line with a tab between, the good one first; a .csv with two columns; or BLiMP's "
            "jsonl. Several files, a folder, or a glob in quotes."
        ),
    ],
    tokens: ArpaTokens = "word",
    as_written: AsWritten = False,
    encoding: Encoding = None,
    beginnings: Annotated[
        bool, typer.Option("--beginnings", help="The sentences may be cut short: their line end is not counted.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            callback=_pairs_file,
            help="Write a row a pair to this file (.csv, .tsv or .json); or the figures of the groups (.npz).",
        ),
    ] = None,
    figure: Picture = None,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Score minimal pairs: how often a model gives the good sentence the higher probability. For any model.

    Pairs that differ in a word that the model does not know are counted apart, and not in the accuracy.

    Example: thereafter inspect pairs runs/book 'blimp/*.jsonl' --out pairs.csv
    """
    from thereafter import instruments

    _check_one_run(files)
    lm = load(run, tokens, as_written=as_written)
    scores = instruments.pair_table(lm, files, encoding=encoding, whole=not beginnings)
    tell_written(lm, *(pair.good for pair in scores.pairs[:20]))
    if not print_rows(scores.groups(), as_csv=as_csv, as_json=as_json):
        _print_groups(scores)
    if scores.caution:
        print_caution(f"caution: {scores.caution}", err=True)
    if out is not None and out.suffix.lower() == ".npz":
        typer.echo(f"saved {scores.measurement().save(out)}", err=True)
    else:
        save_rows(scores.to_rows(), out)
    if figure is not None:
        from thereafter.figures.export import write
        from thereafter.figures.pairs import accuracy_by_group

        typer.echo(f"drawn {write([accuracy_by_group([scores.measurement()])], figure)}", err=True)


def _check_one_run(files: list[str]) -> None:
    from thereafter.runs.folder import is_run

    for one in files:
        if is_run(Path(one)):
            raise OptionError(
                f"{one} is a run folder; expected files of pairs after the run; one run at a time; "
                f"try: thereafter inspect pairs {one} pairs.tsv"
            )


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

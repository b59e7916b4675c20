"""`thereafter compare`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from thereafter.base.config import Table
from thereafter.base.kinds import listed
from thereafter.cli.app import Encoding, app
from thereafter.cli.score import ItemContext, Items, item_context
from thereafter.cli.tables import AsCsv, print_rows
from thereafter.cli.train_options import (
    Calendar,
    Horizon,
    KeepLicence,
    KeepMarkup,
    Known,
    Lookback,
    Parts,
    Past,
    Series,
    Target,
    Time,
    Wrapped,
    wants_parts,
)
from thereafter.errors import OptionError
from thereafter.tasks import TASKS


@app.command()
def compare(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE|RUN",
            help="The text to train on: a file, a folder, a 'glob*', - for standard input, or a corpus name. With "
            "--on, run folders.",
            show_default=False,
        ),
    ],
    on: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Compare runs that exist on this text: a file, a folder or a corpus name."),
    ] = None,
    context: ItemContext = None,
    items: Items = False,
    task: Annotated[
        str | None, typer.Option(help=f"Compare networks for a task, on its examples: {listed(list(TASKS))}.")
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Separated by commas: unigram, ngram-3, lstm, lstm:char ... ({listed(last='and')}). With --task, "
            "names with options: small:hidden=32,deep:hidden=32:layers=2; with --task forecast kinds of forecaster "
            "too: naive,linear,gru,gru-large:model=gru:hidden=128."
        ),
    ] = None,
    epochs: Annotated[
        float | None,
        typer.Option(help="Epochs of each neural model. Default: chosen from the size of the text, for some minutes."),
    ] = None,
    tokens_budget: Annotated[
        int | None, typer.Option(help="Instead of --epochs: tokens each model is trained on.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Instead of --epochs: minutes of training. Slow models then see less text.")
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(help="Train each neural model with this many seeds (default 1); the table shows mean and spread."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Instead of --seeds: train each model once, with this seed (default 0).")
    ] = None,
    tokens: Annotated[
        str | None,
        typer.Option(help="Tokenizer of models that name none: word, prose, char, byte, bpe, wordpiece or unigram."),
    ] = None,
    match: Annotated[
        str | None,
        typer.Option(
            help="Make the neural models equally large: parameters (as many as the LSTM has, else the first model), "
            "or a number such as 2M."
        ),
    ] = None,
    pairs: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILES",
            help="Score every model on minimal pairs: two sentences per line, the good one first, a tab between; or "
            "BLiMP's jsonl. A file, a folder, or a glob in quotes. Repeat the option for more.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the comparison; the same command again continues it. Default: runs/compare-NAME."),
    ] = None,
    parts: Parts = None,
    encoding: Encoding = None,
    keep_licence: KeepLicence = False,
    wrapped: Wrapped = False,
    markup: KeepMarkup = False,
    target: Target = None,
    horizon: Horizon = None,
    lookback: Lookback = None,
    time: Time = None,
    series: Series = None,
    past: Past = None,
    known: Known = None,
    calendar: Calendar = False,
    split: Annotated[
        str | None,
        typer.Option(
            help="Train, valid and test by time (default 70/10/20).", rich_help_panel="Series (--task forecast)"
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any setting of the training: --set lstm.hidden=200."),
    ] = None,
    as_csv: AsCsv = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Train models on the same text with the same budget and compare them: a table, and a page with curves.

    Differences between models come with 95 % intervals: a paired bootstrap over the lines of the test part.

    With --on, nothing is trained: compare runs that exist, in bits per byte of that text.

    With --task, compare networks for that task on its examples: a table.

    Example: thereafter compare python-docs --models ngram,lstm,lstm:char --epochs 5 --seeds 3

    Example: thereafter compare book.txt --models ngram,lstm --pairs 'blimp/*.jsonl' --csv

    Example: thereafter compare runs/ngram runs/lstm --on other.txt

    Example: thereafter compare sst2 --task classify --models gru:cell=gru,lstm:cell=lstm --seeds 3

    Example: thereafter compare sales.csv --task forecast --target sold --models naive,seasonal-naive,ar,linear,gru
    """
    from thereafter.comparing.compare import compare as run
    from thereafter.training.options import parse_settings

    given = {
        "tokens": tokens,
        "epochs": epochs,
        "tokens_budget": tokens_budget,
        "minutes": minutes,
        "seeds": seeds,
        "seed": seed,
        "match": match,
        "out": out,
        "parts": None if wants_parts(parts) else False,
        "encoding": encoding,
        "keep_licence": keep_licence or None,
        "wrapped": wrapped or None,
        "markup": markup or None,
    }
    of_tables = {"target": target, "horizon": horizon, "lookback": lookback, "time": time, "series": series}
    of_tables |= {"past": past, "known": known, "calendar": calendar or None, "split": split}
    given |= of_tables if task is not None else {}
    if task is None and any(value is not None for value in of_tables.values()):
        name = next(name for name, value in of_tables.items() if value is not None)
        raise OptionError(f"--{name} is for tables of series; got it without --task; try adding --task forecast")
    options = parse_settings(settings or ()) | {name: value for name, value in given.items() if value is not None}
    if as_csv and as_json:
        raise OptionError("got both --csv and --json; expected one of them")
    if on is not None:
        unfit = options | {"models": models, "pairs": pairs, "task": task}
        _compare_runs(sources, on, item_context(context, items=items), encoding, unfit, as_csv=as_csv, as_json=as_json)
        return
    source = _source(sources, item_context(context, items=items))
    if task is not None:
        if pairs:
            raise OptionError(f"--pairs is for language models; got it with --task {task}; try without --pairs")
        _compare_task(source, task, models or [], options, as_csv=as_csv, as_json=as_json)
        return
    command = shlex.join(["thereafter", *sys.argv[1:]])
    given_pairs = {"pairs": pairs} if pairs else {}
    comparison = run(source, **{**options, **given_pairs, "models": models, "base": "runs", "command": command})
    if as_json:
        typer.echo(comparison.to_json())
        return
    if print_rows(comparison.to_rows(), as_csv=as_csv, as_json=False):
        return
    typer.echo(comparison.table())
    for note in comparison.notes:
        typer.echo(f"note: {note}")
    typer.echo("")
    for sentence in comparison.advice():
        typer.echo(sentence)
    typer.echo(f"saved  {comparison.folder}")


def _source(sources: list[str], context: str | None) -> str:
    """The text to train on; OptionError for runs, and for the options of runs."""
    from thereafter.runs.folder import is_run

    if len(sources) == 1 and not is_run(Path(sources[0])) and context is None:
        return sources[0]
    got = " ".join(sources) + ("" if context is None else f" --context {context}")
    raise OptionError(
        f"got {got} without --on; expected one text to train on, or runs and a text to compare them on; "
        "try: thereafter compare RUN RUN --on TEXT"
    )


def _compare_runs(
    runs: list[str], on: str, context: str | None, encoding: str | None, unfit: Table, *, as_csv: bool, as_json: bool
) -> None:
    import thereafter
    from thereafter.base.terminal import print_caution

    names = [name.replace("_", "-") for name, value in unfit.items() if value and name != "encoding"]
    if len(runs) < 2 or names:
        got = f"--{names[0]}" if names else f"{len(runs)} run"
        raise OptionError(f"got {got} with --on, which compares two or more runs that exist; try: RUN RUN --on {on}")
    called = [Path(name).name or name for name in runs]
    compared = thereafter.compare(runs, on=on, names=called, context=context, encoding=encoding)
    if print_rows(compared.to_rows(), as_csv=as_csv, as_json=as_json):
        typer.echo(compared.context, err=True)
    else:
        typer.echo(compared.table())
    for note in compared.notes:
        print_caution(f"note: {note}", err=as_csv or as_json)


def _compare_task(source: str, task: str, models: list[str], options: Table, *, as_csv: bool, as_json: bool) -> None:
    from thereafter.comparing.task_trials import compare_task
    from thereafter.tasks.task import Comparing, aspect, name_for

    named = TASKS.load(name_for(TASKS.load(task), source))  # clips without labels are for another task than those with
    networks = _networks(models, bare=bool(aspect(named, Comparing).kinds())) or None
    comparison = compare_task(source, task, **{**options, "models": networks, "base": "runs"})
    if as_json:
        typer.echo(comparison.to_json())
        return
    if print_rows(comparison.to_rows(), as_csv=as_csv, as_json=False):
        return
    typer.echo(comparison.table())
    for number, sentence in enumerate(comparison.advice()):
        typer.echo(f"{'' if number else chr(10)}{sentence}")
    typer.echo(f"saved  {comparison.folder}")


def _networks(spelled: list[str], *, bare: bool) -> dict[str, Table]:
    """Networks for a task by name, each with its own options: `small:hidden=32,deep:hidden=32:layers=2`.

    `bare`: a name alone is a kind of network.
    """
    from thereafter.training.options import parse_settings

    networks: dict[str, Table] = {}
    for one in ",".join(spelled).split(",") if spelled else ():
        name, *own = one.strip().split(":")
        if not name or not (own or bare) or not all("=" in option for option in own) or name in networks:
            raise OptionError(
                f"--models got {one.strip()!r}; with --task expected NAME:OPTION=VALUE, each name once; "
                "try --models small:hidden=32,large:hidden=128"
            )
        networks[name] = parse_settings(own)
    return networks

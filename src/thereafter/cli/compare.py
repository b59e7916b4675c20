"""`thereafter compare`."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thereafter.base.config import Table
from thereafter.base.kinds import listed
from thereafter.cli import app
from thereafter.cli import options as opt
from thereafter.cli.options import chosen, command, library, option, wants_parts
from thereafter.cli.score import item_context
from thereafter.cli.tables import print_rows
from thereafter.errors import OptionError
from thereafter.tasks import TASKS

if TYPE_CHECKING:
    from thereafter.comparing.compare import Comparison
    from thereafter.comparing.task_trials import TaskComparison

_library = partial(library, "thereafter.comparing.compare:compare")
_BUDGET_AND_TEXT = (
    *_library("epochs", "tokens_budget", "minutes", "seeds", "seed", "tokens", "match"),
    option("pairs", list[str], metavar="FILES"),
    option("out", Path),
    opt.PARTS,
    *opt.READING,
)
_OF_TABLES = (*opt.SERIES, option("split", str, panel=opt.SERIES_PANEL))


@command(app, *_BUDGET_AND_TEXT, *_OF_TABLES, option("settings", list[str], None, "--set", metavar="NAME=VALUE"))
def compare(
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE|RUN")],
    on: Annotated[str | None, typer.Option(metavar="TEXT")] = None,
    context: opt.ItemContext = None,
    items: bool = False,
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
    settings: list[str] | None = None,
    form: str = "",
    **given: object,
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

    Args:
        sources: The text to train on: a file, a folder, a 'glob*', - for standard input, or a corpus name. With --on,
            run folders.
        on: Compare runs that exist on this text: a file, a folder or a corpus name.
        epochs: Epochs of each neural model. Default: chosen from the size of the text, for some minutes.
        tokens_budget: Instead of --epochs: tokens each model is trained on.
        minutes: Instead of --epochs: minutes of training. Slow models then see less text.
        seeds: Train each neural model with this many seeds (default 1); the table shows mean and spread.
        seed: Instead of --seeds: train each model once, with this seed (default 0).
        tokens: Tokenizer of models that name none: word, prose, char, byte, bpe, wordpiece or unigram.
        match: Make the neural models equally large: parameters (as many as the LSTM has, else the first model), or a
            number such as 2M.
        pairs: Score every model on minimal pairs: two sentences per line, the good one first, a tab between; or BLiMP's
            jsonl. A file, a folder, or a glob in quotes. Repeat the option for more.
        out: Folder of the comparison; the same command again continues it. Default: runs/compare-NAME.
        split: Train, valid and test by time (default 70/10/20).
        settings: Any setting of the training: --set lstm.hidden=200.
        as_json: Print everything as JSON.
    """
    from thereafter.training.recipes import parse_settings

    options = parse_settings(settings or ()) | chosen(given)
    if not wants_parts(options.pop("parts", None)):
        options["parts"] = False
    if task is None:
        opt.refuse_of_series(chosen(given), _OF_TABLES)
    if on is not None:
        unfit = options | {"models": models, "task": task}
        _compare_runs(sources, on, item_context(context, items=items), unfit, form)
        return
    source = _source(sources, item_context(context, items=items))
    comparison: Comparison | TaskComparison
    if task is None:
        from thereafter.comparing.compare import compare as compare_models

        words = shlex.join(["thereafter", *sys.argv[1:]])
        comparison = compare_models(source, **{**options, "models": models, "base": "runs", "command": words})
        notes = comparison.notes
    else:
        from thereafter.comparing.task_trials import compare_task
        from thereafter.tasks.task import Comparing, aspect, name_for

        if "pairs" in options:
            raise OptionError(f"--pairs is for language models; got it with --task {task}; try without --pairs")
        named = TASKS.load(name_for(TASKS.load(task), source))  # clips without labels are for another task
        networks = _networks(models or [], bare=bool(aspect(named, Comparing).kinds())) or None
        comparison = compare_task(source, task, **{**options, "models": networks, "base": "runs"})
        notes = ()
    if form == "json":
        typer.echo(comparison.to_json())
    elif not print_rows(comparison.to_rows(), form):
        typer.echo(comparison.table())
        for note in notes:
            typer.echo(f"note: {note}")
        for number, sentence in enumerate(comparison.advice()):
            typer.echo(sentence if number else f"\n{sentence}")
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


def _compare_runs(runs: list[str], on: str, context: str | None, unfit: Table, form: str) -> None:
    import thereafter
    from thereafter.base.progress import print_caution

    encoding = unfit.pop("encoding", None)
    names = [name.replace("_", "-") for name, value in unfit.items() if value]
    if len(runs) < 2 or names:
        got = f"--{names[0]}" if names else f"{len(runs)} run"
        raise OptionError(f"got {got} with --on, which compares two or more runs that exist; try: RUN RUN --on {on}")
    called = [Path(name).name or name for name in runs]
    compared = thereafter.compare(runs, on=on, names=called, context=context, encoding=encoding)
    if print_rows(compared.to_rows(), form):
        typer.echo(compared.context, err=True)
    else:
        typer.echo(compared.table())
    for note in compared.notes:
        print_caution(f"note: {note}", err=bool(form))


def _networks(spelled: list[str], *, bare: bool) -> dict[str, Table]:
    """Networks for a task by name, each with its own options: `small:hidden=32,deep:hidden=32:layers=2`.

    `bare`: a name alone is a kind of network.
    """
    from thereafter.training.recipes import parse_settings

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

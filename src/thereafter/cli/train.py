"""`thereafter train`: train a model of a text or of a task, or resume a training run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thereafter.base.config import Table
from thereafter.cli import Command, app
from thereafter.cli import train_report as report
from thereafter.cli.options import EVERYDAY, SERIES, TRAIN, chosen, command, refuse_of_series, wants_parts
from thereafter.errors import OptionError

if TYPE_CHECKING:
    from thereafter.data.files import AnySource, Parts
    from thereafter.training.recipes import Recipe

_ARGUMENTS = {"source", "task", "model", "out", "start_from", "recipe", "valid", "split", "parts", "arpa", "settings"}
"""Arguments of `thereafter.train` with a name of their own. All others are options of the text, model or training."""


class _Train(Command):
    everyday = EVERYDAY


@command(app, *TRAIN, cls=_Train)
def train(
    source: Annotated[str | None, typer.Argument(show_default=False)] = None,
    task: str | None = None,
    no_baselines: bool = False,
    resume: Path | None = None,
    show_settings: bool = False,
    **options: object,
) -> None:
    """Train a model on a text and save it as a run folder.

    Options you leave out are chosen from the size of the text and printed.

    Example: thereafter train book.txt --model lstm --minutes 5 --out runs/book

    Example: thereafter train photos/ --task caption --out runs/captions

    Example: thereafter train sales.csv --task forecast --target sold --horizon 24 --out runs/sales

    Args:
        source: A file, a folder, a 'glob*', - for standard input, or a corpus name (thereafter data list).
        no_baselines: With --task: train no simple baselines for comparison.
        out: Run folder to write; a finished run in it is replaced. Default: a new one under runs/.
        resume: Resume a neural training run that was stopped or killed. Takes no other options.
        start_from: Start from the weights and the tokenizer of another run: a language model learns from more text;
            with --task classify or tag its word vectors and recurrent layers get a new head.
        recipe: Read source and options from a TOML file, such as a run's config.toml.
        seed: Random seed (default 0). N-grams use no random numbers.
        valid: Text to validate on. Default: the valid part of the corpus or folder.
        split: Split off a validation set, such as 90/10. Default: the last 5 % of lines, if there is no validation
            text. With --task forecast: train, valid and test by time, such as 70/10/20; default: the last tenth tests,
            the one before it validates.
        arpa: Also write the n-gram model to this ARPA file.
        settings: Any other setting by its name in config.toml: --set training.clip=0.25 --set lstm.tied=false.
            --options lists those of a task.
        show_settings: With --task: list what --set takes, with its default and meaning; train nothing.
        help_all: Show all options: of n-grams, networks, text and series, and --set.
    """
    given = chosen({"source": source, "task": task, **options})
    if show_settings:
        report.print_settings(task, source)
        return
    if resume is not None:
        if given:
            raise OptionError("--resume continues a run with its own text and options; leave the other options out")
        _resume(resume, baselines=not no_baselines)
        return
    plan = _plan(given)
    out, settings = given.get("out"), given.get("settings", [])
    if plan.task is not None:
        _train_task(plan.task, plan, out, settings, baselines=not no_baselines)
    else:
        _train_text(plan, out, settings, given.get("arpa"))


def _plan(given: Table) -> Recipe:
    """The recipe, or an empty one, with what the command line gives laid over it."""
    from thereafter.training import protocol
    from thereafter.training.recipes import Recipe, read_recipe

    plan = read_recipe(given["recipe"]) if "recipe" in given else Recipe()
    task, model = given.get("task", plan.task), given.get("model")
    options = {name: value for name, value in given.items() if name not in _ARGUMENTS}
    plan.source = given.get("source") or plan.source
    plan.valid = given.get("valid") or plan.valid
    plan.parts = wants_parts(given["parts"]) if "parts" in given else plan.parts
    plan.start_from = str(given["start_from"]) if "start_from" in given else plan.start_from
    if task is not None:
        return _plan_of_task(plan, task, options, given)
    refuse_of_series(options, SERIES)
    if "recipe" in given and model not in (None, plan.model):
        raise OptionError(f"--model is {model} and the recipe is for {plan.model}; leave one of them out")
    plan.model = plan.model or model
    if not plan.model:
        plan.model = "ngram" if plan.start_from is None else protocol.check_start(Path(plan.start_from))
    plan.split = given.get("split") or plan.split
    plan.options = _full_names(plan.model, plan.options) | _full_names(plan.model, options)
    return plan


def _plan_of_task(plan: Recipe, task: str, options: Table, given: Table) -> Recipe:
    """The recipe of a task; OptionError where the command line asks for a language model too."""
    if "recipe" in given and plan.task != task:
        raise OptionError(f"--task is {task} and the recipe is for {plan.task or plan.model}; leave one of them out")
    own = report.settings_of(task, plan.source)
    for name in ("model", "split", "arpa"):
        if name in given and name not in own:
            remedy = report.remedy_for(task, str(given[name]), own) if name == "model" else "leave one of them out"
            raise OptionError(f"--{name} is for language models and --task is {task}; {remedy}")
        options |= {name: given[name]} if name in given else {}
    plan.task = task
    plan.options = plan.options | options
    return plan


def _full_names(model: str, options: Table) -> Table:
    """Options under their full names, checked."""
    from thereafter.training.kinds import sort_options

    return sort_options(model, options).full_names(model)


def _folder(out: Path | None, source: str | list[str] | Parts, name: str) -> Path:
    """The run folder: the one asked for, or a new one named after the source and the model or task."""
    from thereafter.runs import folder
    from thereafter.training import protocol

    first = source[0] if isinstance(source, list) else source if isinstance(source, str) else source.name
    return out or folder.free_folder(Path("runs"), protocol.run_name(first, name))


def _train_task(task: str, plan: Recipe, out: Path | None, settings: list[str], *, baselines: bool) -> None:
    """Train for a task and print how good it is, with simple baselines beside it."""
    import thereafter
    from thereafter.tasks import TASKS, finding
    from thereafter.tasks.task import name_for
    from thereafter.training.recipes import parse_settings

    if plan.source is None:
        raise OptionError(f"the task {task!r} needs examples; try: thereafter train examples.conllu --task {task}")
    folder = _folder(out, plan.source, task)
    options = plan.options | parse_settings(settings)
    source: AnySource = plan.source
    if not plan.parts:
        source = finding.joined(TASKS.load(name_for(TASKS.load(task), source)), source)
    with until_it_begins(folder):
        trained = thereafter.train(
            source, task=task, valid=plan.valid, out=folder, start_from=plan.start_from, **options
        )
    report.print_task(trained, source, baselines)
    typer.echo(f"saved      {folder}")


def _train_text(plan: Recipe, out: Path | None, settings: list[str], arpa: Path | None) -> None:
    """Train a language model and print its summary and its scores."""
    import thereafter
    from thereafter.runs import folder as run_folder
    from thereafter.training.recipes import parse_settings

    if plan.source is None:
        raise OptionError("train needs a text; try: thereafter train book.txt, or a corpus: thereafter data list")
    if out is not None:
        run_folder.check_free(out)
    model = plan.model or "ngram"
    folder = _folder(out, plan.source, model)
    options = plan.options | _full_names(model, parse_settings(settings))
    with until_it_begins(folder):
        lm = thereafter.train(
            plan.source,
            model=model,
            out=folder,
            valid=plan.valid,
            split=plan.split,
            parts=plan.parts,
            start_from=plan.start_from,
            **options,
        )
    report.print_summary(lm)
    report.print_scores(lm)
    typer.echo(f"saved      {folder}")
    if arpa is not None:
        typer.echo(f"arpa       {lm.to_arpa(arpa)}")


def _resume(run: Path, *, baselines: bool) -> None:
    """Continue a training run, of a text or of a task. One that was finished already is loaded: nothing is read."""
    from thereafter.runs import folder as run_folder

    if run_folder.holds_task(run):
        from thereafter.task_model import resume_task
        from thereafter.tasks import finding

        finished = run_folder.is_finished(run)
        trained = resume_task(run)
        if not finished:
            report.print_task(trained, finding.source_of(trained.config), baselines)
    elif not baselines:
        raise OptionError("--no-baselines is for tasks, and this is the run of a language model; leave it out")
    else:
        from thereafter.language_model import resume_language_model

        lm = resume_language_model(run)
        finished = lm.texts is None
        if "training" in lm.config:
            report.print_summary(lm)
        if not finished:
            report.print_scores(lm)
    typer.echo(f"{'finished' if finished else 'saved':<11}{run}")


@contextmanager
def until_it_begins(folder: Path) -> Iterator[None]:
    """Ctrl-C while a source is still being read: say that nothing was learned. Later on the training itself says how to
    go on with it."""
    before = _written_at(folder)
    try:
        yield
    except KeyboardInterrupt:
        if _written_at(folder) == before:
            left = "nothing was written" if before is None else f"the run in {folder} is as it was"
            typer.echo(
                f"stopped while reading: nothing was learned yet and {left}; begin again with the same command",
                err=True,
            )
        raise


def _written_at(folder: Path) -> int | None:
    """When the run in a folder was begun; None where there is none."""
    from thereafter.runs.folder import CONFIG, is_run

    return (folder / CONFIG).stat().st_mtime_ns if is_run(folder) else None

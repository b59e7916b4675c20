"""What `thereafter train` prints: a model's summary and scores; with --options what --set takes for a task."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from dataclasses import MISSING, fields, is_dataclass
from types import ModuleType
from typing import TYPE_CHECKING

import typer

from thereafter.base import progress
from thereafter.base.config import Table, as_table, field_names
from thereafter.base.progress import notes_in_sight, print_caution
from thereafter.cli.options import fields_in
from thereafter.errors import FormatError, OptionError, SourceError
from thereafter.tasks import TASKS

if TYPE_CHECKING:
    from thereafter.api import LanguageModel
    from thereafter.data.files import AnySource
    from thereafter.task_model import TaskModel
    from thereafter.tasks.task import AnyTask

_MISTAKES = 5  # the most frequent ones that are shown
_OFF: tuple[object, ...] = (None, (), [], "", 0.0, False)  # settings with these values are not shown


def print_task(trained: TaskModel, source: AnySource, baselines: bool) -> None:
    """The network of a task, and its scores on the validation and the test part of the source.

    A source without a validation part is scored on the examples that were held out of it, or given beside it.
    """
    from thereafter.tasks import finding
    from thereafter.tasks.answering import validation_score

    last = trained.log[-1]
    seconds = f"{last['seconds_training']:.1f} s"
    typer.echo(f"task       {trained.config['task']}, {last['parameters']:,} parameters, {seconds}")
    typer.echo(f"network    {', '.join(_settings(trained.config[trained.config['task']]))}")
    if finding.has(trained.task, source, "valid"):
        typer.echo(f"valid      {_indented(trained.score(source, part='valid'))}")
    else:
        typer.echo(f"valid      {_indented(validation_score(trained.fitted))}")
    if finding.has(trained.task, source, "test"):
        try:
            _print_test(trained, source, baselines)
        except (FormatError, SourceError) as error:  # the test file of a user's own may have no answers
            if finding.located(trained.task, source).corpus is not None:
                raise
            text = f"the test part could not be scored: {error.in_shell}"
            print_caution(f"{'caution':<11}{text}")


def print_parts(task: AnyTask, source: AnySource) -> None:
    """Which files of a folder are which part, to those who look on."""
    from thereafter.data.corpora import is_read_once
    from thereafter.tasks import finding

    given = None if is_read_once(source) else finding.located(task, source)
    for note in given.notes if given is not None and given.part_files is not None else ():
        typer.echo(note, err=True)


def _print_test(trained: TaskModel, source: AnySource, baselines: bool) -> None:
    """The score on the test part, with simple baselines below it; then the most frequent mistakes."""
    from thereafter.tasks.task import Headed, MeasuredByClass

    score = trained.score(source, part="test")
    rows = [("this model", score)] + (trained.baselines(source) if baselines else [])
    width = max(len(name) for name, _ in rows)
    for row, (name, measured) in enumerate(rows):
        short = measured.line() if row and isinstance(measured, Headed) else measured
        typer.echo(f"{'' if row else 'test':<11}{name:<{width}}  {_indented(short, width + 2)}")
    for name, measured in rows[1:]:
        if isinstance(score, Headed) and (figures := score.loses_to(measured)):
            print_caution(f"{'caution':<11}this model loses to {name}: {figures}")
    if isinstance(score, MeasuredByClass) and (mistakes := score.confusions(_MISTAKES)):
        pairs = (f"{gold} predicted as {answer} {count:,} times" for gold, answer, count in mistakes)
        typer.echo(f"mistakes   {', '.join(pairs)}")


def _indented(measured: object, more: int = 0) -> str:
    """A score of several lines with all of them below its first."""
    return str(measured).replace("\n", "\n" + " " * (11 + more))


def print_summary(lm: LanguageModel) -> None:
    """The settings of a language model, the text it was trained on, and how the training went."""
    config, facts = lm.config, lm.summary()
    typer.echo(f"model      {', '.join([config['model'], *_settings(config[config['model']])])}")
    source = config["source"]
    typer.echo(f"text       {source['part']}" + (f" ({source['detail']})" if source["detail"] else ""))
    typer.echo(
        f"tokens     {facts['tokens']:,} {config['text']['tokens']}, vocabulary {facts['vocabulary']:,}, "
        f"context {config['text']['context']}"
    )
    if "ngrams" in facts:
        typer.echo("n-grams    " + ", ".join(f"{size:,}" for size in facts["ngrams"]))
    for order, amounts in facts.get("discounts", {}).items():
        typer.echo(f"discounts  order {order}: " + ", ".join(f"{amount:.4f}" for amount in amounts))
    in_sight = notes_in_sight()
    for note in facts.get("notes", []):
        loud = note.startswith(progress.WARNING)
        if note in in_sight and not loud:
            continue
        (print_caution if loud else typer.echo)(f"note       {note}")
    if "parameters" in facts:
        typer.echo(f"parameters {facts['parameters']:,}")
        typer.echo(
            f"training   {facts['steps']:,} steps, {facts['seen']:,} tokens, {facts['tokens_per_second']:,} a second, "
            f"best at step {facts['best_step']:,}"
        )
    typer.echo(f"seconds    {facts['seconds_tokenizing']:.2f} tokenizing, {facts['seconds_training']:.2f} training")


def print_scores(lm: LanguageModel) -> None:
    """Scores on the held-out parts. The part that chose the weights is labelled validation."""
    stepwise = "training" in lm.config
    for held_out, label in (("valid", "validation" if stepwise else "valid"), ("test", "test")):
        if lm.texts is not None and held_out in lm.texts.parts:
            typer.echo(f"{label:<11}{lm.score(lm.texts, part=held_out)}")


def _settings(table: Table) -> list[str]:
    """Settings in words, but those that are off."""
    return [
        f"{name} {','.join(map(str, value)) if isinstance(value, tuple | list) else value}"
        for name, value in table.items()
        if value not in _OFF
    ]


_WIDTH = 110  # of a line, in characters
_HERE = 22  # where the default stands
_MEANING = 35  # where the meaning stands


def settings_of(task: str, source: AnySource | None) -> set[str]:
    """The options of the network of a task, or of the one that takes this source in its place."""
    return set(field_names(_task_for(task, source).settings))


def _task_for(name: str, source: AnySource | None) -> AnyTask:
    """The task of that name, or the one that takes this source in its place."""
    from thereafter.tasks.task import name_for

    task: AnyTask = TASKS.load(name)
    chosen = name if source is None else name_for(task, source)
    return task if chosen == name else TASKS.load(chosen)


def remedy_for(task: str, model: str, own: set[str]) -> str:
    """Which settings of a task are meant by a kind of model, as what to try."""
    from thereafter.tasks.task import Comparing, aspect

    known = aspect(TASKS.load(task), Comparing)
    if known.chooses in own and model in known.kinds():
        return f"try --set {known.chooses}={model}"
    layers = next((option for option in ("cell", "encoder") if option in own), "")
    remedies = [f"--set {layers}={model}"] if layers else []
    if known.chooses in own:
        remedies.append(f"--set {known.chooses}= with {', '.join(known.kinds())}")
    return f"try {', or '.join(remedies)}" if remedies else "leave one of them out"


def print_settings(task: str | None, source: AnySource | None = None) -> None:
    """The settings of the network of a task and those of its training, a line each."""
    from thereafter.tasks.fitting import idle_options, training_of
    from thereafter.training.settings import TrainingSettings

    if task is None:
        raise OptionError(
            f"--options lists the settings of a task; expected --task with {', '.join(TASKS)}; the settings of a "
            "language model are those of --help"
        )
    known = _task_for(task, source)
    typer.echo(f"{known.name}: --set NAME=VALUE, with these names and defaults")
    for name, default, meaning in described_settings(known.settings):
        _print_line(name, default, meaning)
    typer.echo("\nits training:")
    values, idle = as_table(training_of(known)), idle_options(known)
    for name, _, meaning in described_settings(TrainingSettings):
        if name not in idle:
            _print_line(name, _spelled(values[name]), meaning)
    typer.echo("\nWhere no default stands there is none, or it is chosen from the examples.")


def described_settings(settings: type[object]) -> list[tuple[str, str, str]]:
    """Name, default and meaning of each field of a dataclass of settings that does something.

    A meaning is the docstring below the field, here or in a class it inherits from. What stands there as `CHOICES` or
    `choices()` of its module is spelled out.
    """
    if not is_dataclass(settings):
        raise TypeError(f"{settings!r} is not a dataclass")
    idle = getattr(settings, "idle", ())
    meanings: dict[str, str] = {}
    for owner in settings.__mro__:
        meanings = _below_fields(owner) | meanings
    return [
        (one.name, "" if one.default is MISSING else _spelled(one.default), meanings.get(one.name, ""))
        for one in fields(settings)
        if not one.name.startswith("_") and one.name not in idle
    ]


def _below_fields(owner: type[object]) -> dict[str, str]:
    """The docstrings that stand below the fields of a class in its source; none where there is no source."""
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    except (OSError, TypeError):
        return {}
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    module = sys.modules[owner.__module__]
    return {name: _with_choices(" ".join(field.meaning), module) for name, field in fields_in(body).items()}


def _with_choices(meaning: str, module: ModuleType) -> str:
    """A meaning with the choices in the place of their name.

    >>> from thereafter.training import settings
    >>> _with_choices("Where it is computed: `DEVICES`.", settings)
    'Where it is computed: auto, cpu or cuda.'
    """

    def choices(name: re.Match[str]) -> str:
        listed = getattr(module, name[1], None)
        if listed is None:
            return name[0]
        *before, last = listed() if name[2] else listed
        return f"{', '.join(before)} or {last}"

    return re.sub(r"`([A-Z_]+|[a-z_]+(?=\(\)))(\(\))?`", choices, meaning)


def _spelled(value: object) -> str:
    """A default as `--set` takes it; nothing where it is chosen."""
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _print_line(name: str, default: str, meaning: str) -> None:
    head = f"  {name:<{_HERE - 3}} {default}"
    lines = textwrap.wrap(meaning, _WIDTH - _MEANING, break_on_hyphens=False) or [""]
    typer.echo(f"{head:<{_MEANING - 1}} {lines[0]}".rstrip())
    for line in lines[1:]:
        typer.echo(" " * _MEANING + line)

"""What `thereafter train` prints of a model it has trained: its summary and its scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from thereafter.base import progress
from thereafter.base.terminal import notes_in_sight, print_caution
from thereafter.errors import FormatError, SourceError

if TYPE_CHECKING:
    from thereafter.api import LanguageModel
    from thereafter.base.config import Table
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
    from thereafter.tasks.fitting import Fitted

    last = trained.log[-1]
    seconds = f"{last['seconds_training']:.1f} s"
    typer.echo(f"task       {trained.config['task']}, {last['parameters']:,} parameters, {seconds}")
    typer.echo(f"network    {', '.join(_settings(trained.config[trained.config['task']]))}")
    if finding.has(trained.task, source, "valid"):
        typer.echo(f"valid      {_indented(trained.score(source, part='valid'))}")
    else:
        fitted = Fitted(trained.task, trained.net, trained.codecs, trained.config, trained.log)
        typer.echo(f"valid      {_indented(validation_score(fitted))}")
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
    from thereafter.data.sources import is_read_once
    from thereafter.tasks import finding

    given = None if is_read_once(source) else finding.located(task, source)
    for note in given.notes if given is not None and given.part_files is not None else ():
        typer.echo(note, err=True)


def _print_test(trained: TaskModel, source: AnySource, baselines: bool) -> None:
    """The score on the test part, with simple baselines below it; then the most frequent mistakes."""
    from thereafter.series.forecasting.score import ForecastScore
    from thereafter.tasks.task import MeasuredByClass
    from thereafter.vision.captioning.measures import CaptionScore
    from thereafter.vision.measures import DrawingScore, FrameScore

    score = trained.score(source, part="test")
    rows = [("this model", score)] + (trained.baselines(source) if baselines else [])
    width = max(len(name) for name, _ in rows)
    for row, (name, measured) in enumerate(rows):
        short = measured.line() if row and isinstance(measured, ForecastScore | FrameScore | CaptionScore) else measured
        typer.echo(f"{'' if row else 'test':<11}{name:<{width}}  {_indented(short, width + 2)}")
    for name, measured in rows[1:]:
        if isinstance(score, ForecastScore) and isinstance(measured, ForecastScore):
            _print_loss(name, "RMSE", score.rmse, measured.rmse)
        if isinstance(score, FrameScore) and isinstance(measured, FrameScore):
            _print_loss(name, "nats a frame", score.nats, measured.nats)
        if isinstance(score, DrawingScore) and isinstance(measured, DrawingScore):
            _print_loss(name, "nats a picture", score.nats, measured.nats)
        if isinstance(score, CaptionScore) and isinstance(measured, CaptionScore):
            _print_loss(name, "CIDEr-D", score.cider_d, measured.cider_d, more=True)
    if isinstance(score, MeasuredByClass) and (mistakes := score.confusions(_MISTAKES)):
        pairs = (f"{gold} predicted as {answer} {count:,} times" for gold, answer, count in mistakes)
        typer.echo(f"mistakes   {', '.join(pairs)}")


def _print_loss(name: str, what: str, ours: float, simple: float, *, more: bool = False) -> None:
    """A network that is worse than a simple one is printed as such; `more` of a figure may be what is better."""
    if simple > ours if more else simple < ours:
        text = f"this model loses to {name}: {what} {ours:.4g}, not {simple:.4g}"
        print_caution(f"{'caution':<11}{text}")


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
    return [f"{name} {_describe(value)}" for name, value in table.items() if value not in _OFF]


def _describe(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)

"""`thereafter inspect memory`, `agreement`, `probe` and `ahead`: what a model still knows, by how far back it was."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from thereafter.cli import inspect_app, load
from thereafter.cli.options import Numbers, chosen, command, library
from thereafter.cli.tables import Results, print_rows, save
from thereafter.errors import OptionError

if TYPE_CHECKING:
    from thereafter.inspection.measurement import Measurement


@command(inspect_app, *library("thereafter.inspection.memory:memory", "longest", "count", "seed"))
def memory(
    run: str,
    name: Annotated[str | None, typer.Option("--task")] = None,
    *,
    results: Results,
    **options: object,
) -> None:
    """Measure how far back a model remembers: its accuracy in a memory task by the number of steps n.

    First: thereafter train remember-first --model lstm --out runs/first

    Example: thereafter inspect memory runs/first --longest 60 --figure memory.html

    Args:
        name: remember-first, count-and-fire or balanced-brackets. Default: the corpus it was trained on.
        longest: Largest n to test. Default: the largest of the corpus.
        count: Number of lines per n.
        seed: Random seed of the lines.
    """
    from thereafter import instruments
    from thereafter.figures.memory import accuracy_by_n

    measured = instruments.memory(load(run), name, **chosen(options))
    results.report(measured, _print_by_n, lambda: [accuracy_by_n([measured])])


def _print_by_n(measured: Measurement) -> None:
    from thereafter.inspection.memory import remembered
    from thereafter.text.memory import task

    typer.echo(f"{measured.about['model']} asked {task(measured.about['task']).question}")
    typer.echo(f"{'n':>4}{'accuracy':>10}{'chance':>10}{'questions':>11}")
    for n, right, chance, total in zip(*(measured[key] for key in ("n", "accuracy", "chance", "total")), strict=True):
        typer.echo(f"{n:>4}{right:>10.1%}{chance:>10.1%}{total:>11,}")
    typer.echo(remembered(measured))


@command(inspect_app, *library("thereafter.instruments:agreement", "longest", "count", "seed"))
def agreement(run: str, corpus: str | None = None, *, out: Numbers = None, form: str = "", **options: object) -> None:
    """Measure how often a model prefers the form that agrees with a word far back, by the number of words between.

    First: thereafter train reflexives --model lstm --out runs/reflexives

    Example: thereafter inspect agreement runs/reflexives

    Args:
        corpus: agreement, reflexives or filler-gap. Default: the corpus the model was trained on.
        longest: Maximum number of words between the two. Default: as in the corpus.
        count: Number of sentences.
        seed: Random seed of the sentences.
    """
    from thereafter import instruments

    verdicts = instruments.agreement(load(run), corpus, **chosen(options))
    if not print_rows(verdicts.to_rows(), form):
        _print_by_distance(verdicts)
    save(out, verdicts, quiet=bool(form))


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


class Probed(StrEnum):
    """What a probe can read."""

    NUMBER = "number"
    CLASS = "class"


@command(inspect_app, *library("thereafter.inspection.probing:probe_number", "field", "count", "seed"))
def probe(
    run: str,
    what: Annotated[Probed, typer.Option("--property")] = Probed.NUMBER,
    *,
    field: str,
    results: Results,
    **options: object,
) -> None:
    """Decode a property from a model's states with a linear probe, with a control task of random labels.

    The model must know the words of the corpus `agreement`.

    Example: thereafter inspect probe runs/agreement --property number --figure decay.html

    Args:
        what: The subject's number by distance, or the class of the word read.
        field: The state to probe for the number: h, or c of an LSTM.
        count: Number of agreement sentences, two thirds of them to fit on.
        seed: Random seed of sentences and control.
    """
    from thereafter import instruments
    from thereafter.figures.memory import information_decay, word_class_by_layer

    state = {"field": field} if what is Probed.NUMBER else {}
    reading = instruments.probe(load(run), what.value, **chosen(options | state))
    picture = information_decay if what is Probed.NUMBER else word_class_by_layer
    results.report(reading, _print_probe, lambda: [picture([reading])])


def _print_probe(reading: Measurement) -> None:
    about, number = reading.about, "distance" in reading.arrays
    head = "words after" if number else "layer"
    typer.echo(f"{about['model']}: {about['text']}")
    typer.echo(f"it knows {about['known_words']:,} of the {about['words']:,} words of these sentences")
    typer.echo(f"{head:14}{'accuracy':>10}{'control':>10}{'selectivity':>13}{'bits':>8}")
    names = reading["distance" if number else "layer"].tolist()
    accuracy, control, bits = (
        reading[cell][-1] if number else reading[cell] for cell in ("accuracy", "control", "bits")
    )
    for name, right, other, gain in zip(names, accuracy, control, bits, strict=True):
        typer.echo(f"{name!s:14}{right:>10.1%}{other:>10.1%}{right - other:>13.1%}{gain:>8.3f}")
    if number:
        kept = bits >= 0.5
        until = f"half of the 1 bit is kept for all of the {names[-1]} words"
        if not kept.all():
            lost = int(kept.argmin())
            later = " (and is there again later)" if kept[lost:].any() else ""
            until = f"less than half of the 1 bit is there {names[lost]} words after it{later}"
        typer.echo(f"the subject's number, read from the last layer: {until}")
    else:
        best = int((accuracy - control).argmax())
        typer.echo(f"word class is most selectively read from {names[best]}")


@command(inspect_app, *library("thereafter.instruments:steps_ahead", "series", "part"))
def ahead(
    run: str,
    source: Annotated[str | None, typer.Argument()] = None,
    steps: str = "1,4,16,64",
    *,
    results: Results,
    **options: object,
) -> None:
    """Forecast every row of a part k steps ahead, from the model's own predictions, and measure the error by k.

    Example: thereafter inspect ahead runs/sine noisy-sine --steps 1,4,16,64 --figure ahead.html

    Args:
        source: A table of series. Default: the one that the run was trained on.
        steps: Numbers of steps ahead, separated by commas.
        series: Name of the series. Default: the first.
        part: The part to forecast.
    """
    from thereafter import instruments
    from thereafter.series.forecasting.figures import error_by_steps, steps_ahead
    from thereafter.task_model import load_task

    measured = instruments.steps_ahead(load_task(run), source, _numbers(steps), **chosen(options))
    results.report(measured, _print_steps, lambda: [steps_ahead(measured), error_by_steps([measured])])


def _print_steps(measured: Measurement) -> None:
    about = measured.about
    typer.echo(f"{about['model']} on {about['text']}, {about['compared_rows']:,} rows of {about['target']}")
    typer.echo(f"{'steps ahead':>12}{'RMSE':>12}{'MAE':>12}{'value before':>14}")
    columns = (measured[name].tolist() for name in ("ahead", "rmse", "mae", "last_value_rmse"))
    for count, rmse, mae, before in zip(*columns, strict=True):
        typer.echo(f"{count:>12}{rmse:>12.4g}{mae:>12.4g}{before:>14.4g}")


def _numbers(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise OptionError(f"the steps are {text!r}; expected whole numbers with commas between them, such as 1,4,16,64")
    return [int(part) for part in parts]

"""`thereafter inspect probe`."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from thereafter.cli.app import Numbers, Run, inspect_app, load
from thereafter.cli.inspect.gradients import Picture
from thereafter.cli.tables import AsCsv, AsJson, print_rows

if TYPE_CHECKING:
    from thereafter.inspection.measurement import Measurement


class Probed(StrEnum):
    """What a probe can read."""

    NUMBER = "number"
    CLASS = "class"


@inspect_app.command()
def probe(
    run: Run,
    what: Annotated[
        Probed,
        typer.Option("--property", help="The subject's number by distance, or the class of the word read."),
    ] = Probed.NUMBER,
    field: Annotated[str, typer.Option(help="The state to probe for the number: h, or c of an LSTM.")] = "h",
    count: Annotated[int, typer.Option(help="Number of agreement sentences, two thirds of them to fit on.")] = 900,
    seed: Annotated[int, typer.Option(help="Random seed of sentences and control.")] = 0,
    out: Numbers = None,
    figure: Picture = None,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Decode a property from a model's states with a linear probe, with a control task of random labels.

    The model must know the words of the corpus `agreement`.

    Example: thereafter inspect probe runs/agreement --property number --figure decay.html
    """
    from thereafter import instruments
    from thereafter.figures.memory import information_decay, word_class_by_layer

    number = what is Probed.NUMBER
    options = {"field": field} if number else {}
    reading = instruments.probe(load(run), "number" if number else "class", count=count, seed=seed, **options)
    if not print_rows(reading.to_rows(), as_csv=as_csv, as_json=as_json):
        _show(reading, "words after" if number else "layer", number)
    if out is not None:
        typer.echo(f"saved {reading.save(out)}", err=as_csv or as_json)
    if figure is not None:
        from thereafter.figures.export import write

        drawn = write([(information_decay if number else word_class_by_layer)([reading])], figure)
        typer.echo(f"drawn {drawn}", err=as_csv or as_json)


def _show(reading: Measurement, head: str, number: bool) -> None:
    about = reading.about
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

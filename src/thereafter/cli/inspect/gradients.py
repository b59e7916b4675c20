"""`thereafter inspect gradients`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thereafter.cli.app import Numbers, inspect_app, load
from thereafter.cli.inspect.flow_table import flow_lines
from thereafter.cli.tables import AsCsv, AsJson, print_rows
from thereafter.errors import OptionError

if TYPE_CHECKING:
    from thereafter.inspection.measurement import Measurement
    from thereafter.language_model import LanguageModel


class LossPlace(StrEnum):
    """Where in the text the loss is taken whose gradient is measured."""

    any = "any"
    verb = "verb"


Text = Annotated[str | None, typer.Option(help="The text to measure on.")]
TextSource = Annotated[
    str | None, typer.Option(help="A file or corpus to measure on. Default: the corpus the model was trained on.")
]
Out = Numbers


def drawable(path: Path | None) -> Path | None:
    """A picture that cannot be written is refused before anything is measured."""
    if path is not None:
        from thereafter.base.packages import require
        from thereafter.figures.export import format_of

        format_of(path)
        require("plotly", "drawing a picture")
    return path


Picture = Annotated[Path | None, typer.Option(help="Write the figure to this file: .html or .png.", callback=drawable)]


@inspect_app.command()
def gradients(
    runs: Annotated[list[str], typer.Argument(help="Run folders of neural models.", metavar="RUN...")],
    text: Text = None,
    source: TextSource = None,
    at: Annotated[
        LossPlace, typer.Option(help="Loss at any token of the text, or at the verbs of new agreement sentences.")
    ] = LossPlace.any,
    distance: Annotated[
        int | None,
        typer.Option(help="Steps to look back (default 40), or words from verb to subject (default 10)."),
    ] = None,
    rows: Annotated[int | None, typer.Option(help="Number of rows of text (default 8), or of sentences (200).")] = None,
    ends: Annotated[int | None, typer.Option(help="Number of losses per row of text (default 6).")] = None,
    out: Out = None,
    figure: Picture = None,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Measure how far a gradient travels back in time: the norm of d loss / d state by distance.

    Example: thereafter inspect gradients runs/rnn runs/lstm --at verb --distance 10 --figure decay.html
    """
    from thereafter import instruments

    given = {"distance": distance, ("count" if at is LossPlace.verb else "rows"): rows, "ends": ends}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if at is LossPlace.verb and "ends" in options:
        raise OptionError("a sentence has one verb and one loss; leave --ends out, or leave --at verb out")
    flows = []
    for run, lm in zip(runs, map(load, runs), strict=True):
        name = title(run, lm, alone=len(runs) == 1)
        flows.append(instruments.gradients(lm, text=text, source=source, at=at.value, name=name, **options))
    table = [{"model": flow.about["model"], **row} for flow in flows for row in flow.to_rows()]
    if not print_rows(table, as_csv=as_csv, as_json=as_json):
        for line in flow_lines(flows):
            typer.echo(line)
    save(flows, out, quiet=as_csv or as_json)
    if figure is not None:
        from thereafter.figures.export import write
        from thereafter.figures.gradients import gradient_decay, gradient_depth

        drawn = write([gradient_decay(flows), *map(gradient_depth, flows[:1])], figure)
        typer.echo(f"drawn {drawn}", err=as_csv or as_json)


def title(run: str, lm: LanguageModel, *, alone: bool) -> str:
    """What a model is called beside others: its kind, and its folder where there are several."""
    kind = str(lm.config["model"])
    return kind if alone else f"{kind} ({Path(run).name})"


def save(measurements: list[Measurement], out: Path | None, *, quiet: bool = False) -> None:
    """Write measurements; of several each has its place in the name. `quiet` leaves standard output to a table."""
    if out is None:
        return
    for place, one in enumerate(measurements):
        path = out if len(measurements) == 1 else out.with_stem(f"{out.stem}-{place + 1}")
        typer.echo(f"saved {one.save(path)}: {one.about['model']}", err=quiet)

"""`thereafter inspect dynamics`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thereafter.cli.app import Numbers, Run, inspect_app, load
from thereafter.cli.inspect.gradients import drawable
from thereafter.cli.tables import AsCsv, AsJson, print_rows
from thereafter.errors import OptionError

if TYPE_CHECKING:
    from thereafter.inspection.measurement import Measurement


class Moved(StrEnum):
    """The printed table: one row per token, per gate or per unit."""

    path = "path"
    saturation = "saturation"
    timescales = "timescales"


@inspect_app.command()
def dynamics(
    run: Run,
    text: Annotated[str, typer.Option(help="Text to run the model on, or @FILE to read one.")],
    field: Annotated[str, typer.Option(help="The state to follow, such as l0.h or l1.c.")] = "l0.h",
    limit: Annotated[int, typer.Option(help="Maximum number of tokens.", min=2)] = 2000,
    out: Numbers = None,
    figure: Annotated[
        Path | None, typer.Option(help="Draw path, saturation and timescales: .html or .png.", callback=drawable)
    ] = None,
    table: Annotated[
        Moved, typer.Option(help="What --csv and --json print: one row per token, gate, or unit of a layer.")
    ] = Moved.path,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Measure the state trajectory, gate saturation and timescales of the units over a text.

    Example: thereafter inspect dynamics runs/book --text "the cat that the dogs saw was asleep" --figure cat.html
    """
    from thereafter.base.kinds import KINDS, listed, recurrent_names
    from thereafter.base.terminal import print_caution, show_progress
    from thereafter.inspection import dynamics as measure

    if text.startswith("@"):
        from thereafter.text.sources import resolve

        text = next(iter(resolve(text[1:]).parts.values())).text()[: 40 * limit]
    lm = load(run)
    kind = KINDS.get(lm.config["model"])
    if kind is None or not kind.recurrent:
        raise OptionError(f"the model {lm.config['model']!r} has no state to follow; try {listed(recurrent_names())}")
    with show_progress():
        trace = lm.trace(text, limit=limit, top=1)
    if "cut" in trace.about:
        print_caution(f"caution: {trace.about['cut']}", err=as_csv or as_json)
    measured = {Moved.path: measure.trajectory(trace, field)}
    if any(name.rpartition(".")[2] in measure.GATES for name in trace.arrays):  # a plain RNN has a path and no gates
        measured |= {Moved.saturation: measure.saturation(trace), Moved.timescales: measure.timescales(trace)}
    if table not in measured:
        raise OptionError(f"the model {lm.config['model']!r} has no gates, so no {table}; try --table path")
    if not print_rows(measured[table].to_rows(), as_csv=as_csv, as_json=as_json):
        _print_path(measured[Moved.path], field, len(trace.tokens))
        if Moved.saturation in measured:
            _print_gates(measured[Moved.saturation], measured[Moved.timescales])
    if out is not None:
        typer.echo(f"saved {measured[Moved.path].save(out)}", err=as_csv or as_json)
    if figure is not None:
        from thereafter.figures import dynamics as drawn
        from thereafter.figures import export

        about = f"{lm.config['model']} ({Path(run).name})"
        draw = (drawn.trajectory, drawn.saturation, drawn.timescales)
        pictures = [one(figures, model=about) for one, figures in zip(draw, measured.values(), strict=False)]
        typer.echo(f"drawn {export.write(pictures, figure)}", err=as_csv or as_json)


def _print_path(path: Measurement, field: str, tokens: int) -> None:
    shares = ", ".join(f"{share:.0%}" for share in path["share"])
    typer.echo(f"{field} over {tokens:,} tokens: {shares} of the variance in the first components")
    typer.echo(f"a step moves it by {path['stride'][1:].mean():.0%} of its length")


def _print_gates(gates: Measurement, times: Measurement) -> None:
    typer.echo(f"{'gate':>14}  {'under 0.1':>9}  {'over 0.9':>9}")
    for place, name in enumerate(gates["gate"].tolist()):
        typer.echo(f"{name:>14}  {gates['low'][place]:9.1%}  {gates['high'][place]:9.1%}")
    typer.echo(f"{'layer':>14}  {'median':>9}  {'longest':>9}  steps to 1/e by the gate alone")
    for place, layer in enumerate(times["layer"].tolist()):
        steps = times["steps"][place]
        steps = steps[steps == steps]
        middle = sorted(steps.tolist())[len(steps) // 2]
        typer.echo(f"{layer:>14}  {middle:9.1f}  {steps.max():9.1f}")

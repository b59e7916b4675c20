"""`thereafter inspect gradients`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thereafter.cli.app import Numbers, inspect_app, load

if TYPE_CHECKING:
    from thereafter.inspection.measurement import Measurement
    from thereafter.language_model import LanguageModel

DISTANCES = (1, 2, 5, 10, 20, 40, 80, 160, 320)

Text = Annotated[str | None, typer.Option(help="The text to measure on.")]
TextSource = Annotated[
    str | None, typer.Option(help="A file or corpus to measure on; else what the model was trained on.")
]
Out = Numbers


def drawable(path: Path | None) -> Path | None:
    """A picture that cannot be written is refused before anything is measured."""
    if path is not None:
        from thereafter.figures.export import format_of
        from thereafter.packages import require

        format_of(path)
        require("plotly", "drawing a picture")
    return path


Picture = Annotated[Path | None, typer.Option(help="Where the picture goes: .html or .png.", callback=drawable)]


@inspect_app.command()
def gradients(
    runs: Annotated[list[str], typer.Argument(help="Run folders of neural models.", metavar="RUN...")],
    text: Text = None,
    source: TextSource = None,
    distance: Annotated[
        int | None, typer.Option(help="How many steps to look back (40, or as the text allows).")
    ] = None,
    rows: Annotated[int, typer.Option(help="How many rows of text.")] = 8,
    ends: Annotated[int, typer.Option(help="How many losses in each row.")] = 6,
    out: Out = None,
    figure: Picture = None,
) -> None:
    """How far a gradient travels back in time: the norm of d loss / d state by distance, and a verdict.

    Example: thereafter inspect gradients runs/rnn runs/lstm --source agreement --figure decay.html
    """
    from thereafter import inspect
    from thereafter.inspection.gradients import decays

    looked: dict[str, Any] = {"distance": distance, "rows": rows, "ends": ends}
    flows = []
    for run, lm in zip(runs, map(load, runs), strict=True):
        name = title(run, lm, alone=len(runs) == 1)
        flows.append(inspect.gradients(lm, text=text, source=source, name=name, **looked))
    width = max(len(str(flow.about["model"])) for flow in flows) + 2
    shown = [d for d in DISTANCES if d <= max(flow.about["distance"] for flow in flows)]
    typer.echo(f"{'model':{width}}{'layer':9}{'field':6}" + "".join(f"{d:>9}" for d in shown) + "   verdict")
    for flow in flows:
        for (layer, field), decay in decays(flow).items():
            norm_D = flow["norm"][flow["layer"].tolist().index(layer), :, flow["field"].tolist().index(field)]
            cells = "".join(f"{norm_D[d]:>9.1e}" if d < len(norm_D) else f"{'':>9}" for d in shown)
            typer.echo(f"{flow.about['model']:{width}}{layer:9}{field:6}{cells}   {decay}")
    typer.echo("norm of d loss / d state by steps back; decay and 1 % are counted from the value at distance 1")
    save(flows, out)
    if figure is not None:
        from thereafter.figures.export import write
        from thereafter.figures.gradients import gradient_decay, gradient_depth

        typer.echo(f"drawn {write([gradient_decay(flows), *map(gradient_depth, flows[:1])], figure)}")


def title(run: str, lm: LanguageModel, *, alone: bool) -> str:
    """What a model is called beside others: its kind, and its folder where there are several."""
    kind = str(lm.config["model"])
    return kind if alone else f"{kind} ({Path(run).name})"


def save(found: list[Measurement], out: Path | None) -> None:
    """Write measurements; of several each has its place in the name."""
    if out is None:
        return
    for place, one in enumerate(found):
        path = out if len(found) == 1 else out.with_stem(f"{out.stem}-{place + 1}")
        typer.echo(f"saved {one.save(path)}: {one.about['model']}")

"""`thereafter inspect gradients` and `jacobians`: how far a gradient travels back, and the one-step Jacobians."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thereafter.cli import inspect_app, load
from thereafter.cli.options import command
from thereafter.cli.tables import Results, print_rows
from thereafter.errors import OptionError

if TYPE_CHECKING:
    from thereafter.inspection.measurement import Measurement

DISTANCES = (1, 2, 5, 10, 20, 40, 80, 160, 320)


class LossPlace(StrEnum):
    """Where in the text the loss is taken whose gradient is measured."""

    any = "any"
    verb = "verb"


Text = Annotated[str | None, typer.Option(help="The text to measure on.")]
TextSource = Annotated[
    str | None, typer.Option(help="A file or corpus to measure on. Default: the corpus the model was trained on.")
]


@command(inspect_app)
def gradients(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...")],
    text: Text = None,
    source: TextSource = None,
    at: LossPlace = LossPlace.any,
    distance: int | None = None,
    rows: int | None = None,
    ends: int | None = None,
    *,
    results: Results,
) -> None:
    """Measure how far a gradient travels back in time: the norm of d loss / d state by distance.

    Example: thereafter inspect gradients runs/rnn runs/lstm --at verb --distance 10 --figure decay.html

    Args:
        runs: Run folders of neural models.
        at: Loss at any token of the text, or at the verbs of new agreement sentences.
        distance: Steps to look back (default 40), or words from verb to subject (default 10).
        rows: Number of rows of text (default 8), or of sentences (200).
        ends: Number of losses per row of text (default 6).
    """
    from thereafter import instruments
    from thereafter.figures.gradients import gradient_decay, gradient_depth

    given = {"distance": distance, ("count" if at is LossPlace.verb else "rows"): rows, "ends": ends}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if at is LossPlace.verb and "ends" in options:
        raise OptionError("a sentence has one verb and one loss; leave --ends out, or leave --at verb out")
    flows = []
    for run, lm in zip(runs, map(load, runs), strict=True):
        kind = str(lm.config["model"])
        name = kind if len(runs) == 1 else f"{kind} ({Path(run).name})"
        flows.append(instruments.gradients(lm, text=text, source=source, at=at.value, name=name, **options))
    table = [{"model": flow.about["model"], **row} for flow in flows for row in flow.to_rows()]
    if not print_rows(table, results.form):
        for line in flow_lines(flows):
            typer.echo(line)
    results.save(*flows, pictures=lambda: [gradient_decay(flows), gradient_depth(flows[0])])


MEANINGS = {
    "gain": "largest singular value of the whole product",
    "full": "root mean square singular value of the memory's block (c, else h)",
    "direct": "the same of the direct path, the product of gates alone",
}


@command(inspect_app)
def jacobians(
    run: str,
    text: Text = None,
    source: TextSource = None,
    steps: int | None = None,
    *,
    results: Results,
) -> None:
    """Compute one-step Jacobians of a recurrent model along a text, their products, and the product of the gates alone.

    Example: thereafter inspect jacobians runs/lstm --text "the keys to the cabinet are on the table"

    Args:
        steps: Number of steps to multiply (default 40).
    """
    from thereafter import instruments
    from thereafter.figures.gradients import jacobian_paths, jacobian_spectrum

    measured = instruments.jacobians(load(run), text=text, source=source, steps=steps)
    results.report(measured, _print_layers, lambda: [jacobian_paths([measured]), jacobian_spectrum(measured)])


def _print_layers(measured: Measurement) -> None:
    from thereafter.inspection.jacobians import jacobian_decays

    for i, layer in enumerate(measured["layer"].tolist()):
        singular, radius = measured["singular"][i, :, 0], measured["radius"][i]
        typer.echo(
            f"{layer}: one step, mean over {len(radius):,}: largest singular value {singular.mean():.3f}, "
            f"spectral radius {radius.mean():.3f}"
        )
    shown = [d for d in DISTANCES if d <= measured.about["distance"]]
    typer.echo(f"\n{'layer':9}{'of':8}" + "".join(f"{d:>9}" for d in shown) + "   verdict")
    for (layer, key), decay in jacobian_decays(measured).items():
        value_K = measured[key][measured["layer"].tolist().index(layer)]
        typer.echo(f"{layer:9}{key:8}" + "".join(f"{value_K[d - 1]:>9.1e}" for d in shown) + f"   {decay}")
    typer.echo("\nby steps multiplied; " + "; ".join(f"{key}: {words}" for key, words in MEANINGS.items()))


def flow_lines(flows: Sequence[Measurement]) -> Iterator[str]:
    """A line for each field of each layer of each model, under a head."""
    from thereafter.inspection.gradients import decays

    width = max(len(str(flow.about["model"])) for flow in flows) + 2
    if all(flow.about.get("at") == "verb" for flow in flows):
        yield from _verb_lines(flows, width)
        return
    shown = [d for d in DISTANCES if d <= max(flow.about["distance"] for flow in flows)]
    yield f"{'model':{width}}{'layer':9}{'field':6}" + "".join(f"{d:>9}" for d in shown) + "   verdict"
    for flow in flows:
        for (layer, field), decay in decays(flow).items():
            norm_D = flow["norm"][flow["layer"].tolist().index(layer), :, flow["field"].tolist().index(field)]
            cells = "".join(f"{norm_D[d]:>9.1e}" if d < len(norm_D) else f"{'':>9}" for d in shown)
            yield f"{flow.about['model']:{width}}{layer:9}{field:6}{cells}   {decay}"
    yield "norm of d loss / d state by steps back; the verdict is the share of distance 1 at the farthest distance"


def _verb_lines(flows: Sequence[Measurement], width: int) -> Iterator[str]:
    """Shares of distance 1 from the verb to its subject, and under a memory what comes along its gates alone."""
    from thereafter.inspection.gradients import decays, in_words

    between = int(flows[0].about["distance"])
    shown = sorted({d for d in (1, 2, 3, 5, 8, *DISTANCES) if d < between} | {between})
    yield f"gradient of the loss at the verb back to its subject, {between} words between; {flows[0].about['text']}"
    yield f"{'model':{width}}{'layer':9}{'field':8}{'norm at 1':>10}" + "".join(f"{d:>8}" for d in shown) + "   verdict"
    for flow in flows:
        model, layers = flow.about["model"], flow["layer"].tolist()
        for (layer, field), decay in decays(flow).items():
            i = layers.index(layer)
            norm_D = flow["norm"][i, :, flow["field"].tolist().index(field)]
            shares = "".join(f"{_percent(norm_D[d] / norm_D[1] if norm_D[1] > 0 else 0.0):>8}" for d in shown)
            yield f"{model:{width}}{layer:9}{field:8}{norm_D[1]:>10.1e}{shares}   {decay}"
        for i, layer in enumerate(layers):
            for key in ("gates", "direct") if flow["gates"][i, 0] == 1 else ():
                value_D = flow["gates"][i] if key == "gates" else flow["additive"][i]
                cells = "".join(f"{_percent(value_D[d]):>8}" for d in shown)
                yield f"{model:{width}}{layer:9}{key:8}{'':>10}{cells}"
        right = in_words(flow.about["right"])
        yield f"{model:{width}}is right at {right} of these verbs, loss {flow.about['loss']:.3f}"
    yield "shares of the norm one step back, in %; the last column is the state that has just read the subject;"
    yield "gates: product of the gates on the memory's direct path (c, else h), mean over units; direct: how much of"
    yield "the gradient in the memory comes along that path alone;"
    yield "d loss / d c includes what leaves c by h, d loss / d h is with c held fixed;"
    yield "norms of different models stand for states of different size and scale: compare shares"


def _percent(share: float) -> str:
    return f"{100 * share:.3g}"

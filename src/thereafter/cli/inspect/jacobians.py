"""`thereafter inspect jacobians`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from thereafter.cli.app import Run, inspect_app, load
from thereafter.cli.inspect.flow_table import DISTANCES
from thereafter.cli.inspect.gradients import Out, Picture, Text, TextSource, save
from thereafter.cli.tables import AsCsv, AsJson, print_rows

if TYPE_CHECKING:
    from thereafter.inspection.measurement import Measurement

MEANINGS = {
    "gain": "largest singular value of the whole product",
    "full": "root mean square singular value of the memory's block (c, else h)",
    "direct": "the same of the direct path, the product of gates alone",
}


@inspect_app.command()
def jacobians(
    run: Run,
    text: Text = None,
    source: TextSource = None,
    steps: Annotated[int | None, typer.Option(help="Number of steps to multiply (default 40).")] = None,
    out: Out = None,
    figure: Picture = None,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Compute one-step Jacobians of a recurrent model along a text, their products, and the product of the gates alone.

    Example: thereafter inspect jacobians runs/lstm --text "the keys to the cabinet are on the table"
    """
    from thereafter import instruments

    measured = instruments.jacobians(load(run), text=text, source=source, steps=steps)
    if not print_rows(measured.to_rows(), as_csv=as_csv, as_json=as_json):
        _print_layers(measured)
    save([measured], out, quiet=as_csv or as_json)
    if figure is not None:
        from thereafter.figures.export import write
        from thereafter.figures.gradients import jacobian_paths, jacobian_spectrum

        drawn = write([jacobian_paths([measured]), jacobian_spectrum(measured)], figure)
        typer.echo(f"drawn {drawn}", err=as_csv or as_json)


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

"""`thereafter inspect units`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thereafter.base.terminal import print_coloured
from thereafter.cli.app import Encoding, Numbers, Run, SourceName, inspect_app, load
from thereafter.cli.inspect.gradients import drawable
from thereafter.cli.tables import AsCsv, AsJson, print_rows

if TYPE_CHECKING:
    from thereafter.inspection.measurement import Measurement

_COLOURED_LINES = 14


@inspect_app.command()
def units(
    run: Run,
    source: SourceName,
    property: Annotated[
        list[str] | None,
        typer.Option(
            help="quotes, comment, quotes-or-comment, speech, line-position, indentation, brackets, keyword or "
            "boundary. Repeat the option for more. Default: quotes."
        ),
    ] = None,
    regex: Annotated[
        list[str] | None, typer.Option(help="Look for units that follow matches of this regular expression.")
    ] = None,
    top: Annotated[int, typer.Option(help="Number of units to list per property.", min=1)] = 10,
    gates: Annotated[bool, typer.Option("--gates", help="Look at gates and candidates too.")] = False,
    limit: Annotated[int, typer.Option(help="Maximum number of tokens.", min=1000)] = 200_000,
    seed: Annotated[int, typer.Option(help="Random seed of the control's offsets.")] = 0,
    part: Annotated[str | None, typer.Option(help="Part of a corpus. Default: test.")] = None,
    encoding: Encoding = None,
    out: Numbers = None,
    figure: Annotated[
        Path | None, typer.Option(help="Draw the coloured text: .html or .png.", callback=drawable)
    ] = None,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """Find units that follow a property of the text: chosen on its first half, measured on its second.

    Example: thereafter inspect units runs/code python-code --property quotes --property line-position --top 5
    """
    from thereafter import instruments
    from thereafter.inspection.properties import named, of_regex

    wanted = [named(name) for name in property or ([] if regex else ["quotes"])] + [of_regex(r) for r in regex or []]
    lm = load(run)
    options = {"top": top, "gates": gates, "limit": limit, "seed": seed}
    ranking = instruments.units(lm, source, *wanted, part=part, encoding=encoding, **options)
    if not print_rows(ranking.to_rows(), as_csv=as_csv, as_json=as_json):
        for row, one in enumerate(wanted):
            _print_table(ranking, row, one.name)
            if sys.stdout.isatty() and "NO_COLOR" not in os.environ:
                _print_coloured(ranking, row)
    if out is not None:
        typer.echo(f"saved {ranking.save(out)}", err=as_csv or as_json)
    if figure is not None:
        from thereafter.figures import export
        from thereafter.figures import units as drawn

        pictures = [drawn.coloured_units(ranking, one.name) for one in wanted]
        typer.echo(f"drawn {export.write([*pictures, drawn.unit_ranking(ranking)], figure)}", err=as_csv or as_json)


def _print_table(ranking: Measurement, row: int, name: str) -> None:
    measure = "AUC" if ranking["yes_no"][row] else "correlation"
    typer.echo(f"{name}: {measure} on {ranking.about['tokens'] // 2:,} tokens the units were not chosen on")
    typer.echo(f"{'unit':>16}  {'held out':>9}  {'chosen on':>9}  direction")
    for rank in range(ranking["unit"].shape[1]):
        side = "high" if ranking["direction"][row, rank] > 0 else "low"
        unit, second, first = (ranking[field][row, rank] for field in ("unit", "held_out", "chosen"))
        typer.echo(f"{unit!s:>16}  {second:9.3f}  {first:9.3f}  {side}")
    best, control = float(ranking["held_out"][row, 0]), float(ranking["control"][row])
    clear = best - control > (0.1 if ranking["yes_no"][row] else 0.2)
    verdict = "follows it" if clear else "is no better than luck"
    typer.echo(
        f"control {control:.3f} (the same search for the property moved along the text): the best unit {verdict}"
    )


def _print_coloured(ranking: Measurement, row: int) -> None:
    """Some lines of held-out text on the unit's colours, underlined where the property holds."""
    from thereafter.figures.units import lay_out, shade

    tokens, values, truth = (ranking[name][row] for name in ("token", "value", "truth"))
    characters = lay_out(tokens.tolist(), values, truth, _COLOURED_LINES)
    out, line = [], 0
    for one in characters:
        out.append("\x1b[0m\n" * (one.line - line))
        line = one.line
        red, green, blue = shade(one.value)
        under = "\x1b[4m" if ranking["yes_no"][row] and one.truth else "\x1b[24m"
        shown = one.text if one.text.isprintable() else " "
        out.append(f"\x1b[38;2;0;0;0m\x1b[48;2;{red};{green};{blue}m{under}{shown}")
    print_coloured("".join(out) + "\x1b[0m")

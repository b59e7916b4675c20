"""`thereafter inspect describe`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thereafter.cli.app import inspect_app
from thereafter.cli.tables import AsCsv, AsJson, TableFile, print_rows, save_rows

if TYPE_CHECKING:
    from thereafter.inspection.measurement import Measurement
    from thereafter.inspection.trace import Trace


@inspect_app.command()
def describe(
    file: Annotated[Path, typer.Argument(help="A saved measurement or trace (.npz).", show_default=False)],
    array: Annotated[
        str | None, typer.Option(help="Print the table of this array instead: a row for each of its places.")
    ] = None,
    out: TableFile = None,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
) -> None:
    """List the arrays of a saved measurement or trace: name, axes, shape, meaning.

    Example: thereafter inspect describe flow.npz

    Example: thereafter inspect describe flow.npz --array norm --out norm.csv
    """
    stored = _read(file)
    table = stored.describe() if array is None else stored.table_of(array)
    rows = table.to_rows()
    if not print_rows(rows, as_csv=as_csv, as_json=as_json) and out is None:
        typer.echo(table)
    save_rows(rows, out)


def _read(file: Path) -> Measurement | Trace:
    from thereafter.errors import FormatError
    from thereafter.inspection.measurement import Measurement
    from thereafter.inspection.trace import Trace

    try:
        return Measurement.load(file)
    except FormatError as error:
        try:
            return Trace.load(file)
        except FormatError:
            raise error from None

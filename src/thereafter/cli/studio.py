"""`thereafter studio`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thereafter.cli.app import app


@app.command()
def studio(
    runs: Annotated[Path, typer.Option(help="The folder of your runs; trainings of the page go there too.")] = Path(
        "runs"
    ),
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="The port; a free one by default.")] = None,
    host: Annotated[
        str, typer.Option(help="The address to listen on; any but this machine's own demands a token.")
    ] = "127.0.0.1",
    token: Annotated[str | None, typer.Option(help="The token to demand; made up where one is needed.")] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
) -> None:
    """Open the studio, a page where one trains, steps through and questions a model.

    Example: thereafter studio --runs runs
    """
    from thereafter.studio.serve import serve

    serve(runs, host=host, port=port, token=token, browser=browser, say=typer.echo)

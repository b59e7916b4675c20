"""`thereafter studio`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thereafter.cli.app import app


@app.command()
def studio(
    runs: Annotated[
        Path, typer.Option(help="Folder of your runs. Models you train in the studio go there too.")
    ] = Path("runs"),
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port. Default: a free one.")] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on. Any address that other machines can reach needs a token.")
    ] = "127.0.0.1",
    token: Annotated[
        str | None, typer.Option(help="Token that visitors must give. Default: a random one where it is needed.")
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
) -> None:
    """Open the studio, a web page to train, compare and look inside models.

    Example: thereafter studio --runs runs
    """
    from thereafter.studio.serve import serve

    serve(runs, host=host, port=port, token=token, browser=browser, say=typer.echo)

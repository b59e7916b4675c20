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
        str | None,
        typer.Option(
            help="Token that visitors must present. Other users see it in the list of processes: better set "
            "THEREAFTER_TOKEN or --token-file. Default: a random one if needed."
        ),
    ] = None,
    token_file: Annotated[Path | None, typer.Option(help="File that holds the token, in a single line.")] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
) -> None:
    """Open the studio, a web page to train, compare and look inside models.

    Example: thereafter studio --runs runs
    """
    from thereafter.serving.listening import read_token
    from thereafter.studio.serve import serve

    serve(runs, host=host, port=port, token=read_token(token, token_file), browser=browser, say=typer.echo)

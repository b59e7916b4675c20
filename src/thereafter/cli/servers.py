"""`thereafter serve` and `thereafter studio`: runs over HTTP, and the web page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thereafter.cli import app
from thereafter.cli.options import command

Host = Annotated[
    str, typer.Option(help="Address to listen on. Any address that other machines can reach needs a token.")
]
TokenFile = Annotated[Path | None, typer.Option(help="File that holds the token, in a single line.")]
_TOKEN = (
    "Other users see it in the list of processes: better set THEREAFTER_TOKEN or --token-file. Default: a random one "
    "if needed."
)


@command(app)
def serve(
    runs: list[str],
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8138,
    host: Host = "127.0.0.1",
    token: Annotated[str | None, typer.Option(help=f"Token that clients send as their API key. {_TOKEN}")] = None,
    token_file: TokenFile = None,
    most_rows: Annotated[int, typer.Option(min=1)] = 64,
    timeout: float = 600.0,
    grace: Annotated[float, typer.Option(min=0)] = 5.0,
    tokens: str = "word",
    as_written: bool = False,
    device: str = "auto",
) -> None:
    """Serve runs over HTTP, to any client of OpenAI's completions.

    Example: thereafter serve runs/book --port 8138

    Args:
        runs: Run folders, or ARPA files.
        port: Port; 0 takes a free one.
        most_rows: Maximum number of texts generated concurrently per run.
        timeout: Time limit for one answer, in seconds.
        grace: Seconds that answers have to finish when the server is stopped.
    """
    from thereafter.serving.listening import read_token
    from thereafter.serving.server.start import serve

    serve(
        runs,
        host=host,
        port=port,
        token=read_token(token, token_file),
        most_rows=most_rows,
        timeout=timeout,
        grace=grace,
        tokens=tokens,
        as_written=as_written,
        device=device,
        say=typer.echo,
    )


@command(app)
def studio(
    runs: Path = Path("runs"),
    port: Annotated[int | None, typer.Option(min=0, max=65535)] = None,
    host: Host = "127.0.0.1",
    token: Annotated[str | None, typer.Option(help=f"Token that visitors must present. {_TOKEN}")] = None,
    token_file: TokenFile = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser")] = True,
) -> None:
    """Open the studio, a web page to train, compare and look inside models.

    Example: thereafter studio --runs runs

    Args:
        runs: Folder of your runs. Models you train in the studio go there too.
        port: Port. Default: a free one.
        browser: Open the page in a browser.
    """
    from thereafter.serving.listening import read_token
    from thereafter.studio.serve import serve

    serve(runs, host=host, port=port, token=read_token(token, token_file), browser=browser, say=typer.echo)

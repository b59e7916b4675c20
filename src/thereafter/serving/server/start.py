"""Starting a server of runs, and its end: what is being answered may come to its end, nothing new is taken."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from os import PathLike
from typing import TYPE_CHECKING

from thereafter.base.packages import require
from thereafter.errors import OptionError
from thereafter.serving.listening import address_of, exit_if, listen, token_for

if TYPE_CHECKING:
    from fastapi import FastAPI

    from thereafter.serving.connections import PatientServer

PORT = 8138
GRACE = 5.0
"""Seconds that answers have at the end."""
_POLL = 0.05
_SWITCH = 0.0005  # every write to a socket lets the engine's thread run, which would keep the event loop out for 5 ms
_IDLE = 60  # seconds a connection is kept for the next request


def serve(
    runs: Sequence[str | PathLike[str]],
    *,
    host: str = "127.0.0.1",
    port: int = PORT,
    token: str | None = None,
    most_rows: int = 64,
    timeout: float = 600.0,
    grace: float = GRACE,
    tokens: str = "word",
    as_written: bool = False,
    device: str = "cpu",
    say: Callable[[str], None] = print,
) -> None:
    """Serve runs until interrupted. On a host that others can reach a token is made where none is given;
    `device` as in `thereafter.load`."""
    for package in ("fastapi", "uvicorn"):
        require(package, "thereafter serve", install="'thereafter[serve]'")
    from thereafter.serving.server.app import make_app
    from thereafter.serving.server.models import open_models

    if not timeout > 0:
        raise OptionError(f"timeout is {timeout:g}; expected more than 0 seconds; try 600")
    token = token_for(host, token)
    with listen(host, [port], "try another --port, or 0 for a free one") as door:
        models = open_models(runs, tokens=tokens, as_written=as_written, most_rows=most_rows, device=device)
        app = make_app(models, token=token, seconds=timeout)
        server = make_server(app, grace=grace)
        address = address_of(host, door.getsockname()[1])
        key = f"; API key: {token}" if token else ""
        say(f"serving {', '.join(models.names)} at {address}v1{key}  (Ctrl-C ends it)")
        with suppress(KeyboardInterrupt), _as_a_server():  # uvicorn raises it once more after it has ended in peace
            server.run(sockets=[door])
    exit_if(app.state.lanes.busy)  # everybody who waited has been told


def make_server(app: FastAPI, *, grace: float = GRACE) -> PatientServer:
    """A server for an application of `make_app`; `run(sockets=[...])` starts it."""
    from thereafter.serving import connections

    async def end_engines(server: PatientServer) -> None:
        """Texts that are being generated have their time, and the rest hears of the end."""
        app.state.lanes.close()
        closing = asyncio.create_task(asyncio.to_thread(app.state.models.close, grace))
        while not closing.done():
            await asyncio.wait([closing], timeout=_POLL)
            if server.force_exit:  # Ctrl-C a second time
                await asyncio.to_thread(app.state.models.close)
        server.force_exit = False  # nothing is left that would take long

    # warnings are of strangers who speak no HTTP
    return connections.make_server(app, end_engines, log_level="error", grace=2, keep_alive=_IDLE, sockets="none")


@contextmanager
def _as_a_server() -> Iterator[None]:
    """SIGTERM ends the process as Ctrl-C does, and threads hand over sooner; afterwards both are as they were."""
    interval, is_main = sys.getswitchinterval(), threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGTERM, signal.default_int_handler) if is_main else None
    sys.setswitchinterval(_SWITCH)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        if is_main:
            signal.signal(signal.SIGTERM, handler)

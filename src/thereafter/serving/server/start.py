"""Starting a server of runs, and its end: what is being answered may come to its end, nothing new is taken."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from os import PathLike
from types import FrameType
from typing import TYPE_CHECKING

from thereafter.base.packages import require
from thereafter.errors import OptionError
from thereafter.serving.listening import address_of, listen, token_for

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI

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
    if app.state.lanes.busy:
        # A thread cannot be stopped, and Python would wait for it. Everybody who waited has been told.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def make_server(app: FastAPI, *, grace: float = GRACE) -> uvicorn.Server:
    """A server for an application of `make_app`; `run(sockets=[...])` starts it."""
    import uvicorn

    from thereafter.serving.connections import Connection, PatientServer

    class Server(PatientServer):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            """As uvicorn's, after texts that are being generated have had their time, and the rest hears of the end."""
            app.state.lanes.close()
            closing = asyncio.create_task(asyncio.to_thread(app.state.models.close, grace))
            while not closing.done():
                await asyncio.wait([closing], timeout=_POLL)
                if self.force_exit:  # Ctrl-C a second time
                    await asyncio.to_thread(app.state.models.close)
            self.force_exit = False  # nothing is left that would take long
            await super().shutdown(sockets)

    return Server(
        uvicorn.Config(
            app,
            log_level="error",  # its warnings are of strangers who speak no HTTP
            access_log=False,
            use_colors=False,  # a terminal is shown escapes, not given them
            server_header=False,
            http=Connection,
            ws="none",
            proxy_headers=False,  # whoever asks could call themselves by another address at every guess of the token
            timeout_keep_alive=_IDLE,
            timeout_graceful_shutdown=2,
        )
    )


@contextmanager
def _as_a_server() -> Iterator[None]:
    """SIGTERM ends the process as Ctrl-C does, and threads hand over sooner; afterwards both are as they were."""
    interval, is_main = sys.getswitchinterval(), threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGTERM, _interrupt) if is_main else None
    sys.setswitchinterval(_SWITCH)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        if is_main:
            signal.signal(signal.SIGTERM, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt

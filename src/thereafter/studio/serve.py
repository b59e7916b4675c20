"""Starting the studio: a free port, the address, the browser."""

from __future__ import annotations

import os
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from thereafter.base.packages import require
from thereafter.base.storage import cache_folder
from thereafter.serving import listening
from thereafter.serving.listening import EVERYWHERE, address_of, token_for

if TYPE_CHECKING:
    from thereafter.serving.connections import PatientServer
    from thereafter.studio.studio import Studio

FIRST_PORT = 8137
_TRIED = 20  # ports from the first on, before any free one is taken


def serve(
    runs: Path,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    token: str | None = None,
    browser: bool = True,
    say: Callable[[str], None] = print,
) -> None:
    """Run the studio until it is interrupted. On a host that others can reach a token is made where none is given."""
    for package in ("fastapi", "uvicorn", "websockets"):
        require(package, "the studio", install="'thereafter[studio]'")
    from thereafter.studio.studio import Studio

    token = token_for(host, token)
    door = listen(host, port)
    studio = Studio(runs, cache_folder() / "studio")
    server = make_server(studio, token=token)
    number = door.getsockname()[1]
    say(f"studio: {address_of(host, number, token)}  (Ctrl-C ends it)")
    # without a screen no window can open: a browser in text mode would take the terminal over
    has_screen = sys.platform in ("win32", "darwin") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if browser and has_screen:
        here = "127.0.0.1" if host in EVERYWHERE else host
        threading.Thread(target=webbrowser.open, args=(address_of(here, number, token),), daemon=True).start()
    with suppress(KeyboardInterrupt):  # uvicorn raises it once more after it has ended in peace
        server.run(sockets=[door])
    listening.exit_if(studio.lanes.busy)  # everything that lasts has been saved and closed


def make_server(studio: Studio, *, token: str | None = None) -> PatientServer:
    """A server for the application over a studio; `run(sockets=[...])` starts it."""
    from thereafter.serving import connections
    from thereafter.studio.app import make_app

    async def close_lanes(server: PatientServer) -> None:
        """Those who wait for models hear of the end."""
        studio.lanes.close()

    return connections.make_server(make_app(studio, token=token), close_lanes, log_level="warning", grace=1)


def listen(host: str, port: int | None) -> socket.socket:
    """A socket that listens: on the port asked for, or on the first free one."""
    return listening.listen(host, [port] if port is not None else [*range(FIRST_PORT, FIRST_PORT + _TRIED), 0])

"""Starting the studio: a free port, the address, the browser."""

from __future__ import annotations

import os
import secrets
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from thereafter.errors import OptionError
from thereafter.folders import cache_folder
from thereafter.packages import require
from thereafter.serving.hosts import LOOPBACK

if TYPE_CHECKING:
    import uvicorn

    from thereafter.studio.studio import Studio

FIRST_PORT = 8137
_TRIED = 20  # ports from the first on, before any free one is taken
_SHORTEST_TOKEN = 8
_EVERYWHERE = ("0.0.0.0", "::")


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
        require(package, "the studio")
    from thereafter.studio.studio import Studio

    if token is not None and len(token) < _SHORTEST_TOKEN:
        raise OptionError(
            f"the token has {len(token)} characters; expected at least {_SHORTEST_TOKEN}; try none: one is made up"
        )
    if host not in LOOPBACK and token is None:
        token = secrets.token_urlsafe(24)
    listening = listen(host, port)
    studio = Studio(runs, cache_folder() / "studio")
    server = make_server(studio, token=token)
    number = listening.getsockname()[1]
    say(f"studio: {_address(host, number, token)}  (Ctrl-C ends it)")
    if browser and _has_screen():
        here = "127.0.0.1" if host in _EVERYWHERE else host
        threading.Thread(target=webbrowser.open, args=(_address(here, number, token),), daemon=True).start()
    with suppress(KeyboardInterrupt):  # uvicorn raises it once more after it has ended in peace
        server.run(sockets=[listening])
    if studio.lanes.busy:
        # A thread cannot be stopped, and Python would wait for it. Everything that lasts has been saved and closed.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def make_server(studio: Studio, *, token: str | None = None) -> uvicorn.Server:
    """A server for the application over a studio; `run(sockets=[...])` starts it."""
    import uvicorn

    from thereafter.serving.connections import Connection
    from thereafter.studio.app import make_app

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            """As uvicorn's, which waits for the requests that are being answered: those for models hear the end."""
            studio.lanes.close()
            await super().shutdown(sockets)

    return Server(
        uvicorn.Config(
            make_app(studio, token=token),
            log_level="warning",
            access_log=False,
            server_header=False,
            http=Connection,
            proxy_headers=False,  # whoever asks could call themselves by another address at every guess of the token
            ws_max_size=1 << 20,
            timeout_graceful_shutdown=1,  # an open page would hold the end up for ever
        )
    )


def listen(host: str, port: int | None) -> socket.socket:
    """A socket that listens: on the port asked for, or on the first free one."""
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    wanted = [port] if port is not None else [*range(FIRST_PORT, FIRST_PORT + _TRIED), 0]
    failed: Exception | None = None
    for number in wanted:
        # only where the protocol is named does asyncio set TCP_NODELAY on what it accepts; without it every answer on a
        # connection that is kept waits some 40 ms for the acknowledgement of the one before
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        if os.name == "posix":  # elsewhere this would let two programs share a port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, number))
            listening.listen(128)
            return listening
        except (OSError, OverflowError) as error:
            listening.close()
            failed = error
    raise OptionError(f"cannot listen on {host} port {wanted[0]}: {failed}; try another --port, or none for a free one")


def _address(host: str, port: int, token: str | None) -> str:
    """What to open in a browser."""
    name = socket.gethostname() if host in _EVERYWHERE else host.strip("[]")
    name = f"[{name}]" if ":" in name else name
    return f"http://{name}:{port}/" + (f"?token={quote(token, safe='')}" if token else "")


def _has_screen() -> bool:
    """Whether a window can open here: without a screen a browser in text mode would take the terminal over."""
    if sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))

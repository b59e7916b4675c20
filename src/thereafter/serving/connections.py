"""Connections that do nothing are ended: uvicorn waits for ever for the rest of a request, and for a slow reader.

It has a limit for the pause between two requests (`timeout_keep_alive`) and one for all connections together
(`limit_concurrency`), which then refuses everybody. What is added here:

- A request whose head is not complete after `HEAD_SECONDS` is cut off; its body has limits of its own (`bodies.py`).
- An answer that nobody reads for `READ_SECONDS` is cut off.
- Where there are `MOST` connections, a new one takes the place of one whose request is still being sent, or else of the
  oldest without a request; both are left alone for their first `YOUNG` seconds. Where all are at work or young, the new
  one is refused with a sentence. So half-open connections, however many, keep nobody out for long.
- At the end of the server requests that are still being sent are refused.
- Without files left, asyncio reports every attempt to take a connection: a line per second is enough.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from uvicorn.server import Protocols

MOST = 256
HEAD_SECONDS = 10.0
READ_SECONDS = 30.0
YOUNG = 1.0
_SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def _refusal(sentence: str) -> bytes:
    body = b'{"error": "%s"}' % sentence.encode()
    return (
        b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n"
        b"content-length: %d\r\nconnection: close\r\n\r\n%s" % (len(body), body)
    )


_BUSY = _refusal("too many requests are going on; try again in a moment")
_ENDING = _refusal("the server is ending; try again when it has been started again")


class Connection(H11Protocol):
    """A connection of uvicorn's that does not wait for ever."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        """What cuts it off: "head", until that of a request is here; "read", until an answer is taken."""
        self._begun = self.heard = 0.0
        self._refused = False

    @property
    def idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def receiving(self) -> bool:
        """Whether a request is still being sent that has no answer yet."""
        return not self.idle and self.cycle.more_body and not self.cycle.response_started and not self._refused

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._begun = self.heard = self.loop.time()
        if sum(_takes_place(one) for one in self.connections) > MOST and not self._make_room():
            self._refuse(_BUSY)
        else:
            self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop("head")
        self._stop("read")
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused or self.transport.is_closing():
            return
        cycle, self.heard = self.cycle, self.loop.time()
        super().data_received(data)
        if self.cycle is not cycle:  # the head of a request is here
            self._begun = self.heard
        self._watch_head()

    def shutdown(self) -> None:
        if self.receiving:
            self._refuse(_ENDING)
        if self._refused:
            self.transport.close()
        else:
            super().shutdown()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._begun = self.loop.time()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._cut_off_after("read", READ_SECONDS)  # closing waits until all is sent

    def pause_writing(self) -> None:
        super().pause_writing()
        self._cut_off_after("read", READ_SECONDS)

    def resume_writing(self) -> None:
        self._stop("read")
        super().resume_writing()

    def _watch_head(self) -> None:
        """The clock runs from the first byte of a request, or from the opening, until its head is complete."""
        upgraded = self.transport.get_protocol() is not self  # to a socket of the page, which has rules of its own
        if upgraded or not self.idle or self.timeout_keep_alive_task is not None:
            self._stop("head")
        else:
            self._cut_off_after("head", HEAD_SECONDS)

    def _cut_off_after(self, timer: str, seconds: float) -> None:
        """Cut it off when this timer, which may run already, ends."""
        if timer not in self._timers:
            self._timers[timer] = self.loop.call_later(seconds, self._cut_off)

    def _stop(self, timer: str) -> None:
        if timer in self._timers:
            self._timers.pop(timer).cancel()

    def _cut_off(self) -> None:
        if self.transport.get_protocol() is self:
            self.transport.abort()

    def _make_room(self) -> bool:
        """End a connection that does nothing; False where all are at work or have only begun."""
        last = self.loop.time() - YOUNG
        others = [one for one in self.connections if isinstance(one, Connection) and one is not self]
        settled = [one for one in others if _takes_place(one) and one._begun <= last]
        receiving = [one for one in settled if one.receiving]
        idle = [one for one in settled if one.idle]
        if receiving:
            min(receiving, key=lambda one: one.heard)._refuse(_BUSY)
        elif idle:
            min(idle, key=lambda one: one._begun).transport.abort()
        return bool(receiving or idle)

    def _refuse(self, sentence: bytes) -> None:
        """Answer at once, whatever has come of a request, and read no more of it."""
        self._refused = True
        if self.cycle is not None:  # whoever waits for the rest of it hears that it will not come
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._stop("head")
        self._begun = self.loop.time()
        self.transport.write(sentence)
        self.transport.write_eof()  # closed at once, with a request unread, the sentence would be lost on the way
        self._cut_off_after("head", 1.0)
        refused = [one for one in self.connections if isinstance(one, Connection) and one._refused]
        if len(refused) > 2 * MOST:  # they take up files, too
            min(refused, key=lambda one: one._begun).transport.abort()


def _takes_place(connection: Protocols) -> bool:
    """Whether it counts: a socket of the page does, what is being closed does not."""
    refused = isinstance(connection, Connection) and connection._refused
    return not refused and not connection.transport.is_closing()


class PatientServer(uvicorn.Server):
    """A server of uvicorn's that goes on quietly where no file is left for a connection.

    At its end `before_end` is awaited, then the requests that are being answered, as uvicorn does.
    """

    def __init__(
        self, config: uvicorn.Config, before_end: Callable[[PatientServer], Awaitable[None]] | None = None
    ) -> None:
        super().__init__(config)
        self._before_end = before_end

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._before_end is not None:
            await self._before_end(self)
        await super().shutdown(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        last = -math.inf

        def report(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
            nonlocal last
            error = context.get("exception")
            if not isinstance(error, OSError) or error.errno not in _SCARCE:
                loop.default_exception_handler(context)
            elif loop.time() >= last + 1.0:
                last = loop.time()
                logging.getLogger("uvicorn.error").error(
                    "no room for more connections: %s; expected a file for each; try ulimit -n 1024", error.strerror
                )

        asyncio.get_running_loop().set_exception_handler(report)
        await super().startup(sockets)


def make_server(
    app: ASGIApp,
    before_end: Callable[[PatientServer], Awaitable[None]],
    *,
    log_level: str,
    grace: int,
    keep_alive: int = 5,
    sockets: Literal["auto", "none"] = "auto",
) -> PatientServer:
    """A server for an application; `run(sockets=[...])` starts it.

    `grace`: seconds that requests have at the end, since an open page would hold it up for ever. `keep_alive`: seconds
    that a connection is kept for the next request. `sockets`: whether WebSockets are taken.
    """
    config = uvicorn.Config(
        app,
        log_level=log_level,
        access_log=False,
        use_colors=False,  # a terminal is shown escapes, not given them
        server_header=False,
        http=Connection,
        ws=sockets,
        ws_max_size=1 << 20,
        proxy_headers=False,  # whoever asks could call themselves by another address at every guess of the token
        timeout_keep_alive=keep_alive,
        timeout_graceful_shutdown=grace,
    )
    return PatientServer(config, before_end)

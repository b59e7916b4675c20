"""Connections that do nothing are ended: uvicorn waits for ever for the rest of a request, and for a slow reader.

It has a limit for the pause between two requests (`timeout_keep_alive`) and one for all connections together
(`limit_concurrency`), which then refuses everybody. What is added here:

- A request whose head is not complete after `HEAD_SECONDS` is cut off; its body has limits of its own (`bodies.py`).
- An answer that nobody reads for `READ_SECONDS` is cut off.
- Where there are `MOST` connections, a new one takes the place of the oldest that has no request going; only where all
  have one is it refused. So half-open connections, however many, keep nobody out.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 256
HEAD_SECONDS = 10.0
READ_SECONDS = 30.0
_BUSY = b'{"error": "too many requests are going on; try again in a moment"}'
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%s" % (len(_BUSY), _BUSY)
)


class Connection(H11Protocol):
    """A connection of uvicorn's that does not wait for ever."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._head_timer: asyncio.TimerHandle | None = None
        self._read_timer: asyncio.TimerHandle | None = None
        self._begun, self._refused = 0.0, False

    @property
    def idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._begun = self.loop.time()
        if sum(not one.transport.is_closing() for one in self.connections) > MOST and not self._make_room():
            self._refused = True
            transport.write(_REFUSAL)
            transport.write_eof()  # closed at once, with a request unread, the sentence would be lost on the way
            self._head_timer = self.loop.call_later(1.0, self._cut_off)
            return
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        self._stop_read_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused or self.transport.is_closing():
            return
        super().data_received(data)
        self._watch_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._begun = self.loop.time()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._cut_off_later()  # closing waits until all is sent

    def pause_writing(self) -> None:
        super().pause_writing()
        self._cut_off_later()

    def resume_writing(self) -> None:
        self._stop_read_timer()
        super().resume_writing()

    def _watch_head(self) -> None:
        """The clock runs from the first byte of a request, or from the opening, until its head is complete."""
        upgraded = self.transport.get_protocol() is not self  # to a socket of the page, which has rules of its own
        if upgraded or not self.idle or self.timeout_keep_alive_task is not None:
            self._stop_head_timer()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self._cut_off)

    def _cut_off_later(self) -> None:
        if self._read_timer is None:
            self._read_timer = self.loop.call_later(READ_SECONDS, self._cut_off)

    def _cut_off(self) -> None:
        if self.transport.get_protocol() is self:
            self.transport.abort()

    def _make_room(self) -> bool:
        """End the connection that has been idle for the longest time; False where all are at work."""
        others = [one for one in self.connections if isinstance(one, Connection) and one is not self]
        idle = [one for one in others if one.idle and not one.transport.is_closing()]
        if not idle:
            return False
        min(idle, key=lambda one: one._begun).transport.abort()
        return True

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_read_timer(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

"""The body of a request, taken in whole before anybody parses it, within limits of size, of time and of shape.

A parser is one call that nothing interrupts: ten megabytes of small fields kept the whole server waiting for ten
seconds. A request has a few fields, one of which may be a long text. So the marks outside of strings
that make values, fields and levels are counted as the bytes come in, and too many of them are refused at once.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress

from starlette.types import Message, Receive

MOST_MARKS = 5_000
MOST_LEVELS = 32
SILENCE = 10.0
"""Seconds in which something of a body must come."""
LASTING = 60.0
"""Seconds for all of it."""
_IN_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_MARK = re.compile(rb'["{}\[\],:]')


class RefusedError(Exception):
    """Why a body is not taken, as a status and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class DisconnectedError(Exception):
    """The connection was closed in the middle of the body."""


class Shape:
    """How much structure a JSON text has, counted piece by piece as it comes in; `most` marks are taken."""

    def __init__(self, most: int = MOST_MARKS) -> None:
        self.marks = self.level = 0
        self._most = most
        self._in_string = self._escaped = False

    def feed(self, piece: bytes) -> None:
        """Go on with the next piece; RefusedError as soon as there is too much."""
        at = 0
        while at < len(piece):
            at = self._read_string(piece, at) if self._in_string else self._next_mark(piece, at)

    def _read_string(self, piece: bytes, at: int) -> int:
        if self._escaped:  # the piece before ended in a backslash
            self._escaped = False
            return at + 1
        match = _IN_STRING.match(piece, at)
        assert match is not None  # it matches the empty text
        end = match.end()
        if end < len(piece):
            self._escaped = piece[end : end + 1] == b"\\"
            self._in_string = self._escaped
        return end + 1

    def _next_mark(self, piece: bytes, at: int) -> int:
        match = _MARK.search(piece, at)
        if match is None:
            return len(piece)
        self.marks += 1
        mark = match[0]
        if mark == b'"':
            self._in_string = True
        elif mark in b"{[":
            self.level += 1
        elif mark in b"}]":
            self.level -= 1
        if self.marks > self._most or self.level > MOST_LEVELS:
            raise RefusedError(422, "the request has too many fields, values or levels; expected those of its verb")
        return match.end()


async def read(receive: Receive, most: int, marks: int = MOST_MARKS) -> bytes:
    """A whole body of at most so many bytes and marks; RefusedError where it is too much, too slow or too intricate."""
    pieces: list[bytes] = []
    taken, shape, clock = 0, Shape(marks), asyncio.get_running_loop().time
    last = clock() + LASTING
    try:
        async with asyncio.timeout(SILENCE) as limit:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise DisconnectedError
                piece = message.get("body", b"")
                taken += len(piece)
                try:
                    if taken > most:
                        raise RefusedError(413, too_much(most))
                    shape.feed(piece)
                except RefusedError:
                    limit.reschedule(None)
                    await discard(receive, most, message)
                    raise
                pieces.append(piece)
                if not message.get("more_body", False):
                    return b"".join(pieces)
                limit.reschedule(min(last, clock() + SILENCE))
    except TimeoutError as error:
        raise RefusedError(408, "the request did not come to its end in time; try sending it again") from error


async def discard(receive: Receive, most: int, message: Message | None = None) -> None:
    """Read the rest of a body and throw it away, up to a limit: a browser that is cut off while it sends never shows
    the sentence."""
    left = most_discarded(most)
    with suppress(TimeoutError):
        async with asyncio.timeout(LASTING):
            while left > 0 and (message is None or message.get("more_body", False)):
                message = await receive()
                left -= max(1, len(message.get("body", b"")))


def most_discarded(most: int) -> int:
    """How many bytes of a body that is too large are read and thrown away."""
    return max(5 * most, 50_000_000)


def too_much(most: int) -> str:
    """The sentence for whoever sends more than that."""
    return f"more than {most:,} bytes were sent; expected fewer; try a shorter text"

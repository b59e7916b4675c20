"""Who may ask: the page itself, from this machine, or somebody with the token; and how much may be sent.

- A page of another site can make a browser send requests here. So the name this server is called by (`Host`) must be
  its own, and where a browser says which page asks (`Origin`), or from where (`Sec-Fetch-Site`), it must be ours; a
  link to the page may stand anywhere. With a token any name will do: a cookie is given only under the name it was
  made for.
- Reachable from elsewhere, a token is demanded: once in the address, from then on in a cookie, and the address is
  opened again without it, so that it stands neither in the history nor in a link that is sent on. The cookie is drawn
  when the server starts and is not made from the token: a token could be guessed by it. Wrong tokens cost time
  (`Attempts`).
- A body is read before anybody looks at it, within limits of size, of time and of shape.
- What goes wrong inside is answered with a sentence; the terminal shows the rest.

A parser is one call that nothing interrupts: ten megabytes of small fields kept the whole server waiting for ten
seconds. A request has a few fields, one of which may be a long text. So the marks outside of strings
that make values, fields and levels are counted as the bytes come in, and too many of them are refused at once.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network
from typing import ClassVar
from urllib.parse import parse_qsl, urlencode

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from thereafter.serving.listening import LOOPBACK, split_host, values_of

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


Headers = list[tuple[bytes, bytes]]

MOST_BYTES = 1_000_000
"""Bytes of a body, where a path takes no more."""
COOKIE = "thereafter"
_OWN = ("same-origin", "none")  # of Sec-Fetch-Site: our page, and what the user typed or had bookmarked
_DIGITS = 18  # of a size that are read: more than anybody has
_POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "object-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
)
_HEADERS: Headers = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
]


class AccessGuard:
    """An ASGI application round another. `token`: demanded of everybody where it is given.

    A body has at most `MOST_BYTES` and `MOST_MARKS`; `larger` and `intricate` name the paths that take more.
    `server` is its name in sentences.
    """

    no_token: ClassVar[tuple[int, str]] = 403, "open the address it printed, which ends in ?token=..."
    """The status for those who come without the token, and what they are to try."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: str | None = None,
        larger: Mapping[str, int] | None = None,
        intricate: Mapping[str, int] | None = None,
        server: str = "server",
    ) -> None:
        self.app, self._token, self._server = app, token, server
        self._larger, self._intricate = dict(larger or {}), dict(intricate or {})
        self._secret = secrets.token_urlsafe(32)
        self._attempts = Attempts()

    def error_of(self, status: int, sentence: str) -> Mapping[str, object]:
        """An error as the JSON that goes out."""
        return {"error": sentence}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        begun = False

        async def noting(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._admit(scope, receive, noting)
        except asyncio.CancelledError:  # the server ends, and has waited long enough
            if scope["type"] == "websocket":
                raise
            if not begun:
                await self._refuse(scope, receive, send, 503, f"the {self._server} is ending; try again later")

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._wrong_name(scope) or await self._wrong_token(scope)
        if refusal is not None:
            await self._refuse(scope, receive, send, *refusal)
        elif scope["type"] == "websocket":
            await self.app(scope, receive, send)
        elif self._token is not None and scope["method"] == "GET" and _token_of(scope):
            # Lax: a link in a letter may lead here. What another page asks for is refused by its origin.
            cookie = f"{_cookie_name(scope)}={self._secret}; Path=/; HttpOnly; SameSite=Lax".encode()
            await _answer(send, 303, b"", [(b"location", _without_token(scope)), (b"set-cookie", cookie)])
        else:
            await self._answer_limited(scope, receive, send)

    async def _answer_limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on once its body is here."""
        most, size = self._larger.get(scope["path"], MOST_BYTES), _size(scope)
        try:
            if size is not None and size > most:
                if size <= most_discarded(most):
                    await discard(receive, most)
                raise RefusedError(413, too_much(most))
            marks = self._intricate.get(scope["path"], MOST_MARKS)
            body = b"" if size == 0 else await read(receive, most, marks)
        except DisconnectedError:
            return
        except RefusedError as refused:
            # there may be more of it than was read
            await self._refuse(scope, receive, send, refused.status, refused.sentence, [(b"connection", b"close")])
            return
        await self._pass_on(scope, receive if size == 0 else _replay(body, receive), send)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Add headers to what goes out, and a sentence where something goes wrong."""
        begun = False

        async def guarded(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message = {**message, "headers": [*message.get("headers", []), *_HEADERS]}
            await send(message)

        try:
            await self.app(scope, receive, guarded)
        except Exception:
            if not begun:
                await self._refuse(scope, receive, send, 500, went_wrong(self._server))
            raise

    def _wrong_name(self, scope: Scope) -> tuple[int, str] | None:
        """Why a request under this name, or from this page, is not answered."""
        host = split_host(values_of(scope["headers"], b"host"))
        if self._token is None and (host is None or host[0] not in LOOPBACK):
            return 403, f"this {self._server} answers on this machine only; open the address it printed"
        if host is None:
            return 403, "the request names no host, or none that can be read; open the address that was printed"
        allowed = (f"http://{host[1]}", f"https://{host[1]}")
        if any(origin.lower() not in allowed for origin in values_of(scope["headers"], b"origin")):
            return 403, f"another page asked; only the {self._server}'s own page may"
        sites = values_of(scope["headers"], b"sec-fetch-site")
        if any(site not in _OWN for site in sites) and not _opens_page(scope):
            return 403, f"another site asked; only the {self._server}'s own page may; open the address in a new tab"
        return None

    async def _wrong_token(self, scope: Scope) -> tuple[int, str] | tuple[int, str, Headers] | None:
        """Why whoever asks is not let in."""
        # by name: the standard library's parser drops all of them for one that it cannot read
        pairs = (pair.strip().partition("=") for pair in "; ".join(values_of(scope["headers"], b"cookie")).split(";"))
        cookie = {name: value for name, _, value in pairs}.get(_cookie_name(scope), "")
        if self._token is None or secrets.compare_digest(cookie.encode(), self._secret.encode()):
            return None
        bearers = [one.removeprefix("Bearer ") for one in values_of(scope["headers"], b"authorization")]
        guesses = [one for one in (*bearers, *_token_of(scope)) if one]
        if len(guesses) == 1:  # several would be several guesses
            if secrets.compare_digest(guesses[0].encode(), self._token.encode()):
                return None
            seconds = await self._attempts.slow_down((scope.get("client") or ("",))[0])
            if seconds:
                sentence = f"too many wrong tokens came from this address; try again in {seconds} seconds"
                return 429, sentence, [(b"retry-after", str(seconds).encode())]
        return self.no_token[0], f"this {self._server} needs its token; {self.no_token[1]}"

    async def _refuse(
        self, scope: Scope, receive: Receive, send: Send, status: int, sentence: str, more: Headers | None = None
    ) -> None:
        """Answer with a sentence, or close a socket that was not opened yet."""
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": sentence[:120]})
            return
        headers = [(b"content-type", b"application/json"), *(more or [])]
        await _answer(send, status, json.dumps(self.error_of(status, sentence)).encode(), headers)


def went_wrong(server: str) -> str:
    """The sentence for an error that is nobody's mistake but the server's."""
    return f"something went wrong in the {server}; its terminal says what"


def _replay(body: bytes, receive: Receive) -> Receive:
    """A body that is here already, and then whatever comes."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay


def _opens_page(scope: Scope) -> bool:
    """Whether a link to the page was followed, wherever it stood: what another page shows of ours is refused."""
    values = {name: values_of(scope["headers"], b"sec-fetch-" + name) for name in (b"mode", b"dest")}
    page = scope["type"] == "http" and scope["method"] == "GET" and scope["path"] == "/"
    return page and values == {b"mode": ["navigate"], b"dest": ["document"]}


def _token_of(scope: Scope) -> list[str]:
    return [value for name, value in _query(scope) if name == "token"]


def _without_token(scope: Scope) -> bytes:
    """The same address without the token; on this server, whatever the path looks like."""
    kept = urlencode([(name, value) for name, value in _query(scope) if name != "token"])
    path: bytes = scope.get("raw_path") or b"/"
    return b"/" + path.lstrip(b"/\\") + (b"?" + kept.encode() if kept else b"")


def _query(scope: Scope) -> list[tuple[str, str]]:
    return parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)


def _cookie_name(scope: Scope) -> str:
    """Browsers give a cookie to every port of a host: two servers must not take each other's."""
    server = scope.get("server") or ("", "")
    return f"{COOKIE}-{server[1]}"


def _size(scope: Scope) -> int | None:
    """The bytes of a body as a request says it; None where it does not. Servers refuse a figure that is none."""
    if values_of(scope["headers"], b"transfer-encoding"):
        return None
    sizes = values_of(scope["headers"], b"content-length") or ["0"]
    return int(sizes[0][:_DIGITS]) if sizes[0].isascii() and sizes[0].isdigit() else None


async def _answer(send: Send, status: int, body: bytes, headers: Headers) -> None:
    length = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *length, *_HEADERS]})
    await send({"type": "http.response.body", "body": body})


# Wrong tokens cost time: after a few, the answer to each further one from the same address takes ever longer.
#
# A right token never waits and is not counted, whoever guesses from the same address; behind a proxy that is
# everybody's. So a guess is compared at once and only its answer is delayed: what keeps a token safe is its length.


FREE = 10
"""Wrong tokens from one address that cost nothing: whoever mistypes does not wait."""
_FIRST, _LONGEST = 0.1, 2.0  # seconds that the next one takes; doubled each time
_LINE = 6.0  # seconds that an answer is delayed at most; who comes later is told at once to come back
_FORGET = 600.0  # seconds without a wrong token after which an address begins anew
_MOST = 1_000  # addresses that are remembered
_NETWORK = 64  # bits of an IPv6 address that a household has in common


@dataclass
class _Record:
    wrong: int = 0
    free_at: float = 0.0
    last: float = 0.0


class Attempts:
    """Wrong tokens by address."""

    def __init__(self) -> None:
        self._records: OrderedDict[str, _Record] = OrderedDict()

    async def slow_down(self, address: str) -> int:
        """Count a wrong token and wait. Returns the seconds after which to come back if too many wait, else 0."""
        now, record = time.monotonic(), self._record(address)
        wait = max(0.0, record.free_at - now)
        if wait > _LINE:
            return math.ceil(wait - _LINE)
        record.wrong += 1
        record.last = now
        cost = 0.0 if record.wrong <= FREE else min(_LONGEST, _FIRST * 2.0 ** min(30, record.wrong - FREE - 1))
        record.free_at = now + wait + cost
        if wait:
            await asyncio.sleep(wait)
        return 0

    def _record(self, address: str) -> _Record:
        key, now = _household(address), time.monotonic()
        record = self._records.get(key)
        if record is None or now - record.last > _FORGET:
            record = self._records[key] = _Record(last=now)
        self._records.move_to_end(key)
        while len(self._records) > _MOST:
            self._records.popitem(last=False)
        return record


def _household(address: str) -> str:
    """An address as it is counted: of IPv6 its network, in which anybody can take as many addresses as they like."""
    try:
        known = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(known, IPv6Address):
        return str(known.ipv4_mapped or ip_network((known, _NETWORK), strict=False))
    return str(known)

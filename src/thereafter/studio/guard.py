"""Who may ask: the page itself, from this machine, or somebody with the token; and how much may be sent.

- A page of another site can make a browser send requests here. So the name this server is called by (`Host`) must be
  its own, and where a browser says which page asks (`Origin`) it must be ours. With a token any name will do: a cookie
  is given only under the name it was made for.
- Reachable from elsewhere, a token is demanded: once in the address, from then on in a cookie, and the address is
  opened again without it, so that it stands neither in the history nor in a link that is sent on.
- A body larger than `MOST_BYTES` is refused as soon as that is known.
- What goes wrong inside is told as a sentence; the terminal gets the rest.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

from starlette.exceptions import HTTPException

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

MOST_BYTES = 10_000_000
COOKIE = "thereafter"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")
_DISCARDED = 5 * MOST_BYTES  # read and thrown away: a browser that is cut off while it sends never hears the sentence
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


class Guard:
    """An ASGI application round another. `token`: demanded of everybody where it is given."""

    def __init__(self, app: App, *, token: str | None = None, most: int = MOST_BYTES) -> None:
        self.app, self._token, self._most = app, token, most
        # a fingerprint instead of the token: any token can stand in a cookie that way
        self._fingerprint = hashlib.sha256(f"thereafter:{token}".encode()).hexdigest()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refused = self._refused(scope, headers)
        if refused is not None:
            await _say(scope, receive, send, 403, refused)
        elif scope["type"] == "websocket":
            await self.app(scope, receive, send)
        elif self._token is not None and scope["method"] == "GET" and _asked_token(scope):
            await _answer(send, 303, b"", [(b"location", _without_token(scope)), (b"set-cookie", self._cookie(scope))])
        elif _size(headers) > self._most:
            if _size(headers) <= _DISCARDED:
                await _discard(receive)
            await _say(scope, receive, send, 413, self._too_much())
        else:
            await self._limited(scope, receive, send)

    async def _limited(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass a request on, counting what comes in, adding headers to what goes out."""
        taken, begun = 0, False

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self._most:
                await _discard(receive, message)
                raise HTTPException(413, self._too_much(), {"Connection": "close"})
            return message

        async def guarded(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message = {**message, "headers": [*message.get("headers", []), *_HEADERS]}
            await send(message)

        try:
            await self.app(scope, counted, guarded)
        except Exception:
            if not begun:
                await _say(scope, receive, send, 500, "something went wrong in the studio; its terminal says what")
            raise

    def _refused(self, scope: Message, headers: dict[str, str]) -> str | None:
        host = headers.get("host", "").lower()
        if self._token is None and _name(host) not in LOOPBACK:
            return "this studio answers on this machine only; open the address it printed"
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}"):
            return "another page asked; only the studio's own page may"
        if self._token is not None and not self._known(scope, headers):
            return "this studio needs its token; open the address it printed, which ends in ?token=..."
        return None

    def _known(self, scope: Message, headers: dict[str, str]) -> bool:
        assert self._token is not None
        given = [headers.get("authorization", "").removeprefix("Bearer "), *_asked_token(scope)]
        held = _cookies(headers.get("cookie", "")).get(_cookie_name(scope), "")
        right = [secrets.compare_digest(one.encode(), self._token.encode()) for one in given]
        return any([*right, secrets.compare_digest(held.encode(), self._fingerprint.encode())])

    def _cookie(self, scope: Message) -> bytes:
        # Lax: a link in a letter may lead here. What another page asks for is refused by its origin.
        return f"{_cookie_name(scope)}={self._fingerprint}; Path=/; HttpOnly; SameSite=Lax".encode()

    def _too_much(self) -> str:
        return f"more than {self._most:,} bytes were sent; expected fewer; try a shorter text"


def _asked_token(scope: Message) -> list[str]:
    return [value for name, value in _query(scope) if name == "token"]


def _without_token(scope: Message) -> bytes:
    """The same address without the token; on this server, whatever the path looks like."""
    kept = urlencode([(name, value) for name, value in _query(scope) if name != "token"])
    path: bytes = scope.get("raw_path") or b"/"
    return b"/" + path.lstrip(b"/\\") + (b"?" + kept.encode() if kept else b"")


def _query(scope: Message) -> list[tuple[str, str]]:
    return parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)


def _cookie_name(scope: Message) -> str:
    """Browsers give a cookie to every port of a host: two studios must not take each other's."""
    server = scope.get("server") or ("", "")
    return f"{COOKIE}-{server[1]}"


def _cookies(header: str) -> dict[str, str]:
    """By name. The standard library's parser drops all of them for one that it cannot read."""
    pairs = (pair.strip().partition("=") for pair in header.split(";"))
    return {name: value for name, _, value in pairs}


def _name(host: str) -> str:
    """The host without its port."""
    return host[: host.index("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0]


def _size(headers: dict[str, str]) -> int:
    """What a request says of its size; servers refuse a figure that is none before it comes here."""
    said = headers.get("content-length", "0")
    return int(said) if said.isascii() and said.isdigit() else 0


async def _discard(receive: Receive, message: Message | None = None) -> None:
    """Take the rest of a body in and keep nothing of it, up to a point."""
    left = _DISCARDED
    while left > 0 and (message is None or message.get("more_body", False)):
        message = await receive()
        left -= max(1, len(message.get("body", b"")))


async def _say(scope: Message, receive: Receive, send: Send, status: int, sentence: str) -> None:
    """Answer with a sentence, or close a socket that was not opened yet."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": sentence[:120]})
        return
    ended = [(b"connection", b"close")] if status == 413 else []  # there may be more of it than was read
    headers = [(b"content-type", b"application/json"), *ended]
    await _answer(send, status, json.dumps({"error": sentence}).encode(), headers)


async def _answer(send: Send, status: int, body: bytes, headers: Headers) -> None:
    length = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *length, *_HEADERS]})
    await send({"type": "http.response.body", "body": body})

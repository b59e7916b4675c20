"""What a stranger can make the server do is bounded: parse, wait, compare tokens, take a name for its own.

Nothing here needs a model: the guard stands before a bare application, and connections are made to a bare server.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from breadth import core
from thereafter.serving import guard
from thereafter.serving.guard import MOST_BYTES, MOST_LEVELS, MOST_MARKS, AccessGuard, RefusedError, Shape
from thereafter.serving.listening import LOOPBACK, split_host
from waiting import run_async

LARGER = {"/api/train": 10_000_000}
TOKEN = "a word that nobody guesses"
JSON = (b"content-type", b"application/json")


class Bare:
    """An application behind a guard, asked without a network."""

    def __init__(self, token: str | None = None) -> None:
        self.bodies: list[bytes] = []
        self.guard = AccessGuard(self._app, token=token, larger=LARGER)

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        body = (await receive())["body"] if scope["method"] == "POST" else b""
        self.bodies.append(body)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    async def ask(
        self,
        *headers: tuple[bytes, bytes],
        path: str = "/api/next",
        query: str = "",
        pieces: list[bytes] | None = None,
        address: str = "127.0.0.1",
        host: bytes | None = b"localhost",
        receive: Callable[[], Awaitable[Any]] | None = None,
    ) -> tuple[int, dict[bytes, bytes], bytes]:
        """Status, headers and body of the answer."""
        messages = [
            {"type": "http.request", "body": piece, "more_body": at + 1 < len(pieces)}
            for at, piece in enumerate(pieces or [])
        ]
        body = [] if pieces is None else [(b"transfer-encoding", b"chunked")]
        scope = {
            "type": "http",
            "method": "GET" if pieces is None else "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [*([] if host is None else [(b"host", host)]), *headers, *body],
            "client": (address, 1),
            "server": ("127.0.0.1", 8137),
        }
        answers: list[Any] = []

        async def given() -> Any:
            return messages.pop(0) if messages else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            answers.append(message)

        await self.guard(scope, receive or given, send)
        return answers[0]["status"], dict(answers[0]["headers"]), answers[1]["body"]


def asked(bare: Bare, *headers: tuple[bytes, bytes], **options: Any) -> tuple[int, dict[bytes, bytes], bytes]:
    return run_async(bare.ask(*headers, **options))


# how much there is to parse


def cut(text: bytes, size: int) -> list[bytes]:
    return [text[at : at + size] for at in range(0, len(text), size)]


FIELDS = b"{" + b",".join(b'"k%06d":1' % number for number in range(900_000)) + b"}"


@pytest.mark.parametrize("path", core(["/api/next", "/api/train"], ["/api/train"]))
@pytest.mark.parametrize(
    "text", [FIELDS[:9_800_000], b"[" * 100_000, b"[1," * 5_000, b"}" * 900_000, b'"",' * 90_000, b"[0" + b",0" * 9_000]
)
def test_what_has_too_many_fields_is_never_parsed(path: str, text: bytes):
    bare = Bare()
    status, headers, body = asked(bare, JSON, path=path, pieces=cut(text, 65_536))
    assert status == 422 or (status == 413 and len(text) > MOST_BYTES)
    assert json.loads(body)["error"]
    assert headers[b"connection"] == b"close"
    assert bare.bodies == []


@pytest.mark.parametrize("size", [1, 2, 3, 7, 65_536])
def test_marks_are_counted_outside_of_strings_wherever_a_text_is_cut(size: int):
    held = {"text": 'a, b: {c} [d] "e" \\ \n \\" ' * 50, "models": ["x\\", '"', "\u20ac"], "deep": [[{"k": None}]]}
    for ascii_only in (True, False):
        text = json.dumps(held, ensure_ascii=ascii_only).encode()
        shape = Shape()
        levels = []
        for piece in cut(text, size):
            shape.feed(piece)
            levels.append(shape.level)
        # 4 keys and 4 strings, 4 colons, 2 + 2 commas, 4 openings and closings each
        assert shape.marks == 4 + 4 + 4 + 4 + 2 * 5
        assert shape.level == 0
        assert max(levels) <= 4


def test_a_long_text_is_taken_and_a_deep_or_wide_request_is_not():
    text = json.dumps({"text": 'he said: "no", [she] {did} \\ \n' * 250_000}).encode()
    assert MOST_BYTES < len(text) < LARGER["/api/train"]
    bare = Bare()
    assert asked(bare, JSON, path="/api/train", pieces=cut(text, 65_536))[0] == 200
    assert bare.bodies == [text]
    assert asked(bare, JSON, path="/api/next", pieces=cut(text, 65_536))[0] == 413
    Shape().feed(b"[" * MOST_LEVELS + b"]" * MOST_LEVELS)
    Shape().feed(b"," * MOST_MARKS)
    deep_after_an_end = b"[" * (MOST_LEVELS - 1) + b"[],[["
    for wrong in (b"[" * (MOST_LEVELS + 1), deep_after_an_end, b"," * (MOST_MARKS + 1)):
        with pytest.raises(RefusedError):
            Shape().feed(wrong)


def test_a_body_that_stops_coming_is_given_up(monkeypatch: pytest.MonkeyPatch):
    """In silence, and by single bytes."""
    monkeypatch.setattr(guard, "SILENCE", 0.2)
    monkeypatch.setattr(guard, "LASTING", 0.6)
    sent = 0

    async def silent() -> Any:
        await asyncio.sleep(3600)

    async def slow() -> Any:
        nonlocal sent
        sent += 1
        await asyncio.sleep(0.02)
        return {"type": "http.request", "body": b" ", "more_body": True}

    for receive in (silent, slow):
        status, headers, _ = asked(Bare(), JSON, pieces=[b""], receive=receive)
        assert status == 408
        assert headers[b"connection"] == b"close"
    assert 1 <= sent <= 31


def test_a_request_that_is_cancelled_at_the_end_gets_a_sentence():
    """Where it waits in the application, and where a wrong token waits for its answer."""
    bare = Bare(TOKEN)

    async def endless(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(3600)

    async def visit() -> None:
        bare.guard.app = endless
        guesses = [asyncio.create_task(bare.ask(bearer("wrong"))) for _ in range(guard.FREE + 4)]
        for token in (TOKEN, "wrong"):
            waiting = asyncio.create_task(bare.ask(bearer(token)))
            await asyncio.sleep(0.05)
            waiting.cancel()
            status, _, body = await waiting
            assert status == 503
            assert "the server is ending" in json.loads(body)["error"]
        await asyncio.gather(*guesses)

    run_async(visit())


# the name it is called by


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8137", "127.0.0.1:1", "[::1]", "[::1]:65535", " localhost\t"])
def test_its_own_names(host: str):
    name = split_host([host])
    assert name is not None
    assert name[0] in LOOPBACK
    assert asked(Bare(), host=host.encode())[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        *("[::1]evil.com", "[::1]:80evil.com", "localhost:80@evil.com", "localhost@evil.com", "localhost:evil.com"),
        *(
            "localhost.",
            "127.0.0.1.",
            "localhost:0",
            "localhost:65536",
            "localhost:99999",
            "localhost:",
            "localhost:-1",
        ),
        *(
            "localhost:８１３７",
            "ｌocalhost",
            "localhost,evil.com",
            "localhost evil.com",
            "localhost\tevil.com",
            "local host",
        ),
        *("localhost#evil.com", "localhost?evil.com", "localhost/evil.com", "localhost\\evil.com", "localhost%00"),
        *(
            "[::1",
            "::1",
            "[::1]]",
            "[[::1]]",
            "[::1%25lo]",
            "[]",
            "http://localhost",
            "localhost:80:80",
            "",
            ":80",
            "@",
        ),
        *("127.1", "2130706433", "0x7f.1", "0.0.0.0", "localhost.localdomain", "a" * 300, ".", "localhost\x00"),
    ],
)
def test_no_other_name_is_taken_for_its_own(host: str):
    status, _, body = asked(Bare(), host=host.encode("latin-1", "replace"))
    assert status == 403
    assert "this machine only" in json.loads(body)["error"]


def test_there_is_one_name_and_one_origin():
    own = (b"origin", b"http://localhost")
    for wrong in ([(b"host", b"localhost")], [(b"HOST", b"evil.com")], [own, (b"Origin", b"http://evil.com")]):
        assert asked(Bare(), *wrong)[0] == 403
    assert asked(Bare(), host=None)[0] == 403
    assert asked(Bare(), own)[0] == 200
    assert asked(Bare(TOKEN), (b"authorization", f"Bearer {TOKEN}".encode()), host=b"studio.example:80")[0] == 200
    assert asked(Bare(TOKEN), (b"authorization", f"Bearer {TOKEN}".encode()), host=b"studio.example:80@x")[0] == 403


LINK = (b"sec-fetch-mode", b"navigate"), (b"sec-fetch-dest", b"document")


@pytest.mark.parametrize("site", [b"cross-site", b"same-site", b"", b"Cross-Site", b"same-origin, cross-site"])
def test_another_site_gets_nothing_but_a_link_to_the_page(site: bytes):
    """A picture, a script, a frame or a form of another page: none of them sends an Origin with a GET."""
    header = (b"sec-fetch-site", site)
    for path in ("/api/models", "/v1/models", "/"):
        assert asked(Bare(), header, path=path)[0] == 403
        for mode, dest in ((b"no-cors", b"image"), (b"navigate", b"iframe"), (b"cors", b"document")):
            assert asked(Bare(), header, (b"sec-fetch-mode", mode), (b"sec-fetch-dest", dest), path=path)[0] == 403
    assert asked(Bare(), header, *LINK, path="/api/models")[0] == 403
    assert asked(Bare(), header, *LINK, path="/", pieces=[b"{}"])[0] == 403  # a form
    assert b"open the address in a new tab" in asked(Bare(), header, path="/api/models")[2]
    assert asked(Bare(), header, *LINK, path="/")[0] == 200
    assert asked(Bare(), (b"sec-fetch-site", b"none"), header)[0] == 403


@pytest.mark.parametrize("site", [b"same-origin", b"none"])
def test_our_page_and_what_the_user_typed_are_answered(site: bytes):
    for path in ("/api/models", "/"):
        assert asked(Bare(), (b"sec-fetch-site", site), path=path)[0] == 200
    assert asked(Bare(), (b"sec-fetch-site", site), pieces=[b"{}"])[0] == 200


# guesses


def set_clock(
    monkeypatch: pytest.MonkeyPatch, now: Callable[[], float], sleep: Callable[[float], Awaitable[None]]
) -> None:
    """Another clock for the guard alone: servers that other tests share live by the clock of `time` and `asyncio`."""
    monkeypatch.setattr(guard, "time", SimpleNamespace(monotonic=now))
    monkeypatch.setattr(guard, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": sleep}))


class Clock:
    """Time that goes on only when somebody waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        set_clock(monkeypatch, lambda: self.now, self.sleep)

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


def bearer(token: str) -> tuple[bytes, bytes]:
    return b"authorization", f"Bearer {token}".encode()


def test_guesses_of_the_token_cost_ever_more_time_and_the_right_one_none(monkeypatch: pytest.MonkeyPatch):
    clock, bare = Clock(monkeypatch), Bare(TOKEN)

    async def visit() -> None:
        began = clock.now
        for guess in range(100):
            assert (await bare.ask(bearer(f"guess {guess}")))[0] == 403
        assert 150 < clock.now - began < 200  # two seconds each, once it has grown
        began = clock.now
        for _ in range(100):
            assert (await bare.ask(bearer(TOKEN)))[0] == 200
        assert (await bare.ask(bearer("wrong"), address="10.0.0.7"))[0] == 403
        assert clock.now == began  # the right one does not wait, and another address is not concerned
        assert (await bare.ask(bearer("wrong")))[0] == 403
        assert clock.now - began == 2.0  # it forgives nothing either
        clock.now += 3_600
        began = clock.now
        assert (await bare.ask(bearer("wrong")))[0] == 403
        assert clock.now == began

    run_async(visit())


def test_many_guesses_at_once_are_sent_away_and_the_right_token_is_not(monkeypatch: pytest.MonkeyPatch):
    """In real time, which passes four times as fast: of hundreds of guesses a handful are counted."""
    now, sleep = time.monotonic, asyncio.sleep
    set_clock(monkeypatch, lambda: 4 * now(), lambda seconds: sleep(seconds / 4))
    bare = Bare(TOKEN)

    async def visit() -> None:
        status, headers, _ = await bare.ask(query=f"token={TOKEN.replace(' ', '+')}", path="/")
        assert status == 303
        cookie = (b"cookie", headers[b"set-cookie"].partition(b";")[0])
        guesses = [asyncio.create_task(bare.ask(bearer(f"guess {number}"))) for number in range(500)]
        await asyncio.sleep(0)
        for _ in range(20):
            assert (await bare.ask(cookie))[0] == 200
            assert (await bare.ask(bearer(TOKEN)))[0] == 200
        assert not all(guess.done() for guess in guesses)  # some of them wait still
        answers = await asyncio.gather(*guesses)
        counted = sum(status == 403 for status, _, _ in answers)
        assert guard.FREE <= counted < guard.FREE + 15
        refused = [headers for status, headers, _ in answers if status == 429]
        assert len(refused) == 500 - counted
        assert all(int(headers[b"retry-after"]) >= 1 for headers in refused)

    run_async(visit())


def test_one_request_is_one_guess():
    bare = Bare(TOKEN)
    right = TOKEN.replace(" ", "+")
    assert asked(bare, query=f"token=wrong&token={right}")[0] == 403
    assert asked(bare, bearer(TOKEN), bearer("wrong"))[0] == 403
    assert asked(bare, bearer("wrong"), query=f"token={right}")[0] == 403
    assert asked(bare, query=f"token={right}")[0] == 303


def test_addresses_of_one_network_are_one_and_are_forgotten(monkeypatch: pytest.MonkeyPatch):
    clock, bare = Clock(monkeypatch), Bare(TOKEN)

    async def visit() -> None:
        for guess in range(40):
            await bare.ask(bearer("wrong"), address=f"2001:db8::{guess:x}%eth0")
        assert clock.now > 1_030
        began = clock.now
        for guess in range(1_100):
            await bare.ask(bearer("wrong"), address=f"10.{guess % 250}.{guess // 250}.1")
        await bare.ask(bearer("wrong"), address="2001:db8::1")  # forgotten: it would wait
        assert clock.now == began

    run_async(visit())


def test_the_cookie_cannot_be_made_from_a_guess():
    """Two studios with the same token give different ones, and none but the own is known."""
    cookies = []
    for _ in range(2):
        bare = Bare(TOKEN)
        _, headers, _ = asked(bare, query=f"token={TOKEN.replace(' ', '+')}")
        cookies.append(headers[b"set-cookie"].partition(b";")[0])
        assert asked(bare, (b"cookie", cookies[-1]))[0] == 200
    assert cookies[0] != cookies[1]
    assert asked(bare, (b"cookie", cookies[0]))[0] == 403

"""Who may ask, how much may be sent, and what is said where something is wrong."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from serving_studio import Served, served
from typer.testing import CliRunner
from visits import visiting
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from refusals import assert_refused
from thereafter.cli import app as cli
from thereafter.errors import OptionError
from thereafter.serving import guard
from thereafter.serving.guard import MOST_BYTES
from thereafter.studio import serve as serving
from thereafter.studio.app import LARGER_BODIES
from thereafter.studio.studio import Studio

TOKEN = "a word that nobody guesses; söme of it is odd"


# who may ask


class Caught:
    """Stands in for the server: remembers what it was given instead of running."""

    def __init__(self) -> None:
        self.token: str | None = None
        self.address = ""

    def make(self, studio: Studio, *, token: str | None = None) -> Caught:
        self.token = token
        return self

    def run(self, sockets: list[socket.socket]) -> None:
        self.address = sockets[0].getsockname()[0]
        sockets[0].close()


def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *options: str) -> tuple[Caught, str]:
    caught = Caught()
    monkeypatch.setattr(serving, "make_server", caught.make)
    monkeypatch.setenv("THEREAFTER_CACHE", str(tmp_path))
    asked = ["studio", "--no-browser", "--port", "0", "--runs", str(tmp_path / "runs"), *options]
    done = CliRunner().invoke(cli, asked)
    assert done.exit_code == 0, done.output
    return caught, done.output


def test_it_listens_on_this_machine_alone_and_asks_for_no_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    caught, said = started(monkeypatch, tmp_path)
    assert caught.address == "127.0.0.1"
    assert caught.token is None
    assert "http://127.0.0.1:" in said


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.2"])
def test_elsewhere_a_token_is_made_up_and_stands_in_the_address(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, host: str
):
    caught, said = started(monkeypatch, tmp_path, "--host", host)
    assert caught.address == host
    assert caught.token
    assert len(caught.token) >= 32
    assert f"?token={caught.token}" in said
    again, _ = started(monkeypatch, tmp_path, "--host", host)
    assert again.token != caught.token


@pytest.mark.parametrize("short", ["", "secret"])
def test_a_token_that_can_be_guessed_is_refused(tmp_path: Path, short: str):
    with assert_refused(OptionError, 8):
        serving.serve(tmp_path, host="0.0.0.0", port=0, token=short, browser=False, say=lambda text: None)


@pytest.fixture(scope="module")
def locked(ready_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A studio that demands a token, and takes its time for none of the wrong ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guard, "FREE", 1_000_000)
        yield from served(Studio(tmp_path_factory.mktemp("locked"), ready_folder), token=TOKEN)


@pytest.mark.parametrize("path", ["/", "/api/models", "/page/main.js", "/plotly.js", "/openapi.json"])
def test_without_the_token_nothing_is_answered(locked: Served, path: str):
    port = locked.address.rpartition(":")[2]
    for query, headers in [
        ("", {}),
        ("?token=wrong", {}),
        ("?token=", {}),
        ("", {"Authorization": "Bearer wrong"}),
        ("", {"Authorization": "Bearer"}),
        ("", {"Cookie": f"thereafter-{port}=wrong; thereafter-{port}="}),
    ]:
        answer = httpx.get(locked.address + path + query, headers=headers)
        assert answer.status_code == 403
        assert "needs its token" in answer.json()["error"]


def test_tokens_are_compared_in_constant_time(locked: Served, monkeypatch: pytest.MonkeyPatch):
    import secrets

    compared = []
    true = secrets.compare_digest
    monkeypatch.setattr(secrets, "compare_digest", lambda a, b: compared.append((a, b)) or true(a, b))
    assert httpx.get(f"{locked.address}/api/status", params={"token": "wrong"}).status_code == 403
    assert (b"wrong", TOKEN.encode()) in compared


def test_the_token_in_the_address_gives_a_cookie_and_goes_from_the_address(locked: Served):
    with httpx.Client(base_url=locked.address) as visitor:
        answer = visitor.get("/", params={"token": TOKEN, "a": "b"})
        assert answer.status_code == 303
        assert answer.headers["location"] == "/?a=b"
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Lax" in cookie
        assert TOKEN not in cookie
        assert visitor.get("/").status_code == 200
        assert visitor.get("/api/status").json()["loaded"]
    assert httpx.get(f"{locked.address}/api/status", headers={"Authorization": f"Bearer {'x' * 40}"}).status_code == 403


def test_a_path_cannot_send_the_visitor_elsewhere_with_the_token(locked: Served):
    with socket.create_connection(("127.0.0.1", int(locked.address.rpartition(":")[2]))) as line:
        token = quote(TOKEN, safe="")
        line.sendall(f"GET //evil.example/?token={token} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert b"location: /evil.example/\r\n" in line.recv(4096)


def test_a_socket_needs_the_token_too(locked: Served):
    address = locked.address.replace("http", "ws") + "/api/events"
    with pytest.raises(InvalidStatus) as caught:
        connect(address).close()
    assert caught.value.response.status_code == 403
    with connect(f"{address}?token={quote(TOKEN, safe='')}") as line:
        assert json.loads(line.recv())["stage"]["loaded"]


def test_the_page_works_behind_a_token(browser: Any, locked: Served):
    with visiting(browser, locked.address) as tab:
        tab.goto(f"/?token={quote(TOKEN, safe='')}#keyboard?text=the+nurse")
        tab.wait_for_selector('[data-model="ready:lstm"] .bar')
        assert "token" not in tab.url
        assert "text=the+nurse" in tab.url


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "localhost.evil"])
def test_under_another_name_nothing_is_answered(server: Served, host: str):
    """A page of another site can let its name lead to this machine (DNS rebinding)."""
    for ask in (httpx.get, httpx.post):
        answer = ask(f"{server.address}/api/models", headers={"Host": host})
        assert answer.status_code == 403
        assert "this machine only" in answer.json()["error"]
    with pytest.raises(InvalidStatus) as caught, socket_to(server) as plain:
        connect(f"ws://{host or 'x'}/api/events", sock=plain)
    assert caught.value.response.status_code == 403


def socket_to(server: Served) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(server.address.rpartition(":")[2])))


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", "http://[", "file://", ""])
def test_another_page_is_refused(server: Served, origin: str):
    asked = {"models": ["ready:lstm"], "prompt": "the"}
    answer = httpx.post(f"{server.address}/api/next", json=asked, headers={"Origin": origin})
    assert answer.status_code == 403
    assert "another page asked" in answer.json()["error"]
    with pytest.raises(InvalidStatus) as caught:
        connect(server.address.replace("http", "ws") + "/api/events", additional_headers={"Origin": origin})
    assert caught.value.response.status_code == 403


def test_our_own_page_is_not(server: Served):
    asked = {"models": ["ready:lstm"], "prompt": "the"}
    answer = httpx.post(f"{server.address}/api/next", json=asked, headers={"Origin": server.address})
    assert answer.status_code == 200
    other = server.address.replace("127.0.0.1", "localhost")
    assert httpx.post(f"{other}/api/next", json=asked, headers={"Origin": other}).status_code == 200


@contextmanager
def another_site(page: str) -> Iterator[str]:
    """The address of a page that is not ours: another name, and no headers that would keep it from asking us."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as site:
        thread = threading.Thread(target=site.serve_forever)
        thread.start()
        try:
            yield f"http://localhost:{site.server_port}/"
        finally:
            site.shutdown()
            thread.join()


def test_of_another_site_only_a_link_to_the_page_is_followed(browser: Any, server: Served):
    with another_site(f'<a href="{server.address}/#train">there</a>') as site, visiting(browser, server.address) as tab:
        tab.goto(site)
        with tab.expect_response(f"{server.address}/") as answer:
            tab.get_by_text("there").click()
        tab.wait_for_selector("main h2")
        assert answer.value.request.all_headers()["sec-fetch-site"] == "cross-site"
        typed = tab.goto(f"{server.address}/api/status")
        assert (typed.status, typed.request.all_headers()["sec-fetch-site"]) == (200, "none")
    for path in ("/", "/api/status", "/page/main.js"):  # a picture, a script or a frame of another page: no Origin
        answer = httpx.get(server.address + path, headers={"Sec-Fetch-Site": "cross-site"})
        assert answer.status_code == 403
        assert "another site asked" in answer.json()["error"]


@pytest.mark.parametrize("way", ["file", "environment"])
def test_the_token_need_not_stand_in_the_list_of_processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, way: str):
    (tmp_path / "token").write_text(f"{TOKEN}\n", encoding="utf-8")
    if way == "environment":
        monkeypatch.setenv("THEREAFTER_TOKEN", TOKEN)
    caught, _ = started(monkeypatch, tmp_path, *(["--token-file", str(tmp_path / "token")] if way == "file" else []))
    assert caught.token == TOKEN


# how much may be sent


def test_a_body_that_says_it_is_too_large_is_refused(server: Served):
    for path, most in (
        ("/api/train", LARGER_BODIES["/api/train"]),
        ("/api/next", MOST_BYTES),
        ("/nothing", MOST_BYTES),
    ):
        answer = httpx.post(server.address + path, content=b"x" * (most + 1), timeout=30)
        assert answer.status_code == 413
        assert f"more than {most:,} bytes were sent" in answer.json()["error"]


def test_a_body_that_grows_too_large_is_refused(server: Served):
    pieces = (b" " * 1_000_000 for _ in range(MOST_BYTES // 1_000_000 + 3))
    answer = httpx.post(
        f"{server.address}/api/next", content=pieces, headers={"Content-Type": "application/json"}, timeout=30
    )
    assert answer.status_code == 413
    assert "bytes were sent" in answer.json()["error"]


def test_an_empty_chunked_body_is_answered(server: Served):
    with socket_to(server) as line:
        line.settimeout(30)
        line.sendall(b"POST /api/next HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
        assert line.recv(4096).startswith(b"HTTP/1.1 422")


def test_a_body_that_says_it_is_huge_is_refused_before_it_comes(server: Served):
    with socket_to(server) as line:
        line.settimeout(10)
        line.sendall(b"POST /api/train HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000000\r\n\r\n")
        assert line.recv(4096).startswith(b"HTTP/1.1 413")


@pytest.mark.wide
def test_whoever_sends_too_much_hears_the_sentence(browser: Any, server: Served):
    """Not only that the line was cut off while it was busy sending."""
    send = """async size => {
      const answer = await fetch("/api/train", { method: "POST", body: "x".repeat(size) });
      return [answer.status, (await answer.json()).error];
    }"""
    with visiting(browser, server.address) as tab:
        tab.goto("/")
        for size in (12_000_000, 40_000_000):
            status, sentence = tab.evaluate(send, size)
            assert status == 413
            assert "bytes were sent" in sentence
    megabyte = b" " * 0x100000
    for said, before, after in [
        (b"Transfer-Encoding: chunked", b"100000\r\n", b"\r\n"),
        (b"Content-Length: %d" % (30 * len(megabyte)), b"", b""),
    ]:
        with socket_to(server) as line:
            line.settimeout(30)
            line.sendall(b"POST /api/next HTTP/1.1\r\nHost: localhost\r\n" + said + b"\r\n\r\n")
            for _ in range(30):
                line.sendall(before + megabyte + after)
            line.sendall(b"0\r\n\r\n" if before else b"")
            assert line.recv(4096).startswith(b"HTTP/1.1 413")


def test_a_body_without_end_is_cut_off(server: Served):
    """It is not read for ever, and nothing of it is kept."""
    sent = 0
    with socket_to(server) as line:
        line.settimeout(30)
        line.sendall(b"POST /api/next HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        piece = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
        with suppress(BrokenPipeError, ConnectionResetError):
            while sent < 400_000_000:
                line.sendall(piece)
                sent += len(piece)
    assert sent < 100_000_000
    assert httpx.get(f"{server.address}/api/status").status_code == 200


# errors and headers


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"null",
        b"{}",
        b"\xff\xfe",
        b'{"models": ["ready:lstm"], "prompt": "\\ud800"}',
        b'{"models": ["ready:lstm"], "\\ud800": 1}',
        b'{"models": ["ready:lstm"], "k": NaN}',
        b'{"models": ["ready:lstm"], "k": 1e400}',
        b'{"models": ["ready:lstm"], "k": "5"}',
        b"[" * 100_000,
    ],
)
def test_what_cannot_be_understood_gets_a_sentence(server: Served, body: bytes):
    answer = httpx.post(f"{server.address}/api/next", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert set(answer.json()) == {"error"}
    assert "Traceback" not in answer.text
    assert 'File "' not in answer.text


def test_a_fault_of_ours_is_a_sentence_too(server: Served, monkeypatch: pytest.MonkeyPatch):
    def broken(*given: Any, **named: Any) -> None:
        raise ZeroDivisionError("a secret of the house")

    monkeypatch.setattr("thereafter.studio.panels.prediction.predict", broken)
    answer = httpx.post(f"{server.address}/api/next", json={"models": ["ready:lstm"], "prompt": "the fault"})
    assert answer.status_code == 500
    assert answer.json()["error"] == "something went wrong in the studio; its terminal says what"
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["/", "/page/main.js", "/api/status", "/nothing"])
def test_every_answer_has_the_headers_that_keep_others_out(server: Served, path: str):
    answer = httpx.get(server.address + path)
    assert answer.status_code == (404 if path == "/nothing" else 200)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe-eval" not in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in answer.headers

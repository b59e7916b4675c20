"""Connections that nobody uses, heads without an end, answers nobody reads: they are cut off and keep nobody out."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import uvicorn

from thereafter.serving import connections
from thereafter.studio.serve import listen
from waiting import wait_for

LET = threading.Event()


async def _slow_app(scope: Any, receive: Any, send: Any) -> None:
    """Answers /large with more than any buffer takes, /slow when it is let to, all else at once."""
    if scope["type"] == "lifespan":
        return
    while scope["path"] == "/slow" and not LET.is_set():
        await asyncio.sleep(0.02)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"keep-alive")]})
    if scope["path"] == "/large":
        for _ in range(400):
            await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})
    await send({"type": "http.response.body", "body": b"answer"})


@contextmanager
def bare_server() -> Iterator[tuple[uvicorn.Server, int]]:
    LET.clear()
    listening = listen("127.0.0.1", 0)
    config = uvicorn.Config(
        _slow_app, http=connections.Connection, log_level="error", lifespan="off", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        wait_for(lambda: server.started)
        yield server, listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()


def opened(port: int, text: bytes = b"") -> socket.socket:
    line = socket.create_connection(("127.0.0.1", port), timeout=30)
    line.sendall(text)
    return line


def drip(line: socket.socket) -> None:
    for _ in range(200):
        line.sendall(b"G")
        time.sleep(0.05)


REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


SLOW = REQUEST.replace(b"/ ", b"/slow ")


def busy(server: uvicorn.Server) -> int:
    """Connections with a request that is being answered."""
    return sum(not one.idle for one in set(server.server_state.connections))  # type: ignore[union-attr]


def is_over(line: socket.socket) -> bool:
    """Whether the other side ends it, after whatever it had still to say; a line that stays open times out."""
    try:
        while line.recv(4096):
            pass
    except ConnectionResetError:
        pass
    return True


def test_a_head_that_never_ends_is_cut_off(monkeypatch: pytest.MonkeyPatch):
    """At the opening, in the middle, byte by byte, and at the second request of a connection."""
    monkeypatch.setattr(connections, "HEAD_SECONDS", 1.0)
    with bare_server() as (server, port), ExitStack() as stack:
        lines = [stack.enter_context(opened(port, text)) for text in (b"", REQUEST[:5], REQUEST[:-2])]
        second = stack.enter_context(opened(port, REQUEST))
        assert b"answer" in second.recv(4096) + second.recv(4096)
        second.sendall(REQUEST[:-2])
        for line in (*lines, second):
            assert is_over(line)
        dripped = stack.enter_context(opened(port))
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            drip(dripped)
        whole = stack.enter_context(opened(port, SLOW))
        wait_for(lambda: busy(server) == 1)
        time.sleep(1.5)  # longer than a head may take
        LET.set()
        assert whole.recv(4096).startswith(b"HTTP/1.1 200")  # what is being answered is not
        wait_for(lambda: len(server.server_state.connections) <= 1)


def test_half_open_connections_keep_nobody_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "MOST", 32)
    with bare_server() as (server, port), ExitStack() as stack:
        lines = [stack.enter_context(opened(port, REQUEST[:5])) for _ in range(120)]
        visitor = stack.enter_context(opened(port, REQUEST))
        assert visitor.recv(4096).startswith(b"HTTP/1.1 200")
        wait_for(lambda: len(server.server_state.connections) <= 32)
        assert is_over(lines[0])
        slow = [stack.enter_context(opened(port, SLOW)) for _ in range(31)]
        wait_for(lambda: busy(server) == 31)
        slow.append(stack.enter_context(opened(port, SLOW)))
        wait_for(lambda: busy(server) == 32)
        last = stack.enter_context(opened(port, REQUEST))
        assert last.recv(4096).startswith(b"HTTP/1.1 503")  # all are at work: only now somebody is refused
        assert is_over(last)
        LET.set()
        assert all(line.recv(4096).startswith(b"HTTP/1.1 200") for line in slow)


def test_an_answer_that_nobody_reads_is_cut_off(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "READ_SECONDS", 0.5)
    with bare_server() as (server, port), opened(port, REQUEST.replace(b"/ ", b"/large ")):
        wait_for(lambda: len(server.server_state.connections) == 1)
        wait_for(lambda: not server.server_state.connections)

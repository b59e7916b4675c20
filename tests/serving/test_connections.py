"""Connections that nobody uses, heads without an end, answers nobody reads: they are cut off and keep nobody out."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from thereafter.serving import connections
from thereafter.studio.serve import listen
from waiting import wait_for

LET = threading.Event()


async def slow_app(scope: Any, receive: Any, send: Any) -> None:
    """Answers /large with more than any buffer takes, /slow when it is let to, POST when its body is here, all else at
    once."""
    if scope["type"] == "lifespan":
        return
    while scope["method"] == "POST":
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        if not message["more_body"]:
            break
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
        slow_app, http=connections.Connection, log_level="error", lifespan="off", timeout_graceful_shutdown=1
    )
    server = connections.PatientServer(config)
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
HALF = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf"


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
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)
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
        time.sleep(0.8)  # longer than a head may take
        LET.set()
        assert whole.recv(4096).startswith(b"HTTP/1.1 200")  # what is being answered is not
        wait_for(lambda: len(server.server_state.connections) <= 1)


def status(line: socket.socket) -> str:
    """The status of an answer; empty where the line is cut."""
    try:
        return line.recv(4096)[9:12].decode()
    except ConnectionResetError:
        return ""


def read_answer(line: socket.socket) -> None:
    """Read an answer of 200 to its end, on a line that is kept."""
    answer = b""
    while not answer.endswith(b"0\r\n\r\n"):
        piece = line.recv(4096)
        assert piece
        answer += piece
    assert answer.startswith(b"HTTP/1.1 200")


def heard(server: uvicorn.Server) -> list[float]:
    """When something last came on each connection."""
    return [one.heard for one in set(server.server_state.connections)]  # type: ignore[union-attr]


def visit(port: int) -> str:
    with opened(port, REQUEST) as line:
        return status(line)


def test_half_open_connections_keep_nobody_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "MOST", 32)
    monkeypatch.setattr(connections, "YOUNG", 3600.0)
    with bare_server() as (server, port), ExitStack() as stack:
        lines = [stack.enter_context(opened(port, REQUEST[:5])) for _ in range(60)]
        assert visit(port) == "503"  # they may only have begun
        monkeypatch.setattr(connections, "YOUNG", 0.0)
        assert visit(port) == "200"
        assert is_over(lines[0])
        slow = [stack.enter_context(opened(port, SLOW)) for _ in range(31)]
        wait_for(lambda: busy(server) == 31)
        slow.append(stack.enter_context(opened(port, SLOW)))
        wait_for(lambda: busy(server) == 32)
        last = stack.enter_context(opened(port, REQUEST))
        assert status(last) == "503"  # all are at work, however long already
        assert is_over(last)
        LET.set()
        assert all(status(line) == "200" for line in slow)


@pytest.mark.parametrize("dripping", [pytest.param(False, marks=pytest.mark.wide), True])
def test_half_sent_bodies_make_room_for_whoever_comes(monkeypatch: pytest.MonkeyPatch, dripping: bool):
    """Before connections that are kept for the next request, and with a status."""
    monkeypatch.setattr(connections, "MOST", 16)
    monkeypatch.setattr(connections, "YOUNG", 3600.0)
    with bare_server() as (server, port), ExitStack() as stack:
        patient = stack.enter_context(opened(port, REQUEST))
        read_answer(patient)
        halves = [stack.enter_context(opened(port, HALF)) for _ in range(15)]
        wait_for(lambda: busy(server) == 15)
        assert visit(port) == "503"  # nobody has had time to send the rest
        monkeypatch.setattr(connections, "YOUNG", 0.0)
        if dripping:
            before = max(heard(server))
            for line in halves[1:]:
                line.sendall(b" ")
            wait_for(lambda: sum(when > before for when in heard(server)) == 14)
        assert visit(port) == "200"
        assert status(halves[0]) == "503"  # the one that was silent for the longest time
        assert is_over(halves[0])
        patient.sendall(REQUEST)
        read_answer(patient)
        halves[1].sendall(b" " * 9)
        assert status(halves[1]) == "200"  # the others are not concerned


def test_of_many_clients_at_once_each_gets_a_status(monkeypatch: pytest.MonkeyPatch):
    """They connect and ask a moment later: nobody is cut off to make room for the next."""
    monkeypatch.setattr(connections, "MOST", 16)
    monkeypatch.setattr(connections, "YOUNG", 3600.0)
    gate = threading.Barrier(60)

    def ask(_: int) -> str:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as line:
            gate.wait(30)
            with suppress(OSError):  # it may have been refused long ago, which is what it reads then
                line.sendall(REQUEST)
            return status(line)

    with bare_server() as (_, port), ThreadPoolExecutor(60) as pool:
        counts = Counter(pool.map(ask, range(60)))
    assert set(counts) == {"200", "503"}
    assert counts["200"] >= 16


def test_an_answer_that_nobody_reads_is_cut_off(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "READ_SECONDS", 0.5)
    with bare_server() as (server, port), opened(port, REQUEST.replace(b"/ ", b"/large ")):
        wait_for(lambda: len(server.server_state.connections) == 1)
        wait_for(lambda: not server.server_state.connections)


CHILD = """
import asyncio, sys, uvicorn
sys.path.insert(0, sys.argv[1])
from test_connections import slow_app
from thereafter.serving import connections
from thereafter.serving.listening import listen
door = listen("127.0.0.1", [0])
config = uvicorn.Config(slow_app, http=connections.Connection, log_level="error", lifespan="off")
print(door.getsockname()[1], flush=True)
connections.PatientServer(config).run(sockets=[door])
"""


@pytest.mark.wide
@pytest.mark.skipif(sys.platform == "win32", reason="the number of files is limited by ulimit")
def test_without_files_left_a_line_a_second_says_so(tmp_path: Path):
    command = [sys.executable, "-c", CHILD, str(Path(__file__).parent)]
    limited = ["sh", "-c", 'ulimit -n 40 && exec "$@"', "sh", *command]
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    with (
        ExitStack() as stack,
        (tmp_path / "stderr").open("w+") as errors,
        subprocess.Popen(
            limited, stdout=subprocess.PIPE, stderr=errors, text=True, env={**os.environ, "PYTHONPATH": paths}
        ) as process,
    ):
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            lines = [stack.enter_context(opened(port)) for _ in range(80)]
            began = time.monotonic()
            wait_for(lambda: (tmp_path / "stderr").stat().st_size)
            time.sleep(1.5)
            printed, seconds = (tmp_path / "stderr").read_text().splitlines(), time.monotonic() - began
            assert 1 <= len(printed) <= seconds + 1
            assert all(re.search(r"no room for more connections: .*; try ulimit -n 1024", one) for one in printed)
            for line in lines:
                line.close()
            wait_for(lambda: visit(port) == "200")
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)

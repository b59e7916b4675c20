"""A server in a process of its own, and clients that read its streams as raw bytes, which costs little."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from report import processor_seconds

_USAGE = re.compile(rb'"completion_tokens":\s*(\d+)')
_END = b"0\r\n\r\n"


@dataclass(frozen=True)
class Server:
    """`thereafter serve`, and its process."""

    port: int
    process: subprocess.Popen[str]

    def computed(self) -> float:
        """Seconds of processor time it has had."""
        return processor_seconds(self.process.pid)


@contextmanager
def served(run: Path, *more: str, errors: Path | None = None, files: int | None = None) -> Iterator[Server]:
    """A server over a run, ended as by Ctrl-C. `errors`: where its stderr goes; `files`: how many it may open."""
    command = [sys.executable, "-u", "-m", "thereafter", "serve", str(run), "--port", "0", *more]
    if files is not None:
        command = ["sh", "-c", f'ulimit -n {files} && exec "$@"', "sh", *command]
    with ExitStack() as stack:
        stderr = None if errors is None else stack.enter_context(errors.open("w"))
        process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True))
        try:
            assert process.stdout is not None
            port = None
            while port is None:
                line = process.stdout.readline()
                if not line:
                    raise SystemExit("the server ended before it printed its address")
                match = re.search(r"http://[^/\s]+:(\d+)", line)
                port = int(match[1]) if match else None
            _until_up(port)
            yield Server(port, process)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def _until_up(port: int) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        try:
            if _get(port, "/health"):
                return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the server did not answer within two minutes")


def figure_of(port: int, name: str) -> float:
    """A figure of /metrics without labels, or the sum over its labels."""
    return sum(float(line.rpartition(" ")[2]) for line in _get(port, "/metrics").splitlines() if _named(line, name))


def _named(line: str, name: str) -> bool:
    return line.startswith((f"{name} ", f"{name}{{"))


def _get(port: int, path: str) -> str:
    with socket.create_connection(("127.0.0.1", port), 60) as line:
        line.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: line.recv(1 << 16), b""))
    return answer.partition(b"\r\n\r\n")[2].decode()


@dataclass(frozen=True)
class StreamAnswer:
    """What came of a request: tokens as the server counted them, seconds to the first and to the last."""

    status: int
    tokens: int
    first: float
    took: float


@dataclass
class Figures:
    """What a round came to."""

    tokens: int = 0
    took: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    rate: float = 0.0
    spent: float = 0.0
    together: float = 0.0

    def add(self, answer: StreamAnswer) -> None:
        """Count an answer."""
        if answer.status != 200:
            raise SystemExit(f"got an answer of {answer.status}; expected 200")
        self.tokens += answer.tokens
        self.took.append(answer.took)
        self.first.append(answer.first)


class Stream(asyncio.Protocol):
    """One connection, kept: ask, read to the end of the stream, ask again."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._tail, self._got, self._first = b"", b"", 0.0
        self._done: asyncio.Future[None] | None = None
        self._some: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_connection(lambda: self, "127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._transport is not None
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        if not self._first:
            self._got += data
            if b"data: " not in self._got and b"HTTP/1.1 200" in self._got[:20]:
                return
            self._first = time.perf_counter()
            if self._some is not None and not self._some.done():
                self._some.set_result(None)
        self._tail = (self._tail + data)[-2000:]
        whole = self._tail.endswith(_END) or not self._got.startswith(b"HTTP/1.1 200")
        if whole and self._done is not None and not self._done.done():
            self._done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        for future in (self._done, self._some):
            if future is not None and not future.done():
                future.set_exception(ConnectionError("the server closed the connection"))

    async def ask(self, tokens: int, seed: int, *, abandon: bool = False) -> StreamAnswer:
        """One request; with `abandon` the connection is cut once the first token is here."""
        assert self._transport is not None
        loop = asyncio.get_running_loop()
        self._tail, self._got, self._first = b"", b"", 0.0
        self._done, self._some = loop.create_future(), loop.create_future()
        began = time.perf_counter()
        self._transport.write(_request(tokens, seed))
        async with asyncio.timeout(300):
            await (self._some if abandon else self._done)
        if abandon:
            self._transport.abort()
        for future in (self._done, self._some):
            if future.done():
                future.exception()
            else:
                future.cancel()
        match = _USAGE.search(self._tail)
        status = int(self._got[9:12])
        took = time.perf_counter() - began
        return StreamAnswer(status, int(match[1]) if match else 0, self._first - began, took)


async def ask_many(port: int, requests: int, clients: int, tokens: int, abandoned: int) -> dict[str, int]:
    """So many requests by so many clients, one in `abandoned` given up: how many were whole, given up, other."""
    counts: Counter[str] = Counter(whole=0, abandoned=0, lost=0)
    numbers = iter(range(requests))

    async def client() -> None:
        for number in numbers:
            give_up = number % abandoned == abandoned - 1
            try:
                async with Stream(port) as stream:
                    answer = await stream.ask(tokens, seed=number, abandon=give_up)
            except (OSError, TimeoutError):
                counts["lost"] += 1
                continue
            whole = answer.status == 200 and answer.tokens == tokens
            counts["abandoned" if give_up else "whole" if whole else "lost"] += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(client())
    return dict(counts)


def _request(tokens: int, seed: int) -> bytes:
    body = json.dumps(
        {
            "model": None,
            "prompt": f"w{seed % 1000} w2 w3",
            "max_tokens": tokens,
            "seed": seed,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ).encode()
    head = "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: "
    return f"{head}{len(body)}\r\n\r\n".encode() + body

"""What strangers can do to `thereafter serve`: each attack is bounded in number and time, and ends by itself.

Used by `benchmarks/serve.py --hostile`, over loopback, against servers that it starts itself.
"""

from __future__ import annotations

import json
import signal
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from report import Report
from serve_client import Server, served

TOKEN = "a word that nobody guesses"
HALF_BODY = b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{"
EMPTY_CHUNKED = b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
WIDE, LONG, ALTERNATIVES = 128, 1024, 20
"""Texts, tokens of each and alternatives of each token: what one request may ask for, taken by itself."""


def attack(report: Report) -> None:
    """All attacks, one after another, against servers of a small LSTM of words."""
    with tempfile.TemporaryDirectory() as folder:
        run, errors = _unpack_run(Path(folder)), Path(folder) / "stderr"
        with served(run, errors=errors) as server:
            _alternatives(report, server, LONG)
            _alternatives(report, server, 1_000_000 // (WIDE * (1 + ALTERNATIVES)))
            _empty_chunks(report, server)
            _half_bodies(report, server)
            _crowd(report, server)
            _another_site(report, server)
        with served(run, "--token", TOKEN, errors=errors) as server:
            _guesses(report, server)
        with served(run, files=64, errors=errors) as server:
            _few_files(report, server, errors)
        with served(run, "--grace", "0.1", errors=errors) as server, ExitStack() as lines:
            for _ in range(30):
                lines.enter_context(_open(server.port, HALF_BODY))
            time.sleep(0.5)
            server.process.send_signal(signal.SIGTERM)
            server.process.wait(60)
        report.add("30 half bodies at SIGTERM: tracebacks", errors.read_text().count("Traceback"), 0, at_least=False)


def _unpack_run(folder: Path) -> Path:
    """The small LSTM of words that ships with the package: its steps are quick, so that what is beside them shows."""
    from thereafter.ready import models, shipped

    recipe = next(one for one in models.READY if one.name == "lstm")
    if not shipped.unpack(recipe, folder, folder / "texts"):
        raise SystemExit("the package has no weights of the ready LSTM")
    return folder / recipe.name


def _alternatives(report: Report, server: Server, tokens: int) -> None:
    """The widest request, by a client that leaves after 20 s: how long others wait for /health."""
    asked = {"prompt": "the", "n": WIDE, "max_tokens": tokens, "logprobs": ALTERNATIVES}
    name = f"n={WIDE}, max_tokens={tokens}, logprobs={ALTERNATIVES}"
    with _watched(server.port) as waits:
        with _open(server.port, _post(asked)) as line:
            status = _status(line, 20.0)
        time.sleep(5.0)
    report.add(f"{name}: longest /health, s", max(waits), 2.0, f"status {status}", at_least=False)


def _empty_chunks(report: Report, server: Server) -> None:
    """270 requests with an empty chunked body: how many are answered in 5 s, and whether a visitor is."""
    with ExitStack() as stack:
        lines = [stack.enter_context(_open(server.port, EMPTY_CHUNKED)) for _ in range(270)]
        end = time.monotonic() + 5.0
        answers = Counter(_status(line, end - time.monotonic()) for line in lines)
        waited = _wait_to_be_answered(server.port)
    report.add("270 empty chunked bodies: unanswered", answers["none"], 0, json.dumps(answers), at_least=False)
    report.add("... while they stay open a visitor waits, s", waited, 2.0, at_least=False)


def _half_bodies(report: Report, server: Server) -> None:
    """300 bodies that come byte by byte and never end: how long until a visitor is answered, 70 s at most."""
    with ExitStack() as stack:
        lines = [stack.enter_context(_open(server.port, HALF_BODY)) for _ in range(300)]
        over = threading.Event()

        def drip() -> None:
            while not over.wait(0.5):
                for line in lines:
                    with suppress(OSError):
                        line.sendall(b" ")

        dripping = threading.Thread(target=drip)
        dripping.start()
        time.sleep(1.5)
        waited = _wait_to_be_answered(server.port)
        over.set()
        dripping.join()
    report.add("300 half-sent bodies: a visitor waits, s", waited, 2.0, at_least=False)


def _crowd(report: Report, server: Server) -> None:
    """500 clients that connect at once and ask a moment later: how many end without a status."""
    gate = threading.Barrier(500)

    def visit(_: int) -> str:
        gate.wait(60)
        with _open(server.port) as line:
            time.sleep(0.2)
            with suppress(OSError):  # it may have been refused already, which is what it reads then
                line.sendall(_post({"prompt": "the", "max_tokens": 4}))
            return _status(line, 60.0)

    with ThreadPoolExecutor(500) as pool:
        answers = Counter(pool.map(visit, range(500)))
    lost = answers["reset"] + answers["none"]
    report.add("500 clients at once: without a status", lost, 0, json.dumps(answers), at_least=False)


def _another_site(report: Report, server: Server) -> None:
    """A page of another site loads an address of the server, as an image does: no Origin."""
    with _open(
        server.port, b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nSec-Fetch-Site: cross-site\r\n\r\n"
    ) as line:
        report.add("GET by another site without Origin: status", float(_status(line, 10.0)), 403)


def _guesses(report: Report, server: Server) -> None:
    """Five clients guess the token for 10 s: how many of the requests with the right one are answered, and how soon."""
    end = time.monotonic() + 10.0
    over = threading.Event()

    def guess(number: int) -> None:
        while not over.is_set():
            _health(server.port, f"guess {number}")

    guessers = [threading.Thread(target=guess, args=(number,)) for number in range(5)]
    for guesser in guessers:
        guesser.start()
    time.sleep(1.0)
    answers: Counter[str] = Counter()
    waits = []
    while time.monotonic() < end:
        began = time.monotonic()
        answers[_health(server.port, TOKEN)] += 1
        waits.append(time.monotonic() - began)
        time.sleep(0.1)
    over.set()
    for guesser in guessers:
        guesser.join()
    right = answers["200"] / answers.total()
    report.add("right token beside 5 guessers: answered, share", right, 1.0, json.dumps(answers))
    report.add("right token beside 5 guessers: longest wait, s", max(waits), 1.0, at_least=False)


def _few_files(report: Report, server: Server, errors: Path) -> None:
    """150 connections for 20 s to a server that may open 64 files: lines on its terminal."""
    with ExitStack() as stack:
        for _ in range(150):
            stack.enter_context(_open(server.port))
        time.sleep(20.0)
        printed = errors.read_text(errors="replace")
    report.add("64 files, 150 connections: lines in 20 s", len(printed.splitlines()), 21, at_least=False)
    report.add("... of which tracebacks", printed.count("Traceback"), 0, at_least=False)
    report.add("... afterwards a visitor waits, s", _wait_to_be_answered(server.port), 5.0, at_least=False)


def _open(port: int, sent: bytes = b"") -> socket.socket:
    line = socket.create_connection(("127.0.0.1", port), 60)
    line.sendall(sent)
    return line


def _post(body: dict[str, object]) -> bytes:
    content = json.dumps(body).encode()
    head = "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: "
    return f"{head}{len(content)}\r\n\r\n".encode() + content


def _status(line: socket.socket, seconds: float) -> str:
    """The status of an answer; "none" where none comes in time, "reset" where the line is cut."""
    line.settimeout(max(0.001, seconds))
    try:
        return line.recv(4096)[9:12].decode() or "reset"
    except TimeoutError:
        return "none"
    except OSError:
        return "reset"


def _health(port: int, token: str = "") -> str:
    """The status of /health on a new connection."""
    key = f"Authorization: Bearer {token}\r\n" if token else ""
    try:
        with _open(port, f"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n{key}\r\n".encode()) as line:
            return _status(line, 120.0)
    except OSError:
        return "reset"


def _wait_to_be_answered(port: int) -> float:
    """The seconds until /health is answered with 200, asked again and again; 70 at most."""
    began = time.monotonic()
    while _health(port) != "200" and time.monotonic() < began + 70:
        time.sleep(0.2)
    return time.monotonic() - began


@contextmanager
def _watched(port: int) -> Iterator[list[float]]:
    """The seconds that /health takes, asked all the while."""
    waits: list[float] = []
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            began = time.monotonic()
            _health(port)
            waits.append(time.monotonic() - began)
            time.sleep(0.05)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield waits
    finally:
        over.set()
        watcher.join()

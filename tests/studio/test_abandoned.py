"""Work that nobody waits for stops, and one model's work holds up neither another nor the page."""

from __future__ import annotations

import json
import os
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from serving_studio import Served
from test_start import Started, started
from websockets.sync.client import connect

from thereafter.studio.panels.generation import GrowingText
from waiting import wait_for

ABANDONED = 200
LONG = {"model": "ready:letters", "prompt": "def f(x):\n" * 300, "max_new_tokens": 2000}


def ask(address: str, path: str, **asked: Any) -> socket.socket:
    """A request whose answer is not waited for."""
    host, port = address.removeprefix("http://").split(":")
    line = socket.create_connection((host, int(port)), timeout=60)
    body = json.dumps(asked).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    line.sendall(head.encode() + body)
    return line


def next_words(address: str, model: str) -> float:
    """Seconds until a model has said what comes next."""
    began = time.monotonic()
    asked = {"models": [model], "prompt": f"the nurse {began}"}
    httpx.post(f"{address}/api/next", json=asked, timeout=100).raise_for_status()
    return time.monotonic() - began


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When tokens were written; each takes a while."""
    written: list[float] = []
    step = GrowingText.step

    def slow(self: GrowingText) -> str:
        written.append(time.monotonic())
        time.sleep(0.005)
        return step(self)

    monkeypatch.setattr(GrowingText, "step", slow)
    return written


def test_a_text_whose_reader_has_gone_is_not_written_on(server: Served, steps: list[float]):
    lines = [ask(server.address, "/api/generate", model="ready:letters", max_new_tokens=2000) for _ in range(20)]
    wait_for(lambda: len(steps) > 20)
    for line in lines:
        line.close()
    wait_for(lambda: time.monotonic() - steps[-1] > 1.0, 30)
    assert len(steps) < 1000
    assert server.studio.lanes.users == 0


def test_a_socket_that_waits_for_its_model_and_is_closed_never_gets_it(server: Served, monkeypatch: pytest.MonkeyPatch):
    """The prompts of those who have gone are not read."""
    begun: list[str] = []
    free = threading.Event()
    begin = GrowingText.__init__

    def slow(self: GrowingText, lm: Any, prompt: str, **options: Any) -> None:
        begun.append(prompt)
        free.wait(60)
        begin(self, lm, prompt, **options)

    monkeypatch.setattr(GrowingText, "__init__", slow)
    start = {"do": "start", "model": "ready:letters"}
    with connect(server.address.replace("http", "ws") + "/api/generating") as first:
        first.send(json.dumps({**start, "prompt": "first"}))
        wait_for(lambda: begun)
        for _ in range(10):
            with connect(server.address.replace("http", "ws") + "/api/generating") as line:
                line.send(json.dumps({**start, "prompt": "gone"}))
                time.sleep(0.02)
        free.set()
        assert json.loads(first.recv(timeout=30))["number"] == 0
    wait_for(lambda: server.studio.lanes.users == 0)
    assert begun.count("gone") == 0


@contextmanager
def writing(server: Served, count: int) -> Iterator[None]:
    """So many sockets that begin a text with one model."""
    address = server.address.replace("http", "ws") + "/api/generating"
    with ExitStack() as lines:
        for line in [lines.enter_context(connect(address)) for _ in range(count)]:
            line.send(json.dumps({"do": "start", "model": "ready:letters", "prompt": "def ", "tokens": 1}))
        yield


def test_a_model_with_a_long_queue_holds_up_no_other_model_and_no_file(server: Served, monkeypatch: pytest.MonkeyPatch):
    """More sockets than there are threads for files: all is answered long before the queue has been worked off."""
    begun: list[float] = []
    begin = GrowingText.__init__

    def slow(self: GrowingText, *given: Any, **options: Any) -> None:
        begun.append(time.monotonic())
        time.sleep(0.05)
        begin(self, *given, **options)

    next_words(server.address, "ready:lstm")
    monkeypatch.setattr(GrowingText, "__init__", slow)
    with writing(server, 120), httpx.Client(base_url=server.address, timeout=60) as visitor:
        wait_for(lambda: begun)
        for path in ("/api/status", "/page/main.js", "/api/models", "/"):
            assert visitor.get(path).status_code == 200
        next_words(server.address, "ready:lstm")
        assert len(begun) < 60, "the page waited for the queue of a model"
    wait_for(lambda: server.studio.lanes.users == 0)


@pytest.fixture
def process(tmp_path: Path, ready_folder: Path) -> Iterator[Started]:
    """A studio in a process of its own, with its models."""
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "studio").symlink_to(ready_folder)
    with started(tmp_path, cache, "--port", "0") as studio:
        wait_for(lambda: httpx.get(f"{studio.address}/api/status").json()["loaded"])
        next_words(studio.address, "ready:lstm")
        next_words(studio.address, "ready:letters")
        yield studio


def computed(pid: int) -> float:
    """Seconds of computing that a process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.wide
def test_after_many_abandoned_texts_the_process_rests_and_ctrl_c_ends_it_amid_many_more(process: Started):
    """Another model answers as before, too. One process for both: to start it takes longer than all the rest."""
    before = statistics.median(next_words(process.address, "ready:lstm") for _ in range(7))
    for line in [ask(process.address, "/api/generate", **LONG) for _ in range(ABANDONED)]:
        line.close()
    after = next_words(process.address, "ready:lstm")
    assert after < 5 + 50 * before, f"{before:.3f} s before, {after:.3f} s after"
    spent = [computed(process.process.pid)]

    def rests() -> bool:
        time.sleep(1.0)
        spent.append(computed(process.process.pid))
        return spent[-1] - spent[-2] < 0.2

    wait_for(rests, 30)
    assert next_words(process.address, "ready:letters") < 5 + 50 * before

    lines = [ask(process.address, "/api/generate", **LONG) for _ in range(ABANDONED)]
    next_words(process.address, "ready:lstm")
    code, seconds, errors = process.interrupt()
    for line in lines:
        line.close()
    assert code in (0, 130)
    assert seconds < 15  # about one on an idle machine; it was minutes
    assert "Traceback" not in errors

"""A server in a process of its own that tests do their worst to, and a look at its health meanwhile."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from waiting import wait_for


@dataclass
class Victim:
    """A server, and where its errors are printed."""

    port: int
    process: subprocess.Popen[bytes]
    errors: Path

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def assert_well(self) -> None:
        """It is there, and has printed neither a traceback nor that somebody spoke no HTTP."""
        assert self.process.poll() is None, f"it ended with {self.process.returncode}"
        printed = self.errors.read_text(errors="replace")
        assert "Traceback" not in printed, printed[-3000:]
        assert "Invalid HTTP" not in printed, printed[-3000:]
        assert httpx.get(f"{self.address}/health", timeout=60).json()["status"] == "ok"

    @contextmanager
    def watched(self) -> Iterator[list[float]]:
        """Its health is asked for all the while, each time on a new connection, and it always answers."""
        waits: list[float] = []
        faults: list[str] = []
        over = threading.Event()

        def look() -> None:
            while not over.is_set():
                began = time.monotonic()
                try:
                    answer = httpx.get(f"{self.address}/health", timeout=60)
                    if answer.status_code != 200:
                        faults.append(answer.text)
                except httpx.HTTPError as error:
                    faults.append(repr(error))
                waits.append(time.monotonic() - began)
                time.sleep(0.05)

        watcher = threading.Thread(target=look)
        watcher.start()
        try:
            yield waits
        finally:
            over.set()
            watcher.join()
        assert not faults, faults[:3]
        assert waits
        self.assert_well()


@contextmanager
def attacked(runs: Sequence[Path], folder: Path) -> Iterator[Victim]:
    """`thereafter serve` over runs, ended as by Ctrl-C."""
    errors = folder / "stderr"
    command = [sys.executable, "-u", "-m", "thereafter", "serve", *map(str, runs), "--port", "0"]
    around = {**os.environ, "OMP_NUM_THREADS": "1"}
    with (
        errors.open("wb") as stderr,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, env=around) as process,
    ):
        try:
            assert process.stdout is not None
            match = None
            while match is None:
                line = process.stdout.readline()
                assert line, errors.read_text()
                match = re.search(rb"http://[^/\s]+:(\d+)", line)
            victim = Victim(int(match[1]), process, errors)
            wait_for(lambda: is_up(victim.port))
            yield victim
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)
    assert process.returncode in (0, 130, -signal.SIGINT), process.returncode
    assert "Traceback" not in errors.read_text(errors="replace")


def is_up(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", timeout=60).status_code == 200
    except httpx.HTTPError:
        return False

"""How many people can ask the studio's LSTM for the next word at once, and does the page stay quick meanwhile?

    python benchmarks/studio.py [--clients 200] [--seconds 4] [--rounds 3] [--ready FOLDER] [--json FILE]

A real studio in a process of its own, asked over loopback by clients that keep their connections and ask again as soon
as they are answered. `distinct` rows never ask the same twice, so no cache helps; `same` rows ask one text only. The
models are trained for a twentieth of their time where `--ready` names no folder that has them: speed does not depend
on what they have learned. Figures are medians over the rounds. Exit code 1 where a requirement is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from report import Report, machine, processor_seconds

MODEL = "ready:lstm"
SCALE = 0.05
NOUNS = ("nurse", "nurses", "farmer", "farmers", "teacher", "teachers", "doctor", "doctors")
WORDS = (*NOUNS, "the", "a", "near", "behind", "with", "who", "sees", "see", "is", "are", "was", "were", "old", "tall")
_LOOK = 0.01  # seconds between two looks at the status


@dataclass(frozen=True)
class Studio:
    """A studio in a process of its own."""

    port: int
    process: int

    def computed(self) -> float:
        """Seconds of processor time it has had."""
        return processor_seconds(self.process)


@dataclass
class Figures:
    """What one round came to: requests a second, and milliseconds of every answer."""

    rate: float
    spent: float
    """Milliseconds of processor time that the studio had for each request; 0 where that cannot be seen."""
    asked: list[float]
    looked: list[float] = field(default_factory=list)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--clients", type=int, default=200)
    options.add_argument("--seconds", type=float, default=4.0, help="of each round")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--ready", type=Path, metavar="FOLDER", help="where the ready models are, or are to be kept")
    options.add_argument("--json", type=Path, metavar="FILE", help="write all figures there, too")
    given = options.parse_args()
    print(f"{given.clients} clients, {machine()}, load {os.getloadavg()[0]:.1f}\n")
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        ready = given.ready or Path(folder) / "ready"
        _train(ready)
        with _studio(Path(folder), ready) as studio:
            asyncio.run(_measure(report, studio, given.clients, given.seconds, given.rounds))
    return report.close(given.json)


async def _measure(report: Report, studio: Studio, clients: int, seconds: float, rounds: int) -> None:
    draw = random.Random(0)
    await _round(studio, 1, 1.0, _distinct(draw))  # models are loaded, loops compiled
    for name, texts in (("one client, distinct texts", _distinct(draw)), ("one client, same text", _same)):
        alone = [await _round(studio, 1, seconds / 4, texts, look=False) for _ in range(rounds)]
        report.add(f"{name}: median of /api/next, ms", _median(one.asked for one in alone))
    looked = [await _round(studio, 0, seconds / 4, _same) for _ in range(rounds)]
    report.add("nobody else: median of /api/status, ms", _median(one.looked for one in looked))
    for name, texts, required in (("distinct texts", _distinct(draw), 400.0), ("same text", _same, None)):
        crowd = [await _round(studio, clients, seconds, texts) for _ in range(rounds)]
        rates = sorted(one.rate for one in crowd)
        spread = f"{rates[0]:.0f} to {rates[-1]:.0f}"
        report.add(f"{name}: /api/next, requests/s", statistics.median(rates), required, spread)
        report.add(f"{name}: median of /api/next, ms", _median(one.asked for one in crowd))
        report.add(f"{name}: processor time, ms a request", statistics.median(one.spent for one in crowd))
        report.add(
            f"{name}: p99 of /api/status meanwhile, ms",
            statistics.median(_p99(one.looked) for one in crowd),
            50.0,
            f"median {_median(one.looked for one in crowd):.1f}, most {max(max(one.looked) for one in crowd):.0f}",
            at_least=False,
        )


async def _round(studio: Studio, clients: int, seconds: float, text: Callable[[], str], look: bool = True) -> Figures:
    """So many clients ask for so long; another looks at the status."""
    asked: list[float] = []
    looked: list[float] = []
    begun, before = time.perf_counter(), studio.computed()
    end = begun + seconds
    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(_client(studio.port, lambda: _next(text()), end, asked))
        if look:
            group.create_task(_client(studio.port, lambda: _STATUS, end, looked, pause=_LOOK))
    spent = 1e3 * (studio.computed() - before) / max(1, len(asked))
    return Figures(len(asked) / (time.perf_counter() - begun), spent, asked, looked)


async def _client(port: int, request: Callable[[], bytes], end: float, took: list[float], pause: float = 0.0) -> None:
    """One connection, kept: ask, wait for the answer, ask again."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        while time.perf_counter() < end:
            begun = time.perf_counter()
            writer.write(request())
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
            length = re.search(rb"content-length: (\d+)", head)
            if not head.startswith(b"HTTP/1.1 200") or length is None:
                raise SystemExit(f"got {head.decode('latin-1')!r}; expected an answer of 200")
            await reader.readexactly(int(length[1]))
            took.append(1e3 * (time.perf_counter() - begun))
            if pause:
                await asyncio.sleep(pause)
    finally:
        writer.close()


def _next(text: str) -> bytes:
    body = json.dumps({"models": [MODEL], "prompt": text, "k": 8}).encode()
    head = (
        f"POST /api/next HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    )
    return head.encode() + b"\r\n\r\n" + body


_STATUS = b"GET /api/status HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def _distinct(draw: random.Random) -> Callable[[], str]:
    """Texts of 3 to 12 words, never the same twice."""
    given: set[str] = set()

    def text() -> str:
        while (words := " ".join(draw.choices(WORDS, k=draw.randint(3, 12)))) in given:
            pass
        given.add(words)
        return words

    return text


def _same() -> str:
    return "the teacher near the farmers who"


def _train(ready: Path) -> None:
    import torch

    from thereafter.ready import models

    torch.set_num_threads(1)
    for one in models.missing(ready):
        models.make(one, ready, SCALE)


@contextmanager
def _studio(folder: Path, ready: Path) -> Iterator[Studio]:
    """A studio over ready models."""
    cache = folder / "cache"
    cache.mkdir()
    (cache / "studio").symlink_to(ready.resolve())
    command = [
        sys.executable,
        "-m",
        "thereafter",
        "studio",
        "--no-browser",
        "--port",
        "0",
        "--runs",
        str(folder / "runs"),
    ]
    kept = os.environ.get("NUMBA_CACHE_DIR") or str(_cache() / "numba")
    around = {**os.environ, "THEREAFTER_CACHE": str(cache), "NUMBA_CACHE_DIR": kept}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=around) as process:
        try:
            assert process.stdout is not None
            port = int(re.findall(r":(\d+)", process.stdout.readline())[-1])
            asyncio.run(_until_loaded(port))
            yield Studio(port, process.pid)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)


def _cache() -> Path:
    from thereafter.base.storage import cache_folder

    return cache_folder()


async def _until_loaded(port: int) -> None:
    for _ in range(600):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_STATUS.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        answer = await reader.read()
        writer.close()
        if b'"loaded":true' in answer:
            return
        await asyncio.sleep(0.1)
    raise SystemExit("the studio did not load within a minute")


def _median(rounds: Iterator[list[float]]) -> float:
    """Over the rounds, the median of their medians."""
    return statistics.median(statistics.median(one) for one in rounds)


def _p99(values: list[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(0.99 * len(values)))]


if __name__ == "__main__":
    sys.exit(main())

"""Tokens a second of `thereafter serve` for 1, 8 and 64 clients that stream, and what the queue costs one of them.

    python benchmarks/serve.py [--clients 1 8 64] [--seconds 10] [--rounds 3] [--requests 1000] [--run RUN]
    python benchmarks/serve.py --hostile        # instead of all this: clients that do their worst, about two minutes

A word LSTM of 2 layers of 650 units over 10,000 words with random weights, unless `--run` names another run: speed does
not depend on what was learned. The server is a process of its own, asked over loopback by clients that read raw bytes
and ask again as soon as they are answered. `lm.stream` is the same model in this process, in turns with the one client.
Then so many requests by 64 clients of which one in 20 goes away in the middle of its answer: none may be lost, no row
may stay, the memory of the server must stay flat. Exit code 1 where a requirement is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from report import Report, machine
from serve_client import Figures, Server, Stream, ask_many, figure_of, served
from serve_hostile import attack

WORDS, TOKENS, SHORT = 10_000, 64, 32
"""Words of the vocabulary; tokens of an answer; tokens of an answer of those requests of which some are abandoned."""
ABANDONED = 20
"""One request in so many is given up."""
CROWD = 64


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    options.add_argument("--seconds", type=float, default=10.0, help="of each round")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--requests", type=int, default=1000)
    options.add_argument("--run", type=Path, help="a run of a language model; one is made where none is named")
    options.add_argument("--hostile", action="store_true", help="only what strangers can do (serve_hostile.py)")
    options.add_argument("--json", type=Path, metavar="FILE", help="write all figures there, too")
    given = options.parse_args()
    print(f"{machine()}, load {os.getloadavg()[0]:.1f}\n")
    report = Report()
    if given.hostile:
        attack(report)
        return report.close(given.json)
    with tempfile.TemporaryDirectory() as folder:
        run = given.run or make_run(Path(folder) / "lstm")
        with served(run) as server:
            asyncio.run(_round(server, 1, 1.0))  # loops compiled
            _one_client(report, run, server, given.seconds, given.rounds)
            _many_clients(report, server, given.clients, given.seconds, given.rounds)
            _abandoned(report, server, given.requests)
    return report.close(given.json)


def make_run(folder: Path) -> Path:
    """A run that has learned next to nothing, over a text of so many words."""
    import thereafter

    text = " ".join(f"w{number}" for number in range(WORDS - 2))
    lines = "\n".join(re.findall(r"(?:\S+ ?){1,20}", f"{text} {text}"))
    lm = thereafter.train(
        text=lines, model="lstm", tokens="word", layers=2, hidden=650, embed=650, epochs=0.01, min_count=1
    )
    return lm.save(folder)


def _one_client(report: Report, run: Path, server: Server, seconds: float, rounds: int) -> None:
    """The rate of one client beside that of the model itself, in turns."""
    import thereafter

    lm = thereafter.load(run)
    assert isinstance(lm, thereafter.LanguageModel)
    sum(1 for _ in lm.stream("w1", TOKENS, seed=0))
    alone, through, spent = [], [], []
    for number in range(rounds):
        began, tokens, used = time.perf_counter(), 0, time.process_time()
        while time.perf_counter() < began + seconds / 2:
            tokens += sum(1 for _ in lm.stream("w1 w2 w3", TOKENS, seed=number))
        alone.append(tokens / (time.perf_counter() - began))
        used = 1e3 * (time.process_time() - used) / tokens
        figures = asyncio.run(_round(server, 1, seconds / 2))
        through.append(figures.rate)
        spent.append(figures.spent / used)
    ratio = statistics.median(one / other for one, other in zip(through, alone, strict=True))
    report.add("lm.stream in one process, tokens/s", statistics.median(alone), None, _spread(alone))
    report.add("one client, tokens/s", statistics.median(through), None, _spread(through))
    report.add("one client / lm.stream", ratio, 0.9)
    report.add("processor time of a token, one client / lm.stream", statistics.median(spent))


def _many_clients(report: Report, server: Server, clients: list[int], seconds: float, rounds: int) -> None:
    """The rates of so many clients, in turns."""
    taken: dict[int, list[Figures]] = {number: [] for number in clients}
    for _ in range(rounds):
        for number in clients:
            taken[number].append(asyncio.run(_round(server, number, seconds)))
    for number, figures in taken.items():
        rates = [one.rate for one in figures]
        name = f"{number} client{'s' if number > 1 else ''}"
        report.add(f"{name}: tokens/s in total", statistics.median(rates), None, _spread(rates))
        for what, values in (
            ("answer", [took for one in figures for took in one.took]),
            ("first token", [first for one in figures for first in one.first]),
        ):
            ordered = sorted(values)
            report.add(f"{name}: median of the {what}, ms", 1e3 * statistics.median(ordered))
            report.add(f"{name}: 99th percentile of the {what}, ms", 1e3 * ordered[int(0.99 * (len(ordered) - 1))])
        report.add(f"{name}: processor time of the server, ms a token", _median(one.spent for one in figures))
        report.add(f"{name}: tokens of a step", _median(one.together for one in figures))
    if len(clients) > 1:
        first, last = clients[0], clients[-1]
        ratio = statistics.median(many.rate / one.rate for many, one in zip(taken[last], taken[first], strict=True))
        report.add(f"tokens/s of {last} clients / of {first}", ratio, 8.0)
        spent = [statistics.median(one.spent for one in taken[number]) for number in (first, last)]
        report.add(f"processor time of a token, {first} client / {last}", spent[0] / max(1e-9, spent[1]))


def _abandoned(report: Report, server: Server, requests: int) -> None:
    """Requests of which some are given up: what became of them, and of the server's memory."""
    asyncio.run(ask_many(server.port, requests, CROWD, SHORT, ABANDONED))  # memory that is kept for reuse
    before = figure_of(server.port, "thereafter_resident_bytes")
    counts = asyncio.run(ask_many(server.port, requests, CROWD, SHORT, ABANDONED))
    for _ in range(100):  # the last to go away is noticed a moment later
        if figure_of(server.port, "thereafter_rows") + figure_of(server.port, "thereafter_waiting") == 0:
            break
        time.sleep(0.05)
    after = figure_of(server.port, "thereafter_resident_bytes")
    left = figure_of(server.port, "thereafter_rows") + figure_of(server.port, "thereafter_waiting")
    report.add("requests", requests, None, json.dumps(counts))
    report.add("requests lost", requests - counts["whole"] - counts["abandoned"], 0, at_least=False)
    report.add("rows left in the server", left, 0, at_least=False)
    report.add("memory before, MB", before / 1e6)
    report.add("memory after / before", after / before, 1.05, at_least=False)


async def _round(server: Server, clients: int, seconds: float) -> Figures:
    """So many clients ask for so long. Tokens are counted where they came within that time."""
    figures = Figures()
    spent, drawn, steps = server.computed(), figure_of(server.port, "thereafter_drawn_tokens_total"), _steps(server)
    began = time.perf_counter()

    async def client(number: int) -> None:
        asked = 0
        async with Stream(server.port) as stream:
            while time.perf_counter() < began + seconds:
                answer = await stream.ask(TOKENS, seed=1000 * number + asked)
                asked += 1
                figures.add(answer)

    async with asyncio.TaskGroup() as group:
        for number in range(clients):
            group.create_task(client(number))
    lasted = time.perf_counter() - began
    drawn = figure_of(server.port, "thereafter_drawn_tokens_total") - drawn
    figures.rate = figures.tokens / lasted
    figures.spent = 1e3 * (server.computed() - spent) / max(1, figures.tokens)
    figures.together = drawn / max(1.0, _steps(server) - steps)
    return figures


def _steps(server: Server) -> float:
    return figure_of(server.port, "thereafter_steps_total")


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)


def _spread(values: list[float]) -> str:
    return f"{min(values):.0f} to {max(values):.0f}"


if __name__ == "__main__":
    sys.exit(main())

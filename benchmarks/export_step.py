"""Exported models against our own stream: a step in C, and characters a second on a page.

    python benchmarks/export_step.py [--hidden 512] [--layers 2] [--int8] [--only c|html] [--json FILE]

A character LSTM with random weights, one row. `nn stream` is the stack alone as `thereafter.nn` streams it, `lm step`
the whole model with embedding, head and log p, `c step` the exported file with -O3 -march=native, log p included. They
take turns; figures are medians of a step in milliseconds of processor time, one thread. The page draws characters in
headless Chromium with the network off, at temperature 0.8, drawing of the text included: by the clock, and by the
processor time of the page's thread, which other programs on the machine disturb less.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from report import Report, machine
from thereafter import nn
from thereafter.export.c.target import TARGET as C
from thereafter.export.c.target import CompiledModel, compiler
from thereafter.export.html.target import TARGET as HTML
from thereafter.export.html.target import InBrowser, browser_path
from thereafter.export.plan import Plan, plan_of
from thereafter.models.build import build
from thereafter.models.settings import LstmSettings
from thereafter.text.tokenizers.byte_level import CharTokenizer

if TYPE_CHECKING:
    from playwright.sync_api import Page

FASTEST = ("-O3", "-march=native", "-std=c99", "-Wall", "-Werror")
LETTERS = "".join(map(chr, range(32, 127))) + "\n"
STEPS, ROUNDS = 50, 15
CHARACTERS = 1500
REQUIRED = {"c speed / nn stream": 0.7, "html characters / processor s": 400, "(page - 150 kB) / weights": 1.4}


class Made:
    """A character LSTM that nobody has trained."""

    def __init__(self, hidden: int, layers: int) -> None:
        torch.manual_seed(0)
        self.tokenizer = CharTokenizer.fit(lambda: [LETTERS * 2])
        settings = LstmSettings(hidden=hidden, layers=layers)
        self.model = build("lstm", settings, vocabulary_size=self.tokenizer.size).eval()
        self.config = {"model": "lstm", "text": {"lower": False, "letters_only": False}}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--hidden", type=int, default=512)
    options.add_argument("--layers", type=int, default=2)
    options.add_argument("--int8", action="store_true", help="weights of a byte in the exported files")
    options.add_argument("--only", choices=["c", "html"])
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    torch.set_num_threads(1)
    print(machine(), end="\n\n")
    made = Made(given.hidden, given.layers)
    plan = plan_of(made)
    with tempfile.TemporaryDirectory() as folder:
        figures: dict[str, float] = {}
        if given.only != "html":
            figures |= steps(made, plan, Path(folder), given.hidden, given.layers, given.int8)
        if given.only != "c":
            figures |= page(plan, Path(folder), given.int8)
    report = Report()
    for name, value in figures.items():
        report.add(name, value, REQUIRED.get(name), at_least=not name.startswith("("))
    return report.close(given.json)


def steps(made: Made, plan: Plan, folder: Path, hidden: int, layers: int, int8: bool) -> dict[str, float]:
    """Milliseconds of a step of each, in turns."""
    stream, x = nn.LSTM(hidden, hidden, layers).eval().stream(1), torch.randn(1, hidden)
    state, token = made.model.start(1), np.array([40])
    calls: dict[str, Callable[[], object]] = {
        "nn stream, ms": lambda: stream.step(x),
        "lm step, ms": lambda: made.model.step(token, state),
    }
    if compiler() is not None:
        files = C.write(plan, folder / "model.c", int8=int8)
        compiled = CompiledModel(files.paths[0], plan.wording.size, int(str(files.facts["state bytes"])), FASTEST)
        compiled.start(1)
        calls["c step, ms"] = lambda: compiled.step(token)
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            began = time.process_time()
            for _ in range(STEPS):
                call()
            taken[name].append(1e3 * (time.process_time() - began) / STEPS)
    figures = {name: statistics.median(values) for name, values in taken.items()}
    if "c step, ms" in figures:
        figures["c speed / nn stream"] = figures["nn stream, ms"] / figures["c step, ms"]
        figures["c speed / lm step"] = figures["lm step, ms"] / figures["c step, ms"]
    return figures


def generated(shown: Page) -> tuple[list[float], list[float]]:
    """Characters a second by the clock, and by the processor time of the page, three times."""
    shown.fill("#count", str(CHARACTERS))
    clock = shown.context.new_cdp_session(shown)
    clock.send("Performance.enable")

    def used() -> float:
        """Processor seconds of the page's thread."""
        metrics = {one["name"]: one["value"] for one in clock.send("Performance.getMetrics")["metrics"]}
        return float(metrics["ThreadTime"])

    rates, shares = [], []
    for _ in range(3):
        shown.fill("#text", "A")
        before = used()
        rates.append(float(shown.evaluate("() => thereafter.generate()")))
        shares.append(CHARACTERS / (used() - before))
    return rates, shares


def page(plan: Plan, folder: Path, int8: bool) -> dict[str, float]:
    """Characters a second on the page, and its size as a share of the weights it holds."""
    browser = browser_path()
    if browser is None:
        print("no chromium: the page is not measured")
        return {}
    files = HTML.write(plan, folder / "model.html", int8=int8)
    shown = InBrowser(files.paths[0], browser)
    rates, shares = shown.ask(generated)
    shown.close()
    size, weights = files.paths[0].stat().st_size, int(str(files.facts["bytes of weights"]))
    return {
        "html characters / s": statistics.median(rates),
        "html characters / processor s": statistics.median(shares),
        "page, kB": size / 1000,
        "(page - 150 kB) / weights": (size - 150e3) / weights,
    }


if __name__ == "__main__":
    raise SystemExit(main())

"""The same seed, the same bits on a GPU: recipes trained twice, stopped, killed, resumed, and beside other work.

    PYTHONPATH=src python -W ignore tests/training/gpu_same_bits.py [--recipes A,B] [--epochs 1] [--parallel] [--cost]

Each recipe is trained by the command line, in processes of its own: twice alone; stopped half-way by SIGTERM and
resumed; killed by SIGKILL after a checkpoint and resumed; once more while another training runs on the same GPU. All
must end with the same sha256 of their weights, and every line of their logs must show the same loss and norm; the first
that does not is printed. `--whole`: at the recipes' own length. `--parallel`: the recipes side by side. `--cost`: short
runs in turn with sums in a fixed order and without, in milliseconds a step. `--device cpu` tries the script.

Needs the corpora of the recipes. Exit status 1 where anything differs.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import hashlib
import itertools
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[2]
RECIPES = "ptb-lstm-small,ewt-tagger,multi30k-attention"
EPOCHS = {"ptb-lstm-small": 2.0}
"""Epochs of a short run where one is too few."""
FIGURES = ("loss", "norm", "rate")
ORDERLESS = (
    "import contextlib, sys\n"
    "from thereafter.training import numerics\n"
    "numerics.same_bits = lambda device: contextlib.nullcontext()\n"
    "from thereafter.__main__ import main\n"
    "main()\n"
)
"""The command line with sums in any order."""


@dataclass(frozen=True)
class Plan:
    """How runs are made. `epochs`: None is the recipe's own length."""

    folder: Path
    device: str
    epochs: float | None
    limit: float
    beside: str
    settings: tuple[str, ...] = ()

    def options(self, recipe: str) -> list[str]:
        settings = ["log_every=20", "checkpoint_every=100", "checkpoint_seconds=0.2", f"device={self.device}"]
        if self.epochs is not None:
            settings.append(f"epochs={self.epochs * EPOCHS.get(recipe, 1.0):g}")
        return [word for one in (*settings, *self.settings) for word in ("--set", f"training.{one}")]


class Run:
    """A training in a process of its own, and its folder."""

    def __init__(self, plan: Plan, recipe: str, name: str, *more: str, ordered: bool = True) -> None:
        self.plan, self.folder = plan, plan.folder / f"{Path(recipe).stem}-{name}"
        self.output = self.folder.with_suffix(".txt")
        self._ordered = ordered
        file = Path(recipe).resolve() if recipe.endswith(".toml") else HERE / "recipes" / f"{recipe}.toml"
        words = ["--recipe", str(file), "--out", str(self.folder), *plan.options(recipe)]
        if "task = " in file.read_text():
            words.append("--no-baselines")
        self._start([*words, *more])

    def _start(self, words: Sequence[str]) -> None:
        command = ["-m", "thereafter"] if self._ordered else ["-c", ORDERLESS]
        with self.output.open("a") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-W", "ignore", *command, "train", *words], stdout=output, stderr=output, cwd=HERE
            )
        self.began = time.monotonic()

    def resume(self) -> None:
        self._start(["--resume", str(self.folder)])

    def lines(self) -> list[dict[str, Any]]:
        with contextlib.suppress(FileNotFoundError):
            whole = (self.folder / "log.jsonl").read_text().split("\n")[:-1]
            return [json.loads(line) for line in whole]
        return []

    def wait(self, moment: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """The log at the first moment that something holds."""
        while not moment(lines := self.lines()):
            ended = self.process.poll() is not None and not moment(self.lines())
            if ended or time.monotonic() > self.began + self.plan.limit:
                self.end()
                raise RuntimeError(f"{self.folder.name}: it ended too early\n{self.output.read_text()[-1500:]}")
            time.sleep(0.02)
        return lines

    def finish(self) -> list[dict[str, Any]]:
        """Its log, once it has trained: what comes after it, such as scores, is not waited for."""
        lines = self.wait(lambda lines: any(line["event"] == "trained" for line in lines))
        self.end()
        return lines

    def stop_half_way(self, steps: int, how: signal.Signals) -> int:
        """The last step in its log when the signal is sent."""

        def is_half_way(lines: list[dict[str, Any]]) -> bool:
            kept = how != signal.SIGKILL or (self.folder / "state.safetensors").exists()
            return kept and last_step(lines) >= steps // 2

        step = last_step(self.wait(is_half_way))
        self.process.send_signal(how)
        self.process.wait(60)
        return step

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def digest(self) -> str:
        """The sha256 of all weights by name: types, shapes and numbers."""
        content = (self.folder / "weights.safetensors").read_bytes()
        size = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + size])
        total = hashlib.sha256()
        for name in sorted(set(header) - {"__metadata__"}):
            begin, end = header[name]["data_offsets"]
            total.update(f"{name} {header[name]['dtype']} {header[name]['shape']}".encode())
            total.update(content[8 + size + begin : 8 + size + end])
        return total.hexdigest()


def last_step(lines: list[dict[str, Any]]) -> int:
    return max((line["step"] for line in lines if line["event"] == "step"), default=0)


def figures(lines: list[dict[str, Any]]) -> dict[tuple[str, int], tuple[float, ...]]:
    """What the log shows of each step and validation; a resumed run says some steps twice, the later time counts."""
    shown = (line for line in lines if line["event"] in ("step", "validation"))
    return {(line["event"], line["step"]): tuple(line.get(name, 0.0) for name in FIGURES) for line in shown}


def first_difference(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> str:
    mine, theirs = figures(one), figures(other)
    for key in sorted(mine.keys() | theirs.keys(), key=lambda key: key[1]):
        if mine.get(key) != theirs.get(key):
            return f"first at {key[0]} {key[1]}: {mine.get(key)} and {theirs.get(key)}"
    return "the logs are equal"


def speed(lines: list[dict[str, Any]]) -> str:
    steps = [line for line in lines if line["event"] == "step"]
    half = steps[len(steps) // 2 :]
    if len(half) < 2:
        return "too short to time"
    seconds = half[-1]["seconds"] - half[0]["seconds"]
    return f"{(half[-1]['seen'] - half[0]['seen']) / max(seconds, 1e-9):,.0f} targets a second in its second half"


def compare(plan: Plan, recipe: str) -> list[str]:
    """Train a recipe in all ways; what differs."""
    wrong, digests = [], {}
    first = Run(plan, recipe, "A")
    log = first.finish()
    steps, expected = last_step(log), first.digest()
    show(recipe, "A", f"{expected[:16]}  {steps} steps, {speed(log)}, {time.monotonic() - first.began:.1f} s")

    def check(name: str, run: Run, words: str) -> None:
        lines, digests[name] = run.finish(), run.digest()
        same = digests[name] == expected
        difference = first_difference(log, lines)
        good = same and difference == "the logs are equal"
        show(recipe, name, f"{digests[name][:16]}  {words}: {'the same' if good else f'DIFFERS, {difference}'}")
        if not good:
            wrong.append(f"{recipe} {name}")

    check("B", Run(plan, recipe, "B"), "again")
    for name, how in (("C", signal.SIGTERM), ("K", signal.SIGKILL)):
        run = Run(plan, recipe, name)
        step = run.stop_half_way(steps, how)
        run.resume()
        check(name, run, f"{how.name} after step {step}, resumed")
    other = "ewt-tagger" if recipe == plan.beside else plan.beside
    beside = Run(plan, other, f"beside-{Path(recipe).stem}", "--seed", "5")
    beside.wait(lambda lines: last_step(lines) > 0)
    try:
        check("D", Run(plan, recipe, "D"), f"beside {beside.folder.name}")
    finally:
        beside.end()
    return wrong


def cost(plan: Plan, recipe: str, rounds: int) -> str:
    """Milliseconds a step with sums in a fixed order and in any, of runs in turn."""
    times: dict[bool, list[float]] = {True: [], False: []}
    for number in range(rounds):
        for ordered in (True, False) if number % 2 else (False, True):
            run = Run(plan, recipe, f"cost-{number}-{ordered}", ordered=ordered)
            steps = [line for line in run.finish() if line["event"] == "step"]
            times[ordered] += paces(steps[len(steps) // 4 :])
    fixed, loose = statistics.median(times[True]), statistics.median(times[False])
    return f"{fixed:.3f} ms a step in a fixed order, {loose:.3f} in any: {100 * (fixed / loose - 1):+.1f} %"


def paces(steps: list[dict[str, Any]]) -> list[float]:
    """Milliseconds a step between lines of the log; medians of these leave validations and checkpoints out."""
    pairs = itertools.pairwise(steps)
    return [1000 * (b["seconds"] - a["seconds"]) / (b["step"] - a["step"]) for a, b in pairs]


def show(recipe: str, name: str, words: str) -> None:
    print(f"{recipe:20} {name}  {words}", flush=True)  # noqa: T201


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--recipes", default=RECIPES, help="names, or paths of .toml files")
    parser.add_argument("--epochs", type=float, default=1.0, help="epochs of a run (twice as many of Penn Treebank)")
    parser.add_argument("--whole", action="store_true", help="the recipes' own lengths")
    parser.add_argument("--parallel", action="store_true", help="the recipes side by side")
    parser.add_argument("--cost", action="store_true", help="what a fixed order costs, and nothing else")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each kind for --cost")
    parser.add_argument("--set", action="append", default=[], help="a setting of training: precision=bfloat16")
    parser.add_argument("--beside", default="ptb-lstm-small", help="the recipe of the training that runs meanwhile")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds that a run may take")
    given = parser.parse_args()
    recipes = given.recipes.split(",")
    faulthandler.dump_traceback_later(given.limit * (2 * given.rounds if given.cost else 8) * len(recipes), exit=True)
    epochs, settings = None if given.whole else given.epochs, tuple(given.set)
    with tempfile.TemporaryDirectory() as folder:
        # reading the log in longer pieces leaves the steps alone while they are timed
        settings = (*settings, "log_every=50", "checkpoint_every=100000") if given.cost else settings
        plan = Plan(Path(folder), given.device, epochs, given.limit, given.beside, settings)
        with ThreadPoolExecutor(len(recipes) if given.parallel else 1) as pool:
            if given.cost:
                for words in pool.map(lambda one: f"{one}: {cost(plan, one, given.rounds)}", recipes):
                    print(words, flush=True)  # noqa: T201
                return
            wrong = [name for names in pool.map(lambda one: attempt(plan, one), recipes) for name in names]
    if wrong:
        raise SystemExit(f"not the same: {', '.join(wrong)}")
    print("all passed")  # noqa: T201


def attempt(plan: Plan, recipe: str) -> list[str]:
    try:
        return compare(plan, recipe)
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        show(recipe, "!", str(error))
        return [recipe]


if __name__ == "__main__":
    main()

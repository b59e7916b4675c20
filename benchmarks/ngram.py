"""n-grams against their targets, with the kenlm package measured in the same minutes: see benchmarks/methods.md.

    python benchmarks/ngram.py [--rounds 9] [--json FILE]

Exit code 0: every requirement holds; 1: one is missed; 2: something it needs is not here.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import thereafter
from report import Absent
from thereafter.text.reading import read_chunks

ROOT = Path(__file__).resolve().parents[1]
REFERENCE_RATE = 3.6e6  # tokens/s of kenlm's score on the machine the targets were set on
REFERENCE_SECONDS = 2.0
LEAST_ROUNDS = 9
TIMES = (1, 2, 4, 8)

# Imports are done before the clock starts; numba itself is loaded inside, its compiled loops coming from the cache.
_FRESH = """
import json, sys, time
import thereafter, thereafter.api
text, run = sys.argv[1:]
a = time.perf_counter()
thereafter.load(run)
b = time.perf_counter()
thereafter.train(text, model="ngram", order=5, tokens="word")
c = time.perf_counter()
print(json.dumps({"load": b - a, "train": c - b}))
"""


@dataclass(frozen=True)
class Row:
    """A line of the table. `most` or `least` is what is required; neither: shown for information."""

    figure: str
    measured: float
    unit: str
    most: float | None = None
    least: float | None = None

    @property
    def ok(self) -> bool:
        return (self.most is None or self.measured <= self.most) and (self.least is None or self.measured >= self.least)

    def cells(self) -> tuple[str, str, str, str, str]:
        if self.most is None and self.least is None:
            return self.figure, _shown(self.measured, self.unit), "", "", ""
        limit, sign = (self.most, "<=") if self.most is not None else (self.least, ">=")
        ratio = self.measured / limit if limit else math.nan
        required = f"{sign} {_shown(limit or 0.0, self.unit)}"
        return self.figure, _shown(self.measured, self.unit), required, f"{ratio:.2f}", "ok" if self.ok else "MISSED"


@dataclass
class Report:
    machine: dict[str, str]
    rows: list[Row] = field(default_factory=list)
    kenlm_settings: dict[str, float] = field(default_factory=dict)

    def add(
        self, figure: str, measured: float, unit: str, *, most: float | None = None, least: float | None = None
    ) -> None:
        self.rows.append(Row(figure, measured, unit, most, least))


def main() -> int:
    options = argparse.ArgumentParser(description="The n-gram benchmark: measured, required, ratio.")
    options.add_argument("--rounds", type=int, default=LEAST_ROUNDS, help=f"rounds, at least {LEAST_ROUNDS}")
    options.add_argument("--json", type=Path, metavar="FILE", help="write all figures there, too")
    given = options.parse_args()
    if given.rounds < LEAST_ROUNDS:
        options.error(f"--rounds is {given.rounds}; expected at least {LEAST_ROUNDS}: fewer give no steady median")
    try:
        report = measure(find_data(), find_oracle(), given.rounds)
    except Absent as absent:
        print(f"\n*** THE BENCHMARK DID NOT RUN: {absent} ***\n", file=sys.stderr)
        return 2
    show(report)
    if given.json is not None:
        figures = [asdict(row) | {"ok": row.ok} for row in report.rows]
        whole = {"machine": report.machine, "kenlm_settings": report.kenlm_settings, "figures": figures}
        given.json.write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")
    return 0 if all(row.ok for row in report.rows) else 1


def find_data(ptb_alone: bool = False) -> Path:
    """The corpora, ptb and wikitext-2: in `$THEREAFTER_DATA`, else in the folder beside the checkout."""
    named = os.environ.get("THEREAFTER_DATA")
    folder = Path(named).expanduser() if named else ROOT.parent / "shared" / "data"
    for wanted in ("ptb/ptb.train.txt", "ptb/ptb.test.txt"):
        if not (folder / wanted).is_file():
            raise Absent(f"there is no {wanted} in {folder}; set THEREAFTER_DATA to a folder that has it")
    if not ptb_alone and not wikitext(folder):
        raise Absent(f"there is no wikitext-2/train.txt or train.txt.gz in {folder}")
    return folder


def wikitext(folder: Path) -> Path | None:
    found = [p for p in (folder / "wikitext-2" / name for name in ("train.txt", "train.txt.gz")) if p.is_file()]
    return found[0] if found else None


def find_oracle() -> Path:
    """The Python that has kenlm: `$THEREAFTER_ORACLES`, else what `make oracles` made."""
    named = os.environ.get("THEREAFTER_ORACLES")
    python = Path(named) if named else ROOT / ".oracles" / "bin" / "python"
    if not python.exists():
        raise Absent(f"kenlm is the yardstick and {python} is not here; run `make oracles`, or set THEREAFTER_ORACLES")
    return python


def measure(data: Path, oracle: Path, rounds: int) -> Report:
    train_file, test_file = data / "ptb" / "ptb.train.txt", data / "ptb" / "ptb.test.txt"
    report = Report(machine())
    with tempfile.TemporaryDirectory(prefix="thereafter-bench-") as name:
        folder = Path(name)
        lm = five_gram(train_file)
        run = lm.save(folder / "run")
        rate, report.kenlm_settings = speeds(lm, folder, test_file, oracle, rounds)
        scoring(report, rate)
        fresh(report, train_file, run, REFERENCE_SECONDS * REFERENCE_RATE / (rate["kenlm"] * 1e6))
        tables: Any = lm.model
        report.add("arrays of the model", tables.tables.nbytes / 1e6, "MB", most=60.0)
        distributions(report, lm, test_file)
        growth(report, wikitext(data) or data, folder)
    return report


def five_gram(train_file: Path) -> thereafter.LanguageModel:
    say("training the modified Kneser-Ney 5-gram of Penn Treebank")
    return thereafter.train(train_file, model="ngram", order=5, tokens="word")


def speeds(
    lm: thereafter.LanguageModel, folder: Path, file: Path, oracle: Path, rounds: int
) -> tuple[dict[str, float], dict[str, float]]:
    """M tokens/s of kenlm and ours by turns, so that both meet the same minutes of a machine that others may use; and
    the seconds of all settings of kenlm. `folder`: where the ARPA file goes; `file`: what is scored."""
    ids = lm.tokenizer.encode(file.read_text(encoding="utf-8"))[None]
    start = lm.model.start(1)
    turns: dict[str, Callable[[], object]] = {
        "ids": lambda: lm.model.log_probs(ids, start),
        "file": lambda: lm.score(file),
        "one core": one_core(lambda: lm.model.log_probs(ids, start)),
    }
    took: dict[str, list[float]] = {name: [] for name in ("kenlm", *turns)}
    with kenlm_process(oracle, lm.to_arpa(folder / "ptb.arpa"), file) as (go, facts):
        log10 = float(lm.model.log_probs(ids, start)[0].sum(dtype=float)) / math.log(10)
        if ids.size != facts["tokens"] or abs(log10 - facts["log10"]) > 1e-5 * abs(log10):
            raise Absent(
                f"kenlm scored {facts['tokens']:,} tokens at {facts['log10']:.3f}, thereafter {ids.size:,} at "
                f"{log10:.3f}: they do not do the same work, so no ratio means anything"
            )
        say(f"{rounds} rounds of scoring by turns")
        for turn in turns.values():
            turn()
        for _ in range(rounds):
            took["kenlm"].append(go())
            for name, turn in turns.items():
                took[name].append(timed(turn))
    return {name: ids.size / median(seconds) / 1e6 for name, seconds in took.items()}, facts["settings"]


def scoring(report: Report, rate: dict[str, float]) -> None:
    base = rate["kenlm"]
    report.add("kenlm score, its fastest setting", base, "M tokens/s")
    report.add("token ids in one call", rate["ids"], "M tokens/s")
    report.add("token ids in one call, on one core", rate["one core"], "M tokens/s")
    report.add("text file, tokenizing included", rate["file"], "M tokens/s")
    report.add("token ids / kenlm", rate["ids"] / base, "times", least=1.5)
    report.add("token ids on one core / kenlm", rate["one core"] / base, "times")
    report.add("text file / kenlm", rate["file"] / base, "times", least=0.7)


def one_core(work: Callable[[], object]) -> Callable[[], object]:
    """The same work, kept to one core, where the system lets a process be kept."""
    if not hasattr(os, "sched_setaffinity"):
        return work

    def alone() -> None:
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(cores)})
        try:
            work()
        finally:
            os.sched_setaffinity(0, cores)

    return alone


def fresh(report: Report, text: Path, run: Path, limit: float) -> None:
    """Estimating and loading in processes of their own, where nothing has been called before."""
    say("estimating and loading, in 5 fresh processes")
    took: dict[str, list[float]] = {"load": [], "train": []}
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", _FRESH, text, run], capture_output=True, text=True, check=True)
        for name, value in json.loads(done.stdout).items():
            took[name].append(value)
    report.add("estimating from the text file, fresh process", median(took["train"]), "s", most=limit)
    again = [timed(lambda: thereafter.train(text, model="ngram", order=5, tokens="word")) for _ in range(5)]
    report.add("estimating from the text file, same process", median(again), "s")
    report.add("loading the saved model, fresh process", median(took["load"]), "s", most=0.3)


def distributions(report: Report, lm: thereafter.LanguageModel, file: Path) -> None:
    """The whole next-word distribution after 300 places of the test text, each measured at its best of 5."""
    lines = [line.split() for line in file.read_text(encoding="utf-8").splitlines()[:300]]
    prompts = [" ".join(words[: 1 + k % 12]) for k, words in enumerate(lines)]
    states = [lm.model.log_probs(lm.tokenizer.encode(p)[None], lm.model.start(1))[1] for p in prompts]
    model = [min(timed(partial(lm.model.predict, state)) for _ in range(5)) for state in states]
    whole = [min(timed(partial(lm.distribution, prompt)) for _ in range(5)) for prompt in prompts]
    report.add("next-word distribution from a state, median", median(model) * 1e3, "ms", most=1.0)
    report.add("next-word distribution from a state, slowest", max(model) * 1e3, "ms", most=1.0)
    report.add("next-word distribution from a prompt, median", median(whole) * 1e3, "ms", most=1.0)


def growth(report: Report, file: Path, folder: Path) -> None:
    """Training on 1, 2, 4, 8 eighths of WikiText-2, and on one eighth 1, 2, 4, 8 times over."""
    say("training on 1, 2, 4, 8 times a text")
    lines = "".join(read_chunks(file)).splitlines(keepends=True)
    eighth = lines[: len(lines) // 8]
    for kind in ("distinct", "repeated"):
        costs = []
        for times in TIMES:
            text = lines[: len(lines) * times // 8] if kind == "distinct" else eighth * times
            path = folder / f"{kind}-{times}.txt"
            path.write_text("".join(text), encoding="utf-8", newline="\n")
            took, tokens = training(path)
            costs.append(took / tokens * 1e6)
            report.add(f"{kind} text x {times}: {tokens:,} tokens", costs[-1], "s per M tokens")
        report.add(f"{kind} text: cost of a token, x 8 / x 1", costs[-1] / costs[0], "times", most=1.5)


def training(path: Path) -> tuple[float, int]:
    """Median seconds of 3 trainings on a file, and its tokens."""
    took = []
    for _ in range(3):
        began = time.perf_counter()
        lm = thereafter.train(path, model="ngram", order=5, tokens="word")
        took.append(time.perf_counter() - began)
    return median(took), int(lm.log[0]["tokens"])


@contextmanager
def kenlm_process(python: Path, arpa: Path, sentences: Path) -> Iterator[tuple[Callable[[], float], dict[str, Any]]]:
    """kenlm at work in its own environment: a function that scores once, and what it said about itself."""
    say("loading the ARPA file in kenlm, in every way it offers")
    command = [python, Path(__file__).with_name("kenlm_worker.py"), arpa, sentences]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as worker:
        if worker.stdin is None or worker.stdout is None:
            raise Absent("no pipes to the kenlm process")
        asked, answers = worker.stdin, worker.stdout
        hello = answers.readline()
        if not hello:
            raise Absent(f"{python} cannot run kenlm (is the package installed there?); try `make oracles`")

        def go() -> float:
            asked.write("go\n")
            asked.flush()
            return float(json.loads(answers.readline()))

        try:
            yield go, json.loads(hello)
        finally:
            asked.close()


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def machine() -> dict[str, str]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    load = f"{os.getloadavg()[0]:.2f}" if hasattr(os, "getloadavg") else "unknown"
    return {
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": str(cores),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": version("numba"),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "load before": load,
    }


def show(report: Report) -> None:
    rows = [("figure", "measured", "required", "ratio", ""), *(row.cells() for row in report.rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    print()
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    best = min(report.kenlm_settings, key=lambda name: report.kenlm_settings[name])
    print(f"\nkenlm's fastest setting of {len(report.kenlm_settings)}: {best}")
    print(", ".join(f"{name} {value}" for name, value in report.machine.items()))
    missed = [row.figure for row in report.rows if not row.ok]
    print("MISSED: " + "; ".join(missed) if missed else "every requirement holds")


def say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def _shown(value: float, unit: str) -> str:
    return f"{value:.3g} {unit}" if value < 100 else f"{value:.0f} {unit}"


if __name__ == "__main__":
    sys.exit(main())

"""Does a mixture of a 5-gram and a small LSTM beat both, and what do a cache and dynamic evaluation add?

    python benchmarks/mixing.py [--ngram RUN] [--neural RUN] [--minutes 10] [--hidden 200] [--json FILE]

Models are taken from the run folders, or trained there first (`--minutes` for the LSTM). Everything that is chosen
(weights, cache, rate) is chosen on the corpus' valid part, every figure is of its test part. Exit code 1 if the mixture
does not beat both. To try it out: --minutes 0.2 --lines 100.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

import torch

import thereafter
from thereafter.evaluation.switches import Switches
from thereafter.runs import folder as run_folder
from thereafter.text.sources import Source, resolve
from thereafter.training.reading import switch_on

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Row:
    """A line of the table: a score of the test part, and how long it took with all tuning."""

    name: str
    perplexity: float
    bits_per_byte: float
    seconds: float
    switches: str


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--ngram", type=Path, default=ROOT / "runs" / "mixing-ngram", metavar="RUN")
    options.add_argument("--neural", type=Path, default=ROOT / "runs" / "mixing-lstm", metavar="RUN")
    options.add_argument("--corpus", default="ptb", help="one with train, valid and test parts")
    options.add_argument("--minutes", type=float, default=10.0, help="of training, where there is no run yet")
    options.add_argument("--hidden", type=int, default=200)
    options.add_argument("--layers", type=int, default=1)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--lines", type=int, help="only the first lines of the valid and test parts, for a try")
    options.add_argument("--json", type=Path, metavar="FILE", help="write all figures there, too")
    given = options.parse_args()
    print(
        f"{given.corpus}, {platform.machine()}, {torch.get_num_threads()} threads, Python {platform.python_version()}, "
        f"torch {torch.__version__}, {date.today()}\n"
    )
    counted = have(given.ngram, given.corpus, model="ngram", order=5)
    neural: dict[str, Any] = {"hidden": given.hidden, "layers": given.layers, "minutes": given.minutes}
    learned = have(given.neural, given.corpus, model="lstm", seed=given.seed, **neural)
    valid, test = (cut(given.corpus, part, given.lines) for part in ("valid", "test"))
    rows = measure(counted, learned, valid, test)
    show(rows)
    better = verdict(rows)
    if given.json is not None:
        figures = {"corpus": given.corpus, "lines": given.lines, "neural": learned.config["lstm"]}
        given.json.write_text(json.dumps(figures | {"rows": [asdict(row) for row in rows.values()]}, indent=2) + "\n")
    return 0 if better else 1


def have(run: Path, corpus: str, **options: Any) -> thereafter.LanguageModel:
    """The model in a run folder; trained, or trained to its end, where it is not there yet."""
    if run_folder.is_run(run) and run_folder.is_finished(run):
        return thereafter.load(run)
    if run_folder.is_run(run):
        say(f"going on with the training in {run}")
        return thereafter.resume(run)
    say(f"training {options} in {run}")
    return thereafter.train(corpus, out=run, **options)


def cut(corpus: str, part: str, lines: int | None) -> Source:
    """A part of the corpus, or its beginning."""
    source = resolve(corpus).parts[part]
    if lines is None:
        return source
    return Source.of_text("\n".join(source.text().splitlines()[:lines]) + "\n", name=f"{source.name}, {lines} lines")


def measure(
    counted: thereafter.LanguageModel, learned: thereafter.LanguageModel, valid: Source, test: Source
) -> dict[str, Row]:
    rows: dict[str, Row] = {}

    def add(name: str, score: Callable[[], thereafter.Score]) -> None:
        say(name)
        began = time.perf_counter()
        found = score()
        seconds = time.perf_counter() - began
        rows[name] = Row(name, found.perplexity, found.bits_per_byte, seconds, found.switches)

    both = thereafter.mixture([counted, learned])
    add("5-gram", lambda: counted.score(test))
    add("LSTM", lambda: learned.score(test))
    add("mixture", lambda: both.score(test, tune=valid))
    add("5-gram, cache", lambda: counted.score(test, cache=True, tune=valid))
    add("LSTM, cache", lambda: learned.score(test, cache=True, tune=valid))
    add("mixture, cache", lambda: both.score(test, cache=True, tune=valid))
    say("the rate of dynamic evaluation")
    # found once: each try reads thousands of tokens
    with switch_on(learned.trained, Switches.of(dynamic=True), valid) as found:
        dynamic = found.dynamics[0]
    add("LSTM, dynamic", lambda: learned.score(test, dynamic=dynamic))
    add("mixture, dynamic", lambda: both.score(test, dynamic=dynamic, tune=valid))
    add("mixture, cache, dynamic", lambda: both.score(test, cache=True, dynamic=dynamic, tune=valid))
    return rows


def show(rows: dict[str, Row]) -> None:
    base = rows["mixture"].perplexity
    print(f"{'':<24} {'perplexity':>10} {'bits/byte':>9} {'to mixture':>10} {'seconds':>8}")
    for row in rows.values():
        change = f"{100 * (row.perplexity / base - 1):+.1f} %"
        print(f"{row.name:<24} {row.perplexity:>10.2f} {row.bits_per_byte:>9.4f} {change:>10} {row.seconds:>8.1f}")
    print()
    for row in rows.values():
        if row.switches:
            print(f"{row.name}: {row.switches}")
    print()


def verdict(rows: dict[str, Row]) -> bool:
    """Say from the figures what helped; whether the mixture beats both of its models."""
    mixed = rows["mixture"].perplexity
    best = min(("5-gram", "LSTM"), key=lambda name: rows[name].perplexity)
    better = mixed < rows[best].perplexity
    least = rows[best].perplexity
    print(
        f"The mixture {'beats' if better else 'DOES NOT BEAT'} both: {mixed:.2f} against {least:.2f} of the {best}, "
        f"{100 * abs(1 - mixed / least):.1f} % {'less' if better else 'more'}."
    )
    for name in ("cache", "dynamic", "cache, dynamic"):
        gain = 100 * (1 - rows[f"mixture, {name}"].perplexity / mixed)
        print(f"With {name}: {abs(gain):.1f} % {'better than' if gain > 0 else 'worse than'} the mixture alone.")
    return better


def say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

"""What `make demo` shows: what each generation of language model is good at, on corpora that need no network.

Counted n-grams of the Python manual; every generation on sentences whose verb agrees with a subject further back than
in any sentence of the training; an LSTM against the best n-gram of the manual, and a mixture of both. Some minutes:
the sentences in one process, the manual in another, a thread each. Budgets are in tokens, so another machine, or a busy
one, takes longer and shows the same tables. Every sentence about results is made from the results.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

import thereafter
from thereafter.base import progress
from thereafter.base.progress import TerminalReporter
from thereafter.comparing.compare import Comparison, compare
from thereafter.comparing.rows import Row
from thereafter.comparing.tables import advice, amount, guessing_limit, percent
from thereafter.evaluation.agreement import BINS
from thereafter.ready.models import one_thread
from thereafter.text.agreement import write_corpus
from thereafter.text.sources import Source, Texts

RUNS = Path("runs") / "demo"
STAGES = ("counting", "sentences", "agreement", "manual")
"""The folders below `RUNS`: a new demo begins without those of the last one."""
MANUAL = "python-docs"
NGRAMS = [f"ngram-{order}" for order in range(1, 8)]
LONGEST, FARTHEST = 6, 20
"""Words between subject and verb, at most: in the training, in the test."""
SIZES = {"train": 40_000, "valid": 1_000, "test": 4_000}
GENERATIONS = ("window", "rnn", "lstm", "transformer")
AGREEMENT: dict[str, Any] = {
    "tokens_budget": 700_000,
    # Every sentence begins afresh, as it does when it is judged: what stood in the one before says nothing of its verb.
    "text.context": "line",
    "batching": "lines",
    "batch": 16,
    "validate_every": 500,
    "hidden": 128,
    "layers": 1,
    "dropout": 0.0,
    "rate": 0.01,
    "rnn.rate": 0.005,
    "lstm.rate": 0.015,
    # A tied embedding would make "dog" and "dogs" alike: as words to be predicted they are.
    "tied": False,
    "transformer.layers": 2,
    "transformer.context": 64,
    "transformer.rate": 0.003,
    "transformer.tied": True,
}
DOCS: dict[str, Any] = {"tokens_budget": 700_000, "batch": 8, "rate": 0.005, "validate_every": 300}
"""Of three settings tried, the one with the fewest bits per byte of the validation part."""
PROMPTS = ("The following", "If the", "import")


def main() -> None:
    began = time.monotonic()
    console = Console(highlight=False, markup=False, soft_wrap=True)
    for name in STAGES:
        shutil.rmtree(RUNS / name, ignore_errors=True)
    console.print("1 of 3: counting. N-grams of the Python manual", style="bold")
    counted = compare(MANUAL, models=NGRAMS, out=RUNS / "counting")
    show(console, counted, [])
    with beside(best_order(counted)):
        console.print("2 of 3: distance. Every generation on sentences: a few minutes", style="bold")
        texts = sentences(RUNS / "sentences")
        with progress.reporting(progress.Silent()):
            order = best_order(compare(texts, models=NGRAMS))
        agreement = compare(texts, models=[order, *GENERATIONS], out=RUNS / "agreement", **AGREEMENT)
        show(console, agreement, distance_notes(agreement))
        console.print("3 of 3: counting against learning. The manual again, by a second process", style="bold")
    manual = compare_manual(best_order(counted))
    show(console, manual, [*learning_notes(manual), mixture_note(manual, *mix(manual))])
    console.print("Which model to use when, by these figures", style="bold")
    for sentence in advice([agreement, manual]):
        console.print(f"- {sentence}")
    go_on(console, manual)
    console.print("\nTry next", style="bold")
    for about, command in next_commands(agreement, manual):
        console.print(f"{command}\n    {about}")
    console.print(f"\n{(time.monotonic() - began) / 60:.1f} minutes", style="dim")


@contextmanager
def beside(order: str) -> Iterator[None]:
    """Meanwhile another process compares the models of the manual; what it does not finish is left to the caller."""
    other = subprocess.Popen([sys.executable, __file__, order])
    try:
        yield
        other.wait()
    finally:
        other.terminate()
        other.wait()


def compare_manual(order: str) -> Comparison:
    """The n-gram of that order and an LSTM on the manual; what was finished before is not done again."""
    return compare(MANUAL, models=["unigram", order, "lstm"], out=RUNS / "manual", **DOCS)


def best_order(counted: Comparison) -> str:
    """The n-gram with the fewest bits per byte of the validation part."""
    return min(counted.rows, key=lambda row: row.first.validation).name


def sentences(folder: Path, sizes: Mapping[str, int] = SIZES) -> Texts:
    """Sentences made for the demo, so many for each part; those of the test are longer than those of the training."""
    near = {part: size for part, size in sizes.items() if part != "test"}
    files = write_corpus(folder, sizes=near, max_distance=LONGEST)
    files |= write_corpus(folder, sizes={"test": sizes["test"]}, max_distance=FARTHEST)
    return Texts(
        f"agreement, up to {LONGEST} words between, up to {FARTHEST} in the test",
        {part: Source(f"agreement:{part}", (path,)) for part, path in files.items()},
        tokens="word",
        detail=" / ".join(f"{size:,}" for size in sizes.values()) + " generated sentences",
    )


def show(console: Console, compared: Comparison, notes: list[str]) -> None:
    """The tables, the page with the curves, and sentences about them."""
    console.print(f"\n{compared.about['source']}: {compared.about['detail']}", style="bold")
    console.print(compared.table())
    console.print(f"curves and samples: {compared.folder}/report.html\n", style="dim")
    for note in notes:
        console.print(f"- {note}")
    console.print()


def distance_notes(compared: Comparison) -> list[str]:
    """How far each model is better than guessing, and the n-gram beside the best network in bits per byte."""
    (probed,) = compared.probes()
    low = next(low for low, high in reversed(BINS) if low <= probed.longest)
    shares = {
        row.name: probed.accuracy(row, lambda verdicts: verdicts.between(low, probed.longest)) for row in probed.rows
    }
    ranked = sorted(shares, key=lambda name: -shares[name].mean)
    right = ", ".join(f"{name} {percent(shares[name])} %" for name in ranked)
    notes = [f"Training has at most {LONGEST} words between. Right with {low} to {probed.longest}: {right}."]
    reached: dict[int, list[str]] = {}
    for row in probed.rows:
        (verdicts, *_), far = row.probed[probed.probe.name], -1
        for low, high in BINS:
            counts = verdicts.between(low, high)
            if not counts.total or counts.accuracy < guessing_limit(probed.probe.chance, counts.total):
                break
            far = min(high, verdicts.longest)
        reached.setdefault(far, []).append(row.name)
    for far, names in sorted(reached.items()):
        where = "at no distance" if far < 0 else f"with up to {far} words between"
        notes.append(f"Better than guessing {where}: {', '.join(names)}.")
    return [*notes, ahead(compared)]


def by_kind(compared: Comparison) -> tuple[Row, Row]:
    """The best counted model and the best network of a comparison."""
    ranked = sorted(compared.rows, key=lambda row: row.bits_per_byte.mean)
    counted, networks = ([row for row in ranked if (row.first.model == "ngram") is same] for same in (True, False))
    return counted[0], networks[0]


def ahead(compared: Comparison) -> str:
    """Whether the best network predicts better than the best counted model, by how much, and how sure that is."""
    counted, network = by_kind(compared)
    fewer = 1 - network.bits_per_byte.mean / counted.bits_per_byte.mean
    verb = "passes" if fewer > 0 else "does not pass"
    than = f"{100 * abs(fewer):.1f} % {'fewer' if fewer > 0 else 'more'} bits per byte of the test part"
    names = {counted.name, network.name}
    unsure = [one for one in compared.differences if {one.better, one.other} == names and not one.difference.clear]
    return f"{network.name} {verb} {counted.name}: {than}{', which another test text may reverse' * bool(unsure)}."


def learning_notes(compared: Comparison) -> list[str]:
    """When the network passes the n-gram while it is trained, and what the last part of its training was worth."""
    counted, network = by_kind(compared)
    limit, curve = counted.first.validation, network.first.curve
    points = ", ".join(f"{bits:.3f} after {amount(seen)}" for _, seen, bits in curve)
    notes = [
        f"{network.name} by tokens read, bits per byte of the validation part: {points}. {counted.name}: {limit:.3f}."
    ]
    passed = next((seen for _, seen, bits in curve if bits < limit), None)
    if passed is None:
        notes.append(f"{network.name} has not passed {counted.name} there: its training is too short.")
    else:
        notes.append(f"Trained on fewer than {amount(passed)} tokens it loses to {counted.name} there.")
    if len(curve) > 1:
        (_, before, bits), (_, after, fewer) = curve[-2:]
        worth = f"took off {bits - fewer:.3f} bits per byte" if fewer < bits else "took off nothing more"
        notes.append(f"What more training does: the last {amount(after - before)} tokens {worth}.")
    return [*notes, ahead(compared)]


def mix(compared: Comparison) -> tuple[float, list[float]]:
    """Bits per byte of the best n-gram and the best network together, and their weights, fitted on the valid part."""
    assert compared.folder is not None
    both = thereafter.mixture([compared.folder / "runs" / row.first.run for row in by_kind(compared)], tune=MANUAL)
    return both.score(MANUAL).bits_per_byte, both.config["mixture"]["weights"]


def mixture_note(compared: Comparison, bits: float, weights: list[float]) -> str:
    """Whether the two together are better than either."""
    rows = by_kind(compared)
    best = min(rows, key=lambda row: row.bits_per_byte.mean)
    parts = " + ".join(f"{weight:.2f} x {row.name}" for weight, row in zip(weights, rows, strict=True))
    fewer = 1 - bits / best.bits_per_byte.mean
    verdict = (
        f"{100 * fewer:.1f} % fewer than {best.name}, the better of the two"
        if fewer > 0
        else f"no fewer than {best.name} alone"
    )
    return f"Both together, {parts}: {bits:.3f} bits per byte, {verdict}."


def go_on(console: Console, compared: Comparison) -> None:
    """What the best model of a comparison says next."""
    best = min(compared.rows, key=lambda row: row.bits_per_byte.mean)
    assert compared.folder is not None
    lm = thereafter.load(compared.folder / "runs" / best.first.run)
    console.print(f"\nWhat comes next, by {best.name}", style="bold")
    for prompt in PROMPTS:
        words = ",  ".join(f"{piece!r} {p:.3f}" for piece, p in lm.next(prompt, k=5))
        console.print(f"after {prompt!r}: {words}")
    console.print("\nThe same, 60 tokens at temperature 0.8, seed 1", style="bold")
    console.print(lm.generate("The", 60, temperature=0.8, seed=1))


def next_commands(agreement: Comparison, manual: Comparison) -> list[tuple[str, str]]:
    """Three commands, each with what it shows."""
    program = os.path.relpath(Path(sys.executable).with_name("thereafter"))
    runs = {row.name: f"{agreement.folder}/runs/{row.first.run}" for row in agreement.rows}
    others = ("tokens_budget", "rnn.", "lstm.", "rate", "layers", "tied")
    own = [f"--set {name}={value}".lower() for name, value in AGREEMENT.items() if not name.startswith(others)]
    longer = f"--models transformer --tokens-budget {3 * AGREEMENT['tokens_budget']} {' '.join(own)} --out runs/longer"
    return [
        (
            "how far back learning reaches in two of these models, step by step",
            f"{program} inspect gradients {runs['rnn']} {runs['lstm']} --at verb",
        ),
        (
            "more training: does the Transformer know more of the verbs after three times the tokens?",
            f"{program} compare {RUNS / 'sentences'} --tokens word {longer}",
        ),
        (
            "your own prompt, by the LSTM of the manual",
            f'{program} next {manual.folder}/runs/{manual.row("lstm").first.run} "The value of the"',
        ),
    ]


if __name__ == "__main__":
    with one_thread():
        if len(sys.argv) > 1:
            compare_manual(sys.argv[1])
        else:
            with progress.reporting(TerminalReporter()):
                main()

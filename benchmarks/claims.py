"""Every figure of the table "The books' claims, one row each" in docs/claims.md.

    python benchmarks/claims.py                      # all of it, a few minutes on two cores
    python benchmarks/claims.py --only truncation    # one claim
    python benchmarks/claims.py --list

The tests in tests/claims run the same experiments at smaller sizes.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Callable
from statistics import mean

import torch

from claimed import counting, gradients, learning
from claimed.dependencies import BRACKETS, right_beyond
from claimed.learning import LINES
from thereafter import nn

SEEDS = (0, 1, 2)


def _figures(values: list[float], digits: int = 1, scale: float = 100.0) -> str:
    """A mean, and every seed's own figure."""
    each = ", ".join(f"{scale * value:.{digits}f}" for value in values)
    return f"{scale * mean(values):.{digits}f} ({each})"


def sparsity() -> None:
    table = counting.sparsity(8000, 1000)
    for n, counted, share, unseen in zip(table.orders, table.counted, table.of_possible, table.unseen, strict=True):
        print(f"n = {n}: {counted:,} different, {share:.1e} of all that could be; {unseen:.1%} of new ones never seen")


def smoothing() -> None:
    for name in ("mle", "add-alpha", "witten-bell", "absolute", "modified-kneser-ney"):
        mass = counting.moved_mass(name, 4000)
        print(f"{name}: never seen {mass.unseen:.1%}, seen {mass.seen:.1%}, sums within {mass.worst_sum:.0e} of 1")


def window() -> None:
    beyond, within = counting.change_beyond(5)
    print(f"largest change of log p: words beyond the window {beyond}, a word within {within:.2f}")
    rows = [counting.window_by_distance(5, longest=8, lines=3000, epochs=8, seed=seed) for seed in SEEDS]
    for n in rows[0]:
        print(f"n = {n}: {_figures([row[n] for row in rows])} % right, chance 25")


def spectral_radius() -> None:
    for bend, orthogonal in (("identity", True), ("identity", False), ("tanh", True)):
        for radius in (0.5, 0.9, 1.1):
            rates = [
                gradients.rnn_rate(bend, radius, steps=120, seed=seed, orthogonal=orthogonal)["rate"] for seed in SEEDS
            ]
            matrix = "rotation" if orthogonal else "normal numbers"
            print(f"{bend}, {matrix}, radius {radius}: factor a step {_figures(rates, 4, 1.0)}")


def clipping() -> None:
    for clipped in (0.0, 1.0):
        for seed in SEEDS:
            end = gradients.explosion(clipped, updates=200, seed=seed)
            how = f"clipped at {clipped:g}" if clipped else "not clipped"
            print(f"{how}, seed {seed}: loss {end['first']:.3g} -> {end['last']:.3g}, largest update {end['jump']:.3g}")


def forget_bias() -> None:
    for bias in (0.0, 1.0, 3.0):
        kept = [gradients.kept_through(bias, steps=30, seed=seed) for seed in SEEDS]
        gates = kept[0]["rule"]
        print(f"bias {bias:g}: d c_30 / d c_0 is {mean(one['measured'] for one in kept):.2g}, gates alone {gates:.2g}")
    for bias in (0.0, 1.0, 3.0):
        print(f"bias {bias:g}: {_figures([learning.forget_bias_learned(bias, seed=seed) for seed in SEEDS])} % right")


def gru_weights() -> None:
    for inputs, hidden, layers in ((128, 128, 1), (256, 512, 2)):
        lstm, gru = (gradients.weights_of(kind, inputs, hidden, layers) for kind in (nn.LSTM, nn.GRU))
        print(f"{inputs} inputs, {layers} x {hidden}: LSTM {lstm:,}, GRU {gru:,}, share {gru / lstm:.4f}")


def attention() -> None:
    lengths = (2, 4, 6, 8, 12)
    rows = {
        how: [learning.translated(how, lengths, pairs=2000, epochs=12, seed=seed, hidden=32) for seed in SEEDS]
        for how in ("additive", "none")
    }
    for length in lengths:
        with_it, without = ([row[length] for row in rows[how]] for how in ("additive", "none"))
        print(f"{length} words: with attention {_figures(with_it)} % right, without {_figures(without)}")


def teacher_forcing() -> None:
    rows = [learning.own_words(lines=300, epochs=9, length=30, seed=seed) for seed in SEEDS]
    for first, last in ((0, 1), (1, 2), (2, 4), (4, 8), (8, 16), (16, 24)):
        cells = [
            _figures([mean(row[way][first:last]) for row in rows], digits, scale)
            for way, digits, scale in (
                ("forced", 1, 100.0),
                ("free", 1, 100.0),
                ("forced_nats", 2, 1.0),
                ("free_nats", 2, 1.0),
            )
        ]
        print(f"words {first + 1} to {last}: right after true words {cells[0]} %, after its own {cells[1]} %; "
              f"nats {cells[2]} and {cells[3]}")  # fmt: skip


def depth() -> None:
    text, valid = counting.sentence_text(8000), counting.sentence_text(500, "valid")
    for layers, (width, weights) in learning.sized_alike("lstm", (1, 2, 3), hidden=64, embed=32).items():
        nats = [
            learning.by_depth(text, valid, layers, width, budget=120_000, rate=0.01, seed=seed, embed=32)
            for seed in SEEDS
        ]
        print(f"{layers} x {width} units, {weights:,} recurrent weights: {_figures(nats, 3, 1.0)} nats a token")


def truncation() -> None:
    for cut in (5, 10, 20, 40):
        exact = gradients.missed_by_truncation(0.9, cut, steps=300)
        right = [learning.after_cut(cut, n=14, lines=1500, epochs=10, seed=seed) for seed in SEEDS]
        print(f"cut after {cut}: misses {exact:.1%} of the gradient at decay 0.9; {_figures(right)} % right at n = 14")


def memorising() -> None:
    for hidden in (2, 4, 8, 16, 32):
        right = [learning.memorised(hidden, rows=32, length=16, epochs=150, seed=seed) for seed in SEEDS]
        print(f"{hidden} units: {_figures(right)} % of the words said by heart")


def _dependency(name: str) -> None:
    lines, longest, size = (1000, 12, {"epochs": 5}) if name == BRACKETS else (8000, 6, {"tokens_budget": 120_000})
    for kind, options in (
        ("ngram", {"order": 4}),
        ("window", {"window": 3, "hidden": 64, "rate": 0.005, **size}),
        ("rnn", {"hidden": 40, "rate": 0.005, **LINES, **size}),
        ("gru", {"hidden": 40, "rate": 0.02, **LINES, **size}),
        ("lstm", {"hidden": 40, "rate": 0.02, **LINES, **size}),
    ):
        seeds = SEEDS[:1] if kind == "ngram" else SEEDS
        right = [
            right_beyond(name, kind, 4, lines=lines, longest=longest, seed=seed, asked=1500, **options)
            for seed in seeds
        ]
        print(f"{kind}: {_figures(right)} % right at 4 to {longest} words between, chance 50", flush=True)


CLAIMS: dict[str, Callable[[], None]] = {
    "sparsity": sparsity,
    "smoothing": smoothing,
    "window": window,
    "spectral-radius": spectral_radius,
    "clipping": clipping,
    "forget-bias": forget_bias,
    "gru-weights": gru_weights,
    "attention": attention,
    "teacher-forcing": teacher_forcing,
    "depth": depth,
    "truncation": truncation,
    "memorising": memorising,
    "reflexives": lambda: _dependency("reflexives"),
    "filler-gap": lambda: _dependency("filler-gap"),
    "brackets": lambda: _dependency(BRACKETS),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(CLAIMS), action="append", help="a claim; may be given several times")
    parser.add_argument("--list", action="store_true", help="print the names of the claims and end")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(CLAIMS))
        return 0
    print(f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}, "
          f"{torch.get_num_threads()} threads, seeds {', '.join(map(str, SEEDS))}")  # fmt: skip
    for name in arguments.only or CLAIMS:
        began = time.perf_counter()
        print(f"\n## {name}", flush=True)
        CLAIMS[name]()
        print(f"({time.perf_counter() - began:.0f} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

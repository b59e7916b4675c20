"""The CPU kernel against the reference loop on jobs that are drawn at random: outputs, states, every gradient.

    python tests/kernels/random_cases.py [--cases 10000] [--seed 1] [--first 0] [--cell elman]

Each case draws a cell, its options, odd sizes, a type, lengths, a layout in memory, what has gradients, and a number of
threads. Its results are compared with the plain loop's in float64. Run again, and now and then in three threads of
Python at once, they are to be equal to the bit; and on other numbers of threads too, where the kernel says so
(`Kernel.deterministic`). `test_random_cases.py` runs a few of them. Exit status 1 where anything differs.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import sys
from collections import Counter
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

if __name__ == "__main__":
    os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")  # before torch: its products then do not depend on its threads

import torch
from conditions import WIDE
from layouts import LAYOUTS
from parity import TOLERANCES, plain
from torch import Tensor

from thereafter.cells import CELLS
from thereafter.cells.base import Cell
from thereafter.cells.options import ElmanOptions, choices_of
from thereafter.kernels.cpu import CPU, plan
from thereafter.kernels.jobs import Job, Kernel
from thereafter.kernels.plain import REFERENCE

CELL_SHARES = {"lstm": 8, "gru": 6, "elman": 5, "mingru": 1, "minlstm": 1, "diagonal": 1}
KINKED = ("relu", "leaky_relu", "relu6")
THREADS = 4


@dataclass(frozen=True)
class Case:
    """What was drawn."""

    cell: Cell
    batch: int
    steps: int
    dtype: torch.dtype
    layout: str | None
    ragged: bool
    reset: bool
    learning: bool
    share_frozen: float
    threads: int
    crowd: bool
    team: bool
    seed: int

    @property
    def family(self) -> str:
        """Cell and options, for the counts."""
        chosen = [name if value is True else str(value) for name, value in vars(self.cell.options).items()
                  if value is True or (isinstance(value, str) and value)]  # fmt: skip
        projected = ["projected"] if self.cell.output_size != self.cell.hidden_size else []
        return " ".join([self.cell.name, *projected, *chosen])


def draw_case(seed: int, number: int, only: str | None = None) -> Case:
    """Case so and so of a seed, whatever was drawn before it."""
    rng = random.Random(f"{seed} {number}")
    name = only or rng.choices(list(CELL_SHARES), list(CELL_SHARES.values()))[0]
    large = rng.random() < 0.02  # so that U does not fit, and threads own units
    units = rng.randint(300, 600) if large else _size(rng, 130)
    inputs = _size(rng, 130)
    cell: Cell = CELLS.load(name)(inputs, units, bias=rng.choice(["two", "one", "none"]), **_options(rng, name, units))
    learning = rng.random() < 0.75
    kinked = vars(cell.options).get("nonlinearity") in KINKED
    # a number that rounds to the other side of a kink has another gradient: that shows nothing
    dtype = torch.float64 if (kinked and learning) or rng.random() < 0.4 else torch.float32
    return Case(
        cell=cell,
        batch=_size(rng, 8) if large else _size(rng, 40),
        steps=_size(rng, 8) if large else _size(rng, 60),
        dtype=dtype,
        layout=rng.choice([None, None, *LAYOUTS]),
        ragged=rng.random() < 0.4,
        reset=cell.linear and rng.random() < 0.3,
        learning=learning,
        share_frozen=rng.choice([0.0, 0.0, 0.3, 0.9]),
        threads=rng.randint(1, THREADS),
        crowd=rng.random() < 0.05,
        team=rng.random() < 0.5,
        seed=rng.getrandbits(32),
    )


def _size(rng: random.Random, most: int) -> int:
    """From 1, small ones more often."""
    return min(most, int(math.exp(rng.uniform(0, math.log(most + 1)))))


def _options(rng: random.Random, name: str, units: int) -> dict[str, Any]:
    if name == "lstm":
        given: dict[str, Any] = {"peephole": rng.random() < 0.4, "coupled": rng.random() < 0.4}
        if units > 1 and rng.random() < 0.15:
            return given | {"proj_size": rng.randint(1, units - 1)}
        return given | {"layer_norm": rng.random() < 0.3}
    if name == "gru":
        return {"reset": rng.choice(["after", "before"]), "update": rng.choice(["old", "new"])}
    return {"nonlinearity": rng.choice(choices_of(ElmanOptions, "nonlinearity"))} if name == "elman" else {}


def make_job(case: Case) -> Job:
    """The numbers of a case, laid out as it says. Recurrent weights are small enough to forget."""
    draw = torch.Generator().manual_seed(case.seed)
    lay = LAYOUTS[case.layout] if case.layout else (lambda array: array)
    cell = case.cell

    def leaf(*shape: int, scale: float = 1.0, keep: bool = False) -> Tensor:
        drawn = (scale * torch.randn(shape, generator=draw, dtype=torch.float64)).to(case.dtype)
        frozen = float(torch.rand((), generator=draw)) < case.share_frozen
        return (drawn if keep else lay(drawn)).requires_grad_(case.learning and not frozen)

    x = leaf(case.batch, case.steps, cell.input_size)
    state = cell.state_type(*(leaf(case.batch, size) for size in cell.state_sizes().values()))
    weights = {
        # equal rows would leave a layer norm nothing to do
        name: leaf(*shape, scale=0.7 / math.sqrt(shape[-1]) if len(shape) > 1 else 0.5, keep=case.layout == "expanded")
        for name, shape in cell.shapes().items()
    }
    lengths = torch.randint(0, case.steps + 1, (case.batch,), generator=draw) if case.ragged else None
    reset = torch.rand(case.batch, case.steps, generator=draw) < 0.2 if case.reset else None
    if reset is not None and lengths is not None:
        reset &= torch.arange(case.steps) < lengths.unsqueeze(1)
    return Job(cell, x, state, weights, lengths, reset)


def answers(kernel: Kernel, job: Job, case: Case) -> dict[str, Tensor]:
    """All that a kernel makes of a job, by name."""
    leaves = {"x": job.x_BTI, **{f"initial {n}": p for n, p in zip(job.state._fields, job.state, strict=True)}}
    asked = {name: leaf for name, leaf in (leaves | dict(job.weights)).items() if leaf.requires_grad}
    with torch.set_grad_enabled(bool(asked)):
        done = kernel.run(job)
    made = {"output": done.y_BTO, **{f"state {n}": p for n, p in zip(done.state._fields, done.state, strict=True)}}
    if not asked:
        return made
    draw = torch.Generator().manual_seed(case.seed + 1)
    charged = [part for part in made.values() if part.requires_grad]
    incoming = [torch.randn(part.shape, generator=draw, dtype=torch.float64).to(part.dtype) for part in charged]
    got = torch.autograd.grad(charged, list(asked.values()), incoming, allow_unused=True)
    gradients = zip(asked.items(), got, strict=True)
    return {name: part.detach() for name, part in made.items()} | {
        f"gradient of {name}": torch.zeros_like(leaf) if slope is None else slope for (name, leaf), slope in gradients
    }


def distance(got: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    """The largest difference, as a share of the largest entry where that is over 1; infinite where there is a NaN."""
    worst = 0.0
    for name, truth in expected.items():
        if truth.numel():
            error = float((got[name] - truth).abs().max() / truth.abs().max().clamp(min=1.0))
            worst = max(worst, error) if error == error else math.inf
    return worst


def same_bits(one: dict[str, Tensor], other: dict[str, Tensor]) -> list[str]:
    """The names of what is not equal."""
    return [name for name, array in one.items() if not torch.equal(array, other[name])]


def check_case(case: Case) -> tuple[float, int, list[str]]:
    """The largest difference, how many numbers of threads gave the same bits, and what is wrong."""
    job, wrong = make_job(case), []
    reason = CPU.refuses(job)
    if reason is not None:
        return 0.0, 0, [f"refused: {reason}"]
    torch.set_num_threads(case.threads)
    expected = answers(REFERENCE, plain(job), case)
    got = answers(CPU, job, case)
    error = distance(got, expected)
    if not error <= TOLERANCES[case.dtype]:
        loop = distance(answers(REFERENCE, job, case), expected)  # as far off as the plain loop in the same type?
        if case.dtype == torch.float64 or not error <= 10 * loop:
            wrong.append(f"off by {error:.2e}, the plain loop by {loop:.2e}")
    repeats = [answers(CPU, job, case)]
    if case.crowd:
        with ThreadPoolExecutor(3) as pool:
            repeats += pool.map(lambda _: answers(CPU, job, case), range(3))
    wrong += [f"not repeated: {names}" for names in (same_bits(got, again) for again in repeats) if names]
    promised = CPU.deterministic(job).threads
    others = {*range(1, THREADS + 1)} & {*promised} - {case.threads} if case.threads in promised else ()
    for threads in others:
        torch.set_num_threads(threads)
        names = same_bits(got, answers(CPU, job, case))
        wrong += [f"{threads} threads differ from {case.threads}: {names}"] if names else []
    return error, len(others), wrong


def run_cases(
    seed: int, first: int, count: int, only: str | None = None, dtypes: Collection[torch.dtype] = WIDE
) -> tuple[str, list[str]]:
    """Counts and largest differences by cell, in words, and what is wrong; of so many cases those in `dtypes`."""
    counts: Counter[str] = Counter()
    worst: dict[str, dict[torch.dtype, float]] = {}
    compared, wrong, before, worth = 0, [], torch.get_num_threads(), plan.WORTH_A_TEAM
    try:
        for number in range(first, first + count):
            case = draw_case(seed, number, only)
            if case.dtype not in dtypes:
                continue
            plan.WORTH_A_TEAM = 0 if case.team else worth  # a team for small jobs too
            error, threads, differing = check_case(case)
            counts[case.family] += 1
            compared += threads
            errors = worst.setdefault(case.family, dict.fromkeys(TOLERANCES, 0.0))
            errors[case.dtype] = max(errors[case.dtype], error)
            wrong += [f"case {number}: {what}; {case}" for what in differing]
            if (number + 1 - first) % 500 == 0:
                tell(f"{number + 1 - first} cases, {len(wrong)} differences")
    finally:
        torch.set_num_threads(before)
        plan.WORTH_A_TEAM = worth
    lines = [f"{'cell':<40} {'cases':>6} {'float64':>9} {'float32':>9}"]
    lines += [f"{name:<40} {n:>6} " + " ".join(f"{worst[name][kind]:>9.1e}" for kind in TOLERANCES)
              for name, n in sorted(counts.items())]  # fmt: skip
    lines.append(f"{sum(counts.values())} cases, {compared} on other numbers of threads, {len(wrong)} differences")
    return "\n".join(lines), wrong


def tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--cases", type=int, default=10_000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--first", type=int, default=0, help="the number of the first case, to look at one again")
    options.add_argument("--cell", choices=CELL_SHARES, help="of one cell alone")
    given = options.parse_args()
    table, wrong = run_cases(given.seed, given.first, given.cases, given.cell)
    tell("\n".join([*wrong, table]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

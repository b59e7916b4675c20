"""The kernel `gpu` at real sizes on a GPU: right against the plain loop in float64, and the same bits at every launch.

    PYTHONPATH=src python tests/kernels/gpu_programs.py [--quick] [--jobs 8] [--only 'gru.*512'] [--launches 200]

Each case is a cell at a size (rows, steps, units), in bfloat16; some in float16, with lengths, or in float32 under
autocast. Outputs, final states and every gradient are compared with the plain loop's in float64 on the same device and
the same numbers; an error is the norm of the difference, as a share of the norm. Beside it stands cuDNN's own error, or
the plain loop's in the same type where cuDNN has no such cell. Then the case is launched many times, and before each
launch all memory that torch's allocator has free is filled with NaN: every bit must be as before. One line a case, a
table of the cells at the end, refusals in their words. Exit status 1 where anything is wrong. `--dry`: small sizes of
the plain loop on a CPU, to try the script.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import re
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from parity import plain
from tally import share_of
from torch import Tensor
from watchdog import watched

from thereafter.cells import CELLS
from thereafter.cells.base import Cell
from thereafter.kernels.jobs import Job, Kernel
from thereafter.kernels.plain import REFERENCE
from thereafter.kernels.scan import KERNELS

TOLERANCES = {torch.bfloat16: 1e-2, torch.float16: 2e-3}
"""The norm of an error, as a share of the norm; or, where that is more, `MARGIN` times the error of the other way."""
MARGIN = 1.5
KINKED = {torch.bfloat16: 0.1, torch.float16: 0.04}
"""The same for gradients of a network with relu: some of its sums round to the other side of 0."""

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("lstm", {}),
    ("lstm", {"peephole": True}),
    ("lstm", {"coupled": True}),
    ("lstm", {"proj_size": 0.4}),  # of the units
    ("gru", {"reset": "after", "update": "old"}),
    ("gru", {"reset": "after", "update": "new"}),
    ("gru", {"reset": "before", "update": "old"}),
    ("gru", {"reset": "before", "update": "new"}),
    ("elman", {"nonlinearity": "tanh"}),
    ("elman", {"nonlinearity": "relu"}),
    ("lstm", {"layer_norm": True}),
]
SIZES = [
    (64, 70, 1150), (40, 70, 1150), (128, 128, 512), (64, 64, 1024), (16, 128, 768), (64, 128, 256), (20, 35, 650),
    (5, 9, 48), (3, 6, 5), (1, 50, 100), (200, 40, 256), (32, 35, 200),
]  # fmt: skip
ALSO = [(64, 70, 1150), (64, 128, 256)]
"""The sizes that also run in float16, with lengths, and under autocast."""
SMALL = [(5, 9, 48), (3, 6, 5), (1, 7, 10)]


class Case(NamedTuple):
    """A cell at a size. `autocast`: numbers and weights are float32, and torch may round them to `dtype`."""

    name: str
    options: dict[str, Any]
    size: tuple[int, int, int]
    dtype: torch.dtype = torch.bfloat16
    ragged: bool = False
    autocast: bool = False

    @property
    def cell(self) -> str:
        """Cell and options."""
        chosen = [key if value is True else f"{key}={value}" for key, value in self.options.items()]
        return " ".join([self.name, *chosen])

    def __str__(self) -> str:
        how = [str(self.dtype).removeprefix("torch.")]
        how += ["lengths"] * self.ragged + ["autocast"] * self.autocast
        return f"{self.cell} {self.size} {' '.join(how)}"

    def make(self) -> Cell:
        """The cell itself; as many inputs as units where there are many."""
        units = self.size[2]
        options = dict(self.options)
        if "proj_size" in options:
            options["proj_size"] = max(1, int(options["proj_size"] * units))
        made: Cell = CELLS.load(self.name)(units if units > 100 else 1 + units // 2, units, **options)
        return made


def all_cases(*, small: bool = False) -> list[Case]:
    """Every cell at every size, and some sizes in other ways."""
    sizes = SMALL if small else SIZES
    made = [Case(*variant, size) for size in sizes for variant in VARIANTS]
    for size in sizes[:1] if small else ALSO:
        for variant in VARIANTS:
            made += [Case(*variant, size, torch.float16), Case(*variant, size, ragged=True),
                     Case(*variant, size, autocast=True)]  # fmt: skip
    return made


def make_job(case: Case, device: str) -> Job:
    """Random numbers for a case, which the plain loop in float64 gets to the last bit; weights as fresh layers have."""
    cell, (batch, steps, _) = case.make(), case.size
    seed = zlib.crc32(str(case).encode())
    draw = torch.Generator(device).manual_seed(seed)
    torch.manual_seed(seed)
    weights = {name: torch.zeros(shape, device=device) for name, shape in cell.shapes().items()}
    cell.initialise(weights)
    dtype = torch.float32 if case.autocast else case.dtype

    def leaf(array: Tensor) -> Tensor:
        return array.to(dtype).requires_grad_()

    def drawn(*shape: int) -> Tensor:
        return torch.randn(shape, generator=draw, device=device)

    for name, weight in weights.items():
        if name.startswith(("norm", "shift", "peephole")):
            weight += 0.2 * drawn(*weight.shape)  # gains of 1 and shifts of 0 hide much
    lengths_B = torch.randint(1, steps + 1, (batch,), generator=draw, device=device) if case.ragged else None
    return Job(
        cell=cell,
        x_BTI=leaf(drawn(steps, batch, cell.input_size)).transpose(0, 1).detach().requires_grad_(),
        state=cell.state_type(*(leaf(0.5 * drawn(batch, n)) for n in cell.state_sizes().values())),
        weights={name: leaf(weight) for name, weight in weights.items()},
        lengths_B=lengths_B,
    )


def run(kernel: Kernel, job: Job, case: Case) -> dict[str, Tensor]:
    """Outputs, states, and the gradients of everything for fixed gradients of all of them."""
    device = job.x_BTI.device
    autocast = torch.autocast(device.type, case.dtype) if _mixed(job, case) else contextlib.nullcontext()
    with autocast:
        done = kernel.run(job)
    made = {"output": done.y_BTO} | {f"state {n}": part for n, part in zip(done.state._fields, done.state, strict=True)}
    incoming = [gradient_of(part.shape, device, seed).to(part) for seed, part in enumerate(made.values())]
    leaves = {"x": job.x_BTI, **{f"initial {n}": p for n, p in zip(done.state._fields, job.state, strict=True)}}
    leaves |= dict(job.weights)
    gradients = torch.autograd.grad(list(made.values()), list(leaves.values()), incoming)
    return made | {f"gradient of {name}": array for name, array in zip(leaves, gradients, strict=True)}


@lru_cache(maxsize=16)
def gradient_of(shape: torch.Size, device: torch.device, seed: int) -> Tensor:
    """Random numbers that every type holds. Kept: none can be drawn while a CUDA graph is captured."""
    draw = torch.Generator(device).manual_seed(seed)
    return torch.randn(shape, generator=draw, device=device).bfloat16().half().float()


def _mixed(job: Job, case: Case) -> bool:
    return case.autocast and job.x_BTI.dtype == torch.float32


def errors(values: dict[str, Tensor], truth: dict[str, Tensor]) -> dict[str, float]:
    """The norm of each difference, as a share of the norm."""
    return {
        name: float((values[name].detach().double() - exact.detach()).norm() / exact.detach().norm().clamp(min=1e-9))
        for name, exact in truth.items()
    }


@dataclass
class Outcome:
    """What came of a case: the errors of ours and of the other way, and how many launches gave other bits."""

    case: Case
    refusal: str | None = None
    ours: dict[str, float] = field(default_factory=dict)
    other: str = ""
    theirs: dict[str, float] = field(default_factory=dict)
    launches: int = 0
    other_bits: int = 0
    failure: str = ""

    def allowed(self, name: str) -> float:
        """The error that one result may have."""
        kinked = self.case.options.get("nonlinearity") == "relu" and name.startswith("gradient")
        return max((KINKED if kinked else TOLERANCES)[self.case.dtype], MARGIN * self.theirs.get(name, 0.0))

    @property
    def worst(self) -> str:
        """The result with the largest error for what is allowed."""
        return max(self.ours, key=lambda name: _share(self.ours[name], self.allowed(name)))

    @property
    def wrong(self) -> list[str]:
        """What is wrong, in words."""
        faults = [self.failure] if self.failure else []
        faults += [f"{name} off by {error:.1e} where {self.allowed(name):.1e} is allowed"
                 for name, error in self.ours.items() if not error <= self.allowed(name)]  # fmt: skip
        if self.other_bits:
            faults.append(f"{self.other_bits} of {self.launches} launches gave other bits")
        return faults

    def __str__(self) -> str:
        if self.refusal is not None:
            return f"refused {self.case}: {self.refusal}"
        if not self.ours:
            return f"FAIL    {self.case}: {self.failure}"
        name = self.worst
        beside = f"{self.other} {self.theirs[name]:.1e}" if name in self.theirs else "no other"
        bits = f"{self.launches} launches the same" if not self.other_bits else f"{self.other_bits} OTHER BITS"
        end = f" {'; '.join(self.wrong)}" if self.wrong else ""
        return (
            f"{'FAIL' if self.wrong else 'ok':<7} {self.case!s:<62} output {self.ours['output']:.1e}, worst {name} "
            f"{self.ours[name]:.1e} ({beside}), {bits}{end}"
        )


def _share(error: float, allowed: float) -> float:
    return error / allowed if error == error else float("inf")


def check(case: Case, kernel: Kernel, device: str, launches: int) -> Outcome:
    """All of one case."""
    job = make_job(case, device)
    with torch.autocast(device, case.dtype) if case.autocast else contextlib.nullcontext():
        refusal = kernel.refuses(job)
        other: Kernel = KERNELS.load("vendor")
        other = REFERENCE if other.refuses(job) is not None else other
    if refusal is not None:
        return Outcome(case, refusal)
    outcome = Outcome(case, launches=launches)
    try:
        first = run(kernel, job, case)
    except Exception as error:  # the next case may still show something
        outcome.failure = f"{type(error).__name__}: {error}".splitlines()[0]
        return outcome
    truth = run(REFERENCE, plain(job), without_autocast(case))
    outcome.ours = errors(first, truth)
    try:
        outcome.other, outcome.theirs = other.name, errors(run(other, job, case), truth)
    except RuntimeError as error:  # cuDNN refuses some sizes
        outcome.other = f"{other.name} failed ({str(error).splitlines()[0][:60]})"
    del truth
    outcome.other_bits = repeat(kernel, job, case, first, launches)
    return outcome


def without_autocast(case: Case) -> Case:
    """The same case for the plain loop in float64, which is not to be rounded."""
    return case._replace(autocast=False)


def repeat(kernel: Kernel, job: Job, case: Case, first: dict[str, Tensor], launches: int) -> int:
    """How many of so many launches give other bits, each over memory full of NaN."""
    device = job.x_BTI.device
    sizes = free_blocks(device)
    differing = torch.zeros((), dtype=torch.int64, device=device)
    for _ in range(launches):
        poison(sizes, device)
        again = run(kernel, job, case)
        same = [(bits(again[name]) == bits(array)).all() for name, array in first.items()]
        differing += ~torch.stack(same).all()
        del again
    return int(differing)


def bits(array: Tensor) -> Tensor:
    """The numbers as whole ones, so that a NaN is like itself."""
    whole = torch.int16 if array.element_size() == 2 else torch.int32 if array.element_size() == 4 else torch.int64
    return array.detach().contiguous().view(whole)


def free_blocks(device: torch.device) -> list[int]:
    """The sizes in bytes of what torch's allocator has free."""
    if device.type != "cuda":
        return []
    torch.cuda.synchronize()
    blocks = [block for segment in torch.cuda.memory_snapshot() for block in segment["blocks"]]
    return sorted((block["size"] for block in blocks if block["state"] == "inactive"), reverse=True)


def poison(sizes: list[int], device: torch.device) -> None:
    """Fill blocks of these sizes with NaN (all bits 1, which is NaN in every type, and -1), and free them."""
    kept = [torch.empty(size, dtype=torch.uint8, device=device).fill_(255) for size in sizes]
    del kept


def summary(outcomes: list[Outcome]) -> list[str]:
    """A table of the cells: the largest errors of all sizes, ours and the other way's."""
    lines = [
        f"{'cell':<32} {'ran':>4} {'refused':>8} {'wrong':>6}   largest error: output, state, gradient (the other way)"
    ]
    for cell in dict.fromkeys(outcome.case.cell for outcome in outcomes):
        mine = [outcome for outcome in outcomes if outcome.case.cell == cell]
        bfloat = [outcome for outcome in mine if outcome.ours and outcome.case.dtype == torch.bfloat16]
        shown = []
        for kind in ("output", "state", "gradient"):
            ours, theirs = (
                max((error for outcome in bfloat for name, error in getattr(outcome, side).items()
                     if name.startswith(kind)), default=0.0)
                for side in ("ours", "theirs")
            )  # fmt: skip
            shown.append(f"{ours:.1e} ({theirs:.1e})")
        counts = [sum(bool(outcome.ours) for outcome in mine), sum(outcome.refusal is not None for outcome in mine),
                  sum(bool(outcome.wrong) for outcome in mine)]  # fmt: skip
        lines.append(f"{cell:<32} {counts[0]:>4} {counts[1]:>8} {counts[2]:>6}   {', '.join(shown)}")
    sentences = Counter(outcome.refusal for outcome in outcomes if outcome.refusal is not None)
    return lines + [f"refused {count:>4}: {sentence}" for sentence, count in sentences.most_common()]


class Task(NamedTuple):
    """A case, and how it is to be checked."""

    case: Case
    kernel: str
    device: str
    launches: int
    patience: float


def perform(task: Task) -> Outcome:
    """Check a case; the process ends where that takes too long."""
    with watched(str(task.case), task.patience):
        outcome = check(task.case, KERNELS.load(task.kernel), task.device, task.launches)
    if task.device == "cuda":
        torch.cuda.empty_cache()
    return outcome


def side_by_side(tasks: list[Task], jobs: int) -> Iterator[Outcome]:
    """The outcomes as they come; no more of them once a process was ended."""
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as processes:
        waiting = [processes.submit(perform, task) for task in tasks]
        try:
            for done in as_completed(waiting):
                yield done.result()
        except BrokenProcessPool:
            sys.stdout.write("a process was ended, and what was left with it\n")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="20 launches a case")
    options.add_argument("--launches", type=int, default=200)
    options.add_argument("--share", default="1/1", help="2/4: the second of four equal shares")
    options.add_argument("--jobs", type=int, default=1, help="processes side by side")
    options.add_argument("--patience", type=float, default=120.0, help="seconds a case, after which all ends")
    options.add_argument("--only", default="", metavar="REGEX")
    options.add_argument("--kernel", default="gpu", choices=list(KERNELS))
    options.add_argument("--dry", action="store_true", help="small sizes on a CPU")
    given = options.parse_args()
    if not given.dry and not torch.cuda.is_available():
        sys.stdout.write("no GPU here\n")
        return 2
    began = time.monotonic()
    cases = [case for case in all_cases(small=given.dry) if re.search(given.only, str(case))]
    launches = min(given.launches, 20) if given.quick else given.launches
    device = "cpu" if given.dry else "cuda"
    tasks = [Task(case, given.kernel, device, launches, given.patience) for case in share_of(cases, given.share)]
    outcomes = []
    for outcome in map(perform, tasks) if given.jobs == 1 else side_by_side(tasks, given.jobs):
        outcomes.append(outcome)
        sys.stdout.write(f"{outcome}\n")
        sys.stdout.flush()
    wrong = sum(bool(outcome.wrong) for outcome in outcomes)
    lost = len(tasks) - len(outcomes)
    end = f"{len(outcomes)} cases, {wrong} wrong, {lost} not run, {time.monotonic() - began:.0f} s"
    sys.stdout.write("\n".join(["", *summary(outcomes), end, ""]))
    return 1 if wrong or lost else 0


if __name__ == "__main__":
    sys.exit(main())

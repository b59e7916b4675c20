"""Every cell x option x situation x kernel against the reference loop in float64: outputs, final state, every gradient.

    python tests/kernels/parity.py [cpu or cuda] [--jobs 8] [--share 2/4] [--types bfloat16 float16] [--kernels gpu]

The reference loop gets plain arrays on the CPU; the kernels, it among them, get the same numbers as a situation lays
them out. `test_parity.py` runs it under pytest. As a plain script it needs numpy and torch alone. On a GPU the kernel
`gpu` runs in bfloat16 and float16 too. Their random numbers are such as both types hold exactly, so one truth serves
both. At the end stand the runs and the largest error of each kernel, and what `gpu` refused, in its words.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from typing import Any

import torch
from conditions import NARROW, WIDE, Draw, Results, error_of, fair_draw, kinked, representable
from layouts import LAYOUTS
from tally import Tally, share_of
from torch import Tensor
from watchdog import watched

from thereafter.cells import CELLS
from thereafter.cells.base import Cell
from thereafter.cells.options import option_cases
from thereafter.kernels.jobs import Job, Kernel, Unrolled
from thereafter.kernels.plain import REFERENCE
from thereafter.kernels.scan import KERNELS, reverse_job, reverse_result

TOLERANCES: dict[torch.dtype, float] = {
    torch.float64: 1e-10,
    torch.float32: 1e-4,
    torch.bfloat16: 3e-2,
    torch.float16: 6e-3,
}
"""The one table for every kernel: the largest error, as a share of the tensor's largest entry where that is over the
type's floor (`conditions.py`). In a narrow type a cell with a kink is judged by the norm of the error, as a share of
the tensor's norm. Where no draw of the numbers is steady, twice what moving them by a last bit does is allowed."""

PAIRS: dict[str, list[dict[str, Any]]] = {
    "lstm": [{"peephole": True, "layer_norm": True}, {"coupled": True, "proj_size": 3}],
}
"""Options that meet in a kernel, beyond those that `option_cases` reads off the cell's own declaration."""

BIASES = ("two", "one", "none")


def cases() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every cell with every option, each bias convention among them."""
    for name in CELLS:
        for number, options in enumerate(option_cases(CELLS.load(name).options_type) + PAIRS.get(name, [])):
            for bias in BIASES if number == 0 else (BIASES[number % 3],):
                yield name, options | {"bias": bias}


@dataclass(frozen=True)
class Situation:
    """A shape of work: what is asked of a kernel beyond the cell.

    `layout`: how all it is given lies in memory, incoming gradients included. `charged`: the results that get a
    gradient, by how their names begin.
    """

    name: str
    batch: int = 3
    steps: int = 6
    lengths: tuple[int, ...] | None = None
    reverse: bool = False
    reset: bool = False
    hold: str | None = None
    record: bool = False
    time_first: bool = False
    layout: str | None = None
    charged: tuple[str, ...] = ("output", "state")

    def lay(self, array: Tensor) -> Tensor:
        """The same numbers as this situation has them in memory (one row for all where it is `expanded`)."""
        return array if self.layout is None else LAYOUTS[self.layout](array)


SITUATIONS = [
    Situation("plain"),
    Situation("reversed", reverse=True),
    Situation("one row", batch=1),
    Situation("one step", steps=1),
    Situation("no step", steps=0),
    Situation("no row", batch=0),
    Situation("time first", time_first=True),
    Situation("lengths", lengths=(4, 6, 1)),
    Situation("lengths reversed", lengths=(4, 6, 1), reverse=True),
    Situation("an empty row", lengths=(2, 0, 5)),
    Situation("reset", reset=True),
    Situation("reset reversed, lengths", reset=True, reverse=True, lengths=(4, 6, 2)),
    Situation("zoneout mask", hold="mask"),
    Situation("zoneout mean, lengths", hold="mean", lengths=(4, 6, 1)),
    Situation("record", record=True),
    Situation("record, lengths reversed", record=True, lengths=(3, 5, 6), reverse=True),
    Situation("long enough to split", batch=5, steps=37, lengths=(37, 11, 30, 1, 36)),
    *(Situation(name, layout=name) for name in LAYOUTS),
    Situation("transposed, lengths", layout="transposed", lengths=(4, 6, 1)),
    Situation("strided, reset reversed, lengths", layout="strided", reset=True, reverse=True, lengths=(4, 6, 2)),
    Situation("cut, zoneout mask", layout="cut", hold="mask"),
    Situation("expanded, reset, lengths", layout="expanded", reset=True, lengths=(4, 4, 4)),
    Situation("one row, transposed", batch=1, layout="transposed"),
    Situation("only the outputs are charged", charged=("output",)),
    Situation("only the last h is charged", charged=("state h",), layout="expanded"),
    Situation("only the last c is charged", charged=("state c",), layout="transposed"),
]


def situations(cell: Cell) -> list[Situation]:
    """Those in which something that the cell has is charged."""
    made = ("output", *(f"state {name}" for name in cell.state_sizes()))
    return [at for at in SITUATIONS if any(name.startswith(at.charged) for name in made)]


def make_job(cell: Cell, at: Situation, dtype: torch.dtype, device: str, attempt: int = 0) -> Job:
    """A seeded job; every tensor that can have a gradient asks for one."""
    again = f" {attempt}" if attempt else ""
    draw = torch.Generator().manual_seed(zlib.crc32(f"{cell!r} {at.name}{again}".encode()))

    def leaf(*shape: int, scale: float = 1.0) -> Tensor:
        drawn = representable(scale * torch.randn(shape, generator=draw, dtype=torch.float64), dtype)
        return at.lay(drawn.to(device=device, dtype=dtype)).requires_grad_()

    def some(*shape: int, share: float) -> Tensor:
        return (torch.rand(shape, generator=draw) < share).to(device)

    size = (at.steps, at.batch) if at.time_first else (at.batch, at.steps)
    x = leaf(*size, cell.input_size)
    # the other way round, since equal rows of a matrix leave a layer norm nothing to do
    weights = {
        name: leaf(*shape[::-1], scale=0.5).t().detach().requires_grad_() for name, shape in cell.shapes().items()
    }
    state = cell.state_type(*(leaf(at.batch, n) for n in cell.state_sizes().values()))
    hold: dict[str, Tensor | float] = {}
    if at.hold:
        for number, (name, n) in enumerate(cell.state_sizes().items()):
            mask = some(at.batch, at.steps, n, share=0.4).to(dtype)
            hold[name] = at.lay(mask) if at.hold == "mask" else 0.3 - 0.1 * number
    lengths_B = None if at.lengths is None else at.lay(torch.tensor(at.lengths, device=device))
    reset_BT = some(at.batch, at.steps, share=0.3) if at.reset else None
    if reset_BT is not None and lengths_B is not None:
        reset_BT &= torch.arange(at.steps, device=device) < lengths_B.unsqueeze(1)  # as `scan` does
    reset_BT = None if reset_BT is None else at.lay(reset_BT)
    return Job(
        cell=cell,
        x_BTI=x,  # turned to batch first by `run`, so that gradients are asked of the leaf
        state=state,
        weights=weights,
        lengths_B=lengths_B,
        reset_BT=reset_BT,
        hold=hold,
        record=at.record,
    )


def plain(job: Job) -> Job:
    """The same numbers in float64, in plain arrays."""

    def leaf(given: Tensor) -> Tensor:
        copy = given.detach().clone(memory_format=torch.contiguous_format)
        return copy.double().requires_grad_(given.requires_grad) if copy.is_floating_point() else copy

    return replace(
        job,
        x_BTI=leaf(job.x_BTI),
        state=type(job.state)(*map(leaf, job.state)),
        weights={name: leaf(weight) for name, weight in job.weights.items()},
        lengths_B=None if job.lengths_B is None else leaf(job.lengths_B),
        reset_BT=None if job.reset_BT is None else leaf(job.reset_BT),
        hold={name: leaf(share) if isinstance(share, Tensor) else share for name, share in job.hold.items()},
    )


def ready(job: Job, at: Situation) -> Job:
    """The job as a kernel gets it from `scan`."""
    rows = replace(job, x_BTI=job.x_BTI.transpose(0, 1)) if at.time_first else job
    return reverse_job(rows) if at.reverse else rows


def results(kernel: Kernel, job: Job, at: Situation, *, lay_out: bool = True) -> dict[str, Tensor]:
    """Everything a kernel makes, by name: outputs, states, records, and what becomes of random gradients of them, laid
    out as the situation has it or plain."""
    done: Unrolled = kernel.run(ready(job, at))
    if at.reverse:
        done = reverse_result(done, job.lengths_B)
    made = {"output": done.y_BTO} | {f"state {n}": part for n, part in zip(done.state._fields, done.state, strict=True)}
    draw = torch.Generator().manual_seed(7)
    charged, incoming = [], []
    for name, part in made.items():
        drawn = representable(torch.randn(part.shape, generator=draw, dtype=torch.float64), torch.bfloat16)
        gradient = at.lay(drawn.to(part))
        if name.startswith(at.charged) and part.requires_grad:  # outputs of no steps depend on nothing
            charged.append(part)
            incoming.append(gradient if lay_out else gradient.clone(memory_format=torch.contiguous_format))
    leaves = {"x": job.x_BTI, **{f"initial {n}": p for n, p in zip(done.state._fields, job.state, strict=True)}}
    leaves |= dict(job.weights)
    gradients = torch.autograd.grad(charged, list(leaves.values()), incoming, allow_unused=True)
    for (name, leaf), outgoing in zip(leaves.items(), gradients, strict=True):
        made[f"gradient of {name}"] = torch.zeros_like(leaf) if outgoing is None else outgoing
    return made | {f"record of {name}": array for name, array in (done.record or {}).items()}


def differences(
    got: Results, expected: Results, dtype: torch.dtype, allowed: float, *, by_norm: bool = False
) -> tuple[float, list[str]]:
    """The largest error as a share of the allowed one, and what is beyond it, in words."""
    if set(got) != set(expected):
        return math.inf, [f"names differ: {sorted(set(got) ^ set(expected))}"]
    largest, wrong = 0.0, []
    for name in expected:
        value, truth = got[name].detach(), expected[name].detach()
        if value.shape != truth.shape or value.dtype != dtype:
            wrong.append(f"{name}: {value.dtype} {tuple(value.shape)} for {dtype} {tuple(truth.shape)}")
        elif truth.numel():
            error = error_of(value, truth, dtype, by_norm=by_norm)
            largest = max(largest, math.inf if math.isnan(error) else error / allowed)
            if not error <= allowed:  # a NaN is no small error
                wrong.append(f"{name}: off by {error:.2e} where {allowed:.1e} is allowed")
    return largest, wrong


def compare(
    name: str, options: dict[str, Any], dtypes: Sequence[torch.dtype], device: str, kernels: Sequence[str] = ()
) -> Tally:
    """All situations of one cell on these kernels, or all: `dtypes` of one kind, which share one truth."""
    cell: Cell = CELLS.load(name)(4, 5, **options)
    tally = Tally()
    for at in situations(cell):
        drawn = fair_draw(
            lambda attempt, at=at: plain(make_job(cell, at, dtypes[0], "cpu", attempt)),
            lambda job, at=at: ready(job, at),
            lambda job, at=at: results(REFERENCE, job, at, lay_out=False),
            dtypes[0],
            TOLERANCES[dtypes[0]],
        )
        for dtype in dtypes:
            job = make_job(cell, at, dtype, device, drawn.attempt)
            for label in kernels or KERNELS:
                if label == "operator" and (at.layout is not None or dtype != dtypes[0]):
                    continue  # it hands on what the others are tested with
                tally.add(compare_kernel(label, job, at, drawn))
    return tally


def compare_kernel(label: str, job: Job, at: Situation, drawn: Draw) -> Tally:
    """One job on one kernel."""
    kernel: Kernel = KERNELS.load(label)
    reason = kernel.refuses(ready(job, at))
    if reason is not None:
        return Tally(refused=Counter({(label, reason): 1}))
    dtype = job.x_BTI.dtype
    allowed = drawn.allowed(dtype, TOLERANCES[dtype])
    by_norm = dtype in NARROW and kinked(job)
    largest, wrong = differences(results(kernel, job, at), drawn.truth, dtype, allowed, by_norm=by_norm)
    return Tally(
        Counter({label: 1}),
        largest={(label, dtype): largest},
        wrong=[f"{label}, {at.name}, {dtype}: {what}" for what in wrong],
    )


Piece = tuple[str, dict[str, Any], tuple[torch.dtype, ...], str, tuple[str, ...]]
"""The arguments of `compare`: what one process does at a time."""


def run_piece(piece: Piece) -> Tally:
    """One cell in types of one kind, alone on its thread of the CPU."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.set_num_threads(1)  # many small products, and other processes beside
    with watched(f"{piece[0]} {piece[1]}", 1000.0 if piece[3] == "cpu" else 120.0):
        tally = compare(*piece)
    tally.wrong = [f"{piece[0]} {piece[1]}: {what}" for what in tally.wrong]
    return tally


def pieces(device: str, types: Sequence[torch.dtype], kernels: Sequence[str]) -> list[Piece]:
    """All there is to do on a device. Narrow types are for the kernel `gpu` on a GPU; others are to be named."""
    narrow_kernels = tuple(kernels) or (("gpu",) if device.startswith("cuda") and "gpu" in KERNELS else ())
    made: list[Piece] = []
    for name, options in cases():
        for kind, chosen in ((NARROW, narrow_kernels), (WIDE, tuple(kernels) or tuple(KERNELS))):
            wanted = tuple(dtype for dtype in kind if dtype in types)
            if wanted and chosen:
                made.append((name, options, wanted, device, chosen))
    return made


def side_by_side(many: list[Piece], jobs: int) -> Iterator[Tally]:
    """The tallies as they come, from so many processes."""
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as processes:
        for done in as_completed([processes.submit(run_piece, piece) for piece in many]):
            yield done.result()


def main() -> int:
    """Run everything on a device; exit status 1 where something differs."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("device", nargs="?", default="cuda" if torch.cuda.is_available() else "cpu")
    options.add_argument("--jobs", type=int, default=1, help="processes side by side")
    options.add_argument("--share", default="1/1", help="2/4: the second of four equal shares")
    options.add_argument("--types", nargs="+", choices=[str(dtype)[6:] for dtype in TOLERANCES])
    options.add_argument("--kernels", nargs="+", default=(), choices=list(KERNELS))
    given = options.parse_args()
    began = time.monotonic()
    types = [dtype for dtype in TOLERANCES if given.types is None or str(dtype)[6:] in given.types]
    mine = share_of(pieces(given.device, types, given.kernels), given.share)
    total = Tally()
    for tally in map(run_piece, mine) if given.jobs == 1 else side_by_side(mine, given.jobs):
        total.add(tally)
        sys.stdout.writelines(f"{line}\n" for line in tally.wrong)
        sys.stdout.flush()
    seconds = time.monotonic() - began
    end = f"on {given.device}: ran {dict(total.ran)}, {len(total.wrong)} differences, {seconds:.0f} s"
    sys.stdout.write("\n".join([*total.lines(KERNELS, "gpu"), end, ""]))
    return 1 if total.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""The fused scan of linear cells on a GPU: right, the same to the bit, and how fast. Needs numpy, torch and Triton.

    PYTHONPATH=src python tests/kernels/gpu_linear_check.py [--sweep]

1. The scan alone against the same recurrence in float64: what is left is one rounding of each result.
2. Whole cells against the reference loop in float64, beside the kernel `parallel` in the same type.
3. The same bits 200 times, over memory full of NaN.
4. Times: launched one by one, and as a CUDA graph. `--sweep` tries tiles as well, for `choose_tile`.

Exit status 1 where something is wrong.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product

import torch
from launches import noted_launches
from parity import Situation, make_job, plain, results
from torch import Tensor

from thereafter.cells import CELLS
from thereafter.cells.base import Cell
from thereafter.kernels.gpu.compiling import Wanted, binary, lacks_triton
from thereafter.kernels.gpu.driver import lacks_driver
from thereafter.kernels.gpu.linear import (
    SCAN_PROGRAMS,
    ScanPrograms,
    ScanTile,
    choose_tile,
    linear_refuses,
    run_linear_on_gpu,
)
from thereafter.kernels.jobs import Job, Kernel, SameBits, Unrolled
from thereafter.kernels.plain import PARALLEL, REFERENCE, linear_scan

LINEAR = ("mingru", "minlstm", "diagonal")
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
SHAPES = ((64, 512, 256), (16, 4096, 128), (128, 784, 256), (32, 70, 1150))
ODD = ((1, 1, 1), (2, 7, 5), (3, 64, 6), (2, 65, 33), (3, 129, 130), (1, 5000, 20), (2, 3001, 7), (1, 20000, 128))
ROUNDING = {torch.float32: 1e-5, torch.bfloat16: 5e-3, torch.float16: 7e-4}  # of the largest number
TOLERANCES = {torch.float32: 1e-4, torch.bfloat16: 3e-2, torch.float16: 6e-3}
BANDWIDTH = 4.8e12  # bytes a second of an H200's memory

SITUATIONS = [
    Situation("plain"),
    Situation("one step", steps=1),
    Situation("one row", batch=1, steps=13),
    Situation("odd", batch=5, steps=37),
    Situation("time first", time_first=True),
    Situation("lengths", batch=5, steps=37, lengths=(37, 11, 30, 1, 36)),
    Situation("an empty row", lengths=(2, 0, 5)),
    Situation("lengths reversed", lengths=(4, 6, 1), reverse=True),
    Situation("reset", reset=True, steps=20),
    Situation("reset, lengths", reset=True, batch=5, steps=37, lengths=(37, 11, 30, 1, 36)),
    Situation("transposed", layout="transposed"),
    Situation("strided", layout="strided", lengths=(4, 6, 1)),
    Situation("expanded", layout="expanded"),
    Situation("only the outputs", charged=("output",), steps=17),
    Situation("only the last h", charged=("state h",), steps=17),
]


class FusedScan:
    """The kernel as the check runs it."""

    name = "gpu"

    def __init__(self, scanner: ScanPrograms | None = None) -> None:
        self._scanner = scanner

    def refuses(self, job: Job) -> str | None:
        return linear_refuses(job)

    def run(self, job: Job) -> Unrolled:
        return run_linear_on_gpu(job, self._scanner)

    def status(self) -> str:
        return "runs on a GPU"

    def deterministic(self, job: Job) -> SameBits:
        return SameBits(range(1, 2), "one order of every sum")


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def drawn(rows: int, steps: int, units: int, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """a, b, the initial state, dy and the gradient of the last state."""
    torch.manual_seed(steps + units)
    a = torch.sigmoid(2 + torch.randn(rows, steps, units, device="cuda"))
    b, dy = (torch.randn(rows, steps, units, device="cuda") for _ in range(2))
    h, dlast = (torch.randn(rows, units, device="cuda") for _ in range(2))
    return tuple(array.to(dtype) for array in (a, b, h, dy, dlast))


def viewed(rows: int, steps: int, units: int, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """The same as a diagonal cell, a layer that has time first, a shared initial state and a sum give them."""
    a, b, h, dy, dlast = drawn(rows, steps, units, dtype)
    b = b.transpose(0, 1).contiguous().transpose(0, 1)
    return a[:1, :1].expand_as(a), b, h[:1].expand_as(h), dy[..., :1].expand_as(dy), dlast


def largest_error(got: Tensor, truth: Tensor) -> float:
    """As a share of the largest number."""
    value, truth = got.detach().double().cpu(), truth.detach().double().cpu()
    return float((value - truth).abs().max() / truth.abs().max().clamp(min=0.1))


def scan_errors(programs: ScanPrograms, arrays: tuple[Tensor, ...]) -> list[float]:
    """Of h, da, db and dh, from the same numbers in float64; a gradient is that of the states as they were written."""
    a, b, h, dy, dlast = arrays
    states = programs.forward(a, b, h, b.dtype)
    leaves = [array.double().requires_grad_() for array in (a, b, h)]
    truth = linear_scan(*leaves)
    gradients = torch.autograd.grad((truth, truth[:, -1]), leaves, (dy.double(), dlast.double()))
    got = programs.backward(a, states, h, dy, dlast, b.dtype)
    return [largest_error(one, other) for one, other in zip((states, *got), (truth, *gradients), strict=True)]


def check_scans() -> int:
    """Shapes that end in every way: within a piece, a tile, a segment, a block of units."""
    say("\n1. the scan alone: largest error of h, da, db, dh as a share of the largest number")
    wrong, programs = 0, SCAN_PROGRAMS
    shapes = [
        (1, 1, 1),
        (2, 7, 5),
        (3, 64, 6),
        (2, 65, 33),
        (3, 129, 130),
        (1, 5000, 20),
        (2, 3001, 7),
        (1, 20000, 128),
    ]
    shapes += list(SHAPES)
    for dtype in DTYPES:
        for shape in shapes:
            errors = scan_errors(programs, drawn(*shape, dtype))
            views = scan_errors(programs, viewed(*shape, dtype))
            bad = not max(*errors, *views) <= 2 * ROUNDING[dtype]  # h is rounded, and then its product with g
            wrong += bad
            numbers = "  ".join(f"{error:.1e}" for error in errors)
            say(f"  {'WRONG' if bad else 'right'}  {dtype!s:15} {shape!s:18} {numbers}   views {max(views):.1e}")
    return wrong


def check_cells() -> int:
    say("\n2. whole cells: largest error against the reference loop in float64, and that of `parallel`")
    wrong = 0
    for name in LINEAR:
        for units in (5, 64):
            cell: Cell = CELLS.load(name)(4, units)
            for dtype in DTYPES:
                ours, theirs, names = 0.0, 0.0, []
                for at in SITUATIONS:
                    job = make_job(cell, at, dtype, "cuda")
                    truth = results(REFERENCE, plain(job), at, lay_out=False)
                    error = cell_error(FusedScan(), job, at, truth, dtype)
                    other = cell_error(PARALLEL, job, at, truth, dtype)
                    ours, theirs = max(ours, error), max(theirs, other)
                    if not error <= max(TOLERANCES[dtype], 1.5 * other):
                        names.append(at.name)
                wrong += len(names)
                words = f"WRONG in {', '.join(names)}" if names else "right"
                say(f"  {name:9} {units:3} units {dtype!s:15} ours {ours:.1e}, parallel {theirs:.1e}  {words}")
    return wrong + check_autocast()


def cell_error(kernel: Kernel, job: Job, at: Situation, truth: dict[str, Tensor], dtype: torch.dtype) -> float:
    got = results(kernel, job, at)
    if got.keys() != truth.keys() or any(array.dtype != dtype for array in got.values()):
        return float("inf")
    return max(largest_error(got[name], truth[name]) for name in truth)


def check_autocast() -> int:
    wrong = 0
    for name in LINEAR:
        cell: Cell = CELLS.load(name)(8, 64)
        job = make_job(cell, Situation("odd", batch=5, steps=37), torch.float32, "cuda")
        with torch.autocast("cuda", torch.bfloat16):
            got, expected = run_linear_on_gpu(job), REFERENCE.run(job)
        error = largest_error(got.y_BTO, expected.y_BTO.double())
        bad = got.y_BTO.dtype != expected.y_BTO.dtype or not error <= TOLERANCES[torch.bfloat16]
        wrong += bad
        say(f"  {name:9} under autocast: {got.y_BTO.dtype}, {error:.1e}  {'WRONG' if bad else 'right'}")
    return wrong


def check_bits(repeats: int) -> int:
    say(f"\n3. the same bits {repeats} times over NaN")
    wrong = 0
    for shape in ((64, 512, 256), (1, 20000, 128), (5, 37, 33)):
        a, b, h, dy, dlast = drawn(*shape, torch.bfloat16)
        first: list[Tensor] = []
        different = 0
        for _ in range(repeats):
            poison = [torch.full_like(a, float("nan")) for _ in range(4)]  # what the next arrays are made of
            poison += [torch.full((2 * size,), float("nan"), device="cuda") for size in (h.numel(), 64 * h.numel())]
            del poison
            states = SCAN_PROGRAMS.forward(a, b, h, b.dtype)
            got = [states, *SCAN_PROGRAMS.backward(a, states, h, dy, dlast, b.dtype)]
            first = first or [array.clone() for array in got]
            pairs = zip(got, first, strict=True)
            different += any(not torch.equal(one.view(torch.int16), two.view(torch.int16)) for one, two in pairs)
        finite = all(bool(torch.isfinite(array).all()) for array in first)
        wrong += bool(different) or not finite
        say(f"  {shape!s:18} {different} of {repeats} differ, {'all finite' if finite else 'NOT FINITE'}")
    return wrong


def seconds(work: Callable[[], object], graph: bool) -> float:
    """The median time of a call."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)
    call: Callable[[], object] = work
    if graph:
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            work()
        call = captured.replay
    times = []
    for _ in range(15):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(5):
            call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 5e3)
    return statistics.median(times)


def scan_times(programs: ScanPrograms, arrays: tuple[Tensor, ...], *, graph: bool = True) -> tuple[float, float]:
    """Of the forward and of the backward pass."""
    a, b, h, dy, dlast = arrays
    states = programs.forward(a, b, h, b.dtype)
    forward = seconds(lambda: programs.forward(a, b, h, b.dtype), graph)
    return forward, seconds(lambda: programs.backward(a, states, h, dy, dlast, b.dtype), graph)


def time_scans() -> None:
    say("\n4a. the scan alone, bfloat16 and float32, in a graph: microseconds, and the share of the memory's 4.8 TB/s")
    for dtype in (torch.bfloat16, torch.float32):
        for shape in SHAPES:
            a, b, h, dy, dlast = drawn(*shape, dtype)
            size = a.numel() * a.element_size()
            forward, backward = scan_times(SCAN_PROGRAMS, (a, b, h, dy, dlast))
            host, _ = scan_times(SCAN_PROGRAMS, (a, b, h, dy, dlast), graph=False)
            tile = choose_tile(*shape, a.element_size(), True, 132)
            say(
                f"  {dtype!s:15} {shape!s:15} forward {1e6 * forward:6.1f} ({3 * size / forward / BANDWIDTH:4.0%})  "
                f"backward {1e6 * backward:6.1f} ({5 * size / backward / BANDWIDTH:4.0%})  "
                f"forward without a graph {1e6 * host:6.1f}  {tuple(tile)}"
            )


def time_cells() -> None:
    say("\n4b. whole cells, bfloat16, inputs = units: microseconds forward / forward and backward")
    for name in LINEAR:
        for rows, steps, units in SHAPES:
            cell: Cell = CELLS.load(name)(units, units)
            at = Situation("timed", batch=rows, steps=steps)
            job = make_job(cell, at, torch.bfloat16, "cuda")
            dy = torch.randn(rows, steps, units, device="cuda", dtype=torch.bfloat16)
            columns = []
            for kernel in (FusedScan(), PARALLEL):
                for graph in (False, True):
                    columns.append((seconds(forward_of(kernel, job), graph), seconds(both_of(kernel, job, dy), graph)))
            ours, ours_graph, theirs, theirs_graph = columns
            cells = "   ".join(f"{1e6 * forward:7.0f} / {1e6 * both:7.0f}" for forward, both in columns)
            say(
                f"  {name:9} {(rows, steps, units)!s:15} ours, ours in a graph, parallel, in a graph: {cells}   "
                f"faster {theirs[1] / ours[1]:.1f}x, in graphs {theirs_graph[1] / ours_graph[1]:.1f}x"
            )


def forward_of(kernel: Kernel, job: Job) -> Callable[[], object]:
    def work() -> object:
        with torch.no_grad():
            return kernel.run(job)

    return work


def both_of(kernel: Kernel, job: Job, dy: Tensor) -> Callable[[], object]:
    leaves = [job.x_BTI, *job.weights.values()]
    return lambda: torch.autograd.grad(kernel.run(job).y_BTO, leaves, dy)


def candidates(shape: tuple[int, int, int]) -> Iterator[ScanTile]:
    rows, steps, units = shape
    for columns, threads, length in product((16, 32, 64, 128), (128, 256, 512), (4, 6, 8)):
        chunks = 2 * threads // columns
        tiles = -(-steps // (chunks * length))
        for segments in {1, min(2, tiles), min(4, tiles)} if rows * -(-units // columns) <= 264 else {1}:
            yield ScanTile(chunks, length, columns, 2, -(-tiles // segments) * chunks * length)


def facts() -> tuple[int, int]:
    """Capability and number of multiprocessors."""
    device = torch.cuda.get_device_properties(0)
    return 10 * device.major + device.minor, device.multi_processor_count


def compile_it(wanted: Wanted) -> int:
    return len(binary(wanted).cubin)


def compile_all(wanted: set[Wanted]) -> None:
    """Side by side; they are kept on disk, where this process finds them."""
    begin = time.perf_counter()
    with ProcessPoolExecutor(14, mp_context=multiprocessing.get_context("spawn")) as pool:
        list(pool.map(compile_it, wanted))
    say(f"compiled {len(wanted)} programs in {time.perf_counter() - begin:.0f} s")


def both_passes(programs: ScanPrograms, arrays: tuple[Tensor, ...]) -> None:
    a, b, h, dy, dlast = arrays
    programs.backward(a, programs.forward(a, b, h, b.dtype), h, dy, dlast, b.dtype)


def compile_for_checks() -> None:
    with noted_launches(*facts()) as launched:
        for dtype in DTYPES:
            for shape in ODD + SHAPES:
                both_passes(SCAN_PROGRAMS, drawn(*shape, dtype))
                both_passes(SCAN_PROGRAMS, viewed(*shape, dtype))
            for name in LINEAR:
                for units in (5, 64):
                    cell: Cell = CELLS.load(name)(4, units)
                    for at in SITUATIONS:
                        results(FusedScan(), make_job(cell, at, dtype, "cuda"), at)
    compile_all({each.wanted for each in launched})


def sweep() -> None:
    """Tiles of bfloat16, by time."""
    arrays = {shape: drawn(*shape, torch.bfloat16) for shape in SHAPES}
    with noted_launches(*facts()) as launched:
        for shape, drawn_arrays in arrays.items():
            for tile in candidates(shape):
                both_passes(ScanPrograms(tile), drawn_arrays)
    say("\n5. tiles")
    compile_all({each.wanted for each in launched})
    for shape, (a, b, h, dy, dlast) in arrays.items():
        rows = []
        for tile in candidates(shape):
            forward, backward = scan_times(ScanPrograms(tile), (a, b, h, dy, dlast))
            rows.append((1e6 * forward, 1e6 * backward, tile))
        for which, label in ((0, "forward"), (1, "backward")):
            say(f"  {shape} {label}: microseconds, (chunks, length, columns, vector, span)")
            for row in sorted(rows, key=lambda row: row[which])[:6]:
                say(f"    {row[which]:7.1f}  {tuple(row[2])}, the other {row[1 - which]:7.1f}")


def main() -> int:
    words = argparse.ArgumentParser(description="the fused scan on a GPU")
    words.add_argument("--sweep", action="store_true", help="try tiles as well")
    chosen = words.parse_args()
    lacking = lacks_triton() or lacks_driver() or (None if torch.cuda.is_available() else "there is no GPU")
    if lacking:
        say(f"cannot run here: {lacking}")
        return 1
    torch.backends.cuda.matmul.allow_tf32 = False
    compile_for_checks()
    wrong = check_scans() + check_cells() + check_bits(200)
    time_scans()
    time_cells()
    if chosen.sweep:
        sweep()
    say(f"\n{wrong} wrong" if wrong else "\nall right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

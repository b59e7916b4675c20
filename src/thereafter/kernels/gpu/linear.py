"""minGRU, minLSTM and diagonal on a GPU: coefficients by torch, the recurrence h_t = a_t h_{t-1} + b_t in one program.

The forward pass reads a and b once and writes h; the backward pass reads a, h and dy and writes da and db. That is all
the memory there is to move, and moving it is all the time that it takes. `code/linear.py` has the programs and says how
they go along time; `ScanTwin` of tests/kernels/gpu_twins.py does the same in torch.

Shapes: B rows, T steps, H units; a tile of P pieces of S steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from thereafter.kernels.gpu.launch import FLOATS, launch, processors
from thereafter.kernels.jobs import Job, Unrolled
from thereafter.kernels.plain import resets_and_ends
from thereafter.kernels.second import Called, is_passed_over, no_gradients, twice_differentiable
from thereafter.kernels.switches import apply_many

_THREADS = 256  # of a block: with more of them a thread has too few registers for its tile
_LARGEST = 1 << 31  # numbers of a row: what a 32-bit count holds


def linear_refuses(job: Job) -> str | None:
    """Why such a job of a linear cell is not for this scan; None where it is. The device is not looked at."""
    if not job.cell.linear:
        return f"the cell {job.cell.name!r} is not linear in its state"
    if job.record:
        return "the gates of every step are recorded by the kernels 'parallel' and 'reference'"
    if job.hold:
        return "zoneout needs the step-by-step form of a linear cell"
    read = (job.x_BTI, *job.state, *job.weights.values())
    other = [array.dtype for array in read if array.dtype not in FLOATS]
    if other:
        return f"an array is {other[0]}; the scan knows float32, bfloat16 and float16, and computes in float32"
    rows, steps, _ = job.x_BTI.shape
    if not rows or not steps:
        return "there is nothing to do"
    if steps * job.cell.hidden_size >= _LARGEST:
        return f"a row has {steps * job.cell.hidden_size:,} numbers; it counts to {_LARGEST:,}"
    return None


class ScanTile(NamedTuple):
    """How a scan is cut: blocks of `columns` units of a row, tiles of `chunks` pieces of `length` steps, and segments
    of `span` steps that are blocks of their own. `vector`: neighbouring units of a thread."""

    chunks: int
    length: int
    columns: int
    vector: int
    span: int

    @property
    def warps(self) -> int:
        return max(1, self.chunks * self.columns // (32 * self.vector))

    @property
    def steps(self) -> int:
        return self.chunks * self.length


def choose_tile(rows: int, steps: int, units: int, itemsize: int, paired: bool, multiprocessors: int) -> ScanTile:
    """A good tile. `itemsize`: bytes of a number; `paired`: two neighbouring units can be loaded at once.

    A multiprocessor must have some 25 kilobytes on their way to it to keep its share of the memory busy: 256 threads,
    each with 16 bytes of a and of b for each of its units, are 16 of them, and two blocks may share one. Blocks are
    narrower where there would be too few of them for all multiprocessors, but never narrower than 32 bytes, the least
    that memory gives; then time is cut as well.
    """
    vector = 2 if paired else 1
    length = 16 // itemsize
    columns = 32 * vector
    while columns > max(32 // itemsize, 2 * vector) and (
        10 * rows * -(-units // columns) < 9 * multiprocessors or columns >= 2 * units
    ):
        columns //= 2
    blocks = rows * -(-units // columns)
    chunks = _THREADS * vector // columns
    while chunks > 2 and chunks // 2 * length >= steps:  # more pieces than steps
        chunks //= 2
    tiles = -(-steps // (chunks * length))
    segments = max(1, min(multiprocessors // blocks, tiles // 2))  # at least two tiles, so that loads go on meanwhile
    return ScanTile(chunks, length, columns, vector, -(-tiles // segments) * chunks * length)


class _CalledScan(Called, Protocol):
    scanner: ScanPrograms
    b_type: torch.dtype


class _FusedScan(torch.autograd.Function):
    """All states, and the last once more: so its gradient need not be spread over all steps."""

    @staticmethod
    def forward(
        ctx: _CalledScan, scanner: ScanPrograms, kind: torch.dtype, a_BTH: Tensor, b_BTH: Tensor, h_BH: Tensor
    ) -> tuple[Tensor, Tensor]:
        h_BTH = scanner.forward(a_BTH, b_BTH, h_BH, kind)
        ctx.scanner, ctx.b_type = scanner, b_BTH.dtype
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(a_BTH, h_BTH, h_BH)
        return h_BTH, h_BTH[:, -1].clone()

    @staticmethod
    def backward(ctx: _CalledScan, dy_BTH: Tensor | None, dlast_BH: Tensor | None) -> tuple[Tensor | None, ...]:
        if is_passed_over(dy_BTH, dlast_BH):
            return no_gradients(ctx)
        a_BTH, h_BTH, h_BH = ctx.saved_tensors
        if dy_BTH is None:
            dy_BTH = h_BTH.new_zeros(h_BTH.shape[-1]).expand_as(h_BTH)
        if dlast_BH is None:
            dlast_BH = h_BTH.new_zeros(h_BTH.shape[-1]).expand_as(h_BH)
        return None, None, *ctx.scanner.backward(a_BTH, h_BTH, h_BH, dy_BTH, dlast_BH, ctx.b_type)


def run_linear_on_gpu(job: Job, scanner: ScanPrograms | None = None) -> Unrolled:
    """Outputs and last state of a job that `linear_refuses` takes, with derivatives of any order.

    The state of a finished row stays as it is.
    """
    a_BTH, b_BTH, kind = _coefficients(job)
    a_BTH, b_BTH, live_BT1 = resets_and_ends(job, a_BTH, b_BTH)
    h_BTH, last_BH = apply_many(_FusedScan, scanner or SCAN_PROGRAMS, kind, a_BTH, b_BTH, job.state.h)
    y_BTH = h_BTH if live_BT1 is None else torch.where(live_BT1, h_BTH, 0.0)
    return twice_differentiable(job, Unrolled(y_BTH, type(job.state)(last_BH)))


def _coefficients(job: Job) -> tuple[Tensor, Tensor, torch.dtype]:
    """a and b of all steps, and the type of the states, which is that of the plain loop.

    What a cell makes of its vectors alone is made in float32: it moves no memory, and a decay such as 0.999 is 1 in
    bfloat16, which would forget nothing.
    """
    z_BTG = job.cell.project(job.x_BTI, job.weights)
    weights = {
        name: weight.to(torch.promote_types(weight.dtype, torch.float32)) if weight.dim() == 1 else weight
        for name, weight in job.weights.items()
    }
    a_BTH, b_BTH = job.cell.coefficients(z_BTG, weights)
    kind = torch.promote_types(z_BTG.dtype, job.state.h.dtype)
    if all(weights[name] is weight for name, weight in job.weights.items()):  # as under autocast
        kind = torch.promote_types(kind, torch.promote_types(a_BTH.dtype, b_BTH.dtype))
    return a_BTH, b_BTH, kind


class ScanPrograms:
    """The programs; from another thread too. `tile`: always this one, as for a measurement."""

    def __init__(self, tile: ScanTile | None = None) -> None:
        self._tile = tile

    def forward(self, a_BTH: Tensor, b_BTH: Tensor, h_BH: Tensor, kind: torch.dtype) -> Tensor:
        """h_BTH of a type from the initial state."""
        a_BTH, b_BTH, h_BH = (_readable(array) for array in (a_BTH, b_BTH, h_BH))
        out_BTH = b_BTH.new_empty(b_BTH.shape, dtype=kind)
        arrays = {"a": a_BTH, "b": b_BTH, "first": h_BH, "h": out_BTH}
        self._launch("scan_forward", arrays, ("a", "b", "first"), out_BTH)
        return out_BTH

    def backward(
        self, a_BTH: Tensor, h_BTH: Tensor, h_BH: Tensor, dy_BTH: Tensor, dlast_BH: Tensor, b_type: torch.dtype
    ) -> tuple[Tensor, Tensor, Tensor]:
        """da_BTH, db_BTH and dh_BH from the gradients of all states, and of the last once more."""
        a_BTH, h_BTH, h_BH, dy_BTH, dlast_BH = (_readable(x) for x in (a_BTH, h_BTH, h_BH, dy_BTH, dlast_BH))
        da_BTH = a_BTH.new_empty(a_BTH.shape)
        db_BTH = h_BTH.new_empty(h_BTH.shape, dtype=b_type)
        dh_BH = h_BH.new_empty(h_BH.shape)
        arrays = {"a": a_BTH, "h": h_BTH.contiguous(), "first": h_BH, "dy": dy_BTH, "dlast": dlast_BH}
        arrays |= {"da": da_BTH, "db": db_BTH, "dfirst": dh_BH}
        self._launch("scan_backward", arrays, ("a", "dy", "first", "dlast"), h_BTH)
        return da_BTH, db_BTH, dh_BH

    def _launch(self, function: str, arrays: dict[str, Tensor], strided: Sequence[str], h_BTH: Tensor) -> None:
        """One launch, or two where time is cut into segments: first what each does to a state."""
        strides = {
            f"{name}_{axis}": arrays[name].stride(place)
            for name in strided
            for place, axis in enumerate(("row", "step")[: arrays[name].dim() - 1])
        }
        rows, steps, units = h_BTH.shape
        paired = all(number % 2 == 0 for number in (*strides.values(), units))
        about = h_BTH.element_size(), paired, processors(h_BTH.device.index)
        tile = self._tile or choose_tile(rows, steps, units, *about)
        segments = -(-steps // tile.span)
        kept = reached = None
        if segments > 1:
            # 16 bytes apart
            kept, reached = h_BTH.new_empty((2, rows, segments, units + -units % 4), dtype=torch.float32)
        counts = {"steps": steps, "units": units, "span": tile.span}
        for summary in (True, False) if segments > 1 else (False,):
            launch(
                "linear",
                function,
                {**arrays, "kept": kept, "reached": reached, **counts, **strides},
                {"SUMMARY": summary, "CHUNKS": tile.chunks, "LENGTH": tile.length, "COLUMNS": tile.columns},
                warps=tile.warps,
                blocks=rows * segments * -(-units // tile.columns),
                aligned=tuple([(name, tile.vector) for name in ("units", *strides)]) if tile.vector > 1 else (),
                kinds=dict.fromkeys(strides, "i64"),
            )


SCAN_PROGRAMS = ScanPrograms()


def _readable(array: Tensor) -> Tensor:
    """The same numbers with units side by side, beginning at a multiple of 16 bytes, as the programs read them."""
    if array.stride(-1) != 1 and array.shape[-1] > 1:
        array = array.contiguous()
    return array if array.data_ptr() % 16 == 0 else array.clone(memory_format=torch.contiguous_format)

"""How a scan is shared by the threads of a CPU, by figures of the processor that are read at run time (`processor`).

Rows or units. A thread that owns rows of the batch reads all of the matrix U, M bytes of it, at every step; one that
owns units reads its part, M / threads, but waits for the others at every step and reads what they made, B H numbers. So
rows are shared where U stays in the L2 cache of each core, and the threads need not meet: a core that is busy with
something else then holds up nobody.

Where U just fills the L2 cache, as that of an LSTM of 256 units fills 1 MB, the arrays of a step push some of it out:
a step of 16 rows has 16 x 8 H numbers of gates and states, 128 KB, and pages that share places in the cache cost about
a fifth of it. Panels are taken forth and back (`loops.recurrence`), so only what does not fit is read again, here a
third of U. It comes from the L3 cache, ahead of its use; beside the 16 x M / 2 operations of the step these are 0.04
bytes an operation, where a matrix that is read whole at every step by threads that own units, with 20 rows, has 0.1.
Measured on one core of an Intel Xeon with 1 MB (2026-11-17), 16 rows of all units ran at 88 to 108 billion operations a
second, 32 rows of half the units at 92 to 111: less than a core that is busy for a moment costs where threads meet. So
the limit is the whole cache. `THEREAFTER_CACHES=L2=800K` moves it: then such a layer goes by units.

The input inside or before. A step can multiply [x, h] by [W, U] in one product, if both fit; else x W' of all steps is
one product of torch's, which writes the pre-activations to memory and a step reads them again. The L3 cache decides
nothing: what does not fit into L2 is read once a step either way.

On how many threads the kernel gives the same bits. A sum of floating-point numbers depends on its order. Where threads
own rows of the batch, each row's steps, and the parts that sums over rows are made of, are the same whoever takes them.
Where they own units of the layer, how the work is cut depends on how many there are. The products over all steps are
torch's: MKL cuts long sums by threads, unless it is told otherwise before torch is imported (its "conditional numerical
reproducibility").

Shapes: T steps, B rows, I inputs, H units, G gate units.
"""

from __future__ import annotations

import os

import torch

from thereafter.base import compiled
from thereafter.base.processor import processor
from thereafter.cells.gru import GRU
from thereafter.cells.lstm import LSTM
from thereafter.kernels.jobs import Job, SameBits, torch_products
from thereafter.kernels.switches import backends

FEWEST_EACH = 2  # rows of a thread
FEWEST_ROWS = 16  # of a batch, for the input's product to be worth while in a step
_BESIDE = 2  # where threads own units, [W, U] leaves the others half of each cache
WORTH_A_TEAM = 1_000_000  # operations of a sequence; waking a thread costs as much as a hundred thousand
_LAYERS = (("LSTM", 4), ("GRU", 3), ("RNN", 1))  # and their gates
_BATCHES = (8, 16, 32, 64, 128)
_MOST_ROWS = 32  # of a thread, until all threads have a part


def threads() -> int:
    """How many share a scan: torch's."""
    return torch.get_num_threads()


def shares_rows(rows: int, matrix_bytes: int, *, ragged: bool = True) -> bool:
    """Whether each thread should take rows of the batch, and all of the matrix U, of that many bytes; else it takes
    units, and its part of U. `ragged`: whether parts of the rows are claimed one by one (`loops.team`)."""
    return most_sharing(rows, matrix_bytes, ragged=ragged) >= threads()


def most_sharing(rows: int, matrix_bytes: int, *, ragged: bool = True) -> int:
    """The largest number of threads that share such rows: each has a part of them, and of two rows at least. 0 where U
    does not fit."""
    from thereafter.kernels.loops.team import parts_of

    return min(rows // max(1, FEWEST_EACH), parts_of(rows, ragged)) if matrix_bytes <= processor().level_2 else 0


def input_inside(rows: int, matrix_bytes: int, by_rows: bool, inputs: int) -> bool:
    """Whether the input's product belongs into the steps: where [W, U], of that many bytes, fits the caches; or where
    reading W at every step is little beside the pre-activations that a hoisted product writes and a step reads again.
    """
    level_2 = processor().level_2
    cached = matrix_bytes <= (level_2 if by_rows else level_2 // _BESIDE * threads())
    return rows >= FEWEST_ROWS and (cached or (not by_rows and inputs <= rows))


def worth_a_team(operations: int) -> bool:
    """Whether the products of a sequence, of so many multiplications and additions, pay for waking other threads."""
    return operations >= WORTH_A_TEAM


def most_units(gates: int, itemsize: int = 4) -> int:
    """The most units of a layer with so many gates whose rows are shared: U [gates H, H] fits."""
    return int((processor().level_2 / (gates * itemsize)) ** 0.5)


STRICT = "MKL_CBWR=AUTO,STRICT"


def same_bits(job: Job) -> SameBits:
    """What `Cpu.deterministic` answers."""
    cell, rows = job.cell, len(job.x_BTI)
    if cell.linear:
        return torch_products(job, "gates are torch's, which cuts long arrays by threads")
    # the matrices of a step: a projected LSTM has two
    read = sum(job.weights[name].nbytes for name in ("weight_hh", "weight_hr") if name in job.weights)
    # parts of ragged rows, and those of a GRU, are claimed one by one
    most = most_sharing(rows, read, ragged=job.lengths_B is not None or type(cell) is GRU)
    if most < torch.get_num_threads():
        return torch_products(job, "threads own units of the layer, for want of rows or of cache")
    return _with_products(job, most, "threads own rows of the batch")


def lines() -> dict[str, str]:
    """What follows from the figures of the processor, in words; nothing where no loop can be compiled."""
    if compiled.missing() is not None:
        return {}
    from thereafter.kernels.loops.team import parts_of

    count = threads()
    fewest = next(rows for rows in range(1, _MOST_ROWS * count + 1) if most_sharing(rows, 0) >= count)
    units = ", ".join(f"{name} up to {most_units(gates)} units" for name, gates in _LAYERS)
    rows = f"{count} threads own rows of a batch of {fewest} or more where U fits into L2: {units} (float32)"
    parts = ", ".join(f"{rows} rows in {parts_of(rows)}" for rows in _BATCHES)
    answers = {name: same_bits(_usual(rows)) for name, rows in {"32 rows": 32, "one row": 1}.items()}
    return {
        "sharing": f"{rows}; else units of a layer",
        "parts": f"{parts}: what a busy core leaves over others take",
        "same bits": "; ".join(f"LSTM of 256 units, {name}: {answer}" for name, answer in answers.items()),
    }


def _usual(rows: int) -> Job:
    """A job of which only sizes are looked at."""
    cell, nothing = LSTM(256, 256), torch.empty(())
    weights = {name: nothing.expand(shape) for name, shape in cell.shapes().items()}
    return Job(cell, nothing.expand(rows, 35, 256), cell.zero_state(1, nothing), weights)


def strict_products() -> bool:
    """Whether torch's products are the same on any number of threads."""
    return bool(backends().mkl.is_available()) and os.environ.get("MKL_CBWR", "").upper().endswith(",STRICT")


def _with_products(job: Job, most: int, why: str) -> SameBits:
    if strict_products():
        return SameBits(range(1, most + 1), why)
    once_told = f"; with {STRICT} on 1 to {most}" if backends().mkl.is_available() else ""
    return torch_products(job, f"{why}, but products over all steps are torch's{once_told}")

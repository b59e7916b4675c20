"""On how many threads the CPU kernel gives the same bits.

A sum of floating-point numbers depends on its order. Where threads own rows of the batch, each row's steps, and the
parts that sums over rows are made of, are the same whoever takes them. Where they own units of the layer, how the work
is cut depends on how many there are. The products over all steps are torch's: MKL cuts long sums by threads, unless it
is told otherwise before torch is imported (its "conditional numerical reproducibility").
"""

from __future__ import annotations

import os

import torch

from thereafter.base.compiled import missing
from thereafter.cells.gru import GRU
from thereafter.cells.lstm import LSTM
from thereafter.kernels.cpu.plan import most_sharing
from thereafter.kernels.functions import backends
from thereafter.kernels.jobs import Job, SameBits, torch_products

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
    """What it is for usual jobs, in words; nothing where no loop can be compiled."""
    if missing() is not None:
        return {}
    answers = {name: same_bits(_usual(rows)) for name, rows in {"32 rows": 32, "one row": 1}.items()}
    return {"same bits": "; ".join(f"LSTM of 256 units, {name}: {answer}" for name, answer in answers.items())}


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

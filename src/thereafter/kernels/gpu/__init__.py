"""Recurrent layers on an NVIDIA GPU by persistent programs: one launch for a whole sequence.

The recurrent matrix is read once and stays in registers and shared memory; the blocks of a launch own some units each,
exchange h through the second cache and meet once a step. docs/gpu.md says how, and what it costs.

preparing       what all programs ask of a job
passes          LSTM, GRU, Elman: a job by the wide and narrow programs
  four_blocks     cells as a formula over four blocks
  geometry        who owns what
  launching       the passes over whole sequences; twin: the same in plain torch
  recurrence      projections, gradients of weights, autograd
before          the GRU that resets before its product; before_twin
normed          the layer-norm LSTM; norm_geometry, norm_twin
linear          minGRU, minLSTM, diagonal: a fused scan
one_row         one step of an LSTM language model; drawing: the next token of every row
row_sums        rows added by an index, for gradients of embeddings
crf             a linear-chain CRF: loss, gradients, marginals, best sequences; crf_twin
layout          weights and batches in the programs' order, in plain torch; copying: the same by programs
launch          a program by its name; compiling: by Triton, kept on disk; driver: launched through CUDA's driver
code/           the programs
"""

from __future__ import annotations

from functools import lru_cache

import torch

from thereafter.cells.base import Cell
from thereafter.cells.gru import GRU
from thereafter.cells.lstm import LSTM
from thereafter.kernels.gpu.before import BEFORE_PROGRAMS, before_refuses, before_unrolled
from thereafter.kernels.gpu.compiling import lacks_triton
from thereafter.kernels.gpu.driver import lacks_driver
from thereafter.kernels.gpu.launching import PROGRAMS
from thereafter.kernels.gpu.linear import linear_refuses, run_linear_on_gpu
from thereafter.kernels.gpu.normed import NORM_PROGRAMS, norm_refuses, norm_unrolled
from thereafter.kernels.gpu.passes import refuses_blocks, unrolled
from thereafter.kernels.jobs import ANY_THREADS, Job, SameBits, Unrolled
from thereafter.kernels.second import twice_differentiable

_HOPPER = (9, 0)


class Gpu:
    """Persistent programs behind the common door."""

    name = "gpu"

    def refuses(self, job: Job) -> str | None:
        if job.x_BTI.device.type != "cuda":
            return "the programs run on an NVIDIA GPU"
        return lacks(job.x_BTI.device.index) or cannot_take(job, _processors(job.x_BTI.device.index))

    def status(self) -> str:
        if not torch.cuda.is_available():
            return "does not run here: no NVIDIA GPU"
        reason = lacks(torch.cuda.current_device())
        cells = "lstm, gru, elman in bfloat16 and float16, mingru, minlstm and diagonal in float32 as well"
        return f"does not run here: {reason}" if reason else f"runs here: persistent programs for {cells}"

    def deterministic(self, job: Job) -> SameBits:
        return SameBits(
            ANY_THREADS,
            "every sum has one order; products of whole sequences are cuBLAS's, which keep theirs on one stream",
        )

    def run(self, job: Job) -> Unrolled:
        if job.cell.linear:
            return run_linear_on_gpu(job)
        processors = _processors(job.x_BTI.device.index)
        if _is_reset_before(job.cell):
            made = before_unrolled(job, BEFORE_PROGRAMS, processors)
        elif _is_normed(job.cell):
            made = norm_unrolled(job, NORM_PROGRAMS, processors)
        else:
            made = unrolled(job, PROGRAMS, processors)
        return twice_differentiable(job, made)


@lru_cache(maxsize=64)
def lacks(device: int) -> str | None:
    """What a device or its software is missing."""
    if torch.cuda.get_device_capability(device) != _HOPPER:
        return f"the programs are written for Hopper (H100, H200), this is {torch.cuda.get_device_name(device)}"
    return lacks_triton() or lacks_driver()


@lru_cache(maxsize=64)
def _processors(device: int) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


def cannot_take(job: Job, processors: int) -> str | None:
    """Why the programs cannot run a job, whatever the device."""
    if job.cell.linear:
        return linear_refuses(job)
    if _is_reset_before(job.cell):
        return before_refuses(job, processors)
    return (norm_refuses if _is_normed(job.cell) else refuses_blocks)(job, processors)


def _is_reset_before(cell: Cell) -> bool:
    """A GRU that resets before its product meets twice a step: programs of its own."""
    return type(cell) is GRU and cell.options.reset == "before" and not cell.layer_norm


def _is_normed(cell: Cell) -> bool:
    """A layer-norm LSTM exchanges sums over all units as well: programs of its own."""
    return type(cell) is LSTM and cell.layer_norm


GPU = Gpu()

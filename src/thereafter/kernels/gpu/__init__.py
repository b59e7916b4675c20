"""Recurrent layers on an NVIDIA GPU by persistent programs: one launch for a whole sequence.

The recurrent matrix is read once and stays in registers and shared memory; the blocks of a launch own some units each,
exchange h through the second cache and meet once a step. docs/gpu.md says how, and what it costs.

passes          LSTM, GRU, Elman by persistent programs: what is refused, projections, gradients of weights, autograd
  geometry        who owns what
  launching       the passes over whole sequences
linear          minGRU, minLSTM, diagonal: a fused scan
row_sums        rows added by an index, for gradients of embeddings
crf             a linear-chain CRF: loss, gradients, marginals, best sequences
copying         weights and batches in the programs' order
launch          a program by its name; compiling: by Triton, kept on disk, and what the compiled file says of itself;
                driver: launched through CUDA's driver
code/           the programs

`tests/kernels/gpu_twins.py` has a readable twin of every program, in plain torch.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import torch

from thereafter.base import progress
from thereafter.kernels.gpu.compiling import lacks_triton, needed_triton
from thereafter.kernels.gpu.driver import lacks_driver
from thereafter.kernels.gpu.launch import capability, processors
from thereafter.kernels.gpu.launching import PROGRAMS
from thereafter.kernels.gpu.linear import linear_refuses, run_linear_on_gpu
from thereafter.kernels.gpu.passes import refuses, unrolled
from thereafter.kernels.jobs import ANY_THREADS, Job, SameBits, Unrolled
from thereafter.kernels.second import twice_differentiable


class Capability(NamedTuple):
    """What the programs ask of a kind of GPU. `shared`: bytes of shared memory that a block can have. `warpgroups`:
    whether it has Hopper's products by a warpgroup, which the wide and the layer-norm programs are made of. `tried`:
    whether the programs passed the parity suite on such a GPU; elsewhere they are only known to compile."""

    cards: str
    shared: int
    warpgroups: bool = False
    tried: bool = False


CAPABILITIES = {
    80: Capability("A100", 163 << 10),
    86: Capability("A10, RTX 30", 99 << 10),
    89: Capability("L40, RTX 40", 99 << 10),
    90: Capability("H100, H200", 227 << 10, warpgroups=True, tried=True),
    100: Capability("B200", 227 << 10),
    120: Capability("RTX 50", 99 << 10),
}
"""By 10 x major + minor. `tests/kernels/gpu_carry.py` compiles the programs for all of them (docs/gpu.md)."""


class Gpu:
    """Persistent programs behind the common door."""

    name = "gpu"

    def refuses(self, job: Job) -> str | None:
        if job.x_BTI.device.type != "cuda":
            return "the programs run on an NVIDIA GPU"
        device = job.x_BTI.device.index
        return lacks_by_name(device) or cannot_take(job, processors(device), _capability(device))

    def status(self) -> str:
        needs = f"it needs a GPU of capability {_listed(tried=True)} and Triton {needed_triton()}"
        if not torch.cuda.is_available():
            return f"does not run here: no NVIDIA GPU; {needs}; by name also {_listed(tried=False)}"
        device = torch.cuda.current_device()
        reason = lacks_by_name(device)
        if reason:
            return f"does not run here: {reason}; {needs}"
        cells = "lstm, gru, elman in bfloat16 and float16, mingru, minlstm and diagonal in float32 as well"
        caution = untried(device)
        if caution:
            return f"runs here by name alone: persistent programs for {cells}; {caution}"
        return f"runs here: persistent programs for {cells}"

    def deterministic(self, job: Job) -> SameBits:
        return SameBits(
            ANY_THREADS,
            "every sum has one order; products of whole sequences are cuBLAS's, which keep theirs on one stream",
        )

    def run(self, job: Job) -> Unrolled:
        device = job.x_BTI.device.index
        _caution(device)
        if job.cell.linear:
            return run_linear_on_gpu(job)
        about = _capability(device)
        made = unrolled(job, PROGRAMS, processors(device), shared=about.shared, wide=about.warpgroups)
        return twice_differentiable(job, made)


@lru_cache(maxsize=64)
def lacks(device: int) -> str | None:
    """Why `auto` does not take the programs on a device; None where it does."""
    return lacks_by_name(device) or untried(device)


@lru_cache(maxsize=64)
def lacks_by_name(device: int) -> str | None:
    """What a device or its software is missing, whoever asks."""
    if capability(device) not in CAPABILITIES:
        name = torch.cuda.get_device_name(device)
        return f"the programs are compiled for capability {_listed()}, this is {name} of {capability(device) / 10}"
    return lacks_triton() or lacks_driver()


@lru_cache(maxsize=64)
def untried(device: int) -> str | None:
    """What is said of a device on which the programs were never tried; None where they were."""
    if _capability(device).tried:
        return None
    number = capability(device) / 10
    return f"they compile for capability {number}, but were never run on it: compare with kernel='reference' first"


@lru_cache(maxsize=64)
def _caution(device: int) -> None:
    """Warn once that a device was never tried."""
    words = untried(device)
    if words is not None:
        progress.warn(f"the programs of the kernel 'gpu' on {torch.cuda.get_device_name(device)}: {words}")


def _capability(device: int) -> Capability:
    return CAPABILITIES.get(capability(device), CAPABILITIES[90])


def _listed(*, tried: bool | None = None) -> str:
    """Capabilities in words: all, or those that were tried or were not."""
    chosen = {number: one for number, one in CAPABILITIES.items() if tried in (None, one.tried)}
    return ", ".join(f"{number / 10} ({one.cards})" for number, one in chosen.items())


def cannot_take(job: Job, processors: int, capability: Capability = CAPABILITIES[90]) -> str | None:
    """Why the programs cannot run a job on a GPU of so many multiprocessors."""
    if job.cell.linear:
        return linear_refuses(job)
    return refuses(job, processors, shared=capability.shared, wide=capability.warpgroups)


GPU = Gpu()

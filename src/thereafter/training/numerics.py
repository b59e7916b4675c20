"""What the last bits of a training depend on beyond its settings: threads, libraries, processor, torch, order of sums.

A snapshot says what it was computed with. A resumed training restores what can be set, the number of threads
and oneDNN; a note names the rest.

On a GPU the same seed gives the same bits: while a training runs, every operation adds in a fixed order. A sum of
floats depends on its order, and a GPU that adds by atomic operations has a new order every time. torch's switch
`use_deterministic_algorithms` chooses another form where an operation has one. What the parts of a training do (torch's
documentation of that switch, and ATen's sources):

    one order by itself      matrix products (cuBLAS adds no two parts by atomics; torch gives every stream a workspace
                             of its own), reductions, norms, softmax, layer norm, fused optimizers, dropout,
                             cross_entropy of [N, classes], the gradient of F.embedding, index_put(accumulate=True)
    one order by the switch  convolutions (cuDNN's), index_add, scatter_add, scatter of a tensor, the gradients of
                             gather and index_select: all sort first; fused attention, where the switch is strict
    none                     cumsum of floats, gradients of grid_sample, of linear and bicubic interpolation, of
                             reflecting pads and of 3-d pools; histc, put_, the sum or mean of a 2-d nll_loss

The layers avoid the second line where sorting is slow: see `kernels/chain.py` (embeddings) and
`layers/attention.py`. Of the third line one note is shown for each operation that a training meets.

The fixed order has no switch, since it costs nothing that could be told from noise. Milliseconds a step on an H200,
in a fixed order and in any (2026-11-18, `tests/training/gpu_same_bits.py --cost`): ptb-lstm-small 2.100 and 2.080
(+1.0 %), multi30k-attention 2.310 and 2.350 (-1.7 %), ewt-tagger 2.368 and 2.325 (+1.8 %, `benchmarks/tasks_gpu.py`).

cuDNN's recurrent layers want `CUBLAS_WORKSPACE_CONFIG`, which NVIDIA's libraries read once. It is set when a training
begins; where a process has used the GPU before, torch keeps warning about it. These warnings are left out: torch's own
products have one workspace a stream with or without it.
"""

from __future__ import annotations

import os
import platform
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TextIO

import torch
from torch import Tensor

from thereafter.base import compiled, progress
from thereafter.base.config import Table
from thereafter.errors import FormatError
from thereafter.kernels.switches import sparing_onednn, switch_onednn
from thereafter.runs.writer import Snapshot
from thereafter.training.settings import TrainingSettings


def facts(device: torch.device) -> Table:
    """What this process computes with, for a snapshot."""
    return {
        "threads": torch.get_num_threads(),
        "onednn": bool(torch.backends.mkldnn.enabled),
        "processor": f"{platform.machine()} with {torch.backends.cpu.get_cpu_capability()}",
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        "numba": compiled.missing() is None,
        "torch": torch.__version__,
    }


@contextmanager
def as_in(snapshot: Snapshot | None, device: torch.device) -> Iterator[None]:
    """Inside the block torch computes as it did when a snapshot was taken, as far as it can; what differs is noted.

    Without a snapshot it computes as it does. On a GPU every sum has a fixed order (`same_bits`).
    Afterwards all is as it was before the block.
    """
    before: Table = facts(device) if snapshot is None else snapshot.facts
    threads, onednn = torch.get_num_threads(), bool(torch.backends.mkldnn.enabled)
    try:
        wanted = int(before["threads"])
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"the checkpoint is damaged (its threads: {error!r}); try training again") from error
    try:
        if 1 <= wanted <= max(threads, os.cpu_count() or 1):  # more would wait for each other
            torch.set_num_threads(wanted)
        switch_onednn(bool(before.get("onednn", onednn)))
        different = _differences(before, facts(device))
        if different:
            progress.note(f"this run goes on with {', '.join(different)}: its last digits may differ")
        with same_bits(device):
            yield
    finally:
        torch.set_num_threads(threads)
        switch_onednn(onednn)


def _differences(before: Table, now: Table) -> list[str]:
    """What is not as it was; an older snapshot says less."""
    names = {"threads": "threads", "processor": "the processor", "gpu": "the GPU", "torch": "torch"}
    switches = {"onednn": "oneDNN", "numba": "compiled loops"}
    changed = {key for key in now if key in before and before[key] != now[key]}
    values = [f"{name} {now[key]} (it was {before[key]})" for key, name in names.items() if key in changed]
    return values + [f"{'' if now[key] else 'no '}{name}" for key, name in switches.items() if key in changed]


WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"
_WORKSPACES = ":4096:8"  # eight buffers of 4 MiB: what torch takes on Hopper anyway
_NONE = " does not have a deterministic implementation"
_LOOSE = " defaults to a non-deterministic algorithm"
_CUBLAS = "Deterministic behavior was enabled"

_noted: ContextVar[set[str] | None] = ContextVar("thereafter_orderless", default=None)


@dataclass(frozen=True)
class _Switches:
    """What torch and the process are set to."""

    enabled: bool
    warn_only: bool
    fill: bool
    benchmark: bool
    workspace: str | None

    @classmethod
    def now(cls) -> _Switches:
        return cls(
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
            torch._C._get_deterministic_fill_uninitialized_memory(),
            torch.backends.cudnn.benchmark,
            os.environ.get(WORKSPACE),
        )

    def put(self) -> None:
        # not torch.use_deterministic_algorithms: it imports torch's compiler, which takes longer than a small training
        torch._C._set_deterministic_algorithms(self.enabled, warn_only=self.warn_only)
        torch._C._set_deterministic_fill_uninitialized_memory(self.fill)
        torch.backends.cudnn.benchmark = self.benchmark
        if self.workspace is None:
            os.environ.pop(WORKSPACE, None)
        else:
            os.environ[WORKSPACE] = self.workspace


class _Board:
    """The switches of the process. Trainings in several threads share them: the first that comes sets them, the last
    that goes puts them back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before: _Switches | None = None
        self._warnings: warnings.catch_warnings[None] | None = None

    def enter(self) -> None:
        with self._lock:
            self._users += 1
            if self._users > 1:
                return
            self._before = before = _Switches.now()
            # new memory is never read before it is written, so it need not be filled; cuDNN must not choose by the
            # clock; who asked for errors instead of warnings still gets them
            strict = before.enabled and not before.warn_only
            _Switches(True, not strict, False, False, before.workspace or _WORKSPACES).put()
            self._warnings = warnings.catch_warnings()
            self._warnings.__enter__()
            warnings.filterwarnings("always", f".*({_NONE}|{_LOOSE})", UserWarning)
            warnings.filterwarnings("ignore", _CUBLAS, UserWarning)
            warnings.showwarning = _noting(warnings.showwarning)

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0 and self._before is not None and self._warnings is not None:
                self._warnings.__exit__(None, None, None)
                self._before.put()
                self._before = self._warnings = None


_BOARD = _Board()


def _noting(shown: Callable[..., None]) -> Callable[..., None]:
    """What shows warnings instead of `shown`: those of torch about the order of sums become notes, one for each
    operation and training. Warnings of a backward pass come to the thread that asked for it."""

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        operation, noted = orderless(str(message)), _noted.get()
        if operation is None or noted is None:
            shown(message, category, filename, lineno, file, line)
        elif operation not in noted:
            noted.add(operation)
            progress.note(f"torch's {operation} adds in any order: the last bits may differ from run to run")

    return show


def orderless(message: str) -> str | None:
    """The operation of which torch's warning says that its sums have no fixed order; None for other warnings."""
    for sign in (_NONE, _LOOSE):
        if sign in message:
            return message.partition(sign)[0].strip()
    return None


@contextmanager
def same_bits(device: torch.device) -> Iterator[None]:
    """Inside the block whatever runs on the GPU adds in a fixed order; what cannot is noted once.

    On one kind of GPU and one version of torch two trainings with one seed are then equal to the bit, whatever else
    runs on the GPU. Afterwards all is as it was before. Blocks may be nested, and run in several threads. On a
    CPU nothing changes.
    """
    if device.type != "cuda":
        yield
        return
    _BOARD.enter()
    token = _noted.set(set())
    try:
        yield
    finally:
        _noted.reset(token)
        _BOARD.leave()


@contextmanager
def computing(training: TrainingSettings, device: torch.device, snapshot: Snapshot | None = None) -> Iterator[None]:
    """The block in which a training computes: with its seed, as its snapshot did, one library for its products."""
    # On a CPU without instructions for bfloat16 torch would switch oneDNN off at the first product that fails, half way
    # through a step, and leave it off for whatever the process does next.
    mixed_on_cpu = training.precision == "bfloat16" and device.type == "cpu"
    steady = sparing_onednn(torch.bfloat16) if mixed_on_cpu else nullcontext()
    with seeded(training.seed, device), as_in(snapshot, device), steady:
        yield


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Inside the block all generators begin with the seed; afterwards they are what they were."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def generator_states(device: torch.device) -> dict[str, Tensor]:
    """The states of all generators that training on this device draws from.

    Dropout, weight drop and fresh weights all draw from the global generator of their device; the order of the text is
    drawn anew from the seed and the epoch and needs no state.
    """
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def set_generators(states: Mapping[str, Tensor], device: torch.device) -> None:
    """Go on drawing where `generator_states` was asked."""
    torch.set_rng_state(states["cpu"].cpu())
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"].cpu(), device)


def mixed_products(precision: str | None, device: torch.device) -> AbstractContextManager[object]:
    """The block in which the loss of a step is computed: products in bfloat16 where that is the precision."""
    return torch.autocast(device.type, torch.bfloat16) if precision == "bfloat16" else nullcontext()

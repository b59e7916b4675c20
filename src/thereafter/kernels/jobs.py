"""What a kernel is asked to do, and what it answers; and cells as strings, in which operators are given them: their
schemas have no other place for the name of a cell and its options.

Shapes: B rows, T steps, I inputs, H hidden units, O outputs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from thereafter.cells import CELLS
from thereafter.cells.base import Cell, Record, Weights
from thereafter.cells.options import OptionValue


@dataclass(frozen=True)
class Job:
    """One cell over one batch of sequences, always forward in time: `scan` turns reversed ones round before.

    `lengths_B`: steps of each row; beyond them the state stands still and the output is 0. `reset_BT`: where true, the
    row's state is 0 before that step. `hold`: for a state field, the share of the old value that is kept at each step
    (zoneout): a mask [B, T, size] while training, its mean while not. `record`: keep every gate and state.
    """

    cell: Cell
    x_BTI: Tensor
    state: Any
    weights: Weights
    lengths_B: Tensor | None = None
    reset_BT: Tensor | None = None
    hold: Mapping[str, Tensor | float] = field(default_factory=dict)
    record: bool = False

    @property
    def plain(self) -> bool:
        """Whether nothing but cell, input and initial state matters."""
        return self.lengths_B is None and self.reset_BT is None and not self.hold and not self.record


@dataclass(frozen=True)
class Unrolled:
    """The outputs of all steps, the state after each row's last, and the record if one was asked for."""

    y_BTO: Tensor
    state: Any
    record: Record | None = None


ANY_THREADS = range(1, 1025)
"""Where the number of threads does not matter."""


class SameBits(NamedTuple):
    """When a job gives the same bits again: on any of so many threads, and why no others."""

    threads: range
    why: str

    def __str__(self) -> str:
        if not self.threads:
            return f"the last bits may differ from run to run: {self.why}"
        first, last = self.threads[0], self.threads[-1]
        return f"the same bits on {first if first == last else f'{first} to {last}'} threads: {self.why}"


def torch_products(job: Job, what: str = "all products are torch's") -> SameBits:
    """Where torch's products decide: on a CPU their sums depend on the number of threads, so it must be that of now.

    On an NVIDIA GPU they do not; one kind of GPU and one version of torch give the same bits, cuDNN's too while a
    training has set its workspace (`training/numerics.py`).
    """
    kind, threads = job.x_BTI.device.type, torch.get_num_threads()
    if kind == "cuda":
        return SameBits(ANY_THREADS, f"{what}, and on one kind of GPU these have one order while a training runs")
    if kind != "cpu":
        return SameBits(range(0), f"{what}, and those of {kind} promise nothing")
    return SameBits(range(threads, threads + 1), what)


class Kernel(Protocol):
    """A way of running a job."""

    name: str

    def refuses(self, job: Job) -> str | None:
        """Why this kernel cannot run a job; None where it can."""

    def run(self, job: Job) -> Unrolled:
        """Run it."""

    def status(self) -> str:
        """Whether and how it can run on this machine at all, in a few words."""

    def deterministic(self, job: Job) -> SameBits:
        """When outputs, states and gradients of a job come out the same to the bit."""


MASKED = -1.0
"""Stands for a share of zoneout that is a tensor, in the list of shares that an operator is given."""


def spell(cell: Cell) -> str:
    """A cell as a string, from which any process can make it again.

    >>> from thereafter.cells.elman import Elman
    >>> spell(Elman(2, 3))
    'elman {"input_size": 2, "hidden_size": 3, "bias": "two", "nonlinearity": "tanh", "layer_norm": false}'
    """
    sizes: dict[str, OptionValue] = {"input_size": cell.input_size, "hidden_size": cell.hidden_size, "bias": cell.bias}
    listed = ", ".join([f'"{name}": {_as_json(value)}' for name, value in (sizes | vars(cell.options)).items()])
    return f"{cell.name} {{{listed}}}"


def _as_json(value: OptionValue) -> str:
    """What `json.dumps` writes, which torch.compile cannot follow."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else f"{value}"


@lru_cache
def cell_of(spelled: str) -> Cell:
    """The cell of such a string."""
    name, _, options = spelled.partition(" ")
    cell: Cell = CELLS.load(name)(**json.loads(options))
    return cell

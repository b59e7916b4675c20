"""What a kernel is asked to do, and what it answers.

Shapes: B rows, T steps, I inputs, H hidden units, O outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor

from thereafter.cells.base import Cell, Record, Weights


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


class Kernel(Protocol):
    """A way of running a job."""

    name: str

    def refuses(self, job: Job) -> str | None:
        """Why this kernel cannot run a job; None where it can."""

    def run(self, job: Job) -> Unrolled:
        """Run it."""

    def status(self) -> str:
        """Whether and how it can run on this machine at all, in a few words."""

"""The figures of steps that are still on the device: a GPU is asked for those of several steps at once."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from thereafter.training.counters import Counters


@dataclass(frozen=True)
class TakenStep:
    """One step: `nats` is the loss of its `count` targets, `loss` what was made smaller, `norm` that of its gradient.
    `seen`: all targets up to and with it."""

    nats: float
    loss: float
    norm: float
    count: int
    rate: float
    epoch: int
    seen: int

    @property
    def finite(self) -> bool:
        """Whether loss and gradient are numbers."""
        return math.isfinite(self.loss) and math.isfinite(self.norm)


class PendingSteps:
    """Steps whose figures have not been read, the oldest first."""

    def __init__(self) -> None:
        self._steps: list[tuple[Tensor, int, float, int, int]] = []

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, figures_3: Tensor, count: int, at: Counters) -> None:
        """A step from where the training is, on so many targets; its figures are nats, loss and norm."""
        self._steps.append((figures_3, count, at.rate, at.epoch, at.seen + count))

    def read(self) -> list[TakenStep]:
        """All of them, in one transfer; none is pending after it."""
        steps, self._steps = self._steps, []
        figures = torch.stack([step[0] for step in steps]).tolist()
        return [
            TakenStep(nats, loss, norm, count, rate, epoch, seen)
            for (nats, loss, norm), (_, count, rate, epoch, seen) in zip(figures, steps, strict=True)
        ]

    def clear(self) -> None:
        """Forget them: the training goes back to before them."""
        self._steps = []

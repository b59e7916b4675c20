"""Where a training is: its position, the budget it has used, its best validation, and sums for the log."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, fields, replace
from typing import Self

from thereafter.base.config import Table
from thereafter.training.settings import TrainingSettings

_TIMED = 1.0  # seconds after which a speed says something


@dataclass
class Counters:
    """Plain numbers, all of which a checkpoint holds. `seconds` were used before this process took over."""

    epoch: int = 0
    block: int = 0
    step: int = 0
    seen: int = 0
    seconds: float = 0.0
    best: float = math.inf
    best_step: int = 0
    stale: int = 0
    validated: int = -1
    nats: float = 0.0
    tokens: int = 0
    steps: int = 0
    clipped: int = 0
    norm: float = 0.0
    rate: float = 0.0

    def __post_init__(self) -> None:
        self.start_clock()

    def start_clock(self) -> None:
        """Count the time from now on."""
        self._began = time.monotonic()

    def elapsed(self) -> float:
        """Seconds of training, those of processes before this one included."""
        return self.seconds + time.monotonic() - self._began

    def take(self, count: int, blocks: int) -> bool:
        """A step was taken on so many targets; whether it was the last of the `blocks` of an epoch."""
        self.step, self.seen, self.block = self.step + 1, self.seen + count, self.block + 1
        if self.block < blocks:
            return False
        self.epoch, self.block = self.epoch + 1, 0
        return True

    def add(self, nats: float, count: int, norm: float, clip: float) -> None:
        """Add the figures of one step to the sums."""
        self.nats, self.tokens, self.steps, self.norm = self.nats + nats, self.tokens + count, self.steps + 1, norm
        self.clipped += bool(clip and norm > clip)

    def used(self, budget: TrainingSettings, blocks: int, ahead: int = 0, tokens: int = 0) -> float:
        """The share of the budget that is used, `ahead` blocks and so many tokens from now."""
        shares = [0.0]
        if budget.epochs is not None:
            shares.append((self.epoch + (self.block + ahead) / blocks) / budget.epochs)
        if budget.tokens_budget is not None:
            shares.append((self.seen + tokens) / budget.tokens_budget)
        if budget.minutes is not None:
            shares.append(self.elapsed() / (60 * budget.minutes))
        return min(1.0, max(shares))

    def line(self) -> Table:
        """The means since the last line, for the log; the sums begin again."""
        line = {
            "event": "step",
            "step": self.step,
            "epoch": self.epoch,
            "seen": self.seen,
            "loss": self.nats / max(1, self.tokens),
            "rate": self.rate,
            "norm": self.norm,
            "clipped": self.clipped / max(1, self.steps),
            "seconds": round(self.elapsed(), 3),
        }
        self.nats, self.tokens, self.steps, self.clipped = 0.0, 0, 0, 0
        return line

    def mean(self) -> float | None:
        """The mean loss since the last line of the log; None where no step was taken since."""
        return self.nats / self.tokens if self.tokens else None

    def speed(self) -> float | None:
        """Targets a second; None in the first second of this process, whose first step was not timed."""
        return self.seen / self.elapsed() if time.monotonic() - self._began >= _TIMED else None

    def as_dict(self) -> Table:
        """All numbers as they are now."""
        return asdict(replace(self, seconds=self.elapsed()))

    @classmethod
    def from_dict(cls, stored: Table) -> Self:
        """Go on counting from what `as_dict` gave; the clock goes on from now."""
        return cls(**stored)


COUNTED = frozenset(field.name for field in fields(Counters))
"""What a checkpoint says of where it was taken."""


def perplexity(nats: float) -> float:
    """exp that stays a number JSON can say."""
    return math.exp(min(nats, 700.0))

"""The learning rate of every step: a function of how far the training is alone, but for plateau, which follows the
validation losses.

With p the share of the budget that is used (this step included), e the epoch, w the warm-up, r the rate asked for:

    warm-up    r min(1, p / w), or r min(1, step / w) where w is in steps                  (all but one-cycle)
    constant   r
    step       r decay^n,  n = 0 before epoch decay_from, then 1, and 1 more every decay_every epochs
    cosine     r (final + (1 - final) (1 + cos(pi q)) / 2),  q = (p - w) / (1 - w)         (Loshchilov and Hutter 2017)
    one-cycle  r (s + (1 - s)(1 - cos(pi p / w)) / 2) up to p = w, s = 1/25, then cosine   (Smith 2018)
    plateau    r decay^n,  n = how often `plateau` validations in a row brought nothing better
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from thereafter.base.config import Table
from thereafter.training.settings import TrainingSettings

_ONE_CYCLE_START = 1 / 25
_BETTER = 1e-4  # a validation must be better by this share to count on a plateau


@dataclass(frozen=True)
class Position:
    """How far a training is: steps begun, epochs (with their fraction), the share of the budget, this step included."""

    step: int
    epoch: float
    share: float


class Schedule:
    """The rate of each step; remembers only what plateau must."""

    def __init__(self, settings: TrainingSettings) -> None:
        self._settings = settings
        self.reductions = 0
        self.best = math.inf
        self.waited = 0

    def rate(self, at: Position) -> float:
        """The rate of the step at this position."""
        s = self._settings
        base, warmup = float(s.rate or 0.0), float(s.warmup or 0.0)
        share = min(max(at.share, 0.0), 1.0)
        rising = warmup if warmup < 1.0 else 0.0  # as a share; a warm-up in steps is over soon and not counted
        if s.schedule == "one-cycle":
            rising = rising or 0.3
            if share < rising:
                height = (1 - math.cos(math.pi * share / rising)) / 2
                return base * (_ONE_CYCLE_START + (1 - _ONE_CYCLE_START) * height)
            return base * _cosine(share, rising, s.final)
        if s.schedule == "cosine":
            base *= _cosine(share, rising, s.final)
        elif s.schedule == "step" and at.epoch >= s.decay_from:
            base *= s.decay ** (1 + math.floor((at.epoch - s.decay_from) / s.decay_every))
        elif s.schedule == "plateau":
            base *= s.decay**self.reductions
        if warmup >= 1.0:
            return base * min(1.0, at.step / warmup)
        return base * min(1.0, share / warmup) if warmup else base

    def after_validation(self, loss: float) -> str | None:
        """Called with every validation loss; returns a note where it lowers the learning rate."""
        if self._settings.schedule != "plateau":
            return None
        if loss < self.best - _BETTER * abs(self.best) or self.best == math.inf:
            self.best, self.waited = loss, 0
            return None
        self.waited += 1
        if self.waited < max(1, self._settings.plateau):
            return None
        self.waited, self.reductions = 0, self.reductions + 1
        return f"no better validation: the rate is multiplied by {self._settings.decay}"

    def state(self) -> Table:
        """What it remembers."""
        return {"reductions": self.reductions, "best": _plain(self.best), "waited": self.waited}

    def restore(self, facts: Table) -> None:
        """Remember what `state` gave."""
        self.reductions, self.waited = int(facts["reductions"]), int(facts["waited"])
        self.best = math.inf if facts["best"] is None else float(facts["best"])


def _cosine(share: float, rising: float, final: float) -> float:
    falling = max(0.0, share - rising) / (1.0 - rising)
    return final + (1 - final) * (1 + math.cos(math.pi * falling)) / 2


def _plain(value: float) -> float | None:
    """JSON has no infinity."""
    return None if math.isinf(value) else value

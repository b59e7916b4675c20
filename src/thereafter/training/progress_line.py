"""The progress bar of a training, and the figures beside it."""

from __future__ import annotations

import math
import time

from thereafter.progress import Advance
from thereafter.runs.journal import Journal
from thereafter.training.counters import Counters
from thereafter.training.learner import B, Learner

_EVERY = 0.25  # seconds between two looks at the progress


class ProgressLine:
    """Moves the bar of one training, seldom enough that it costs nothing."""

    def __init__(self, advance: Advance) -> None:
        self._advance, self._shown, self._looked = advance, 0.0, -math.inf

    def is_due(self) -> bool:
        """Whether the last look is long enough ago."""
        return time.monotonic() - self._looked >= _EVERY

    def show(self, used: float, at: Counters, learner: Learner[B], journal: Journal) -> None:
        """Show the share of the budget that is used; the bar never goes back."""
        self._looked, share = time.monotonic(), 100 * used
        self._advance(max(0.0, share - self._shown), _status(at, learner, journal))
        self._shown = max(self._shown, share)


def _status(at: Counters, learner: Learner[B], journal: Journal) -> str:
    """The mean loss since the last line of the log, or the loss of that line; pace, rate, the best validation."""
    describe = learner.describe
    logged = (line["loss"] for line in reversed(journal.lines) if line.get("event") == "step")
    mean = at.mean()
    loss = next(logged, math.nan) if mean is None else mean
    speed = at.speed()
    pace = f"{'?' if speed is None else f'{speed:,.0f}'} {learner.unit}/s"
    parts = [f"loss {loss:.3f}", describe(loss), pace, f"rate {at.rate:.2g}"]
    parts.append(f"clipped {100 * at.clipped / max(1, at.steps):.0f} %")
    if at.best < math.inf:
        parts.append(f"validation {describe(at.best) or f'loss {at.best:.3f}'}")
    return "  ".join(part for part in parts if part)

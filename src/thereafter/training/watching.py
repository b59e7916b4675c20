"""Code of your own in the course of a training, whichever door starts it, and the training's own progress bar.

    def look(training: Training, report: StepReport) -> None:
        print(report.step, report.loss, report.norm, report.rate)

    with thereafter.watching(after_step=look):
        thereafter.train("book.txt", model="lstm")

A function may read the training or change it, and may raise: KeyboardInterrupt stops a training as Ctrl-C does. The
writers of docs/logging.md are built on this.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from torch import nn

from thereafter.base.progress import Advance
from thereafter.runs.writer import Journal, Snapshot
from thereafter.training.control import Counters, Guard
from thereafter.training.learner import B, Learner


class Training(Protocol):
    """What a watcher sees of a training (`loop.Loop`)."""

    at: Counters
    guard: Guard
    loss_scale: float

    @property
    def model(self) -> nn.Module:
        """The network, with its weights as they are now."""

    def snapshot(self) -> Snapshot:
        """All that the following steps depend on, copied."""


@dataclass(frozen=True)
class StepReport:
    """The figures of one step.

    `step` counts from 1, `epoch` from 0; `seen` are the targets up to and with this step. `loss`: the mean of its
    targets, in nats, under the weights before the step and without what regularisation adds. `norm` of its gradient,
    before it was clipped. `rate`: the learning rate. `seconds` of training so far. `figures`: the loss in other words,
    the perplexity of a text.
    """

    step: int
    epoch: int
    seen: int
    loss: float
    norm: float
    rate: float
    seconds: float
    figures: Mapping[str, float]


@dataclass(frozen=True)
class ValidationReport:
    """The figures of one validation, after the step `step`; `best`: no validation before it had a lower loss."""

    step: int
    epoch: int
    seen: int
    loss: float
    best: bool
    seconds: float
    figures: Mapping[str, float]


def _nothing(training: Training, report: object = None) -> None:
    return None


@dataclass(frozen=True)
class Watcher:
    """Functions that a training calls.

    `before_step`: between two steps. `before_update`: the gradients of a step are there, its weights are the old ones;
    a step that is replayed from a CUDA graph does not call it. `after_step`, with the figures of a step, and
    `at_validation`, with those of a validation: every one, in order, between two steps. On a GPU the figures of up to
    32 steps are read at once, so that nothing waits: then the functions come late, and the weights may be newer.
    A training that goes back to an earlier step, or is resumed there, reports the steps after it again.
    `at_checkpoint`: the state is about to be written to the disk; what was reported so far will not be again. `at_end`:
    after the last step and the last validation. `repeats`: a report at which it raised is given to it again; without
    it is given once.
    """

    before_step: Callable[[Training], None] = _nothing
    before_update: Callable[[Training], None] = _nothing
    at_end: Callable[[Training], None] = _nothing
    after_step: Callable[[Training, StepReport], None] = _nothing
    at_validation: Callable[[Training, ValidationReport], None] = _nothing
    at_checkpoint: Callable[[Training], None] = _nothing
    repeats: bool = False


_watchers: ContextVar[tuple[Watcher, ...]] = ContextVar("thereafter_watchers", default=())


@contextmanager
def watching(
    *,
    before_step: Callable[[Training], None] = _nothing,
    before_update: Callable[[Training], None] = _nothing,
    after_step: Callable[[Training, StepReport], None] = _nothing,
    at_validation: Callable[[Training, ValidationReport], None] = _nothing,
    at_checkpoint: Callable[[Training], None] = _nothing,
    at_end: Callable[[Training], None] = _nothing,
) -> Iterator[None]:
    """Every training that begins inside the block calls these functions; `Watcher` says when.

    >>> import thereafter
    >>> losses = []
    >>> with watching(after_step=lambda training, report: losses.append(report.loss)):
    ...     lm = thereafter.train(text="to be or not to be\\n" * 9, model="rnn", tokens="char", hidden=4, epochs=1)
    >>> len(losses) == lm.log[-1]["steps"]
    True
    """
    watcher = Watcher(before_step, before_update, at_end, after_step, at_validation, at_checkpoint)
    with adding(watcher):
        yield


@contextmanager
def adding(watcher: Watcher) -> Iterator[None]:
    """Every training that begins inside the block is watched, after those who watch already."""
    token = _watchers.set((*_watchers.get(), watcher))
    try:
        yield
    finally:
        _watchers.reset(token)


class Audience:
    """Those who watch one training, the outermost block first, and the reports that they have not been given yet.

    Reports wait until the training is between two steps, so that a function which stops it loses nothing. A report that
    one of them raises at reaches the others all the same.
    """

    def __init__(self, training: Training) -> None:
        self._training, self._watchers = training, _watchers.get()
        self._waiting: deque[tuple[StepReport | ValidationReport, list[Watcher]]] = deque()  # and who has it not yet

    def __bool__(self) -> bool:
        return bool(self._watchers)

    def before_step(self) -> None:
        for watcher in self._watchers:
            watcher.before_step(self._training)

    def before_update(self) -> None:
        for watcher in self._watchers:
            watcher.before_update(self._training)

    def add(self, report: StepReport | ValidationReport) -> None:
        """Give this report to all of them at the next `deliver`."""
        self._waiting.append((report, list(self._watchers)))

    def deliver(self) -> None:
        """Give the reports that wait to all watchers; what the first of them raises goes on after that.

        An interrupt may come at any line: a report is forgotten when everybody has it.
        """
        raised: list[BaseException] = []
        behind: list[Watcher] = []  # they are given this report again, so none that comes after it
        for report, left in tuple(self._waiting):
            for watcher in [one for one in left if one not in behind]:
                try:
                    if not watcher.repeats:
                        left.remove(watcher)
                    if isinstance(report, StepReport):
                        watcher.after_step(self._training, report)
                    else:
                        watcher.at_validation(self._training, report)
                    if watcher.repeats:
                        left.remove(watcher)
                except BaseException as error:
                    if watcher.repeats:
                        behind.append(watcher)
                    if not raised:
                        raised.append(error)
        while self._waiting and not self._waiting[0][1]:
            self._waiting.popleft()
        if raised:
            raise raised.pop()

    def checkpoint(self) -> None:
        """Deliver, and call all of them, whatever any of them raises."""
        with ExitStack() as calls:
            for watcher in reversed(self._watchers):  # the last one put in is the first to be called
                calls.callback(watcher.at_checkpoint, self._training)
            self.deliver()

    def end(self) -> None:
        self.deliver()
        for watcher in self._watchers:
            watcher.at_end(self._training)


_EVERY = 0.25  # seconds between two looks at the progress


class ProgressLine:
    """Moves the bar of one training and the figures beside it, seldom enough that it costs nothing."""

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

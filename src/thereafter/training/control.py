"""Where a training is, its learning rate there, what turns it back and what stops it.

`Counters` are its position, the budget it has used, its best validation, and sums for the log. `Schedule` is the
learning rate of every step: a function of how far the training is alone, but for plateau, which follows the validation
losses. With p the share of the budget that is used (this step included), e the epoch, w the warm-up, r the rate asked
for:

    warm-up    r min(1, p / w), or r min(1, step / w) where w is in steps                  (all but one-cycle)
    constant   r
    step       r decay^n,  n = 0 before epoch decay_from, then 1, and 1 more every decay_every epochs
    cosine     r (final + (1 - final) (1 + cos(pi q)) / 2),  q = (p - w) / (1 - w)         (Loshchilov and Hutter 2017)
    one-cycle  r (s + (1 - s)(1 - cos(pi p / w)) / 2) up to p = w, s = 1/25, then cosine   (Smith 2018)
    plateau    r decay^n,  n = how often `plateau` validations in a row brought nothing better

When a loss or a gradient is not finite the step is not taken: the run goes back and tries a lower learning rate. The
guard says where it went wrong: the first weight that is not finite, else the first layer whose output is not, else the
gradient nearest to the loss that is not. The figures of steps wait on the device (`PendingSteps`): a GPU is asked for
those of several steps at once.

Ctrl-C is granted between two steps, so that what is saved is the step it stopped at, whole. The first signal to stop
(SIGINT, SIGTERM) is granted as soon as the training is between two steps, or in the middle of a validation, which
changes nothing; a second one at once. A program that listens for a signal itself goes on doing so: it may raise
KeyboardInterrupt wherever it likes, and only what it broke off inside a step is lost.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from types import FrameType
from typing import Self

import torch
from torch import Tensor, nn

from thereafter.base.config import Table
from thereafter.errors import TrainingError
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
        """What it remembers; JSON has no infinity."""
        return {
            "reductions": self.reductions,
            "best": None if math.isinf(self.best) else self.best,
            "waited": self.waited,
        }

    def restore(self, facts: Table) -> None:
        """Remember what `state` gave."""
        self.reductions, self.waited = int(facts["reductions"]), int(facts["waited"])
        self.best = math.inf if facts["best"] is None else float(facts["best"])


def _cosine(share: float, rising: float, final: float) -> float:
    falling = max(0.0, share - rising) / (1.0 - rising)
    return final + (1 - final) * (1 + math.cos(math.pi * falling)) / 2


ATTEMPTS = 3
SLOWER = 0.5


@dataclass
class Guard:
    """Counts failures. `factor`: what the learning rate is multiplied by after them."""

    attempts: int = 0
    factor: float = 1.0

    def trip(self, step: int, what: str, rate: float) -> str:
        """Count a failure. Returns the message for the user; TrainingError after too many attempts."""
        if self.attempts >= ATTEMPTS:
            raise TrainingError(
                f"step {step}: {what}, after going back {ATTEMPTS} times and lowering the rate to {rate:.3g}; "
                f"try a rate far below that, a smaller clip, or precision='float32'"
            )
        self.attempts += 1
        self.factor *= SLOWER
        return (
            f"step {step}: {what}; went back to the last good state and goes on with {self.factor:g} times the rate "
            f"({self.attempts} of {ATTEMPTS} attempts)"
        )

    def restore(self, facts: Table) -> None:
        """Remember what its attributes were."""
        self.attempts, self.factor = int(facts["attempts"]), float(facts["factor"])


def blame(model: nn.Module, loss: float, norm: float, again: Callable[[], object]) -> str:
    """Which layer made a loss or gradient that is not finite; `again` computes the loss once more."""
    for name, weight in model.named_parameters():
        if not _finite(weight):
            return f"the weight {name!r} is no longer finite"
    if not math.isfinite(loss):
        layer = _first_bad_layer(model, again)
        return f"the loss is {loss}" + (f", the first layer that is not finite is {layer!r}" if layer else "")
    for name, weight in reversed(list(model.named_parameters())):
        if weight.grad is not None and not _finite(weight.grad):
            return f"the gradient of {name!r} is not finite"
    return f"the gradient's norm is {norm}"


def _first_bad_layer(model: nn.Module, again: Callable[[], object]) -> str | None:
    """The first module, in the order they finish, whose output is not finite."""
    bad: list[str] = []

    def watch(name: str) -> Callable[..., None]:
        def look(module: nn.Module, inputs: object, output: object) -> None:
            if not bad and any(not _finite(tensor) for tensor in _tensors(output)):
                bad.append(name)

        return look

    hooks = [module.register_forward_hook(watch(name)) for name, module in model.named_modules() if name]
    try:
        with torch.no_grad():
            again()
    finally:
        for hook in hooks:
            hook.remove()
    return bad[0] if bad else None


def _tensors(output: object) -> list[Tensor]:
    if isinstance(output, Tensor):
        return [output] if output.is_floating_point() else []
    if isinstance(output, Mapping):
        return [tensor for part in output.values() for tensor in _tensors(part)]
    if isinstance(output, tuple | list):
        return [tensor for part in output for tensor in _tensors(part)]
    return []


def _finite(tensor: Tensor) -> bool:
    return bool(torch.isfinite(tensor).all())


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


@dataclass
class PendingSteps:
    """Steps whose figures have not been read, the oldest first."""

    _steps: list[tuple[Tensor, int, float, int, int]] = field(default_factory=list)

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


_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_DEFAULTS = (signal.default_int_handler, signal.SIG_DFL)


@dataclass
class Stop:
    """Whether a signal to stop has come (`asked`), and whether no step is under way (`whole`)."""

    asked: bool = False
    whole: bool = False

    def allow(self) -> None:
        """From here on the training may be interrupted at any moment; at once where a signal has come already."""
        self.whole = True
        if self.asked:
            raise KeyboardInterrupt

    def hold(self) -> None:
        """A step begins: it must be finished before the training can be interrupted."""
        self.whole = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Inside the block signals to stop wait for `allow`. Only the main thread of a process hears any."""
        with _handling(self._hear, _DEFAULTS):
            yield

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.asked and self.whole:
            return  # it is on its way out, and what it has changed for a validation is being put back
        again, self.asked = self.asked, True
        if again or self.whole:
            raise KeyboardInterrupt


@contextmanager
def undisturbed() -> Iterator[None]:
    """Inside the block signals to stop are ignored, so that what a stop has to save is saved."""
    with _handling(lambda number, frame: None, None):
        yield


@contextmanager
def _handling(
    handler: Callable[[int, FrameType | None], None], instead_of: tuple[object, ...] | None
) -> Iterator[None]:
    """Another handler for signals to stop; where `instead_of` is given, only in the place of one of these."""
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in _SIGNALS:
            current = signal.getsignal(number)
            # None is a handler that was not set from Python, and cannot be put back
            if current is not None and (instead_of is None or current in instead_of):
                before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, handler_before in before.items():
            signal.signal(number, handler_before)

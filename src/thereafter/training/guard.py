"""What turns a training back, and what stops it: figures that are not finite, and Ctrl-C.

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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

import torch
from torch import Tensor, nn

from thereafter.base.config import Table
from thereafter.errors import TrainingError
from thereafter.training.counters import Counters

ATTEMPTS = 3
SLOWER = 0.5


class Guard:
    """Counts failures. `factor`: what the learning rate is multiplied by after them."""

    def __init__(self) -> None:
        self.attempts = 0
        self.factor = 1.0

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

    def state(self) -> Table:
        """What it remembers."""
        return {"attempts": self.attempts, "factor": self.factor}

    def restore(self, facts: Table) -> None:
        """Remember what `state` gave."""
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


_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_DEFAULTS = (signal.default_int_handler, signal.SIG_DFL)


class Stop:
    """Whether a signal to stop has come (`asked`), and whether no step is under way (`whole`)."""

    def __init__(self) -> None:
        self.asked = self.whole = False

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

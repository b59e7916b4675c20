"""When a loss or a gradient is not finite: the step is not taken, the run goes back and tries a lower learning rate.

The guard says where it went wrong: the first weight that is not finite, else the first layer whose output is not, else
the gradient nearest to the loss that is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from thereafter.base.config import Table
from thereafter.errors import TrainingError

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

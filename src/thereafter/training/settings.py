"""What training itself can be told, whatever the neural model: one frozen dataclass, checked when it is made.

Nothing here needs torch. None means "chosen by the size of the text": `defaults.complete_training`
puts the choice in its place.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from thereafter.errors import OptionError, nearest

BATCHINGS = ("stream", "partition", "lines")
OPTIMIZERS = ("adamw", "adam", "sgd", "nt-asgd")
SCHEDULES = ("constant", "step", "cosine", "plateau", "one-cycle")
PRECISIONS = ("auto", "float32", "bfloat16")
DEVICES = ("auto", "cpu", "cuda")
SEEDS = 2**64
"""How many there are: torch's generators take 64 bits."""


@dataclass(frozen=True)
class TrainingSettings:
    """How a neural model is trained.

    Text: `batching` is "stream" (rows run through the text side by side, the state carried, gradients cut after `steps`
    tokens), "partition" (pieces of `steps` tokens from a random offset, shuffled, each from a fresh state) or "lines"
    (each line on its own, gradients through all of it; one longer than `steps` is cut). `batch` rows at a time.
    `jitter` varies `steps` from block to block as AWD-LSTM does, the rate in proportion.

    Budget: `epochs`, `tokens_budget`, `minutes`; the first that is used up ends the training. `patience` ends it after
    so many validations without a better one, 0 never. `validate_every` is in steps.

    Step: `optimizer` with `rate`, `momentum` (sgd), `betas` (adam, adamw), `weight_decay`; `clip` is the largest norm
    of the gradient, 0 for any. `nonmono`: NT-ASGD averages once a validation is worse than the best one so many before.

    Rate: `schedule`; `warmup` is a share of the budget below 1, else steps; `final` is the share of the rate that
    cosine and one-cycle end with; step multiplies by `decay` from epoch `decay_from` on, every `decay_every` epochs;
    plateau multiplies by `decay` after `plateau` validations without a better one.

    Machine: `device`, `precision`; `graphs` records steps on a GPU and plays them again (`graphs.py`); `log_every` and
    `checkpoint_every` are in steps, `checkpoint_seconds` is the least time between two writes of a checkpoint.
    """

    seed: int = 0
    batching: str | None = None
    batch: int | None = None
    steps: int | None = None
    jitter: bool | None = None
    epochs: float | None = None
    tokens_budget: int | None = None
    minutes: float | None = None
    patience: int | None = None
    validate_every: int | None = None
    optimizer: str | None = None
    rate: float | None = None
    momentum: float = 0.0
    betas: tuple[float, ...] = (0.9, 0.999)
    weight_decay: float | None = None
    clip: float | None = None
    nonmono: int = 5
    schedule: str | None = None
    warmup: float | None = None
    final: float = 0.05
    decay: float = 0.5
    decay_from: float = 4.0
    decay_every: float = 1.0
    plateau: int = 1
    device: str = "auto"
    precision: str = "auto"
    graphs: bool = True
    log_every: int | None = None
    checkpoint_every: int | None = None
    checkpoint_seconds: float = 30.0
    tensorboard: bool = False

    def __post_init__(self) -> None:
        _choice("batching", self.batching, BATCHINGS)
        _choice("optimizer", self.optimizer, OPTIMIZERS)
        _choice("schedule", self.schedule, SCHEDULES)
        _choice("precision", self.precision, PRECISIONS)
        _choice("device", self.device, DEVICES)
        for name in ("batch", "steps", "tokens_budget", "validate_every", "nonmono", "log_every", "checkpoint_every"):
            _at_least(name, getattr(self, name), 1)
        if self.seed >= SEEDS:
            raise OptionError(f"seed is {self.seed}; expected 0 to {SEEDS - 1} (64 bits); try a smaller one")
        for name in ("seed", "patience", "weight_decay", "clip", "warmup", "checkpoint_seconds", "plateau"):
            _at_least(name, getattr(self, name), 0)
        for name in ("rate", "epochs", "minutes", "decay_every"):
            _above("more than 0", name, getattr(self, name))
        _at_least("decay_from", self.decay_from, 0)
        for name in ("momentum", "final", "decay"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise OptionError(f"{name} is {getattr(self, name)!r}; expected 0 to 1")
        if len(self.betas) != 2 or not all(0.0 <= beta < 1.0 for beta in self.betas):
            raise OptionError(f"betas are {self.betas!r}; expected two numbers from 0 to below 1; try 0.9, 0.999")
        if self.momentum and self.optimizer in ("adamw", "adam", "nt-asgd"):
            raise OptionError(f"{self.optimizer} has no momentum (got {self.momentum}); try optimizer='sgd'")


def names() -> list[str]:
    """All options of training."""
    return [field.name for field in fields(TrainingSettings)]


def _choice(name: str, value: str | None, known: tuple[str, ...]) -> None:
    if value is not None and value not in known:
        raise OptionError(f"{name} is {value!r}; {nearest(value, list(known))}")


def _at_least(name: str, value: float | None, least: int) -> None:
    if value is not None and not (value >= least and math.isfinite(value)):
        raise OptionError(f"{name} is {value!r}; expected {least} or more")


def _above(expected: str, name: str, value: float | None) -> None:
    if value is not None and not (value > 0 and math.isfinite(value)):
        raise OptionError(f"{name} is {value!r}; expected {expected}")

"""The settings of dynamic evaluation, in a file of their own since nothing here needs torch."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from thereafter.errors import OptionError, nearest

RULES = ("rms", "sgd")
RATES = {"rms": 5e-4, "sgd": 0.1}
DECAYS = {"rms": 2e-3, "sgd": 1e-3}

STATISTICS_TOKENS = 16_000
"""How much of the training text `rms` takes its statistics from: seconds, not an epoch."""


@dataclass(frozen=True)
class DynamicSettings:
    """How a model keeps learning.

    `rate` of learning and `decay` back to the trained weights (None: what suits the rule), after every `segment` tokens
    (in `line` context at the latest after every line). `rule`: "rms" or "sgd"; None is rms where the training text is
    at hand, which it needs, else sgd.
    """

    rate: float | None = None
    decay: float | None = None
    segment: int = 20
    rule: str | None = None

    def __post_init__(self) -> None:
        if self.rate is not None and not (self.rate > 0 and math.isfinite(self.rate)):
            raise OptionError(
                f"the rate of dynamic evaluation is {self.rate:g}; expected more than 0; try {RATES['rms']:g}"
            )
        if self.decay is not None and not 0 <= self.decay <= 1:
            raise OptionError(f"the decay of dynamic evaluation is {self.decay:g}; expected 0 to 1; try 0.002")
        if self.segment < 1:
            raise OptionError(f"the segment of dynamic evaluation is {self.segment}; expected 1 token or more; try 20")
        if self.rule is not None and self.rule not in RULES:
            raise OptionError(f"the rule of dynamic evaluation is {self.rule!r}; {nearest(self.rule, list(RULES))}")

    def complete(self, statistics: bool) -> DynamicSettings:
        """The same with every choice made; `statistics`: whether those of the training text are there."""
        rule = self.rule or ("rms" if statistics else "sgd")
        if rule == "rms" and not statistics:
            raise OptionError(
                "the rule 'rms' needs the text the model was trained on, which cannot be found again; try rule='sgd'"
            )
        rate = RATES[rule] if self.rate is None else self.rate
        return replace(self, rule=rule, rate=rate, decay=DECAYS[rule] if self.decay is None else self.decay)

    def describe(self) -> str:
        """In a few words."""
        return (
            f"dynamic evaluation ({self.rule}, rate {self.rate:.3g}, decay {self.decay:.3g}, "
            f"every {self.segment} tokens)"
        )

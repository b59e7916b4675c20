"""Networks that lose to what is solved at once, such as the last value or least squares: they are printed as such."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from thereafter.comparing.model_difference import unit_of


@dataclass(frozen=True)
class Shortfall:
    """A network that is worse than a simpler one."""

    network: str
    simpler: str
    figure: str
    value: float
    simpler_value: float

    def __str__(self) -> str:
        return (
            f"{self.network} loses to {self.simpler}, which is solved at once: {self.value:.4g} and "
            f"{self.simpler_value:.4g} {unit_of(self.figure)}"
        )


def losses(values: Mapping[str, float], solved: Sequence[str], figure: str) -> list[Shortfall]:
    """Each network that is trained in steps with the best of those that are solved and have less of the figure."""
    lost = []
    for name, value in values.items():
        better = [(values[other], other) for other in solved if other in values and values[other] < value]
        if name not in solved and better:
            least, simpler = min(better)
            lost.append(Shortfall(name, simpler, figure, value, least))
    return lost


def verdict(values: Mapping[str, float], solved: Sequence[str], figure: str) -> str:
    """Which network is best, in a sentence; nothing where there is only one."""
    if len(values) < 2:
        return ""
    best = min(values, key=lambda name: values[name])
    beaten = best in solved and any(name not in solved for name in values)
    advice = f"; no network that is trained in steps beats it here: take {best}" if beaten else ""
    return f"{best} is the best, {values[best]:.4g} {unit_of(figure)}{advice}"

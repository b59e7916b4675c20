"""Rows of a comparison that no network stands behind, such as one caption for all pictures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from thereafter.tasks import baselines
from thereafter.tasks.finding import Part
from thereafter.tasks.task import AnyTask

_TASKS = ("caption",)
"""Tasks whose figures mean little without them."""


@dataclass(frozen=True)
class Beside:
    """What is answered without a network, and how good it is."""

    name: str
    figures: Mapping[str, float]


def rows_beside(task: AnyTask, train: Part, tested: Part) -> tuple[Beside, ...]:
    """The rows of a task that are found by counting and comparing its training examples."""
    if task.name not in _TASKS:
        return ()
    rows = baselines.baseline_rows(task, train, tested)
    return tuple(Beside(name, dict(numbers(measured.as_dict().items()))) for name, measured in rows)


def numbers(items: Iterable[tuple[str, object]]) -> Iterable[tuple[str, float]]:
    """What can be averaged."""
    for name, value in items:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            yield name, float(value)

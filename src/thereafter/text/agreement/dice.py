"""Seeded choices that come out the same on every Python."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


class Dice:
    """Choices made from `random.Random.random` alone: of that module, only its stream is promised never to change."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed).random

    def chance(self, probability: float) -> bool:
        return self._random() < probability

    def fraction(self) -> float:
        return self._random()

    def between(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        return low + int(self._random() * (high - low + 1))

    def pick(self, items: Sequence[Item]) -> Item:
        return items[int(self._random() * len(items))]

    def weighted(self, items: Sequence[tuple[Item, float]]) -> Item:
        """An item drawn in proportion to the weight beside it."""
        left = self._random() * sum([weight for _, weight in items])
        for item, weight in items:
            left -= weight
            if left < 0:
                return item
        return items[-1][0]  # rounding may leave a crumb

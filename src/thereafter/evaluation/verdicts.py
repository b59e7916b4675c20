"""Right answers of a model, counted: by how far what decides an answer lies from it, and by whatever else is known."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self, TypeVar

K = TypeVar("K", bound=Hashable)

DISTANCE = "distance"
Group = Mapping[int, "Tally"] | Mapping[str, "Tally"]
Stored = dict[str, dict[str, list[float]]]
"""Verdicts as JSON: right and total by group and key."""


@dataclass(frozen=True)
class Tally:
    """So many right of so many; ties are half right."""

    right: float = 0.0
    total: int = 0

    @property
    def accuracy(self) -> float:
        """The share that is right; not a number where there is none."""
        return self.right / self.total if self.total else math.nan

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.right + other.right, self.total + other.total)


@dataclass(frozen=True)
class Verdicts:
    """The answers to many questions: by distance, and in further groups, each under its name.

    >>> near_and_far = Verdicts({0: Tally(9, 10), 7: Tally(5, 10)}, {"nouns": {0: Tally(14, 20)}})
    >>> near_and_far.overall.accuracy, near_and_far.between(5, 10).accuracy, near_and_far.among("nouns", 0, 3).total
    (0.7, 0.5, 20)
    """

    distance: Mapping[int, Tally]
    groups: Mapping[str, Group] = field(default_factory=dict)

    @property
    def overall(self) -> Tally:
        return sum(self.distance.values(), Tally())

    @property
    def longest(self) -> int:
        """The largest distance that was asked about."""
        return max(self.distance)

    def between(self, low: int, high: int) -> Tally:
        """All answers over `low` to `high`."""
        return sum((tally for far, tally in self.distance.items() if low <= far <= high), Tally())

    def among(self, group: str, low: int, high: int) -> Tally:
        """Those of a further group whose keys are numbers from `low` to `high`."""
        keys = self.groups[group].items()
        return sum((tally for key, tally in keys if isinstance(key, int) and low <= key <= high), Tally())

    def under(self, group: str, key: str) -> Tally:
        """Those of a further group under one key."""
        return sum((tally for name, tally in self.groups[group].items() if name == key), Tally())

    def all_groups(self) -> dict[str, Group]:
        """Every group by its name, the distances first."""
        return {DISTANCE: self.distance, **self.groups}

    def as_dict(self) -> Stored:
        """Plain JSON values: right and total of every group."""
        return {
            name: {str(key): [tally.right, tally.total] for key, tally in group.items()}
            for name, group in self.all_groups().items()
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Mapping[str, Iterable[float]]]) -> Self:
        """What `as_dict` gave."""
        distance = {int(key): _tally(pair) for key, pair in stored[DISTANCE].items()}
        return cls(distance, {name: _group(group) for name, group in stored.items() if name != DISTANCE})


def count_by(keys: Iterable[K], marks: Iterable[float]) -> dict[K, Tally]:
    """A tally for each key, in the order of the keys' first use; a mark is 1 for right, 0 for wrong."""
    tallies: dict[K, Tally] = {}
    for key, mark in zip(keys, marks, strict=True):
        tallies[key] = tallies.get(key, Tally()) + Tally(mark, 1)
    return tallies


def _group(stored: Mapping[str, Iterable[float]]) -> Group:
    """Keys that are all numbers become numbers again."""
    tallies = {key: _tally(pair) for key, pair in stored.items()}
    if all(key.isdecimal() for key in tallies):
        return {int(key): tally for key, tally in tallies.items()}
    return tallies


def _tally(pair: Iterable[float]) -> Tally:
    right, total = pair
    return Tally(right, int(total))

"""What came of many comparisons: counts by kernel, refusals in their own words, the largest errors, what is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import torch

_Thing = TypeVar("_Thing")


@dataclass
class Tally:
    """Runs of each kernel, refusals by kernel and sentence, the largest error by kernel and type as a share of what is
    allowed, and what is wrong."""

    ran: Counter[str] = field(default_factory=Counter)
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    largest: dict[tuple[str, torch.dtype], float] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Take in another's."""
        self.ran += other.ran
        self.refused += other.refused
        self.wrong += other.wrong
        for key, error in other.largest.items():
            self.largest[key] = max(error, self.largest.get(key, 0.0))

    def lines(self, kernels: Iterable[str], quoted: str) -> list[str]:
        """All counts in words; the refusals of the kernel `quoted` by sentence."""
        refusals: Counter[str] = Counter()
        for (label, _), count in self.refused.items():
            refusals[label] += count
        made = []
        for label in kernels:
            errors = [f"{str(dtype).removeprefix('torch.')} {share:.2f}"
                      for (name, dtype), share in self.largest.items() if name == label]  # fmt: skip
            shares = f"; largest error, as a share of what is allowed: {', '.join(errors)}" if errors else ""
            made.append(f"{label:<10} ran {self.ran[label]:>5}, refused {refusals[label]:>5}{shares}")
        sentences = Counter({reason: count for (label, reason), count in self.refused.items() if label == quoted})
        return [*made, *(f"{quoted} refused {count:>5}: {reason}" for reason, count in sentences.most_common())]


def share_of(things: Sequence[_Thing], share: str) -> list[_Thing]:
    """The i-th of n equal shares: every n-th thing, from the i-th.

    >>> share_of("abcdefg", "2/3")
    ['b', 'e']
    """
    number, among = map(int, share.split("/"))
    if not 1 <= number <= among:
        raise SystemExit(f"--share is {share}; expected 1/{among} to {among}/{among}")
    return list(things[number - 1 :: among])

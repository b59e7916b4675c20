"""How sure a figure is: the interval of a share, and the paired bootstrap of a difference between two models.

A figure of a test set is a function of sums over its examples: bits per byte of the bits and bytes of lines, BLEU of
counts of n-grams. Examples are drawn with replacement, as many as there are, and both models are measured on the same
draw, so that what is hard for both cancels out (Efron and Tibshirani 1993; Koehn 2004 for translations).

    interval    from the 2.5th to the 97.5th percentile of the differences, over all resamples
    reversed    the share of resamples in which the order of the two is reversed; ties count half

The draws, the interval and `p_value` follow the rules of sacreBLEU (Post 2018), with its seed: of translations
`sacrebleu --paired-bs` gives the same. Neighbouring lines of a running text are not independent. There, whole blocks of
neighbours are drawn, each line beginning one, and the last line followed by the first (circular block bootstrap,
Politis and Romano 1992). Shapes: N examples, S statistics of each, R resamples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thereafter.base.config import Table
from thereafter.errors import OptionError

Floats = NDArray[np.float64]

RESAMPLES = 1000
SEED = 12345
"""That of sacreBLEU."""
LEAST = 20
"""Fewer examples say nothing about an interval."""
_TAIL = 40  # one in this many resamples lies beyond either end of an interval
_CELLS = 1 << 22  # numbers in memory at once


class Resampled(Protocol):
    """Answers of one model, ready to be resampled.

    An implementation has the statistics of every example, and turns their sums over R resamples into the reported
    figures: exactly those that the measure of a task gives for the whole.
    """

    @property
    def statistics_NS(self) -> Floats:
        """The statistics to sum, one row per example."""

    def figures(self, sums_RS: Floats) -> Mapping[str, Floats]:
        """The figures by name, each [R]; more is better in all of them."""


@dataclass(frozen=True, eq=False)
class ResampledMeans:
    """Figures that are sums over examples, divided by their last statistic.

    `columns`: the statistics that are added up for a figure. What is better where it is less is counted negative.
    """

    statistics_NS: Floats
    columns: Mapping[str, tuple[int, ...]]

    def figures(self, sums_RS: Floats) -> dict[str, Floats]:
        count_R = np.maximum(sums_RS[:, -1], 1)
        return {name: sums_RS[:, list(own)].sum(1) / count_R for name, own in self.columns.items()}


@dataclass(frozen=True)
class Difference:
    """One figure less another: on the whole test set, and over resamples of it, `low` to `high` in 95 % of them.

    `examples` are resampled, `block` neighbours at a time. `reversed` is the share of resamples with the other order.
    """

    value: float
    low: float
    high: float
    reversed: float
    p_value: float
    examples: int
    block: int = 1
    resamples: int = RESAMPLES

    @property
    def clear(self) -> bool:
        """Whether one of the two is clearly better: the interval does not contain 0."""
        return self.low > 0 or self.high < 0

    def as_dict(self) -> Table:
        """For JSON."""
        return asdict(self)


def block_length(examples: int) -> int:
    """Neighbouring lines of a running text that are drawn together: the cube root of their number, rounded.

    The growth that makes the error of a variance smallest (Hall, Horowitz and Jing 1995).

    >>> block_length(3761)
    16
    """
    return max(1, round(math.cbrt(examples)))


def resample_sums(
    statistics_NS: Floats, *, resamples: int = RESAMPLES, seed: int = SEED, block: int = 1
) -> NDArray[np.float64]:
    """The sums of statistics over each resample of the examples, [R, S]; the same draws for the same N, seed, block."""
    examples = len(statistics_NS)
    if not examples or not 1 <= block <= examples or resamples < 1:
        raise OptionError(
            f"got {examples} examples, blocks of {block} and {resamples} resamples; expected at least one of each, and "
            "blocks no longer than the examples"
        )
    summed_NS = _circular_blocks(np.asarray(statistics_NS, np.float64), block)
    draws = max(1, round(examples / block))
    random = np.random.default_rng(seed)
    sums_RS = np.empty((resamples, summed_NS.shape[1]))
    rows = max(1, _CELLS // examples)
    for at in range(0, resamples, rows):
        size = min(rows, resamples - at)
        places = random.integers(examples, size=(size, draws)) + examples * np.arange(size)[:, None]
        times = np.bincount(places.ravel(), minlength=size * examples).reshape(size, examples)
        sums_RS[at : at + size] = times.astype(np.float64) @ summed_NS
    return sums_RS


def paired_difference(
    figure: float, other: float, figure_R: Floats, other_R: Floats, *, examples: int, block: int = 1
) -> Difference:
    """`figure` less `other`, with the interval from the same figures over resamples."""
    differences_R = np.asarray(figure_R, np.float64) - np.asarray(other_R, np.float64)
    value = float(figure - other)
    low, high = interval(differences_R)
    against = differences_R < 0 if value >= 0 else differences_R > 0
    reverse = float(np.mean(np.where(differences_R == 0, 0.5, against)))
    return Difference(value, low, high, reverse, p_value(differences_R, value), examples, block, len(differences_R))


def interval(values_R: Floats) -> tuple[float, float]:
    """Where 95 % of the values lie: a fortieth of them is left out at either end."""
    ranked = np.sort(values_R)
    beyond = len(ranked) // _TAIL
    return float(ranked[beyond]), float(ranked[len(ranked) - beyond - 1])


def p_value(differences_R: Floats, value: float) -> float:
    """How often chance alone would make a difference larger than `value`, whichever is better, as sacreBLEU counts it:
    the resampled differences, moved so that their mean is 0, that exceed it."""
    sizes = np.abs(differences_R)
    larger = int(np.count_nonzero(sizes - sizes.mean() > abs(value)))
    return (larger + 1) / (len(sizes) + 1)


def _circular_blocks(statistics_NS: Floats, block: int) -> Floats:
    """The sum of every example and those after it, `block` in all; after the last comes the first."""
    if block == 1:
        return statistics_NS
    around = np.concatenate([np.zeros((1, statistics_NS.shape[1])), statistics_NS, statistics_NS[: block - 1]])
    totals = np.cumsum(around, axis=0)
    blocks: Floats = totals[block:] - totals[:-block]
    return blocks


Z_95 = 1.959964
"""The normal quantile of 97.5 %: a 95 % interval leaves 2.5 % on either side."""


def wilson(share: ArrayLike, counted: ArrayLike, z: float = Z_95) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The 95 % interval of a share of `total` cases (Wilson 1927), which stays between 0 and 1 and never has width 0.

        (p + z^2 / 2n -+ z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)

    Without any cases it is 0 to 1.

    >>> [round(float(end[0]), 4) for end in wilson([0.9], [10])]
    [0.5958, 0.9821]
    """
    n_X = np.asarray(counted, np.float64)
    empty_X = n_X == 0
    n_X = np.where(empty_X, 1.0, n_X)
    share_X = np.where(empty_X, 0.5, np.asarray(share, np.float64))
    middle_X = share_X + z**2 / (2 * n_X)
    half_X = z * np.sqrt(share_X * (1 - share_X) / n_X + z**2 / (4 * n_X**2))
    whole_X = 1 + z**2 / n_X
    # at shares of 0 and 1 an end is the share itself, but for the last bit
    low_X = np.minimum((middle_X - half_X) / whole_X, share_X)
    high_X = np.maximum((middle_X + half_X) / whole_X, share_X)
    return np.where(empty_X, 0.0, low_X), np.where(empty_X, 1.0, high_X)

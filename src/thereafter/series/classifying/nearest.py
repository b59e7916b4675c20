"""One nearest neighbour over series of numbers: what any classifier of series has to beat.

Euclidean distance where all series have one length; else dynamic time warping (Sakoe and Chiba 1978): the least sum of
squared differences over all ways to walk through both series together,

    D(i, j) = |a_i - b_j|^2 + min(D(i-1, j-1), D(i-1, j), D(i, j-1)),        |i - j| <= band,        d = sqrt(D(n, m))

with a band of a tenth of the longer series, and at least the difference of both lengths. Of a step with missing values
the others stand for all: the sum over the channels that both have, times C / their number; a step without any is free.

Shapes: N series to learn from, Q questions, P pairs, T steps, C channels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.errors import EmptyCorpusError, OptionError

BAND = 0.1
_NUMBERS = 1 << 18  # in one array of pairs: what the caches hold
Series = NDArray[np.float64]


def most_frequent(labels: Sequence[str]) -> str:
    """The most frequent label; of equal ones the first in the alphabet."""
    counts = Counter(labels)
    return min(counts, key=lambda label: (-counts[label], label))


@dataclass(frozen=True)
class NearestNeighbour:
    """The label of the nearest series, of equally near ones the first."""

    series: tuple[Series, ...]
    labels: tuple[str, ...]
    band: float = BAND

    @classmethod
    def fit(cls, series: Sequence[Series], labels: Sequence[str], band: float = BAND) -> Self:
        """Keep all series [T, C], scaled alike."""
        if len(series) != len(labels):
            raise OptionError(f"there are {len(series):,} series and {len(labels):,} labels, expected one for each")
        if not series:
            raise EmptyCorpusError("there are no series to learn from; expected at least one")
        return cls(tuple(series), tuple(labels), band)

    def measure_of(self, questions: Sequence[Series]) -> str:
        """Which distance these questions are answered by, in words."""
        return "Euclidean" if self._equal(questions) else f"DTW, band {self.band:.0%}".replace("%", " %")

    def predict(self, questions: Sequence[Series]) -> list[str]:
        """The label of each."""
        if not questions:
            return []
        distances_QN = self.distances(questions)
        return [self.labels[at] for at in distances_QN.argmin(1)]

    def distances(self, questions: Sequence[Series]) -> NDArray[np.float64]:
        """The distance of every question from every series, [Q, N]."""
        if self._equal(questions):
            return euclidean(questions, self.series)
        return warped(questions, self.series, self.band)

    def _equal(self, questions: Sequence[Series]) -> bool:
        return len({len(one) for one in (*self.series, *questions)}) == 1


def euclidean(questions: Sequence[Series], series: Sequence[Series]) -> NDArray[np.float64]:
    """Euclidean distances of series of one length, [Q, N]; over the values that both have, scaled up to all."""
    a_QX = np.stack([one.reshape(-1) for one in questions])
    b_NX = np.stack([one.reshape(-1) for one in series])
    seen_QX, seen_NX = (~np.isnan(one) for one in (a_QX, b_NX))
    a_QX, b_NX = np.nan_to_num(a_QX), np.nan_to_num(b_NX)
    squares_QN = (a_QX**2) @ seen_NX.T + seen_QX @ (b_NX**2).T - 2 * a_QX @ b_NX.T
    count_QN = seen_QX.astype(np.float64) @ seen_NX.T.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled_QN = np.where(count_QN > 0, squares_QN * a_QX.shape[1] / count_QN, np.inf)
    return np.sqrt(np.maximum(scaled_QN, 0.0))


def warped(questions: Sequence[Series], series: Sequence[Series], band: float = BAND) -> NDArray[np.float64]:
    """Distances by dynamic time warping, [Q, N]: many pairs at once."""
    a_TCQ, length_Q = _stacked(questions)
    b_TCN, length_N = _stacked(series)
    pairs = len(questions) * len(series)
    size = max(1, _NUMBERS // (max(len(a_TCQ), len(b_TCN)) * a_TCQ.shape[1]))
    distance_P = np.empty(pairs)
    with progress.task("comparing series", total=pairs) as advance:
        for begin in range(0, pairs, size):
            pair_P = np.arange(begin, min(pairs, begin + size))
            q_P, n_P = pair_P // len(series), pair_P % len(series)
            distance_P[pair_P] = _warped_pairs(a_TCQ[..., q_P], b_TCN[..., n_P], length_Q[q_P], length_N[n_P], band)
            advance(len(pair_P))
    return distance_P.reshape(len(questions), len(series))


def _stacked(series: Sequence[Series]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Series side by side [T, C, N], and their lengths [N]; 0 behind the end, where nothing is read."""
    length_N = np.array([len(one) for one in series], np.int64)
    stacked_TCN = np.zeros((int(length_N.max()), series[0].shape[1], len(series)))
    for at, one in enumerate(series):
        stacked_TCN[: len(one), :, at] = one
    return stacked_TCN, length_N


def _warped_pairs(
    a_TCP: NDArray[np.float64],
    b_TCP: NDArray[np.float64],
    n_P: NDArray[np.int64],
    m_P: NDArray[np.int64],
    band: float,
) -> NDArray[np.float64]:
    """D(n, m) of every pair, row by row of D; a row has a column for each step of b, and one before the first."""
    width_P = np.maximum(np.ceil(band * np.maximum(n_P, m_P)), np.abs(n_P - m_P)).astype(np.int64)
    width, steps, pairs = int(width_P.max()), len(b_TCP), a_TCP.shape[2]
    before_TP = np.full((steps + 1, pairs), np.inf)
    before_TP[0] = 0.0
    distance_P = np.empty(pairs)
    gaps, narrower = bool(np.isnan(a_TCP).any() or np.isnan(b_TCP).any()), bool((width_P < width).any())
    for i in range(int(n_P.max())):
        low, high = max(0, i - width), min(steps, i + width + 1)
        row_TP = np.full((steps + 1, pairs), np.inf)
        if low < high:
            cost_WP = _costs(a_TCP[i], b_TCP[low:high], gaps)
            if narrower:
                cost_WP[np.abs(i - np.arange(low, high))[:, None] > width_P] = np.inf
            reach_WP = np.minimum(before_TP[low:high], before_TP[low + 1 : high + 1])
            for k, j in enumerate(range(low, high)):
                row_TP[j + 1] = cost_WP[k] + np.minimum(reach_WP[k], row_TP[j])
        ending = np.flatnonzero(n_P == i + 1)
        distance_P[ending] = row_TP[m_P[ending], ending]
        before_TP = row_TP
    return np.sqrt(distance_P)


def _costs(a_CP: NDArray[np.float64], b_WCP: NDArray[np.float64], gaps: bool) -> NDArray[np.float64]:
    """What it costs to meet at a step, [W, P]."""
    squares_WCP = np.square(a_CP - b_WCP)
    if not gaps:
        costs_WP: NDArray[np.float64] = squares_WCP.sum(1) if len(a_CP) > 1 else squares_WCP[:, 0]
        return costs_WP
    seen_WP = (~np.isnan(squares_WCP)).sum(1)
    scaled_WP: NDArray[np.float64] = np.nansum(squares_WCP, 1) * (a_CP.shape[0] / np.maximum(seen_WP, 1))
    return scaled_WP

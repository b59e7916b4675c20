"""What every smoothing method returns, and the sums over contexts that they share.

Shapes: M_n distinct n-grams of order n; V words that can be predicted.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from thereafter.ngram.counts import Counts

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Weights:
    """Probabilities of the n-grams that are kept, and the weight of a context for words not seen after it.

    `prob[n-1]`     [M_n]  p(w | h) of each n-gram hw of order n
    `backoff[n-1]`  [M_n]  of each n-gram taken as a context h:
        `spread == "backoff"`:  p(w | h) = backoff(h) p(w | h without its first word)   for w not seen after h
        `spread == "uniform"`:  p(w | h) = backoff(h)                                   for w not seen after h
    A context that nothing was seen after has weight 1: its suffix predicts the word.
    """

    prob: list[Float]
    backoff: list[Float]
    spread: str = "backoff"
    proper: bool = True  # whether probabilities sum to 1 for every context
    discounts: dict[int, tuple[float, ...]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def sum_by_context(counts: Counts, order: int, values: NDArray[np.generic]) -> Float:
    """Sum a value of each n-gram of `order` over its contexts, [M_{n-1}]; contexts nothing followed get 0."""
    level = counts.levels[order - 1]
    return np.bincount(level.context, weights=values.astype(np.float64), minlength=counts.size(order - 1)).astype(float)


def kept_mask(counts: Counts, order: int, cutoffs: tuple[int, ...]) -> NDArray[np.bool_]:
    """Which n-grams of an order are kept: those seen more than `cutoffs[order - 1]` times, and all words."""
    if order == 1:
        return np.ones(counts.size(1), dtype=bool)
    return counts.levels[order - 1].count > cutoffs[order - 1]


def lower_order(counts: Counts, order: int, prob: list[Float]) -> Float | float:
    """p(w | h without its first word) of each n-gram hw of `order`; below order 1 it is the uniform distribution."""
    if order == 1:
        uniform = np.full(counts.size(1), 1.0 / counts.vocabulary_size)
        uniform[counts.vocabulary_size] = 0.0  # <s> is an input, never predicted
        return uniform
    return prob[order - 2][counts.levels[order - 1].suffix]


def left_over(used: Float, total: Float) -> Float:
    """used / total if something followed the context, else 1: a shorter context predicts the word."""
    return np.divide(used, total, out=np.ones_like(total), where=total > 0)


def counts_of_counts(values: NDArray[np.int64], highest: int) -> list[int]:
    """How many n-grams have a count of exactly 0 (always given as 0), 1, ..., `highest`."""
    few = values[(values > 0) & (values <= highest)]
    return [0, *np.bincount(few, minlength=highest + 1)[1:].tolist()]

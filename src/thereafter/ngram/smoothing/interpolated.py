"""Smoothings in which every order is mixed with the one below it.

Notation: c(hw) count of word w after context h; c(h) = sum_w c(hw); T(h) number of different words seen after h;
h' is h without its first word; N1+(.hw) number of different words seen before hw; p(w | h') at order 0 is 1/V.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from thereafter.ngram.counts import Counts
from thereafter.ngram.smoothing.weights import (
    Float,
    Weights,
    counts_of_counts,
    kept_mask,
    left_over,
    lower_order,
    sum_by_context,
)

Discount = Callable[[NDArray[np.int64]], tuple[tuple[float, ...], bool]]

FALLBACK_ONE = (0.5,)
FALLBACK_THREE = (0.5, 1.0, 1.5)


def witten_bell(counts: Counts, cutoffs: tuple[int, ...]) -> Weights:
    """The more different words followed a context, the more it leaves to the order below.

        p(w | h) = (c(hw) + T(h) p(w | h')) / (c(h) + T(h))

    Witten and Bell 1991, The zero-frequency problem; method C, as in Chen and Goodman 1998, section 2.6.
    """
    prob: list[Float] = []
    backoff: list[Float] = []
    for order in range(1, counts.order + 1):
        level = counts.levels[order - 1]
        stays = kept_mask(counts, order, cutoffs)
        total = sum_by_context(counts, order, level.count)
        types = sum_by_context(counts, order, level.count > 0)
        whole = np.maximum(total + types, 1)
        share = np.where(stays, level.count, 0) / whole[level.context]
        gamma = left_over(types + sum_by_context(counts, order, np.where(stays, 0, level.count)), total + types)
        prob.append(share + gamma[level.context] * lower_order(counts, order, prob))
        backoff.append(gamma)
    return Weights(prob, _as_contexts(backoff, counts))


def absolute(counts: Counts, cutoffs: tuple[int, ...]) -> Weights:
    """A fixed amount is taken from every count and given to the order below.

        p(w | h) = max(c(hw) - D, 0) / c(h) + D T(h) / c(h) p(w | h'),     D = n1 / (n1 + 2 n2) of that order

    Ney, Essen and Kneser 1994, On structuring probabilistic dependences in stochastic language modelling.
    """
    return _discount(counts, [level.count for level in counts.levels], cutoffs, _one_discount)


def kneser_ney(counts: Counts, cutoffs: tuple[int, ...]) -> Weights:
    """Absolute discounting in which lower orders count the different words *before* an n-gram, not its occurrences.

        p(w | h) = max(a(hw) - D, 0) / a(h) + D T(h) / a(h) p(w | h'),     a = c at the highest order, N1+(.hw) below

    n-grams that begin with `<s>` have nothing before them and keep their counts.
    Kneser and Ney 1995, Improved backing-off for m-gram language modeling; interpolated as in Chen and Goodman 1998.
    """
    return _discount(counts, adjust_counts(counts), cutoffs, _one_discount)


def modified_kneser_ney(counts: Counts, cutoffs: tuple[int, ...]) -> Weights:
    """Kneser-Ney with one discount for n-grams seen once, one for twice, one for three times and more.

        p(w | h) = (a(hw) - D(a)) / a(h) + gamma(h) p(w | h'),     gamma(h) = sum_w D(a(hw)) / a(h)
        Y = n1 / (n1 + 2 n2),   D1 = 1 - 2 Y n2/n1,   D2 = 2 - 3 Y n3/n2,   D3+ = 3 - 4 Y n4/n3

    Chen and Goodman 1998, An empirical study of smoothing techniques, section 3. The default; equal to KenLM's.
    """
    return _discount(counts, adjust_counts(counts), cutoffs, _three_discounts)


def adjust_counts(counts: Counts) -> list[NDArray[np.int64]]:
    """Kneser-Ney's counts: occurrences at the highest order, different left neighbours below it, [M_n] for each n."""
    result = []
    for order in range(1, counts.order):
        left = np.bincount(counts.levels[order].suffix, minlength=counts.size(order))
        first = counts.first_starting(order)
        if order > 1:  # the bare <s> is never predicted and stays 0
            left[first:] = counts.levels[order - 1].count[first:]
        result.append(left.astype(np.int64))
    return [*result, counts.levels[-1].count]


def _discount(counts: Counts, values: list[NDArray[np.int64]], cutoffs: tuple[int, ...], discount: Discount) -> Weights:
    """Subtract the discounts of each order; what was taken, and all that was cut off, goes to the order below."""
    prob: list[Float] = []
    backoff: list[Float] = []
    discounts: dict[int, tuple[float, ...]] = {}
    notes: list[str] = []
    for order, value in enumerate(values, start=1):
        level = counts.levels[order - 1]
        amounts, degenerate = discount(value)
        discounts[order] = amounts
        if degenerate:
            shown = ", ".join(f"{amount:g}" for amount in amounts)
            notes.append(f"order {order}: too few different counts to estimate discounts; used {shown}")
        steps = np.array([0.0, *amounts])
        taken = steps[np.minimum(value, len(amounts))]
        taken = np.where(kept_mask(counts, order, cutoffs), taken, value)
        total = sum_by_context(counts, order, value)
        gamma = left_over(sum_by_context(counts, order, taken), total)
        share = (value - taken) / np.maximum(total, 1)[level.context]
        prob.append(share + gamma[level.context] * lower_order(counts, order, prob))
        backoff.append(gamma)
    return Weights(prob, _as_contexts(backoff, counts), discounts=discounts, notes=notes)


def _as_contexts(gammas: list[Float], counts: Counts) -> list[Float]:
    """gamma of order n belongs to the contexts of order n-1; the highest order is never a context."""
    return [*gammas[1:], np.ones(counts.size(counts.order))]


def _one_discount(value: NDArray[np.int64]) -> tuple[tuple[float, ...], bool]:
    """D = n1 / (n1 + 2 n2); 0.5 where no n-gram was seen once, or none twice."""
    _, n1, n2 = counts_of_counts(value, 2)
    if n1 == 0 or n2 == 0:
        return FALLBACK_ONE, True
    return (n1 / (n1 + 2 * n2),), False


def _three_discounts(value: NDArray[np.int64]) -> tuple[tuple[float, ...], bool]:
    """D1, D2, D3+; 0.5, 1, 1.5 where a count of counts is 0 or a discount falls outside (0, its count]."""
    n = counts_of_counts(value, 4)
    if 0 in n[1:]:
        return FALLBACK_THREE, True
    y = n[1] / (n[1] + 2 * n[2])
    amounts = tuple(k - (k + 1) * y * n[k + 1] / n[k] for k in (1, 2, 3))
    if any(not 0 < amount <= k for k, amount in enumerate(amounts, start=1)):
        return FALLBACK_THREE, True
    return amounts, False

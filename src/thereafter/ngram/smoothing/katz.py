"""Katz's back-off with Good-Turing discounts. Notation as in `interpolated`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thereafter.ngram.counts import Counts
from thereafter.ngram.smoothing.weights import Float, Weights, counts_of_counts, kept_mask, lower_order, sum_by_context

RELIABLE = 5  # counts above this are taken as they are


def katz(counts: Counts, cutoffs: tuple[int, ...]) -> Weights:
    """Small counts are lowered as Good and Turing say; unseen words share what is freed, as the order below sees them.

        p(w | h) = d(c) c(hw) / c(h)  if c(hw) > 0,  else  alpha(h) p(w | h')
        d(r) = (r*/r - A) / (1 - A)  for r <= 5, else 1,   r* = (r+1) n_{r+1} / n_r,   A = 6 n_6 / n_1
        alpha(h) = (1 - sum_seen p(w | h)) / (1 - sum_seen p(w | h'))

    Three corners the formulas leave open: where a d(r) is not in (0, 1) the order uses d(r) = (r - 0.5) / r; a context
    whose counts are all above 5 frees nothing, so it counts one more in its denominator; where every word was seen
    after a context there is nobody to give to, and what was freed is shared among the seen in proportion.
    Katz 1987, Estimation of probabilities from sparse data for the language model component of a speech recognizer.
    """
    prob: list[Float] = []
    backoff: list[Float] = []
    notes: list[str] = []
    for order in range(1, counts.order + 1):
        level = counts.levels[order - 1]
        seen = kept_mask(counts, order, cutoffs) & (level.count > 0)
        ratio, degenerate = _good_turing(level.count)
        if degenerate:
            notes.append(f"order {order}: counts of counts give no Good-Turing discount; took 0.5 from every count")
        total = sum_by_context(counts, order, level.count)
        lowered = np.where(seen, ratio * level.count, 0.0)
        used = sum_by_context(counts, order, lowered)
        # Nothing freed means nothing for unseen words: one imagined count more makes room.
        total = np.where(used >= total * (1 - 1e-12), total + 1, total)
        share = lowered / total[level.context]
        below = lower_order(counts, order, prob)
        covered = sum_by_context(counts, order, np.where(seen, below, 0.0))
        covered_by = sum_by_context(counts, order, seen)
        unseen = np.where(covered_by >= counts.vocabulary_size, 0.0, np.maximum(1 - covered, 0.0))
        freed = 1 - used / total
        nobody = unseen <= 1e-12
        scale = np.where(nobody & (used > 0), total / np.maximum(used, 1e-300), 1.0)
        share = share * scale[level.context]
        alpha = np.where(nobody, 0.0, freed / np.maximum(unseen, 1e-300))
        alpha = np.where(used > 0, alpha, 1.0)  # nothing kept after this context: leave the word to its suffix
        prob.append(np.where(seen, share, alpha[level.context] * below))
        backoff.append(alpha)
    return Weights(prob, [*backoff[1:], np.ones(counts.size(counts.order))], notes=notes)


def _good_turing(count: NDArray[np.int64]) -> tuple[Float, bool]:
    """The ratio d(c) for each n-gram, and whether it had to fall back."""
    n = counts_of_counts(count, RELIABLE + 1)
    ratios = np.ones(RELIABLE + 2)
    if 0 not in n[1 : RELIABLE + 1]:
        large = (RELIABLE + 1) * n[RELIABLE + 1] / n[1]
        for r in range(1, RELIABLE + 1):
            turing = (r + 1) * n[r + 1] / (n[r] * r)
            ratios[r] = (turing - large) / (1 - large) if large < 1 else 0.0
        if np.all((ratios[1:-1] > 0) & (ratios[1:-1] < 1)):
            return ratios[np.minimum(count, RELIABLE + 1)], False
    return (count - 0.5) / np.maximum(count, 1), True

"""Relative frequencies, and the two simplest repairs. Notation as in `interpolated`."""

from __future__ import annotations

import numpy as np

from thereafter.errors import OptionError
from thereafter.ngram.counts import Counts
from thereafter.ngram.smoothing.weights import Float, Weights, kept_mask, left_over, lower_order, sum_by_context


def mle(counts: Counts, cutoffs: tuple[int, ...]) -> Weights:
    """Maximum likelihood: what was not seen after a context is impossible after it.

        p(w | h) = c(hw) / c(h)

    A context that was never seen uses its longest seen suffix. Jurafsky and Martin, Speech and Language Processing,
    chapter 3.
    """
    return _frequencies(counts, cutoffs, alpha=0.0, spread="backoff")


def add_alpha(counts: Counts, cutoffs: tuple[int, ...], alpha: float = 0.1) -> Weights:
    """Every word is taken as seen `alpha` times more after every context (alpha = 1 is Laplace's rule).

        p(w | h) = (c(hw) + alpha) / (c(h) + alpha V)

    Lidstone 1920; Chen and Goodman 1998, section 2.1. A context that was never seen uses its longest seen suffix.
    """
    if not (alpha > 0 and np.isfinite(alpha * counts.vocabulary_size * 1e9)):
        raise OptionError(f"alpha is {alpha}; expected a number above 0; try alpha=0.1, or smoothing='mle' for none")
    return _frequencies(counts, cutoffs, alpha=alpha, spread="uniform")


def _frequencies(counts: Counts, cutoffs: tuple[int, ...], alpha: float, spread: str) -> Weights:
    prob: list[Float] = []
    backoff: list[Float] = []
    whole = alpha * counts.vocabulary_size
    for order in range(1, counts.order + 1):
        level = counts.levels[order - 1]
        seen = np.where(kept_mask(counts, order, cutoffs), level.count, 0)
        total = sum_by_context(counts, order, seen)
        share = (seen + alpha) / np.maximum(total + whole, np.finfo(float).tiny)[level.context]
        if order == 1:
            share[counts.vocabulary_size] = 0.0
        prob.append(share)
        backoff.append(np.where(total > 0, alpha / np.maximum(total + whole, np.finfo(float).tiny), 1.0))
    return Weights(prob, [*backoff[1:], np.ones(counts.size(counts.order))], spread=spread)


def stupid_backoff(counts: Counts, cutoffs: tuple[int, ...], factor: float = 0.4, normalise: bool = True) -> Weights:
    """Relative frequency where there is one, else the shorter context's score times a constant.

        S(w | h) = c(hw) / c(h) if c(hw) > 0, else factor S(w | h'),     S(w | nothing) = factor / V if c(w) = 0

    The scores are no probabilities. So that they can stand beside other models they are divided by their sum,
    p(w | h) = S(w | h) / Z(h), with Z computed for every context on the way up; `normalise=False` keeps S itself (a
    context that was never seen is passed over without paying the factor).
    Brants, Popat, Xu, Och and Dean 2007, Large language models in machine translation.
    """
    if not 0 < factor <= 1:
        raise OptionError(f"factor is {factor}; expected above 0 and at most 1; try factor=0.4")
    scores: list[Float] = []  # S of each n-gram
    sums: list[Float] = []  # Z of each context, contexts of order 0 first
    for order in range(1, counts.order + 1):
        level = counts.levels[order - 1]
        stays = kept_mask(counts, order, cutoffs) & (level.count > 0)
        total = sum_by_context(counts, order, level.count)
        below = lower_order(counts, order, scores)
        seen = level.count / np.maximum(total, 1)[level.context]
        scores.append(np.where(stays, seen, factor * below))
        below_sum = np.ones(1) if order == 1 else sums[-1][counts.levels[order - 2].suffix]
        newly = sum_by_context(counts, order, np.where(stays, scores[-1] - factor * below, 0.0))
        sums.append(newly + factor * below_sum)
    if not normalise:
        factors = [np.full(counts.size(order), factor) for order in range(1, counts.order + 1)]
        return Weights(scores, factors, proper=False, notes=["scores are not normalised: they are not probabilities"])
    prob: list[Float] = []
    backoff: list[Float] = []
    for order in range(1, counts.order + 1):
        level = counts.levels[order - 1]
        prob.append(scores[order - 1] / sums[order - 1][level.context])
        if order < counts.order:
            backoff.append(left_over(factor * sums[order - 1][level.suffix], sums[order]))
    return Weights(prob, [*backoff, np.ones(counts.size(counts.order))])

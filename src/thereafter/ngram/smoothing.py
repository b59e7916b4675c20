"""Eight methods to turn counts into probabilities, by name in `SMOOTHINGS`.

Each is a function `(counts, cutoffs, **options) -> Weights`: relative frequencies and their two simplest repairs,
Katz's back-off, and those in which every order is mixed with the one below it (Witten-Bell, absolute discounting,
Kneser-Ney).

Notation: c(hw) count of word w after context h; c(h) = sum_w c(hw); T(h) number of different words seen after h;
h' is h without its first word; N1+(.hw) number of different words seen before hw; p(w | h') at order 0 is 1/V.

Shapes: M_n distinct n-grams of order n; V words that can be predicted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from thereafter.base.kinds import Registry
from thereafter.errors import OptionError
from thereafter.ngram.counts import Counts, Level

Float = NDArray[np.float64]

SMOOTHINGS = Registry(
    "smoothing",
    {
        "mle": f"{__name__}:mle",
        "add-alpha": f"{__name__}:add_alpha",
        "stupid-backoff": f"{__name__}:stupid_backoff",
        "katz": f"{__name__}:katz",
        "witten-bell": f"{__name__}:witten_bell",
        "absolute": f"{__name__}:absolute",
        "kneser-ney": f"{__name__}:kneser_ney",
        "modified-kneser-ney": f"{__name__}:modified_kneser_ney",
    },
)


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


Weigh = Callable[[Level, int, NDArray[np.bool_], Float | float], tuple[Float, Float]]
"""From the n-grams of an order, the order, which of them are kept, and p(w | h') of each: p(w | h) of each n-gram, and
the weight of each context for what was not seen after it."""


def _order_by_order(counts: Counts, cutoffs: tuple[int, ...], weigh: Weigh) -> Weights:
    """The weights of all orders, each from those of the order below it."""
    prob: list[Float] = []
    gammas: list[Float] = []
    for order, level in enumerate(counts.levels, start=1):
        stays = kept_mask(counts, order, cutoffs)
        share, gamma = weigh(level, order, stays, lower_order(counts, order, prob))
        prob.append(share)
        gammas.append(gamma)
    # gamma of order n belongs to the contexts of order n-1; the highest order is never a context
    return Weights(prob, [*gammas[1:], np.ones(counts.size(counts.order))])


def mle(counts: Counts, cutoffs: tuple[int, ...]) -> Weights:
    """Maximum likelihood: what was not seen after a context is impossible after it.

        p(w | h) = c(hw) / c(h)

    A context that was never seen uses its longest seen suffix. Jurafsky and Martin, Speech and Language Processing,
    chapter 3.
    """
    return _frequencies(counts, cutoffs, alpha=0.0, spread="backoff")


def add_alpha(counts: Counts, cutoffs: tuple[int, ...], alpha: float = 0.1) -> Weights:
    """Every word counts as seen `alpha` times more after every context (alpha = 1 is Laplace's rule).

        p(w | h) = (c(hw) + alpha) / (c(h) + alpha V)

    Lidstone 1920; Chen and Goodman 1998, section 2.1. A context that was never seen uses its longest seen suffix.
    """
    if not (alpha > 0 and np.isfinite(alpha * counts.vocabulary_size * 1e9)):
        raise OptionError(f"alpha is {alpha}; expected a number above 0; try alpha=0.1, or smoothing='mle' for none")
    return _frequencies(counts, cutoffs, alpha=alpha, spread="uniform")


def _frequencies(counts: Counts, cutoffs: tuple[int, ...], alpha: float, spread: str) -> Weights:
    def weigh(level: Level, order: int, stays: NDArray[np.bool_], below: Float | float) -> tuple[Float, Float]:
        seen = np.where(stays, level.count, 0)
        total = sum_by_context(counts, order, seen)
        whole = np.maximum(total + alpha * counts.vocabulary_size, np.finfo(float).tiny)
        share = (seen + alpha) / whole[level.context]
        if order == 1:
            share[counts.vocabulary_size] = 0.0
        return share, np.where(total > 0, alpha / whole, 1.0)

    return replace(_order_by_order(counts, cutoffs, weigh), spread=spread)


def stupid_backoff(counts: Counts, cutoffs: tuple[int, ...], factor: float = 0.4, normalise: bool = True) -> Weights:
    """Relative frequency where there is one, else the shorter context's score times a constant.

        S(w | h) = c(hw) / c(h) if c(hw) > 0, else factor S(w | h'),     S(w | nothing) = factor / V if c(w) = 0

    The scores are not probabilities. To be comparable with other models they are divided by their sum,
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


RELIABLE = 5  # counts above this are taken as they are


def katz(counts: Counts, cutoffs: tuple[int, ...]) -> Weights:
    """Small counts are lowered as Good and Turing say; unseen words share what is freed, as the order below sees them.

        p(w | h) = d(c) c(hw) / c(h)  if c(hw) > 0,  else  alpha(h) p(w | h')
        d(r) = (r*/r - A) / (1 - A)  for r <= 5, else 1,   r* = (r+1) n_{r+1} / n_r,   A = 6 n_6 / n_1
        alpha(h) = (1 - sum_seen p(w | h)) / (1 - sum_seen p(w | h'))

    Three corners the formulas leave open: where a d(r) is not in (0, 1) the order uses d(r) = (r - 0.5) / r; a context
    whose counts are all above 5 frees nothing, so it counts one more in its denominator; where every word was seen
    after a context there are no unseen words, and what was freed is shared among the seen in proportion.
    Katz 1987, Estimation of probabilities from sparse data for the language model component of a speech recognizer.
    """
    notes: list[str] = []

    def weigh(level: Level, order: int, stays: NDArray[np.bool_], below: Float | float) -> tuple[Float, Float]:
        seen = stays & (level.count > 0)
        ratio, degenerate = _good_turing(level.count)
        if degenerate:
            notes.append(f"order {order}: counts of counts give no Good-Turing discount; took 0.5 from every count")
        total = sum_by_context(counts, order, level.count)
        lowered = np.where(seen, ratio * level.count, 0.0)
        used = sum_by_context(counts, order, lowered)
        # Nothing freed means nothing for unseen words: one imagined count more makes room.
        total = np.where(used >= total * (1 - 1e-12), total + 1, total)
        share = lowered / total[level.context]
        covered = sum_by_context(counts, order, np.where(seen, below, 0.0))
        covered_by = sum_by_context(counts, order, seen)
        unseen = np.where(covered_by >= counts.vocabulary_size, 0.0, np.maximum(1 - covered, 0.0))
        freed = 1 - used / total
        nobody = unseen <= 1e-12
        scale = np.where(nobody & (used > 0), total / np.maximum(used, 1e-300), 1.0)
        share = share * scale[level.context]
        alpha = np.where(nobody, 0.0, freed / np.maximum(unseen, 1e-300))
        alpha = np.where(used > 0, alpha, 1.0)  # nothing kept after this context: leave the word to its suffix
        return np.where(seen, share, alpha[level.context] * below), alpha

    return replace(_order_by_order(counts, cutoffs, weigh), notes=notes)


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


Discount = Callable[[NDArray[np.int64]], tuple[tuple[float, ...], bool]]

FALLBACK_ONE = (0.5,)
FALLBACK_THREE = (0.5, 1.0, 1.5)


def witten_bell(counts: Counts, cutoffs: tuple[int, ...]) -> Weights:
    """The more different words followed a context, the more it leaves to the order below.

        p(w | h) = (c(hw) + T(h) p(w | h')) / (c(h) + T(h))

    Witten and Bell 1991, The zero-frequency problem; method C, as in Chen and Goodman 1998, section 2.6.
    """

    def weigh(level: Level, order: int, stays: NDArray[np.bool_], below: Float | float) -> tuple[Float, Float]:
        total = sum_by_context(counts, order, level.count)
        types = sum_by_context(counts, order, level.count > 0)
        whole = np.maximum(total + types, 1)
        share = np.where(stays, level.count, 0) / whole[level.context]
        gamma = left_over(types + sum_by_context(counts, order, np.where(stays, 0, level.count)), total + types)
        return share + gamma[level.context] * below, gamma

    return _order_by_order(counts, cutoffs, weigh)


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
        adjusted = np.bincount(counts.levels[order].suffix, minlength=counts.size(order))
        first = counts.first_starting(order)
        if order > 1:  # the bare <s> is never predicted and stays 0
            adjusted[first:] = counts.levels[order - 1].count[first:]
        result.append(adjusted.astype(np.int64))
    return [*result, counts.levels[-1].count]


def _discount(counts: Counts, values: list[NDArray[np.int64]], cutoffs: tuple[int, ...], discount: Discount) -> Weights:
    """Subtract the discounts of each order; what was taken, and all that was cut off, goes to the order below."""
    discounts: dict[int, tuple[float, ...]] = {}
    notes: list[str] = []

    def weigh(level: Level, order: int, stays: NDArray[np.bool_], below: Float | float) -> tuple[Float, Float]:
        value = values[order - 1]
        amounts, degenerate = discount(value)
        discounts[order] = amounts
        if degenerate:
            used = ", ".join(f"{amount:g}" for amount in amounts)
            notes.append(f"order {order}: too few different counts to estimate discounts; used {used}")
        steps = np.array([0.0, *amounts])
        taken = np.where(stays, steps[np.minimum(value, len(amounts))], value)
        total = sum_by_context(counts, order, value)
        gamma = left_over(sum_by_context(counts, order, taken), total)
        share = (value - taken) / np.maximum(total, 1)[level.context]
        return share + gamma[level.context] * below, gamma

    return replace(_order_by_order(counts, cutoffs, weigh), discounts=discounts, notes=notes)


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

"""From token ids to a model: count, smooth, flatten."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import OptionError, nearest
from thereafter.ngram.counts import Counts, check_order, count
from thereafter.ngram.model import NgramModel
from thereafter.ngram.smoothing import SMOOTHINGS, Weights, kept_mask
from thereafter.ngram.tables import Tables


def estimate(
    ids: NDArray[np.integer],
    vocabulary_size: int,
    *,
    order: int = 5,
    smoothing: str = "modified-kneser-ney",
    context: str = "stream",
    line_end: int | None = None,
    cutoffs: Sequence[int] = (),
    **options: float,
) -> NgramModel:
    """Estimate an n-gram model.

    `ids` [T] are token ids 0..V-1. `cutoffs[n-1]`: n-grams of order n seen that often or less are left out (as KenLM's
    `--prune`; words are always kept; the last value is used for all higher orders). `options` are the smoothing's own
    (`alpha=0.1` for add-alpha, `factor=0.4` for stupid-backoff).

    >>> model = estimate(np.array([0, 1, 0, 1, 0]), vocabulary_size=2, order=2, smoothing="mle")
    >>> np.exp(model.predict(model.start(1))).tolist()
    [[1.0, 0.0]]
    """
    smooth = SMOOTHINGS.load(smoothing)
    if context not in ("line", "stream"):
        raise OptionError(f"context is {context!r}; expected 'line' or 'stream'")
    own = list(signature(smooth).parameters)[2:]
    for name in options:
        if name not in own:
            raise OptionError(f"the smoothing {smoothing!r} has no option {name!r}; {nearest(name, own)}")
    check_order(order)
    cuts = complete_cutoffs(cutoffs, order)
    counted = count(ids, vocabulary_size, order, context=context, line_end=line_end)
    weights: Weights = smooth(counted, cuts, **options)
    return NgramModel(
        _flatten(counted, weights, cuts),
        context=context,
        line_end=line_end,
        smoothing=smoothing,
        uniform=weights.spread == "uniform",
        proper=weights.proper,
        discounts=weights.discounts,
        notes=weights.notes,
    )


def complete_cutoffs(cutoffs: Sequence[int], order: int) -> tuple[int, ...]:
    """One cut-off for each order, the last one repeated; they must not fall, or parts of kept n-grams would be lost."""
    given = [int(cut) for cut in cutoffs] or [0]
    full = (given + [given[-1]] * order)[:order]
    if len(given) > order:
        raise OptionError(f"got {len(given)} cut-offs for order {order}; expected at most one for each order")
    if min(full) < 0 or any(low > high for low, high in pairwise(full[1:])):
        raise OptionError(f"cut-offs are {full}; expected numbers from 0 that never fall with the order; try 0 0 1")
    return tuple(full)


def _flatten(counts: Counts, weights: Weights, cutoffs: tuple[int, ...]) -> Tables:
    """Flatten counted and smoothed n-grams, leaving out those the cut-offs drop."""
    order = counts.order
    starts = [0, 1]
    word, prob, suffix = [np.zeros(1, np.int32)], [np.ones(1)], [np.zeros(1, np.int32)]
    backoff, first_child = [np.ones(1)], []
    places = np.zeros(1, dtype=np.int64)  # global node of each n-gram of the order below
    for n in range(1, order + 1):
        level = counts.levels[n - 1]
        stays = kept_mask(counts, n, cutoffs)
        here = np.flatnonzero(stays)
        word.append(level.word[here])
        prob.append(weights.prob[n - 1][here])
        suffix.append(places[level.suffix[here]].astype(np.int32))
        # Children per context that stayed, as running ends; contexts that were dropped have none left.
        children = np.bincount(level.context[here], minlength=counts.size(n - 1))[places >= 0]
        first_child.append(starts[-1] + np.cumsum(children) - children)
        places = np.where(stays, np.cumsum(stays) - 1 + starts[-1], -1)
        starts.append(starts[-1] + len(here))
        if starts[-1] >= 2**31:
            raise OptionError(f"{starts[-1]:,} n-grams up to order {n}; 2**31 is the limit; try cutoffs=(0, 1)")
        if n < order:
            backoff.append(weights.backoff[n - 1][here])
    with np.errstate(divide="ignore"):
        logp = np.log(np.concatenate(prob)).astype(np.float32)
        log_backoff = np.log(np.concatenate(backoff)).astype(np.float32)
    return Tables(
        word=np.concatenate(word),
        logp=logp,
        suffix=np.concatenate(suffix),
        backoff=log_backoff,
        first_child=np.concatenate([*first_child, starts[-1:]]).astype(np.int32),
        level_starts=np.array(starts, dtype=np.int64),
    )

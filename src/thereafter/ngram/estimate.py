"""From token ids to a model: count, smooth, flatten."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import OptionError, nearest
from thereafter.ngram import tables
from thereafter.ngram.counts import check_order, count
from thereafter.ngram.model import NgramModel
from thereafter.ngram.smoothing import SMOOTHINGS, Weights


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
        tables.build(counted, weights, cuts),
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

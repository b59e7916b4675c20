"""What a model predicted at each token of a text: the token's rank, the entropy, the likeliest tokens, its context.

A full prediction for each token: it costs a pass over the vocabulary where a score needs one number of it.

Shapes: T tokens, P of them at once, V words that can be predicted, K likeliest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.decoding.warping import largest
from thereafter.errors import OptionError
from thereafter.models.any_model import AnyModel
from thereafter.models.base import Ids, Logs

Floats = NDArray[np.float64]
_LOWEST = -1e4  # in the place of log 0, so that 0 log 0 is 0
TOP = 3
"""Likeliest tokens that are kept unless told."""


@dataclass(frozen=True)
class TokenPredictions:
    """`rank_T`: 1 where no token was likelier. `entropy_T`: of the whole prediction, in bits. `top_TK`, `p_TK`: the
    likeliest tokens and their probabilities. `context_T`: how many tokens it was made from, `<s>` counted; for an
    n-gram those of the longest known n-gram that ends with the token."""

    rank_T: NDArray[np.int64]
    entropy_T: Floats
    top_TK: NDArray[np.int64]
    p_TK: Floats
    context_T: NDArray[np.int64]


def check_top(top: int) -> None:
    if top < 0:
        raise OptionError(f"top is {top}; expected 0 or more alternatives; try top={TOP}")


def read_predictions(
    model: AnyModel, ids_T: Ids, top: int = TOP, item_T: NDArray[np.int64] | None = None, before: int | None = None
) -> TokenPredictions:
    """Read tokens from the start of a text, with the whole prediction before each.

    With `item_T` and `before` each item is read from a fresh state, after so many items before it.
    """
    check_top(top)
    ranks, entropies, tops, shares, at = [], [], [], [], 0
    first = [0] if item_T is None or before is None else np.flatnonzero(np.diff(item_T, prepend=-1)).tolist()
    starts = [first[max(0, place - (before or 0))] for place in range(len(first))]
    spans = list(zip(starts, first, [*first[1:], len(ids_T)], strict=True))
    with progress.task("predicting", total=len(ids_T), unit="tokens") as advance:
        for piece in _pieces(model, ids_T, spans):
            logp_PV = np.asarray(piece)
            came_P = logp_PV[np.arange(len(logp_PV)), ids_T[at : at + len(logp_PV)]]
            ranks.append(1 + np.count_nonzero(logp_PV > came_P[:, None], axis=1))
            entropies.append(entropy_bits(logp_PV))
            likeliest = largest(logp_PV, top) if top else np.empty((len(logp_PV), 0), dtype=np.int64)
            tops.append(likeliest[:, :top])
            shares.append(np.exp(np.take_along_axis(logp_PV, likeliest[:, :top], axis=1).astype(np.float64)))
            at += len(logp_PV)
            advance(len(logp_PV))
    contexts = [model.context_sizes(ids_T[start:end])[begin - start :] for start, begin, end in spans]
    parts = (ranks, entropies, tops, shares, contexts)
    return TokenPredictions(*(np.concatenate(part) for part in parts))


def _pieces(model: AnyModel, ids_T: Ids, spans: Sequence[tuple[int, int, int]]) -> Iterator[Logs]:
    """The predictions before the tokens from `begin` to `end` of each span, read from a fresh state at `start`."""
    for start, begin, end in spans:
        state = model.start(1)
        if start < begin:
            state = model.read(ids_T[start:begin].reshape(1, -1), state)
        yield from model.predictions(ids_T[begin:end], state)


def entropy_bits(logp_PV: Logs) -> Floats:
    """-sum p log2 p of each row; what cannot come adds nothing."""
    terms = np.exp(logp_PV)
    terms *= np.maximum(logp_PV, _LOWEST)
    entropy: Floats = terms.sum(axis=1, dtype=np.float64) / -math.log(2)
    return entropy

"""Drawing the next token: temperature, top-k, a seed.

Shapes: V words that can be predicted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import OptionError
from thereafter.models.base import SequenceModel


def check_sampling(temperature: float, top_k: int | None) -> None:
    """Refuse settings that mean nothing, before any work is done."""
    if not (np.isfinite(temperature) and temperature >= 0):
        raise OptionError(f"temperature is {temperature}; expected 0 (always the likeliest) or more; try 0.8")
    if top_k is not None and top_k < 1:
        raise OptionError(f"top_k is {top_k}; expected at least 1, or none for all words; try 40")


def choose(
    logp_V: NDArray[np.floating[Any]],
    rng: np.random.Generator,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    forbidden: Sequence[int] = (),
) -> int | None:
    """Draw one token from p^(1/temperature), renormalised over the `top_k` likeliest; None where nothing is possible.

    Temperature 0 takes the likeliest, ties to the lower id.
    """
    logs = np.array(logp_V, dtype=np.float64)
    logs[list(forbidden)] = -np.inf
    best = int(np.argmax(logs))
    if np.isneginf(logs[best]):
        return None
    if temperature == 0:
        return best
    if top_k is not None and top_k < len(logs):
        # a stable choice among equals, so that the same seed gives the same text everywhere
        logs[np.argsort(-logs, kind="stable")[top_k:]] = -np.inf
    with np.errstate(over="ignore"):  # a temperature next to 0 sends all but the best to minus infinity
        weights = np.exp((logs - logs[best]) / temperature)
    ends = np.cumsum(weights)
    drawn = int(np.searchsorted(ends, rng.random() * ends[-1], side="right"))
    return min(drawn, int(np.flatnonzero(weights)[-1]))  # rounding at the very end of the line


def continue_from(
    model: SequenceModel[Any],
    state: Any,
    rng: np.random.Generator,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    forbidden: Sequence[int] = (),
) -> Iterator[int]:
    """Token after token, without end, or until nothing can follow (a model without smoothing at a dead end)."""
    check_sampling(temperature, top_k)
    logp = np.asarray(model.predict(state))[0]
    while True:
        token = choose(logp, rng, temperature=temperature, top_k=top_k, forbidden=forbidden)
        if token is None:
            return
        yield token
        rows, state = model.step(np.array([token]), state)
        logp = np.asarray(rows)[0]

"""What every SequenceModel made of other ones must keep to; for the tests beside this file."""

from __future__ import annotations

from typing import Any

import numpy as np
from tiny import END, TOLERANCE, V, made, rows

from thereafter.ngram.model import NgramModel, estimate


def counted(context: str = "line", smoothing: str = "witten-bell", seed: int = 5) -> NgramModel:
    """A small trigram over the tokens of the tiny neural models."""
    ids = np.random.default_rng(seed).zipf(1.5, 400) % V
    return estimate(ids.astype(np.int32), V, order=3, smoothing=smoothing, context=context, line_end=END)


def assert_every_way(model: Any, ids: np.ndarray) -> None:
    """Probabilities sum to 1; step, whole pass and parts agree; rows are apart; states are values."""
    count, steps = ids.shape
    whole, end = model.log_probs(ids, model.start(count))
    assert whole.shape == ids.shape
    assert whole.dtype == np.float32
    state, found = model.start(count), np.zeros(ids.shape)
    logp = model.predict(state)
    for t, token_B in enumerate(ids.T):
        assert logp.shape == (count, V)
        np.testing.assert_allclose(np.exp(logp.astype(float)).sum(axis=1), 1, atol=1e-5)
        found[:, t] = logp[np.arange(count), token_B]
        logp, state = model.step(token_B, state)
        np.testing.assert_allclose(model.predict(state), logp, **TOLERANCE)
    np.testing.assert_allclose(whole, found, **TOLERANCE)
    np.testing.assert_allclose(model.predict(end), logp, **TOLERANCE)
    np.testing.assert_allclose(model.predict(model.read(ids, model.start(count))), logp, **TOLERANCE)

    state, parts = model.start(count), []
    for part in np.array_split(ids, 4, axis=1):
        logs, state = model.log_probs(part, state)
        parts.append(logs)
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, **TOLERANCE)
    nothing, same = model.log_probs(ids[:, :0], state)
    assert nothing.shape == (count, 0)
    np.testing.assert_allclose(model.predict(same), logp, **TOLERANCE)

    order = np.array([count - 1, 0, 0])
    chosen = end.select(order)
    np.testing.assert_allclose(model.predict(chosen), logp[order], **TOLERANCE)
    np.testing.assert_allclose(model.step(ids[order, 0], chosen)[0], model.step(ids[:, 0], end)[0][order], **TOLERANCE)
    for token in range(5):  # other futures leave the state as it was
        model.step(np.full(count, token), end)
        model.log_probs(np.full((count, 3), token), end)
    np.testing.assert_allclose(model.predict(end), logp, **TOLERANCE)

    one = model.record(ids[0], model.start(1))
    np.testing.assert_allclose(one["log_prob"][1], whole[0], **TOLERANCE)
    for axes, array in one.values():
        assert axes[0] == "step"
        assert array.ndim == len(axes)
        assert len(array) == steps


def lstm(context: str = "stream", seed: int = 0) -> Any:
    return made("lstm", {"hidden": 8}, context, seed=seed)


__all__ = ["END", "TOLERANCE", "V", "assert_every_way", "counted", "lstm", "made", "rows"]

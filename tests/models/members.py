"""What every member of the contract must answer, whatever the model; for the tests beside this file."""

from __future__ import annotations

from typing import Any

import numpy as np

from thereafter.models.base import SequenceModel

TOLERANCE: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-5}


def assert_every_member_answers(model: SequenceModel[Any], ids: np.ndarray) -> None:
    """`facts`, `read`, `observe`, `predictions`, `last_features` and `input_embedding` over one row, against the older
    members.

    A model that learns as it reads is read in order, from one start to the next.
    """
    row = ids.reshape(1, -1)
    facts = model.facts
    assert facts == model.facts
    assert facts.vocabulary_size == model.vocabulary_size
    assert facts.parameters > 0
    assert facts.context == ("stream" if facts.restart is None else "line")

    logp_1T, end = model.log_probs(row, model.start(1))
    after = np.array(model.predict(end))
    if facts.normalised:
        np.testing.assert_allclose(np.exp(after.astype(float)).sum(axis=1), 1, atol=1e-5)
    read = model.read(row, model.start(1))
    np.testing.assert_allclose(np.asarray(model.predict(read)), after, **TOLERANCE)

    seen_1T, features, end = model.observe(row, model.start(1))
    np.testing.assert_allclose(np.asarray(seen_1T), np.asarray(logp_1T), **TOLERANCE)
    np.testing.assert_allclose(np.asarray(model.predict(end)), after, **TOLERANCE)
    assert (features is None) == (not facts.features)
    if features is not None:
        assert features.shape == (1, row.shape[1], facts.features)

    rows_TV = np.concatenate([np.asarray(piece) for piece in model.predictions(ids, model.start(1))])
    assert rows_TV.shape == (len(ids), model.vocabulary_size)
    np.testing.assert_allclose(rows_TV[np.arange(len(ids)), ids], np.asarray(logp_1T)[0], **TOLERANCE)
    sizes_T = model.context_sizes(ids)
    assert sizes_T.shape == ids.shape
    assert (sizes_T >= 0).all()
    assert (sizes_T <= np.arange(1, len(ids) + 1)).all()

    state = model.start(1)
    same = model.read(row[:, :0], state)
    np.testing.assert_array_equal(np.asarray(model.predict(same)), np.asarray(model.predict(state)))
    for t, token in enumerate(ids.tolist()):
        last = model.last_features(state)
        assert (last is None) == (features is None)
        if last is not None and features is not None:
            np.testing.assert_allclose(last, features[:, t], **TOLERANCE)
        _, state = model.step(np.array([token]), state)

    if facts.restart is not None:
        ended = model.read(np.array([[*ids.tolist(), facts.restart]]), model.start(1))
        anew = np.array(model.predict(ended))
        np.testing.assert_allclose(anew, np.asarray(model.predict(model.start(1))), **TOLERANCE)

    vectors = model.input_embedding()
    if vectors is not None:
        assert vectors.dtype == np.float32
        assert vectors.shape[0] == model.vocabulary_size
        kept = vectors.copy()
        vectors += 1  # the caller's own copy
        again = model.input_embedding()
        assert again is not None
        np.testing.assert_array_equal(again, kept)


def assert_rows_stack(model: SequenceModel[Any], ids: np.ndarray) -> None:
    """Texts of any length share their steps: they come and go, and each gets the numbers it would get alone."""
    begins, ends = (0, 3, 1, 0, 2), (0, 12, 1, 7, 30)
    alone = [model.read(ids[None, begin:end], model.start(1)) for begin, end in zip(begins, ends, strict=True)]
    together = model.stack([model.stack(alone[:2]), alone[2], model.stack(alone[3:])])
    np.testing.assert_array_equal(
        np.asarray(model.predict(model.stack(alone[1:2]))), np.asarray(model.predict(alone[1]))
    )
    for t, token in enumerate(ids[:9].tolist()):
        if t == 3:  # the longest and the first one go, and one that has read nothing comes
            alone = [*alone[1:4], model.start(1)]
            together = model.stack([together.select(np.array([1, 2, 3])), model.start(1)])
        tokens_B = np.roll(ids, t)[: len(alone)]
        tokens_B[0] = token
        logp_BV, together = model.step(tokens_B, together)
        for row, read in enumerate(tokens_B.tolist()):
            logp_1V, alone[row] = model.step(np.array([read]), alone[row])
            np.testing.assert_allclose(np.asarray(logp_BV)[row], np.asarray(logp_1V)[0], **TOLERANCE)
    scored, _ = model.log_probs(np.tile(ids[:8], (len(alone), 1)), together)
    for row, state in enumerate(alone):
        own, _ = model.log_probs(ids[None, :8], state)
        np.testing.assert_allclose(np.asarray(scored)[row], np.asarray(own)[0], **TOLERANCE)

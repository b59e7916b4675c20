"""What every member of the contract must answer, whatever the model; for the tests beside this file."""

from __future__ import annotations

from typing import Any

import numpy as np

from thereafter.models.base import SequenceModel

TOLERANCE: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-5}


def every_member(model: SequenceModel[Any], ids: np.ndarray) -> None:
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

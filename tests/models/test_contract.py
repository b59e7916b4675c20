"""The contract of a SequenceModel, held against everything that can be trained, over every tokenizer.

`make test` asks it of every kind of model with one tokenizer, and of a counted and a neural kind with each; the rest of
the product is wide.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from members import assert_every_member_answers, assert_rows_stack

import thereafter
from thereafter.base import config
from thereafter.models.build import NEURAL
from thereafter.text.tokenizers import TOKENIZERS
from thereafter.training.kinds import MODELS

TEXT = "the cat sat on the mat\nthe dog sat on the cat\n\na cat ate the fish on the mat\nwhere is the dog\n" * 4
OTHER = "the cat ate the zebra\n\non a mat the dog is é😀\nwhere is"
TOLERANCE: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-5}
CORE = {
    *((model, "word") for model in MODELS),
    *((model, tokens) for model in ("ngram", "rnn") for tokens in TOKENIZERS),
}
EVERYTHING = [
    pytest.param(model, tokens, marks=() if tokens == "word" or model in ("ngram", "rnn") else pytest.mark.wide)
    for model in MODELS
    for tokens in TOKENIZERS
]
FEW: dict[str, Any] = {"epochs": 2}  # the contract asks nothing of how well it was learnt

pytestmark = pytest.mark.parametrize(("model", "tokens"), EVERYTHING)


def train(model: str, tokens: str) -> thereafter.LanguageModel:
    return thereafter.train(text=TEXT, model=model, tokens=tokens, **(FEW if model in NEURAL else {}))


trained = cache(train)


def ids_of(lm: thereafter.LanguageModel, text: str = OTHER) -> np.ndarray:
    return lm.tokenizer.encode(text).astype(np.int64)


def test_predictions_are_distributions(model: str, tokens: str) -> None:
    lm = trained(model, tokens)
    net, state = lm.model, lm.model.start(3)
    logp = np.asarray(net.predict(state))
    assert logp.shape == (3, net.vocabulary_size) == (3, len(lm.tokenizer.vocabulary))
    for token in ids_of(lm)[:25]:
        np.testing.assert_allclose(np.exp(logp.astype(float)).sum(axis=1), 1, atol=1e-5)
        assert not np.isnan(logp).any()
        logp, state = net.step(np.full(3, token), state)
        logp = np.asarray(logp)


def test_step_by_step_equals_the_whole_pass(model: str, tokens: str) -> None:
    lm = trained(model, tokens)
    net, ids = lm.model, ids_of(lm)
    whole, end = net.log_probs(ids.reshape(1, -1), net.start(1))
    whole = np.asarray(whole)
    assert whole.shape == (1, len(ids))
    state, got = net.start(1), []
    logp = np.asarray(net.predict(state))
    for token in ids:
        got.append(logp[0, token])
        np.testing.assert_allclose(logp, np.asarray(net.predict(state)), **TOLERANCE)
        logp, state = net.step(np.array([token]), state)
        logp = np.asarray(logp)
    np.testing.assert_allclose(whole[0], got, **TOLERANCE)
    np.testing.assert_allclose(logp, np.asarray(net.predict(end)), **TOLERANCE)


def test_a_text_may_be_read_in_parts(model: str, tokens: str) -> None:
    lm = trained(model, tokens)
    net, ids = lm.model, ids_of(lm)
    whole, end = net.log_probs(ids.reshape(1, -1), net.start(1))
    state: Any = net.start(1)
    parts = []
    for part in np.array_split(ids, 4):
        logp, state = net.log_probs(part.reshape(1, -1), state)
        parts.append(np.asarray(logp))
    np.testing.assert_allclose(np.concatenate(parts, axis=1), np.asarray(whole), **TOLERANCE)
    np.testing.assert_allclose(np.asarray(net.predict(state)), np.asarray(net.predict(end)), **TOLERANCE)
    nothing, same = net.log_probs(np.empty((1, 0), np.int64), state)
    assert np.asarray(nothing).shape == (1, 0)
    np.testing.assert_array_equal(np.asarray(net.predict(same)), np.asarray(net.predict(state)))


def test_rows_do_not_see_each_other(model: str, tokens: str) -> None:
    lm = trained(model, tokens)
    net, ids = lm.model, ids_of(lm, OTHER * 2)
    rows = ids[: len(ids) // 4 * 4].reshape(4, -1)
    together, end = net.log_probs(rows, net.start(4))
    for b, row in enumerate(rows):
        alone, own = net.log_probs(row.reshape(1, -1), net.start(1))
        np.testing.assert_allclose(np.asarray(together)[b], np.asarray(alone)[0], **TOLERANCE)
        np.testing.assert_allclose(np.asarray(net.predict(end))[b], np.asarray(net.predict(own))[0], **TOLERANCE)


def test_selecting_reorders_the_rows(model: str, tokens: str) -> None:
    lm = trained(model, tokens)
    net, ids = lm.model, ids_of(lm)
    rows = np.stack([ids[k : k + 5] for k in range(3)])
    _, state = net.log_probs(rows, net.start(3))
    order = np.array([2, 0, 0, 1, 2])
    chosen = state.select(order)
    np.testing.assert_allclose(np.asarray(net.predict(chosen)), np.asarray(net.predict(state))[order], **TOLERANCE)
    after, _ = net.step(np.full(5, ids[0]), chosen)
    before, _ = net.step(np.full(3, ids[0]), state)
    np.testing.assert_allclose(np.asarray(after), np.asarray(before)[order], **TOLERANCE)


def test_rows_of_several_texts_are_stacked(model: str, tokens: str) -> None:
    lm = trained(model, tokens)
    assert_rows_stack(lm.model, ids_of(lm, OTHER * 2))


def test_states_are_values(model: str, tokens: str) -> None:
    lm = trained(model, tokens)
    net, ids = lm.model, ids_of(lm)
    _, state = net.log_probs(ids[:4].reshape(1, -1), net.start(1))
    before = np.array(net.predict(state))
    first, _ = net.step(ids[4:5], state)
    first = np.array(first)
    for token in range(min(6, net.vocabulary_size)):  # other futures from the same state
        net.step(np.array([token]), state)
        net.log_probs(np.array([[token] * 3]), state)
    state.select(np.array([0, 0]))
    net.record(ids[4:], state)
    np.testing.assert_array_equal(np.asarray(net.predict(state)), before)
    again, _ = net.step(ids[4:5], state)
    np.testing.assert_array_equal(np.asarray(again), first)


def test_equal_keys_equal_futures(model: str, tokens: str) -> None:
    lm = trained(model, tokens)
    net, ids = lm.model, ids_of(lm, TEXT)[:120]
    try:
        net.start(1).key()
    except TypeError:
        return  # a continuous state has no key, and says so
    assert net.start(2).key() == net.start(2).key()
    assert net.start(2).key() != net.start(3).key()
    futures: dict[Any, np.ndarray] = {}
    state = net.start(1)
    for token in ids:
        logp, state = net.step(np.array([token]), state)
        known = futures.setdefault(state.key(), np.asarray(logp))
        np.testing.assert_array_equal(known, np.asarray(logp))
    assert 1 < len(futures) < len(ids)  # hashable, and a repetitive text comes back to where it was


def test_a_record_says_what_the_model_did(model: str, tokens: str) -> None:
    lm = trained(model, tokens)
    net, ids = lm.model, ids_of(lm)
    fields = net.record(ids, net.start(1))
    assert "log_prob" in fields
    for axes, array in fields.values():
        assert axes[0] == "step"
        assert array.ndim == len(axes)
        assert len(array) == len(ids)
    fast, _ = net.log_probs(ids.reshape(1, -1), net.start(1))
    np.testing.assert_allclose(fields["log_prob"][1], np.asarray(fast)[0], **TOLERANCE)


def test_every_member_answers(model: str, tokens: str) -> None:
    lm = trained(model, tokens)
    assert_every_member_answers(lm.model, ids_of(lm))
    facts = lm.model.facts
    assert facts.normalised
    assert facts.context == lm.config["text"]["context"]
    assert facts.restart == (lm.tokenizer.line_end_id if facts.context == "line" else None)
    if model in NEURAL:
        weights = {id(weight): weight.numel() for weight in lm.model.parameters()}  # type: ignore[attr-defined]
        assert facts.parameters == sum(weights.values())
    else:
        assert facts.parameters == sum(lm.summary()["ngrams"])
    assert facts.differentiable == bool(facts.features) == (lm.model.input_embedding() is not None) == (model in NEURAL)


def test_saved_and_loaded_it_gives_the_same_numbers(model: str, tokens: str, tmp_path: Path) -> None:
    lm = trained(model, tokens)
    again = thereafter.load(lm.save(tmp_path / "run"))
    ids = ids_of(lm)
    np.testing.assert_array_equal(ids_of(again), ids)
    before, end = lm.model.log_probs(ids.reshape(1, -1), lm.model.start(1))
    after, again_end = again.model.log_probs(ids.reshape(1, -1), again.model.start(1))
    np.testing.assert_array_equal(np.asarray(after), np.asarray(before))
    np.testing.assert_array_equal(np.asarray(again.model.predict(again_end)), np.asarray(lm.model.predict(end)))
    assert again.score(text=OTHER) == lm.score(text=OTHER)
    assert config.dumps(again.config) == config.dumps(lm.config)


def test_the_same_text_gives_the_same_model(model: str, tokens: str) -> None:
    one, two = trained(model, tokens), train(model, tokens)
    assert one.score(text=OTHER) == two.score(text=OTHER)


def test_surprisals_add_up_to_the_score(model: str, tokens: str) -> None:
    lm = trained(model, tokens)
    score, table = lm.score(text=OTHER), lm.surprisal(text=OTHER)
    assert table.bits().sum() * np.log(2) == pytest.approx(score.nats, rel=1e-9)
    assert table.spelling_bits().sum() * np.log(2) == pytest.approx(score.spelling_nats, rel=1e-9)
    assert [word for word in table.texts if word != "\n"] == OTHER.split()

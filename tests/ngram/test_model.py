"""The n-gram as a model: its states, its tables, and what it records of itself."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from brute import Brute, Gram, sentences

import thereafter
from thereafter.ngram.model import NgramModel, NgramState, estimate
from thereafter.ngram.smoothing import SMOOTHINGS
from thereafter.ngram.tables import Tables

V = 8
TEXT = "the cat sat on the mat\nthe dog sat on the cat\n\na cat ate the fish on the mat\n" * 3
OTHER = "the cat ate the dog on the zebra\na mat\n\nthe cat sat"


def ids_for(seed: int, size: int = 300) -> list[int]:
    return [int(i) for i in np.random.default_rng(seed).geometric(0.35, size).clip(1, V - 1) - 1]


def grams_of(tables: Tables) -> list[Gram]:
    """Every node as a tuple of words, followed from its parent."""
    parents = np.repeat(np.arange(tables.contexts), np.diff(tables.first_child)).tolist()
    grams: list[Gram] = [()]
    for parent, word in zip(parents, tables.word[1:].tolist(), strict=True):
        grams.append((*grams[parent], word))
    return grams


@pytest.mark.parametrize("context", ["line", "stream"])
@pytest.mark.parametrize("cutoffs", [(), (0, 1), (4,)])
@pytest.mark.parametrize("order", [1, 2, 3, 6])
def test_the_tables_hold_what_was_kept(order: int, cutoffs: tuple[int, ...], context: str) -> None:
    ids = ids_for(1)
    cuts = cutoffs[:order]
    model = estimate(np.array(ids), V, order=order, context=context, line_end=0, cutoffs=cuts)
    truth = Brute(ids, V, order, "modified-kneser-ney", 0 if context == "line" else None, cutoffs=cuts)
    tables, grams = model.tables, grams_of(model.tables)
    kept = [[(w,) for w in range(V + 1)]] + [sorted(g for g in c if truth.stays(g)) for c in truth.counts[1:]]
    assert grams[1:] == [gram for level in kept for gram in level]
    assert tables.sizes() == [V, *(len(level) for level in kept[1:])]
    assert (tables.order, tables.vocabulary_size, tables.contexts) == (order, V, 1 + sum(map(len, kept[:-1])))
    for node, gram in enumerate(grams):
        assert tables.path(node) == list(gram)
        assert grams[tables.suffix[node]] == gram[1:]
        assert tables.order_of(np.array([node])) == len(gram)
    place = {gram: node for node, gram in enumerate(grams)}
    for node in range(tables.contexts):
        assert [grams[n] for n in tables.chain(node)] == [grams[node][k:] for k in range(len(grams[node]) + 1)]
    parents, words = np.meshgrid(np.arange(-1, len(grams)), np.arange(V + 1), indexing="ij")
    found = tables.find(parents.ravel(), words.ravel()).reshape(parents.shape)
    for parent, word in product(range(len(grams)), range(V + 1)):
        assert found[parent + 1, word] == place.get((*grams[parent], word), -1)
    assert (found[0] == -1).all()
    arrays = (tables.word, tables.logp, tables.suffix, tables.backoff, tables.first_child)
    assert tables.nbytes == sum(array.nbytes for array in arrays)


def test_tables_cannot_be_changed() -> None:
    tables = estimate(np.array(ids_for(2)), V, order=3).tables
    with pytest.raises(ValueError, match="read-only"):
        tables.logp[0] = 0


@pytest.mark.parametrize("order", [1, 2, 4])
def test_the_state_is_the_longest_known_context(order: int) -> None:
    ids = ids_for(3)
    model = estimate(np.array(ids), V, order=order, cutoffs=(0, 1)[:order])
    truth = Brute(ids, V, order, "modified-kneser-ney", cutoffs=(0, 1)[:order])
    state, read = model.start(1), [V]
    for token in ids_for(4, 80):
        assert tuple(model.tables.path(int(state.nodes[0]))) == truth.known(read)
        _, state = model.step(np.array([token]), state)
        read.append(token)


def test_states_are_small_hashable_values() -> None:
    model = estimate(np.array(ids_for(5)), V, order=3)
    state = model.start(4)
    _, state = model.step(np.array([0, 1, 2, 1]), state)
    assert state.key() == (*state.key()[:3], state.key()[1])  # type: ignore[index]
    assert len({state.key(), state.select(np.arange(4)).key(), state.select(np.array([3, 1, 2, 1])).key()}) == 2
    assert state.nodes.nbytes == 16
    before = state.nodes.copy()
    model.step(np.array([1, 1, 1, 1]), state)
    np.testing.assert_array_equal(state.nodes, before)


@pytest.mark.parametrize("smoothing", list(SMOOTHINGS))
def test_predicting_equals_reading_each_word(smoothing: str) -> None:
    model = estimate(np.array(ids_for(6)), V, order=3, smoothing=smoothing)
    every = NgramState(np.arange(model.tables.contexts, dtype=np.int32))
    predicted = model.predict(every)
    for word in range(V):
        read, _ = model.log_probs(np.full((model.tables.contexts, 1), word), every)
        np.testing.assert_allclose(read[:, 0], predicted[:, word], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("smoothing", list(SMOOTHINGS))
@pytest.mark.parametrize(("tokens", "order"), [("word", 3), ("prose", 4), ("char", 5), ("word", 1)])
def test_a_trace_names_the_longest_match(smoothing: str, tokens: str, order: int) -> None:
    cutoffs = (0, 1)[:order]
    lm = thereafter.train(text=TEXT, tokens=tokens, order=order, smoothing=smoothing, cutoffs=cutoffs)
    tokenizer = lm.tokenizer
    v = len(tokenizer.vocabulary)
    line_end = tokenizer.line_end_id if lm.config["text"]["context"] == "line" else None
    truth = Brute(tokenizer.encode(TEXT).tolist(), v, order, smoothing, line_end, cutoffs=cutoffs)
    read = tokenizer.encode(OTHER).tolist()
    steps = [(s[:i], s[i]) for s in sentences(read, v, line_end) for i in range(1, len(s))]
    trace = lm.trace(OTHER)
    assert trace["order"].tolist() == [truth.match(word, before) for before, word in steps]
    assert trace["context"].tolist() == [len(truth.known(before)) for before, _ in steps]
    expected = [truth.p(word, truth.known(before)) for before, word in steps]
    assert np.exp(trace["log_prob"].astype(float)).tolist() == pytest.approx(expected, rel=5e-6, abs=1e-12)


def test_a_record_may_begin_anywhere() -> None:
    ids = np.array(ids_for(7))
    model = estimate(ids[:200], V, order=4, context="line", line_end=0)
    whole = model.record(ids, model.start(1))
    _, state = model.log_probs(ids[:120].reshape(1, -1), model.start(1))
    rest = model.record(ids[120:], state)
    for name, (axes, array) in whole.items():
        assert rest[name][0] == axes == ("step",)
        np.testing.assert_array_equal(rest[name][1], array[120:])


def test_an_order_of_one_has_no_contexts() -> None:
    model = estimate(np.array(ids_for(8)), V, order=1, context="line", line_end=0)
    assert isinstance(model, NgramModel)
    assert model.tables.contexts == 1
    assert model.start(2).key() == (0, 0)
    rows, state = model.step(np.array([0, 3]), model.start(2))
    np.testing.assert_array_equal(rows[0], rows[1])
    assert state.key() == (0, 0)


def test_ten_orders_and_a_vocabulary_of_one() -> None:
    model = estimate(np.zeros(30, np.int32), 1, order=10)
    assert model.tables.order == 10
    logp, _ = model.log_probs(np.zeros((1, 50), np.int64), model.start(1))
    np.testing.assert_allclose(logp, 0, atol=1e-6)

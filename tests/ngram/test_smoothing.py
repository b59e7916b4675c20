"""Every smoothing: sums to 1 wherever it claims to, and equals the papers' formulas worked out in dictionaries."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from brute import Brute, sentences
from hypothesis import given, settings
from hypothesis import strategies as st

import thereafter
from refusals import assert_refused
from thereafter.errors import OptionError, UnknownNameError
from thereafter.ngram.model import NgramModel, NgramState, complete_cutoffs, estimate
from thereafter.ngram.smoothing import SMOOTHINGS

PROPER = list(SMOOTHINGS)
TINY: dict[str, list[int]] = {
    "one token": [1],
    "two tokens": [1, 0],
    "one token repeated": [1] * 30,
    "blank lines": [0] * 7,
    "two words in turn": [1, 2] * 20,
    "no two alike": [0, 1, 2, 3],
}
V = 4  # of the tiny texts


def zipf(seed: int, size: int, v: int) -> list[int]:
    """A text with the long tail of language, so that counts of 1, 2, 3, 4 and more all occur."""
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, v + 1)
    chain = np.array([rng.permutation(weights / weights.sum()) for _ in range(v)])
    ids = [0]
    while len(ids) < size:
        ids.append(int(rng.choice(v, p=chain[ids[-1]])))
    return ids


def heavy_tailed() -> list[int]:
    """8,000 tokens whose counts of counts fall as smoothly as Good and Turing ask for, in all three orders."""
    drawn = np.random.default_rng(3).pareto(0.7, 8000).astype(np.int64)
    return [int(rank) for rank in np.unique(drawn, return_inverse=True)[1]]


def after(model: NgramModel, words: tuple[int, ...]) -> list[float]:
    """p(. | words); a leading `<s>` means the start of a text, else nothing was known before."""
    v = model.vocabulary_size
    begun = words[:1] == (v,)
    state = model.start(1) if begun else NgramState(np.zeros(1, np.int32))
    read = np.array(words[begun:], dtype=np.int64).reshape(1, -1)
    return [float(p) for p in np.exp(model.predict(model.log_probs(read, state)[1])[0].astype(float))]


def contexts(ids: list[int], v: int, order: int, line_end: int | None, most: int = 60) -> list[tuple[int, ...]]:
    """Contexts of every length: those of the text, and random ones, most of them never seen."""
    rng = np.random.default_rng(len(ids) + order)
    seen = {
        tuple(s[max(0, i - n) : i])
        for s in sentences(ids, v, line_end)
        for n in range(order)
        for i in range(1, len(s) + 1)
    }
    drawn = {tuple(rng.integers(0, v, n).tolist()) for n in range(1, order + 1) for _ in range(10)}
    every = sorted(words for words in seen | drawn if line_end not in words)
    return [every[i] for i in rng.permutation(len(every))[:most]]


def assert_sums(model: NgramModel) -> None:
    """Every context node there is, the empty one and `<s>` among them."""
    every = NgramState(np.arange(model.tables.contexts, dtype=np.int32))
    p = np.exp(model.predict(every).astype(np.float64))
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=3e-6)


def assert_equals_brute(ids: list[int], v: int, order: int, smoothing: str, context: str, **options: Any) -> None:
    line_end = 0 if context == "line" else None
    model = estimate(np.array(ids), v, order=order, smoothing=smoothing, context=context, line_end=0, **options)
    truth = Brute(ids, v, order, smoothing, line_end, **options)
    for words in contexts(ids, v, order, line_end):
        assert after(model, words) == pytest.approx(truth.distribution(words), rel=3e-6, abs=1e-9), words
    for n, amounts in truth.discounts.items():
        assert model.discounts[n] == pytest.approx(amounts, rel=1e-12)


@pytest.mark.parametrize("context", ["line", "stream"])
@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("smoothing", PROPER)
def test_equals_the_formulas(smoothing: str, order: int, context: str) -> None:
    assert_equals_brute(zipf(1, 500, 9), 10, order, smoothing, context)


@pytest.mark.parametrize("smoothing", PROPER)
def test_equals_the_formulas_where_all_discounts_are_estimated(smoothing: str) -> None:
    ids = heavy_tailed()
    v = max(ids) + 1
    model = estimate(np.array(ids), v, order=3, smoothing=smoothing)
    assert model.notes == []  # neither Good-Turing nor the discounts had to fall back
    truth = Brute(ids, v, 3, smoothing)
    for words in contexts(ids, v, 3, None, most=25):
        assert after(model, words) == pytest.approx(truth.distribution(words), rel=3e-6, abs=1e-9), words


@pytest.mark.parametrize("cutoffs", [(0, 1), (0, 0, 1, 2), (5,)])
@pytest.mark.parametrize("smoothing", PROPER)
def test_equals_the_formulas_with_cut_offs(smoothing: str, cutoffs: tuple[int, ...]) -> None:
    assert_equals_brute(zipf(2, 400, 6), 7, 4, smoothing, "line", cutoffs=cutoffs)


@pytest.mark.parametrize("text", TINY)
@pytest.mark.parametrize("smoothing", PROPER)
def test_equals_the_formulas_where_counts_are_degenerate(smoothing: str, text: str) -> None:
    for order, context in product((1, 2, 4), ("line", "stream")):
        assert_equals_brute(TINY[text], V, order, smoothing, context)


@pytest.mark.parametrize("options", [{"alpha": 1.0}, {"alpha": 1e-3}, {"alpha": 40.0}])
def test_add_alpha_with_other_amounts(options: dict[str, float]) -> None:
    assert_equals_brute(zipf(3, 200, 5), 6, 3, "add-alpha", "stream", **options)


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("factor", [0.1, 0.4, 1.0])
def test_stupid_backoff_with_other_factors(factor: float, normalise: bool) -> None:
    options: dict[str, Any] = {"factor": factor, "normalise": normalise}
    assert_equals_brute(zipf(4, 200, 5), 6, 3, "stupid-backoff", "line", **options)
    assert_equals_brute(zipf(4, 200, 5), 6, 4, "stupid-backoff", "line", cutoffs=(0, 1), **options)


def test_raw_stupid_backoff_says_that_it_is_no_probability() -> None:
    model = estimate(np.array(zipf(5, 80, 5)), 6, order=3, smoothing="stupid-backoff", normalise=False)
    assert not model.proper
    assert "not probabilities" in " ".join(model.notes)
    total = np.exp(model.predict(model.start(1))).sum()
    assert total > 1.01


@pytest.mark.parametrize("smoothing", PROPER)
def test_sums_to_one_on_tiny_texts(smoothing: str) -> None:
    for ids, order, context in product(TINY.values(), range(1, 6), ("line", "stream")):
        for cutoffs in ((), (1,)):
            model = estimate(
                np.array(ids), V, order=order, smoothing=smoothing, context=context, line_end=0, cutoffs=cutoffs
            )
            assert model.proper
            assert_sums(model)


@pytest.mark.parametrize("smoothing", PROPER)
@settings(max_examples=25)
@given(
    stream=st.integers(1, 8).flatmap(lambda v: st.tuples(st.just(v), st.lists(st.integers(0, v - 1), min_size=1))),
    spare=st.integers(0, 3),
    order=st.integers(1, 5),
    context=st.sampled_from(["line", "stream"]),
    cutoffs=st.lists(st.integers(0, 4), max_size=3).map(lambda cuts: tuple(sorted(cuts))),
)
def test_sums_to_one_on_random_streams(
    smoothing: str, stream: tuple[int, list[int]], spare: int, order: int, context: str, cutoffs: tuple[int, ...]
) -> None:
    v, ids = stream
    given_cutoffs = cutoffs[:order]
    model = estimate(
        np.array(ids), v + spare, order=order, smoothing=smoothing, context=context, line_end=0, cutoffs=given_cutoffs
    )
    assert_sums(model)


@pytest.mark.parametrize("smoothing", PROPER)
def test_sums_to_one_on_a_longer_text(smoothing: str) -> None:
    for order, cutoffs in product((2, 3, 5), ((), (0, 1, 2))):
        ids = np.array(zipf(6, 2000, 40))
        assert_sums(estimate(ids, 50, order=order, smoothing=smoothing, cutoffs=cutoffs[:order]))


@pytest.mark.parametrize("smoothing", ["absolute", "kneser-ney", "modified-kneser-ney", "katz"])
def test_degenerate_counts_are_noted(smoothing: str) -> None:
    model = estimate(np.array([1, 2, 3]), 4, order=3, smoothing=smoothing)
    assert len(model.notes) == 3
    assert all(note.startswith(f"order {n}: ") for n, note in enumerate(model.notes, start=1))


def test_discounts_by_hand() -> None:
    # word 0 four times, 1 and 2 three times, 3..6 twice, 7..14 once: n1 = 8, n2 = 4, n3 = 2, n4 = 1, so Y = 1/2
    ids = [0] * 4 + [1] * 3 + [2] * 3 + [w for w in range(3, 7) for _ in "ab"] + list(range(7, 15))
    model = estimate(np.array(ids), 15, order=1, smoothing="modified-kneser-ney")
    assert model.discounts == {1: (0.5, 1.25, 2.0)}
    taken = 8 * 0.5 + 4 * 1.25 + 3 * 2.0
    p = after(model, ())
    assert p[0] == pytest.approx((4 - 2.0) / 26 + taken / 26 / 15, rel=1e-6)
    assert p[14] == pytest.approx((1 - 0.5) / 26 + taken / 26 / 15, rel=1e-6)


def test_a_seen_context_without_smoothing_excludes_the_unseen() -> None:
    model = estimate(np.array([1, 2, 1, 3]), 4, order=2, smoothing="mle")
    assert after(model, (1,)) == pytest.approx([0, 0, 0.5, 0.5])
    assert after(model, (3,)) == pytest.approx([0, 0.5, 0.25, 0.25])  # nothing ever followed: its longest seen suffix


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"smoothing": "add-alpha", "alpha": 0.0}, "alpha is 0.0; expected a number above 0"),
        ({"smoothing": "add-alpha", "alpha": math.nan}, "alpha is nan"),
        ({"smoothing": "stupid-backoff", "factor": 1.5}, "factor is 1.5; expected above 0 and at most 1"),
        ({"smoothing": "mle", "alpha": 1.0}, "'mle' has no option 'alpha'"),
        ({"context": "page"}, "context is 'page'"),
        ({"order": 2, "cutoffs": (0, 1, 1)}, "3 cut-offs for order 2"),
        ({"order": 3, "cutoffs": (0, 2, 1)}, "never fall"),
        ({"cutoffs": (-1,)}, "numbers from 0"),
    ],
)
def test_settings_that_mean_nothing_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        estimate(np.array([1, 2, 1]), 3, **options)


def test_an_unknown_smoothing_names_the_nearest() -> None:
    with assert_refused(UnknownNameError, "'kneser-ney'"):
        estimate(np.array([1, 2, 1]), 3, smoothing="kneserney")


def test_the_last_cut_off_holds_for_higher_orders() -> None:
    assert complete_cutoffs((), 3) == (0, 0, 0)
    assert complete_cutoffs((0, 1), 4) == (0, 1, 1, 1)
    assert complete_cutoffs((3, 1, 1), 3) == (3, 1, 1)  # words always stay, so the first is free


@pytest.mark.corpus("ptb: KenLM's discounts and numbers of n-grams")
def test_penn_treebank_discounts(data: Path) -> None:
    lm = thereafter.train("ptb", model="ngram", order=5, tokens="word")
    model = lm.model
    assert isinstance(model, NgramModel)
    published = {
        2: (0.727802, 1.09876, 1.4713),
        3: (0.868879, 1.25462, 1.44822),
        4: (0.942828, 1.38314, 1.43173),
        5: (0.959671, 1.3879, 1.24171),
    }
    for order, amounts in published.items():
        assert model.discounts[order] == pytest.approx(amounts, abs=5e-5)
    assert model.discounts[1][2] == pytest.approx(1.26227, abs=5e-6)
    assert model.tables.sizes()[1:] == [264_990, 586_558, 717_733, 737_952]
    assert lm.score("ptb").perplexity == pytest.approx(141.186, abs=0.01)

"""Counting: two ways of doing it, and a third in dictionaries, agree on every n-gram and every link."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from brute import Gram, count_grams
from hypothesis import given
from hypothesis import strategies as st

from refusals import assert_refused
from thereafter.errors import EmptyCorpusError, OptionError
from thereafter.ngram import counts as counting
from thereafter.ngram.counts import Counts, count

LINE_END = 0

streams = st.integers(1, 6).flatmap(
    lambda v: st.tuples(st.just(v), st.lists(st.integers(0, v - 1), min_size=1, max_size=60))
)


def counted(monkeypatch: pytest.MonkeyPatch, plain: bool, ids: list[int], v: int, order: int, context: str) -> Counts:
    monkeypatch.setattr(counting, "available", lambda: not plain)
    return count(np.array(ids, np.int32), v, order, context=context, line_end=LINE_END)


def spelled(counts: Counts) -> list[list[Gram]]:
    """The n-grams of each order as tuples, followed through their contexts."""
    grams: list[list[Gram]] = [[()]]
    for level in counts.levels:
        grams.append([(*grams[-1][c], w) for c, w in zip(level.context.tolist(), level.word.tolist(), strict=True)])
    return grams


def assert_counted(counts: Counts, ids: list[int], v: int, order: int, context: str) -> None:
    """Everything a Counts promises, against dictionaries."""
    truth = count_grams(ids, v, order, LINE_END if context == "line" else None)
    grams = spelled(counts)
    assert counts.order == order
    for n in range(1, order + 1):
        level = counts.levels[n - 1]
        found = Counter(dict(zip(grams[n], level.count.tolist(), strict=True)))
        assert +found == truth[n - 1]
        assert len(set(grams[n])) == len(grams[n]) == counts.size(n)
        if n > 1:
            assert min(level.count, default=1) >= 1
            assert grams[n] == sorted(grams[n])
            assert [grams[n - 1][s] for s in level.suffix.tolist()] == [gram[1:] for gram in grams[n]]
            starting = [gram[0] == v for gram in grams[n]]
            assert counts.first_starting(n) == (starting.index(True) if any(starting) else len(starting))
    assert grams[1] == [(w,) for w in range(v + 1)]  # every word has its row, and <s> the last
    assert counts.levels[0].count[v] == 0


@pytest.mark.parametrize("context", ["line", "stream"])
@given(stream=streams, order=st.integers(1, 10))
def test_both_ways_equal_dictionaries(context: str, stream: tuple[int, list[int]], order: int) -> None:
    v, ids = stream
    with pytest.MonkeyPatch.context() as patch:
        fast = counted(patch, False, ids, v, order, context)
        plain = counted(patch, True, ids, v, order, context)
    assert_counted(fast, ids, v, order, context)
    for one, other in zip(fast.levels, plain.levels, strict=True):
        for name in ("word", "count", "context", "suffix"):
            a, b = getattr(one, name), getattr(other, name)
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("context", ["line", "stream"])
@pytest.mark.parametrize(
    "ids",
    [
        pytest.param([1], id="one token"),
        pytest.param([0], id="one line end"),
        pytest.param([1, 2], id="shorter than the order"),
        pytest.param([1, 2, 1, 1], id="half the order"),
        pytest.param([2] * 40, id="one token repeated"),
        pytest.param([0] * 12, id="blank lines only"),
        pytest.param([1, 0, 0, 0, 1, 2, 0, 0, 2], id="blank lines between"),
        pytest.param([1, 2, 0, 1, 2, 0], id="a closed last line"),
        pytest.param([1, 2, 0, 1, 2], id="an open last line"),
    ],
)
def test_corners(monkeypatch: pytest.MonkeyPatch, plain: bool, context: str, ids: list[int]) -> None:
    for order in range(1, 11):
        assert_counted(counted(monkeypatch, plain, ids, 3, order, context), ids, 3, order, context)


def test_a_longer_text(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    ids = rng.geometric(0.2, 5000).clip(1, 30) - 1
    assert_counted(counted(monkeypatch, False, ids.tolist(), 30, 5, "line"), ids.tolist(), 30, 5, "line")


def test_lines_stand_alone() -> None:
    lines = count(np.array([1, 0, 2, 0]), 3, 3, context="line", line_end=0)
    assert (0, 2) not in spelled(lines)[2]
    assert (1, 0, 2) not in spelled(lines)[3]
    assert (1, 0, 2) in spelled(count(np.array([1, 0, 2, 0]), 3, 3, context="stream", line_end=0))[3]


@pytest.mark.parametrize("order", [0, 11, -1])
def test_orders_out_of_range_are_refused(order: int) -> None:
    with assert_refused(OptionError, "order", order, 1, 10):
        count(np.array([1, 2]), 3, order)


def test_an_empty_text_is_refused() -> None:
    with pytest.raises(EmptyCorpusError, match="no tokens"):
        count(np.array([], np.int32), 3, 2)

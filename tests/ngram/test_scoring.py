"""Scoring a stream: the compiled walk, its readable twin and the dictionaries agree, however the stream is cut."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from brute import Brute, sentences
from hypothesis import given, settings
from hypothesis import strategies as st

import thereafter
from refusals import assert_refused
from thereafter.errors import FormatError, OptionError
from thereafter.ngram import model as ngram_model
from thereafter.ngram.model import NgramModel, NgramState, estimate, score, score_plain
from thereafter.ngram.smoothing import SMOOTHINGS

ALL = list(SMOOTHINGS)


@pytest.fixture(scope="module", autouse=True)
def compiled_from_the_first_token() -> Iterator[None]:
    """Without this the few tokens of a test would be left to the plain twin, and it would be compared with itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ngram_model, "pays", lambda items: True)
        yield


def test_numba_pays_once_enough_was_requested() -> None:
    code = "import sys; from thereafter.base.compiled import pays; asked = [pays(n) for n in (10, 10, 600_000, 1)]"
    code += "; print(asked, 'numba' in sys.modules); import numba; from thereafter.base import compiled"
    code += "; compiled._requested = 0; print(pays(1))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[False, False, True, True] False", "True"]


def test_suffixes_lie_exactly_one_order_lower() -> None:
    """What would send a walk along suffixes in a circle is refused, at both ends of every order."""
    tables = estimate(random_ids(1, 60, 8), 8, order=4, smoothing="witten-bell").tables
    for order, (begin, end) in enumerate(pairwise(tables.level_starts[1:].tolist()), 1):
        below, above = tables.level_starts[order - 1 : order + 1].tolist()
        for node in (begin, end - 1):
            for wrong in (-1, below - 1, above, above + 1):
                suffix = tables.suffix.copy()
                suffix[node] = wrong
                with pytest.raises(FormatError, match="do not fit together"):
                    replace(tables, suffix=suffix).check()
    tables.check()


def random_ids(seed: int, size: int, v: int) -> np.ndarray:
    return (np.random.default_rng(seed).geometric(2.5 / v, size).clip(1, v) - 1).astype(np.int32)


def assert_both_ways(model: NgramModel, ids: np.ndarray, node: int) -> None:
    """The compiled walk and the plain twin: scores, nodes, and the context afterwards."""
    rules: dict[str, Any] = {"uniform": model.uniform, "line_end": model._restart, "start": model._start}
    fast = score(model.tables, ids, node, **rules)
    plain = score_plain(model.tables, ids, node, **rules)
    np.testing.assert_array_equal(fast[0], plain[0])  # a process may use one after the other
    np.testing.assert_array_equal(fast[1], plain[1])
    assert fast[0].dtype == plain[0].dtype == np.float32
    assert fast[1].dtype == plain[1].dtype == np.int32
    assert fast[2] == plain[2]


@pytest.mark.parametrize("smoothing", ALL)
@settings(max_examples=25)
@given(
    trained=st.lists(st.integers(0, 4), min_size=1, max_size=60),
    read=st.lists(st.integers(0, 5), max_size=30),
    order=st.integers(1, 6),
    context=st.sampled_from(["line", "stream"]),
    cut=st.integers(0, 2),
    where=st.floats(0, 1, exclude_max=True),
)
def test_walk_equals_its_twin(
    smoothing: str, trained: list[int], read: list[int], order: int, context: str, cut: int, where: float
) -> None:
    model = estimate(
        np.array(trained), 6, order=order, smoothing=smoothing, context=context, line_end=0, cutoffs=(0, cut)[:order]
    )
    assert_both_ways(model, np.array(read, np.int32), int(where * model.tables.contexts))


@pytest.mark.parametrize("smoothing", ALL)
@pytest.mark.parametrize("context", ["line", "stream"])
def test_walk_equals_the_formulas(smoothing: str, context: str) -> None:
    v, order = 12, 4
    trained, held_out = random_ids(1, 600, v - 1), random_ids(2, 120, v)
    line_end = 0 if context == "line" else None
    model = estimate(trained, v, order=order, smoothing=smoothing, context=context, line_end=0)
    truth = Brute(trained.tolist(), v, order, smoothing, line_end)
    expected = [
        truth.p(s[i], truth.known(s[:i])) for s in sentences(held_out.tolist(), v, line_end) for i in range(1, len(s))
    ]
    got, _ = model.log_probs(held_out.reshape(1, -1), model.start(1))
    assert np.exp(got[0].astype(float)).tolist() == pytest.approx(expected, rel=5e-6, abs=1e-12)


@pytest.mark.parametrize("smoothing", ALL)
def test_a_stream_may_be_cut_anywhere(smoothing: str) -> None:
    trained, held_out = random_ids(3, 500, 9), random_ids(4, 200, 10)
    for order, context in product((1, 2, 5), ("line", "stream")):
        model = estimate(trained, 10, order=order, smoothing=smoothing, context=context, line_end=0)
        whole, end = model.log_probs(held_out.reshape(1, -1), model.start(1))
        for sizes in ([1] * 200, [7, 0, 93, 1, 99]):
            state, parts, at = model.start(1), [], 0
            for size in sizes:
                part, state = model.log_probs(held_out[at : at + size].reshape(1, -1), state)
                parts.append(part)
                at += size
            np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, rtol=1e-6)
            assert state.key() == end.key()


@pytest.mark.parametrize("smoothing", ["modified-kneser-ney", "add-alpha", "mle"])
@pytest.mark.parametrize("context", ["line", "stream"])
def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch, smoothing: str, context: str) -> None:
    trained = random_ids(5, 4000, 20)
    held_out = np.resize(trained, 20_011)  # every context is known in full length, also where the stream is cut
    held_out[::9] = 20
    for order in (1, 2, 6):
        model = estimate(trained, 21, order=order, smoothing=smoothing, context=context, line_end=3)
        node = model.tables.contexts - 1
        results = []
        for workers in (1, 2, 7):
            monkeypatch.setattr(ngram_model, "usable", lambda workers=workers: workers)
            starts = {"line_end": 3 if context == "line" else -1, "start": int(model.start(1).nodes[0])}
            results.append(score(model.tables, held_out, node, uniform=model.uniform, **starts))
        for other in results[1:]:
            np.testing.assert_allclose(results[0][0], other[0], rtol=1e-6)
            np.testing.assert_array_equal(results[0][1], other[1])
            assert results[0][2] == other[2]
        assert_both_ways(model, held_out, node)


def test_contexts_with_many_children() -> None:
    v = 300
    trained = np.stack([np.zeros(v, np.int32), np.arange(v, dtype=np.int32)], axis=1).ravel()  # 0 is followed by all
    model = estimate(trained, v + 5, order=3, smoothing="witten-bell")
    assert_both_ways(model, np.stack([np.zeros(v + 5), np.arange(v + 5)], axis=1).ravel().astype(np.int32), 0)


def test_lines_start_afresh() -> None:
    ids = np.array([1, 2, 0, 1, 2, 0, 2, 1, 0])
    model = estimate(ids, 3, order=3, context="line", line_end=0)
    begun = model.start(1)
    _, after_line = model.log_probs(np.array([[2, 1, 0]]), begun)
    assert after_line.key() == begun.key()
    once, _ = model.log_probs(np.array([[1, 2, 0]]), begun)
    thrice, _ = model.log_probs(np.array([[1, 2, 0] * 3]), begun)
    np.testing.assert_array_equal(np.tile(once, (1, 3)), thrice)
    runs_on = estimate(ids, 3, order=3, context="stream", line_end=0)
    assert runs_on.log_probs(np.array([[2, 1, 0]]), runs_on.start(1))[1].key() != runs_on.start(1).key()


def test_ids_of_any_width_and_layout() -> None:
    model = estimate(np.array([1, 2, 0, 1, 2, 0, 2, 1, 0]), 3, order=3)
    expected, _ = model.log_probs(np.array([[1, 2, 0, 1]], np.int32), model.start(1))
    for kind in (np.uint8, np.int16, np.int64, np.uint64):
        np.testing.assert_array_equal(model.log_probs(np.array([[1, 2, 0, 1]], kind), model.start(1))[0], expected)
    strided = np.array([[1, 9, 2, 9, 0, 9, 1, 9]])[:, ::2]
    np.testing.assert_array_equal(model.log_probs(strided, model.start(1))[0], expected)


@pytest.mark.parametrize("ids", [[[0, 3]], [[-1]]])
def test_ids_outside_the_vocabulary_are_refused(ids: list[list[int]]) -> None:
    model = estimate(np.array([1, 2, 0]), 3, order=2)
    with assert_refused(OptionError, 0, 2):
        model.log_probs(np.array(ids), model.start(1))


def test_tokens_need_two_axes() -> None:
    model = estimate(np.array([1, 2, 0]), 3, order=2)
    with assert_refused(OptionError, "[rows, steps]"):
        model.log_probs(np.array([1, 2]), model.start(1))


def test_unseen_contexts_are_the_empty_one() -> None:
    model = estimate(np.array([1, 2, 1, 2, 1, 2]), 4, order=2, smoothing="mle")
    _, lost = model.log_probs(np.array([[3]]), model.start(1))
    assert model.predict(lost)[0].tolist() == model.predict(NgramState(np.zeros(1, np.int32)))[0].tolist()


WITHOUT_NUMBA = """
import sys, thereafter
text = open(sys.argv[1], encoding="utf-8").read()
for smoothing in ("modified-kneser-ney", "add-alpha"):
    for tokens in ("word", "prose"):
        lm = thereafter.train(text=text, tokens=tokens, order=4, smoothing=smoothing)
        sys.stdout.write(repr(lm.score(text=text[::3]).nats) + " " + repr(lm.score(text=text).nats) + "\\n")
assert "numba" not in sys.modules
"""


def test_the_same_scores_without_numba(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    words = ["the", "cat", "sat", "on", "a", "mat", "and", "ate", "fish,", "then", "slept."]
    lines = [" ".join(rng.choice(words, rng.integers(0, 9))) for _ in range(150)]
    text = "\n".join(lines) + "\n"
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_NUMBA, str(tmp_path / "text.txt")],
        env={**os.environ, "THEREAFTER_NUMBA": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    got = [float(number) for number in done.stdout.split()]
    expected = []
    for smoothing, tokens in product(("modified-kneser-ney", "add-alpha"), ("word", "prose")):
        lm = thereafter.train(text=text, tokens=tokens, order=4, smoothing=smoothing)
        expected += [lm.score(text=text[::3]).nats, lm.score(text=text).nats]
    assert got == pytest.approx(expected, rel=1e-6)
    assert all(map(math.isfinite, got))

"""Traces: what they record is what the model did, and a file gives them back."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import thereafter
from refusals import assert_refused
from thereafter.errors import FormatError, OptionError
from thereafter.inspection.trace import Trace
from thereafter.text.tokenizers import TOKENIZERS

TEXT = "the cat sat on the mat\nthe dog sat on the cat\n\na cat ate the fish on the mat\n" * 3
OTHER = "the cat ate the dog on the zebra\na mat\n\nthe cat sat"


@pytest.mark.parametrize("tokens", list(TOKENIZERS))
def test_a_trace_and_a_fast_run_give_the_same_numbers(tokens: str) -> None:
    lm = thereafter.train(text=TEXT, tokens=tokens, order=3)
    trace = lm.trace(OTHER + "\n")
    ids = lm.tokenizer.encode(OTHER + "\n")
    logp, _ = lm.model.log_probs(ids.reshape(1, -1), lm.model.start(1))
    np.testing.assert_array_equal(trace["log_prob"], logp[0])
    assert -trace["log_prob"].sum(dtype=float) == pytest.approx(lm.score(text=OTHER + "\n").nats, rel=1e-9)
    assert len(trace.tokens) == len(ids)
    assert set(trace.axes) == set(trace.arrays)
    for name, axes in trace.axes.items():
        assert axes[0] == "step"
        assert trace[name].ndim == len(axes)
        assert len(trace[name]) == len(ids)


def test_the_likeliest_are_those_before_the_token_was_read() -> None:
    lm = thereafter.train(text=TEXT, tokens="word", order=3)
    trace = lm.trace("the cat sat", top=4)
    for step, prompt in enumerate(["", "the", "the cat"]):
        p = lm.distribution(prompt)
        best = np.argsort(-p, kind="stable")[:4]
        assert trace["top_token"][step].tolist() == best.tolist()
        assert [piece for piece, _ in trace.top(step)] == [lm.tokenizer.piece(int(i)) for i in best]
        assert [chance for _, chance in trace.top(step)] == pytest.approx(p[best].tolist(), rel=1e-6)
    assert lm.trace("the cat", top=10_000)["top_token"].shape == (2, len(lm.tokenizer.vocabulary))


def test_only_the_first_tokens_are_recorded() -> None:
    lm = thereafter.train(text=TEXT, tokens="char", order=3)
    with pytest.warns(UserWarning, match="only the first 2,000 of 4,620 tokens were recorded"):
        assert len(lm.trace(TEXT * 20).tokens) == 2000
    assert len(lm.trace(TEXT, limit=7)["log_prob"]) == 7
    with pytest.raises(OptionError, match="empty"):
        lm.trace("")


def assert_same(one: Trace, other: Trace) -> None:
    assert one.tokens == other.tokens
    assert one.vocabulary == other.vocabulary
    assert one.axes == other.axes
    assert one.about == other.about
    assert set(one.arrays) == set(other.arrays)
    for name, array in one.arrays.items():
        assert array.dtype == other[name].dtype
        np.testing.assert_array_equal(array, other[name])


def test_a_file_gives_it_back_whatever_the_tokens(tmp_path: Path) -> None:
    text = 'a\0b 😀é\n"quoted" \\x \u2028\x85漢\ufeff 👩‍👩‍👧 ' * 3
    for tokens in TOKENIZERS:
        trace = thereafter.train(text=text, tokens=tokens, order=2).trace(text)
        path = trace.save(tmp_path / f"{tokens}.npz")
        assert_same(Trace.load(path), trace)
        with np.load(path, allow_pickle=False) as plain:  # and anybody can open it
            assert json.loads(plain["trace"].tobytes())["tokens"] == trace.tokens
            assert set(plain.files) == {"trace", *trace.arrays}
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(f"{tokens}.npz" for tokens in TOKENIZERS)


def test_the_name_is_the_one_that_was_asked_for(tmp_path: Path) -> None:
    trace = thereafter.train(text=TEXT, tokens="word", order=2).trace("the cat")
    assert trace.save(tmp_path / "plain") == tmp_path / "plain"  # numpy alone would have added .npz
    assert_same(Trace.load(tmp_path / "plain"), trace)


def test_what_is_not_a_trace(tmp_path: Path) -> None:
    path = thereafter.train(text=TEXT, tokens="word", order=2).trace("the cat").save(tmp_path / "good.npz")
    whole = path.read_bytes()
    bad = tmp_path / "bad.npz"
    damaged = [whole[:n] for n in range(0, len(whole), 37)]
    damaged += [b"", b"text", b"\x93NUMPY", bytes(100)]
    for content in damaged:
        bad.write_bytes(content)
        with assert_refused(FormatError, "bad.npz"):
            Trace.load(bad)
    np.savez(bad, x=np.arange(3))
    with assert_refused(FormatError, "trace"):
        Trace.load(bad)
    np.savez(bad, trace=np.frombuffer(b"[1, 2]", np.uint8))
    with assert_refused(FormatError, "trace"):
        Trace.load(bad)
    with bad.open("wb") as file:
        np.save(file, np.arange(3))
    with assert_refused(FormatError, "trace"):
        Trace.load(bad)
    with bad.open("wb") as file:
        np.savez(file, trace=np.array([object()], dtype=object))  # a pickle: never opened
    with assert_refused(FormatError, "trace"):
        Trace.load(bad)
    with assert_refused(FormatError, "trace"):
        Trace.load(tmp_path / "nowhere.npz")
    with assert_refused(FormatError, "trace"):
        Trace.load(tmp_path)

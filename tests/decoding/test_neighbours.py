"""Neighbours: cosines against a plain loop, and words found as people write them."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from small_models import NAMES, counted, made

from refusals import assert_refused
from thereafter.cli import main
from thereafter.errors import OptionError
from thereafter.inspection.dynamics import find_token, nearest_rows

NEURAL = [name for name in NAMES if name != "ngram"]


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True)) / (math.hypot(*a) * math.hypot(*b))


def test_the_nearest_rows_are_those_of_greatest_cosine():
    table = np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32)
    for row in (0, 7):
        expected = sorted(
            (-cosine(table[row], other), place) for place, other in enumerate(table) if place not in (row, 3)
        )
        found = nearest_rows(table, row, 6, left_out=[3])
        assert [place for place, _ in found] == [place for _, place in expected[:6]]
        np.testing.assert_allclose([value for _, value in found], [-value for value, _ in expected[:6]], atol=1e-6)
    assert len(nearest_rows(table, 0, 100)) == 29


def test_length_and_zeros_do_not_matter():
    table = np.array([[1.0, 0.0], [0.0, 0.0], [100.0, 1.0], [-1.0, 0.0], [0.5, 0.5]])
    assert [place for place, _ in nearest_rows(table, 0, 4)] == [2, 4, 1, 3]
    assert all(math.isfinite(value) for _, value in nearest_rows(table, 1, 4))


@pytest.mark.parametrize("name", NEURAL)
def test_of_every_model_with_embeddings(name: str):
    lm = made(name, "word")
    table = lm.model.input_embedding()
    assert table is not None
    index = lm.tokenizer.vocabulary.index
    assert table.shape[0] == len(index)
    found = lm.neighbours("cat", k=4)
    assert len(found) == 4
    for form, value in found:
        assert form not in ("cat", "<unk>")
        key = "</s>" if form == "\n" else form
        assert value == pytest.approx(cosine(table[index["cat"]], table[index[key]]), abs=1e-5)
    assert len(lm.neighbours("cat", k=1000)) == len(index) - 2


def test_words_are_found_with_and_without_their_space():
    prose = counted("prose").tokenizer
    index = prose.vocabulary.index
    assert find_token("cat", prose) == find_token(" cat", prose) == index[" cat"]
    # "the" begins lines and stands inside of them; the more frequent is meant, unless the space is written
    assert index["the"] != index[" the"]
    assert find_token("the", prose) == min(index["the"], index[" the"])
    assert find_token(" the", prose) == index[" the"]
    assert find_token("le", prose) == index["le"]
    assert find_token("CAT", prose, str.lower) == index[" cat"]
    assert find_token("cat", counted("word").tokenizer) == counted("word").tokenizer.vocabulary.index["cat"]
    assert find_token("é", counted("char").tokenizer) == counted("char").tokenizer.vocabulary.index["é"]
    bpe = counted("bpe").tokenizer
    assert bpe.piece(find_token("cat", bpe)).strip() == "cat"


@pytest.mark.parametrize(
    ("tokens", "word", "said"),
    [
        ("prose", "catt", "'catt' is not among the model's .* prose tokens; did you mean 'cat'"),
        ("word", "xyzzy", "try a word of the text"),
        ("word", "<unk>", "is not among"),
        ("word", "the cat", "more than one of the model's word tokens; expected one; try one of 'the', 'cat'"),
        ("char", "cat", "more than one of the model's char tokens"),
        ("char", "ß", "is not among"),
        ("prose", "", "the word is empty"),
        ("word", " ", "is not among"),
    ],
)
def test_words_that_are_not_there(tokens: str, word: str, said: str):
    with pytest.raises(OptionError, match=said):
        find_token(word, counted(tokens).tokenizer)


def test_models_without_embeddings_say_so():
    with assert_refused(OptionError, "ngram", "lstm"):
        counted("word").neighbours("cat")
    with assert_refused(OptionError, "k", 0):
        counted("word").neighbours("cat", k=0)


def test_on_the_command_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    lm = made("window", "word")
    monkeypatch.setattr("thereafter.language_model.load_language_model", lambda run, tokens, as_written, device: lm)
    monkeypatch.setattr(sys, "argv", ["thereafter", "neighbours", "RUN", "cat", "-k", "3"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(maxsplit=1) for line in lines] == [
        [f"{c:.6f}", repr(form)] for form, c in lm.neighbours("cat", 3)
    ]

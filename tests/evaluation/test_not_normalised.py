"""Scores that are no probabilities stand beside no others: no perplexity, no bits per byte, no advice, a sentence."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest

import thereafter
from refusals import assert_refused
from thereafter.cli import main
from thereafter.comparing.compare import Comparison
from thereafter.comparing.rows import Row, Trial
from thereafter.errors import OptionError
from thereafter.models.base import NOT_NORMALISED
from thereafter.text.sources import Source

TEXT = "the cat sat on the mat .\nthe dog sat on the log .\na cat saw the dog , and the dog ran .\n" * 30
RAW = {"smoothing": "stupid-backoff", "normalise": False}


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("books") / "book.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture(scope="module")
def raw(book: Path) -> thereafter.LanguageModel:
    return thereafter.train(book, tokens="word", out=book.parent / "raw", **RAW)


@pytest.fixture(scope="module")
def comparison(book: Path) -> Comparison:
    """Three models on one text, of which only the last gives scores that are no probabilities, and the lowest."""
    plain = thereafter.compare(book, models="unigram,ngram-2", tokens="word")
    other = thereafter.compare(
        book, models="ngram-3", tokens="word", **{"ngram.smoothing": "stupid-backoff"}, normalise=False
    )
    return Comparison((*plain.rows, *other.rows), plain.about)


def test_such_a_score_has_neither_perplexity_nor_bits(raw: thereafter.LanguageModel) -> None:
    score = raw.score(text="the cat ran .\n")
    assert math.isnan(score.perplexity)
    assert math.isnan(score.bits_per_byte)
    assert math.isnan(score.bits_per_char)
    assert NOT_NORMALISED in str(score)
    assert "perplexity 1" not in str(score)
    stored = score.as_dict()
    assert (stored["perplexity"], stored["bits_per_byte"], stored["bits_per_char"]) == (None, None, None)
    assert stored["reason"] == NOT_NORMALISED
    assert score.nats > 0  # what was added up is still there, under its own name


def test_a_cache_makes_no_probability_of_it(raw: thereafter.LanguageModel) -> None:
    assert math.isnan(raw.score(text="the cat ran .\n", cache=True).perplexity)
    with assert_refused(OptionError, "probabilities"):
        raw.score(text="the cat ran .\n", cache=True, tune=Source.of_text("the dog ran .\n"))


def test_it_is_not_mixed(raw: thereafter.LanguageModel, book: Path) -> None:
    proper = thereafter.train(book, tokens="word")
    with assert_refused(OptionError, "ngram-2", "normalise=false"):
        thereafter.mixture([proper, raw])


def test_divided_by_its_sum_it_is_one_of_many(book: Path) -> None:
    assert (
        thereafter.train(book, tokens="word", smoothing="stupid-backoff").score(text="the cat ran .\n").perplexity > 1
    )


def test_a_comparison_keeps_it_apart(comparison: Comparison) -> None:
    row = comparison.row("ngram-3")
    assert not row.normalised
    assert math.isnan(row.bits_per_byte.mean)
    line = next(line for line in comparison.table().splitlines() if line.startswith("ngram-3"))
    assert line.split()[2:4] == ["-", "-"]
    assert f"ngram-3: {NOT_NORMALISED}" in comparison.table()
    advised = comparison.advice()
    assert [sentence for sentence in advised if "ngram-3" in sentence] == [
        f"ngram-3: {NOT_NORMALISED}; compared with nothing."
    ]
    assert advised[0].startswith("For the best predictions of")
    assert "use ngram-2" in advised[0]
    assert NOT_NORMALISED in comparison.html()
    stored = json.loads(comparison.to_json())["rows"][2]
    assert stored["bits_per_byte"]["mean"] is None
    assert stored["reason"] == NOT_NORMALISED
    again = Row("ngram-3", tuple(Trial.from_dict(trial) for trial in stored["trials"]))
    assert math.isnan(again.bits_per_byte.mean)


def test_alone_it_is_advised_by_nobody(comparison: Comparison) -> None:
    alone = Comparison((comparison.row("ngram-3"),), comparison.about)
    assert alone.advice() == [f"ngram-3: {NOT_NORMALISED}; compared with nothing."]
    assert NOT_NORMALISED in alone.html()


def test_the_studio_shows_it_apart(comparison: Comparison) -> None:
    from thereafter.studio.panels.comparison import describe

    shown = describe(comparison)
    assert [(row.name, row.normalised) for row in shown.rows][1:] == [("ngram-2", True), ("ngram-3", False)]
    assert (shown.rows[2].bits_per_byte, shown.rows[2].perplexity, shown.rows[2].level) == (None,) * 3
    assert any(NOT_NORMALISED in line for line in shown.legend)
    assert not any("use ngram-3" in line for line in shown.advice)


def test_the_commands_say_so(
    raw: thereafter.LanguageModel,
    book: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(*words: object) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["thereafter", *map(str, words)])
        with pytest.raises(SystemExit):
            main()
        return capsys.readouterr()

    out, _ = run("score", book.parent / "raw", "--text", "the cat ran .")
    assert f"perplexity     none: {NOT_NORMALISED}" in out
    assert "bits per byte  " not in out
    stored = json.loads(run("score", book.parent / "raw", "--text", "the cat ran .", "--json")[0])
    assert stored["perplexity"] is None
    assert stored["reason"] == NOT_NORMALISED
    options = ("--tokens", "word", "--split", "90/10", "--out", tmp_path / "run")
    out, _ = run("train", book, "--smoothing", "stupid-backoff", "--set", "ngram.normalise=false", *options)
    assert NOT_NORMALISED in next(line for line in out.splitlines() if line.startswith("valid"))
    assert "mixed with others" in run("score", book.parent / "raw", "--text", "a", "--mix", book.parent / "raw")[1]

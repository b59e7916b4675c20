"""`thereafter next`: next tokens, and the words that a half-typed one may become."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import thereafter
from refusals import assert_refused
from thereafter.cli import app
from thereafter.errors import OptionError

BOOK = "I beheld the monster .\nI beheld the month of May .\nI beheld the mon .\nI saw the monster .\n" * 8


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for tokens in ("prose", "word", "char"):
        thereafter.train(text=BOOK, tokens=tokens, order=4).save(folder / tokens)
    return folder


def ask(*words: object) -> Result:
    result = CliRunner().invoke(app, ["next", *map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0
    return result


def test_a_half_typed_word_is_completed(runs: Path):
    result = ask(runs / "prose", "I beheld the mont", "-k", 3)
    assert result.stdout == "1.000000  'month'  + 'h'\n"
    assert "words that begin with 'mont'" in result.stderr


def test_a_whole_word_that_mostly_goes_on_gives_both_lists(runs: Path):
    lm = thereafter.load(runs / "prose")
    result = ask(runs / "prose", "I beheld the mon", "-k", 3)
    words = [f"{one.p:.6f}  {one.word!r}  + {one.append!r}" for one in lm.complete("I beheld the mon", 3)]
    tokens = [f"{p:.6f}  {piece!r}" for piece, p in lm.next("I beheld the mon", 3)]
    assert result.stdout.splitlines() == [*words, *tokens]
    assert "next tokens, if 'mon' is a whole word" in result.stderr
    assert ask(runs / "prose", "I beheld the mon", "-k", 3, "--complete").stdout.splitlines() == words
    assert ask(runs / "prose", "I beheld the mon", "-k", 3, "--no-complete").stdout.splitlines() == tokens


@pytest.mark.parametrize("prompt", ["I beheld the", "I beheld the ", "", "I beheld the monster .", "zebr"])
def test_elsewhere_the_next_tokens_are_listed_as_ever(runs: Path, prompt: str):
    for tokens in ("prose", "word"):
        expected = [f"{p:.6f}  {piece!r}" for piece, p in thereafter.load(runs / tokens).next(prompt)]
        assert ask(runs / tokens, prompt).stdout.splitlines() == expected


def test_characters_are_followed_to_the_end_of_the_word_and_what_is_left_is_said(runs: Path):
    result = ask(runs / "char", "I beheld the mo", "-k", 2)
    assert "'monster'  + 'nster'" in result.stdout
    assert "not covered" in result.stderr


def test_both_lists_are_one_table(runs: Path, tmp_path: Path):
    rows = list(csv.DictReader(io.StringIO(ask(runs / "word", "I beheld the mon", "--csv").stdout)))
    assert list(rows[0]) == ["kind", "text", "append", "p"]
    assert {row["kind"] for row in rows} == {"word", "token"}
    by_text = {(row["kind"], row["text"]): row["append"] for row in rows}
    assert by_text["word", "monster"] == "ster"
    assert by_text["token", "."] == " ."
    assert json.loads(ask(runs / "word", "I beheld the mont", "--json").stdout) == [
        {"kind": "word", "text": "month", "append": "h", "p": 1.0}
    ]
    ask(runs / "word", "I beheld the mon", "--out", tmp_path / "next.csv")
    assert (tmp_path / "next.csv").read_text().startswith("kind,text,append,p\nword,")


def test_what_cannot_be_completed_is_one_sentence(runs: Path):
    for prompt, fact in (("zebr", "'zebr'"), ("the month.", "'.'")):
        with assert_refused(OptionError, fact):
            CliRunner().invoke(app, ["next", str(runs / "prose"), prompt, "--complete"], catch_exceptions=False)


def test_the_help_has_an_example():
    assert "I beheld the mon" in CliRunner().invoke(app, ["next", "--help"]).stdout

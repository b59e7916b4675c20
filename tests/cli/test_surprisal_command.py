"""`thereafter surprisal`: the table, its files, the figure, and what is refused."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import thereafter
from refusals import assert_refused
from thereafter.cli import app
from thereafter.errors import OptionError

BOOK = "the cat sat on the mat .\nthe dog sat on the log .\nthe cat saw the dog .\n" * 8
TEXT = "the cat saw the log .\nthe zebra sat ."


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for tokens in ("word", "char"):
        thereafter.train(text=BOOK, tokens=tokens, order=3).save(folder / tokens)
    (folder / "other.txt").write_text(TEXT + "\n", encoding="utf-8")
    return folder


def ask(*words: object) -> Result:
    result = CliRunner().invoke(app, ["surprisal", *map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def test_a_row_a_word_and_bits_that_add_up_to_the_score(runs: Path, tmp_path: Path):
    result = ask(runs / "word", runs / "other.txt", "--out", tmp_path / "words.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "words.csv").read_text(encoding="utf-8"))))
    assert [row["word"] for row in rows] == [*TEXT.split("\n")[0].split(), "\\n", *TEXT.split("\n")[1].split(), "\\n"]
    score = thereafter.load(runs / "word").score(runs / "other.txt")
    assert sum(float(row["bits"]) for row in rows) * math.log(2) == pytest.approx(score.nats, rel=1e-9)
    assert "1 unknown tokens" in result.stdout
    assert "saved" in result.stderr


def test_several_runs_are_columns_named_by_their_folders(runs: Path):
    result = ask(runs / "word", runs / "char", "--text", TEXT, "--detail", "--top", 1, "--json")
    rows = json.loads(result.stdout)
    assert {"bits_word", "bits_char", "rank_word", "top_1_char"} <= set(rows[0])
    assert rows[7]["word"] == "the"
    assert rows[7]["line"] == 2


def test_sentences_as_csv_and_a_plain_table(runs: Path):
    rows = list(csv.DictReader(io.StringIO(ask(runs / "word", "--text", TEXT, "--by", "sentence", "--csv").stdout)))
    assert [row["sentence"] for row in rows] == TEXT.split("\n")
    printed = ask(runs / "char", "--text", "the cat " * 60).stdout
    assert "more rows; --out words.csv writes all of them" in printed
    assert "bits per word" in printed


def test_switches_are_those_of_score(runs: Path):
    result = ask(runs / "word", "--text", TEXT, "--cache", "--cache-size", 5, "--csv")
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    score = thereafter.load(runs / "word").score(text=TEXT, cache={"size": 5})
    assert sum(float(row["bits"]) for row in rows) * math.log(2) == pytest.approx(score.nats, rel=1e-9)
    assert "a cache of 5 tokens" in ask(runs / "word", "--text", TEXT, "--cache", "--cache-size", 5).stdout
    assert "mixture of" in ask(runs / "word", "--text", TEXT, "--mix", runs / "word").stdout


def test_figure_and_arrays(runs: Path, tmp_path: Path):
    ask(
        runs / "word",
        runs / "char",
        "--text",
        TEXT,
        "--detail",
        "--figure",
        tmp_path / "page.html",
        "--out",
        tmp_path / "w.npz",
    )
    assert "Surprisal of each word" in (tmp_path / "page.html").read_text(encoding="utf-8")
    drawn = CliRunner().invoke(app, ["figure", "surprisal", str(tmp_path / "w.npz"), "--out", str(tmp_path / "w.csv")])
    assert drawn.exit_code == 0, drawn.output
    assert (tmp_path / "w.csv").read_text(encoding="utf-8").startswith("word,line,bits word,bits char\n")


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        ([], ("--text",)),
        (["--text", "a", "--out", "a.xls"], ("a.xls", ".csv")),
        (["--text", "a", "--figure", "a.csv"], ("a.csv", ".html")),
        (["--text", "a", "--top", "3"], ("--top", "--detail")),
        (["--text", "a", "--by", "verse"], ("by", "verse")),
        (["--text", "a", "--cache-size", "3"], ("--cache-size", "--cache")),
    ],
)
def test_mistakes_are_one_sentence(runs: Path, words: list[str], facts: tuple[str, ...]):
    with assert_refused(OptionError, *facts):
        CliRunner().invoke(app, ["surprisal", str(runs / "word"), *words], catch_exceptions=False)


def test_the_sums_count_the_words_of_the_table(tmp_path: Path):
    corpus = "Raymond is selling this sketch . He did n't see the well @-@ known cat , but she does .\n" * 90
    thereafter.train(text=corpus, tokens="word", order=2).save(tmp_path / "formed")
    thereafter.train(text="He didn't see the cat. She does, too.\n" * 9, tokens="char", order=2).save(tmp_path / "char")
    text = "She didn't see the sketch, but Raymond is selling the well-known cat. He did."
    both = [tmp_path / "char", tmp_path / "formed", "--text", text]
    rows = json.loads(ask(*both, "--json").stdout)
    words = [row for row in rows if not row["line_end"]]
    assert len(words) == len(text.split())
    ask(*both, "--figure", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for name in ("char", "formed"):
        bits = sum(row[f"bits_{name}"] for row in rows if row[f"bits_{name}"] is not None)
        printed = next(line for line in ask(*both).stdout.splitlines() if line.startswith(f"{name}:"))
        assert f"over {len(words):,} words" in printed
        assert f"; {bits / len(words):.2f} bits per word" in printed
        assert f"{name} {bits / len(words):.2f}" in page
    assert f"all {len(words)} words" in page
    sentences = json.loads(ask(*both, "--by", "sentence", "--json").stdout)
    assert [row["sentence"] for row in sentences] == [text[:-8], "He did."]

"""Models of a comparison scored on minimal pairs."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import thereafter
from refusals import assert_refused
from thereafter.cli import main
from thereafter.comparing import rows
from thereafter.comparing.compare import compare
from thereafter.errors import OptionError, SourceError
from thereafter.evaluation.bootstrap import wilson
from thereafter.inspection.pairs import score_pair_files
from thereafter.inspection.sentence_reader import SentenceReader

TEXT = "".join(f"the {'cat' if k % 3 else 'dog'} sat on the {'mat' if k % 2 else 'log'} .\n" for k in range(200))
SMALL: dict[str, Any] = {"hidden": 4, "batch": 4, "steps": 8, "layers": 1, "tokens_budget": 200}
PAIRS = [
    ("order", "the cat sat on the mat .", "the cat on sat the mat ."),
    ("order", "the dog sat on the log .", "the dog on sat the log ."),
    ("choice", "the cat sat .", "the gnat sat ."),  # unknown
    ("choice", "the mat sat on the cat .", "the cat sat on the mat ."),
]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    book, pairs = tmp_path / "book.txt", tmp_path / "pairs.jsonl"
    book.write_text(TEXT)
    rows = [{"sentence_good": good, "sentence_bad": bad, "UID": group} for group, good, bad in PAIRS]
    pairs.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return book, pairs


def test_every_model_and_seed_is_asked(files: tuple[Path, Path], tmp_path: Path):
    book, pairs = files
    out = tmp_path / "out"
    comparison = compare(book, models="unigram,ngram-3,rnn:char", seeds=2, pairs=pairs, out=out, **SMALL)
    assert comparison.pairs is not None
    for row in comparison.rows:
        scores = [
            score_pair_files(SentenceReader.of(lm.model, lm.tokenizer, lm.config), pairs)
            for lm in (thereafter.load(out / "runs" / trial.run) for trial in row.trials)
        ]
        mean = comparison.pairs.mean(row.name)
        assert mean.accuracy.mean == pytest.approx(sum(one.accuracy for one in scores) / len(scores))
        assert mean.judged == int(scores[0].judged_K.sum())
        low, high = wilson(mean.accuracy.mean, mean.judged)
        assert (mean.low, mean.high) == pytest.approx((float(low), float(high)))
    assert comparison.pairs.mean("unigram").judged == 3
    table = comparison.table()
    assert "pairs %" in table.splitlines()[0]
    assert "Judged are unigram 3, ngram-3 3, rnn:char 4 of 4 pairs; the others differ in a word that" in table
    stored = json.loads((out / "compare.json").read_text())["pairs"]
    assert [group["group"] for group in stored["models"]["unigram"]] == ["all", "order", "choice"]
    page = (out / "report.html").read_text()
    assert "<h2>Minimal pairs</h2>" in page
    assert '<td class="word">choice</td>' in page
    rows = {row["model"]: row for row in comparison.to_rows()}
    assert rows["ngram-3"]["pairs_accuracy"] == comparison.pairs.mean("ngram-3").accuracy.mean


def test_pairs_can_be_asked_for_later_and_are_kept(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch):
    book, pairs = files
    out = book.parent / "out"
    assert compare(book, models="unigram,ngram-3", out=out).pairs is None
    asked: list[int] = []
    score_each = rows.score_each

    def count(reader: Any, some: Any, **named: Any) -> Any:
        asked.append(len(some))
        return score_each(reader, some, **named)

    monkeypatch.setattr(rows, "score_each", count)
    first = compare(book, models="unigram,ngram-3", pairs=[pairs], out=out)
    assert asked == [4, 4]
    assert compare(book, models="unigram,ngram-3", pairs=str(pairs), out=out).pairs == first.pairs
    assert asked == [4, 4]
    pairs.write_text("the cat sat .\tthe sat cat .\n")
    assert compare(book, models="unigram", pairs=pairs, out=out).pairs != first.pairs
    assert asked == [4, 4, 1]


def test_pairs_that_are_not_there_are_said_before_anything_is_trained(files: tuple[Path, Path]):
    with assert_refused(SourceError, "no.jsonl"):
        compare(files[0], models="unigram", pairs="no.jsonl", out=files[0].parent / "out")
    assert not (files[0].parent / "out").exists()


def test_the_command(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    book, pairs = files
    monkeypatch.chdir(book.parent)

    def shell(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["thereafter", "compare", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            main()
        return (int(stop.value.code or 0), *capsys.readouterr())

    words = (book, "--models", "unigram,ngram-3", "--pairs", pairs)
    code, out, err = shell(*words, "--csv")
    assert code == 0, err
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["model"] for row in rows] == ["unigram", "ngram-3"]
    assert 0 <= float(rows[1]["pairs_low"]) <= float(rows[1]["pairs_accuracy"]) <= float(rows[1]["pairs_high"]) <= 1
    code, out, err = shell(*words, "--json")
    assert json.loads(out)["pairs"]["total"] == 4
    code, _, err = shell(*words, "--json", "--csv")
    assert code != 0
    assert "both --csv and --json" in err
    code, _, err = shell(book, "--task", "tag", "--pairs", pairs)
    assert code != 0
    assert "--pairs is for language models" in err


def test_a_task_has_no_pairs(files: tuple[Path, Path]):
    with assert_refused(OptionError, "pairs"):
        thereafter.compare(files[0], task="tag", pairs=files[1])

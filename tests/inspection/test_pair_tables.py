"""Minimal pairs as a table: a row a pair, unknown words counted apart, intervals, several files at once."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

import thereafter
from refusals import assert_refused
from thereafter import instruments
from thereafter.cli import app
from thereafter.comparing.rows import ComparedPairs
from thereafter.errors import FormatError, OptionError, SourceError
from thereafter.evaluation.bootstrap import wilson
from thereafter.figures.memory import accuracy_by_group
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.pairs import Pair, PairScores, read_pair_files, score_each, score_pair_files
from thereafter.inspection.sentence_reader import SentenceReader
from thereafter.tasks.answers import NamedPrediction, PredictionTable

TEXT = "the dog barks .\nthe dogs bark .\nthe cat sleeps .\nthe cats sleep .\n" * 4
KNOWN = [("the dog barks .", "the dog bark ."), ("the cats sleep .", "the cats sleeps .")]
BACKWARDS = [("the dog bark .", "the dog barks .")]
SAME = [("the zork barks .", "the blork barks .")]
UNKNOWN = [("the dog barks .", "the zork barks ."), ("the zork barks .", "the dog zorks .")]
IN_BOTH = [("the dog barks . zork", "the dog bark . zork")]
ALL = KNOWN + BACKWARDS + SAME + UNKNOWN + IN_BOTH


@pytest.fixture(scope="module")
def lm() -> Any:
    return thereafter.train(text=TEXT, tokens="word", order=3)


@pytest.fixture(scope="module")
def scores(lm: Any) -> PairScores:
    return score_each(reader_of(lm), [Pair(*both) for both in ALL])


def reader_of(lm: Any) -> SentenceReader:
    return SentenceReader.of(lm.model, lm.tokenizer, lm.config)


@pytest.mark.parametrize(("right", "total"), [(0, 4), (4, 4), (1, 3), (9, 10), (671, 1000), (2.5, 7)])
def test_a_wilson_interval_ends_where_the_score_test_does(right: float, total: int):
    """Its ends are the shares p that a test would just not refuse: |right / n - p| = z sqrt(p (1 - p) / n)."""
    share, z = right / total, 1.959963984540054

    def is_refused(p: float) -> bool:
        return abs(share - p) > z * math.sqrt(p * (1 - p) / total)

    def edge(outside: float, inside: float) -> float:
        for _ in range(200):
            middle = (outside + inside) / 2
            outside, inside = (middle, inside) if is_refused(middle) else (outside, middle)
        return inside

    low, high = wilson([share], [total])
    assert low[0] == pytest.approx(edge(0.0, share) if share else 0.0, abs=1e-6)
    assert high[0] == pytest.approx(edge(1.0, share) if share < 1 else 1.0, abs=1e-6)


def test_of_no_cases_nothing_is_known():
    low, high = wilson([float("nan"), 0.5], [0, 100])
    assert (low[0], high[0]) == (0.0, 1.0)
    assert 0.4 < low[1] < 0.5 < high[1] < 0.6


def test_pairs_that_differ_in_an_unknown_word_are_counted_apart(scores: PairScores):
    assert scores.same_K.tolist() == [False] * 3 + [True] + [False] * 3
    assert scores.unknown_K.tolist() == [False] * 4 + [True, True, False]
    assert scores.right_K[scores.judged_K].tolist() == [1, 1, 0, 1]
    assert scores.accuracy == 0.75
    (row,) = scores.groups()
    assert (row["total"], row["judged"], row["unknown"], row["same"], row["accuracy"]) == (7, 4, 2, 1, 0.75)
    low, high = wilson([0.75], [4])
    assert (row["low"], row["high"]) == (low[0], high[0])
    assert row["nats"] == pytest.approx(scores.differences_K[scores.judged_K].mean())


def test_a_literal_unknown_word_is_one_too(lm: Any):
    marked = score_each(reader_of(lm), [Pair("the <unk> barks .", "the dog barks ."), Pair("<unk> a", "<unk> b")])
    assert marked.unknown_K.tolist() == [True, False]
    assert marked.same_K.tolist() == [False, True]  # neither a nor b is known


def test_a_row_a_pair_has_all_there_is_to_know(lm: Any, scores: PairScores):
    rows = scores.to_rows()
    for row, (good, bad) in zip(rows, ALL, strict=True):
        assert (row["good"], row["bad"]) == (good, bad)
        for name, sentence in (("logp_good", good), ("logp_bad", bad)):
            whole = lm.score(text=f"{sentence}\n")
            assert row[name] == pytest.approx(-whole.nats - whole.spelling_nats, rel=1e-6)
        assert row["difference"] == pytest.approx(float(str(row["logp_good"])) - float(str(row["logp_bad"])))
    assert [row["right"] for row in rows] == [1, 1, 0, None, None, None, 1]
    assert [row["unknown_good"] for row in rows[3:]] == [["zork"], [], ["zork"], ["zork"]]
    assert [row["unknown_bad"] for row in rows[3:]] == [["blork"], ["zork"], ["zorks"], ["zork"]]
    read = list(csv.DictReader(io.StringIO(scores.to_csv())))
    assert [row["good"] for row in read] == [good for good, _ in ALL]
    assert [row["right"] for row in read] == ["1.0", "1.0", "0.0", "", "", "", "1.0"]


def test_many_unknown_pairs_are_said_aloud(lm: Any, scores: PairScores):
    assert "3 of 7 pairs (43%) are left out of the accuracy" in scores.caution
    assert "'zork'" in scores.caution
    assert scores.measurement().about["caution"] == scores.caution
    assert not score_each(reader_of(lm), [Pair(*both) for both in KNOWN]).caution


def test_pairs_are_left_out_for_their_own_reasons(lm: Any):
    def left_out(*pairs: tuple[str, str]) -> str:
        return score_each(reader_of(lm), [Pair(*both) for both in pairs]).left_out

    assert left_out(*KNOWN) == ""
    assert left_out(*KNOWN, *UNKNOWN) == "2 pairs are left out: they differ in an unknown word"
    assert left_out(*SAME) == "1 pair is left out: its tokens are the same"
    assert left_out(*UNKNOWN[:1], *SAME, *SAME) == (
        "1 pair is left out: it differs in an unknown word; 2 are left out: their tokens are the same"
    )
    assert left_out(*UNKNOWN, *SAME).endswith("; 1 is left out: its tokens are the same")


def test_the_caution_names_the_words_for_which_pairs_are_left_out(lm: Any):
    pairs = IN_BOTH * 5 + [("the dog barks .", f"the {word} barks .") for word in ("yak", "emu", "yak", "auk")] + SAME
    said = score_each(reader_of(lm), [Pair(*both) for both in pairs]).caution
    assert "such as 'yak', 'auk', 'blork', 'emu', 'zork';" in said  # by count, then by the alphabet
    judged = IN_BOTH * 5 + [("the yak barks . zork", "the dog barks . zork")] * 2
    assert "such as 'yak';" in score_each(reader_of(lm), [Pair(*both) for both in judged]).caution


def test_scores_are_shown_in_two_lines_at_most(lm: Any):
    scores = score_each(reader_of(lm), [Pair(*both) for both in ALL * 30])
    assert len(repr(scores)) < 240
    assert "75.0% of 120 judged" in repr(scores)
    trace = lm.trace("the dog barks")
    assert len(repr(trace)) < 240
    assert "3 tokens" in repr(trace)
    items = tuple(NamedPrediction("text", "a text", [{"answer": "an answer"}], "an answer") for _ in range(500))
    answers = PredictionTable(items, tuple(range(1, 501)), name="reviews.csv")
    assert repr(answers) == "<PredictionTable of reviews.csv: 500 texts; see to_rows()>"


TABLE = "item,condition,difference,good,bad\n" + "".join(
    f"{item},{condition},{item}x,the {noun} {verb} .,the {noun} {other} .\n"
    for item in range(1, 25)
    for condition, noun, verb, other in (("dog", "dog", "barks", "bark"), ("cat", "cats", "sleep", "sleeps"))
)


def test_the_columns_of_a_sheet_are_kept_and_grouped_by(lm: Any, tmp_path: Path):
    path = tmp_path / "pairs.csv"
    path.write_text(TABLE, encoding="utf-8")
    table = instruments.pair_table(lm, path)
    rows = table.to_rows()
    assert [(row["item"], row["condition"]) for row in rows[:2]] == [("1", "dog"), ("1", "cat")]
    assert rows[0]["difference_table"] == "1x"  # the user's own column of this name
    assert rows[0]["difference"] == rows[0]["logp_good"] - rows[0]["logp_bad"]  # type: ignore[operator]
    tabs = tmp_path / "pairs.tsv"
    tabs.write_text(TABLE.replace(",", "\t"), encoding="utf-8")
    assert [row | {"file": ""} for row in instruments.pair_table(lm, tabs).to_rows()] == [
        row | {"file": ""} for row in rows
    ]
    dog, cat, difference = table.conditions("condition")
    means = [np.mean([row["difference"] for row in rows if row["condition"] == name]) for name in ("dog", "cat")]
    assert (dog["nats"], cat["nats"]) == pytest.approx(means)
    assert difference["nats"] == pytest.approx(means[0] - means[1])
    assert difference["items"] == 24
    lm.save(tmp_path / "run")
    printed = (
        CliRunner().invoke(app, ["inspect", "pairs", str(tmp_path / "run"), str(path), "--by", "condition"]).output
    )
    assert re.search(r"dog +cat +24 +48 ", printed)
    assert "context item: each sentence is read from a fresh state" in printed


def test_a_table_of_other_columns_is_no_pairs(tmp_path: Path):
    path = tmp_path / "stimuli.csv"
    path.write_text("condition,sentence\na,the dog barks .\nb,the dogs bark .\n", encoding="utf-8")
    with assert_refused(FormatError, "condition", "sentence", "good", "bad"):
        read_pair_files(path)
    path.write_text("dogs,dog\ncats,cat\n", encoding="utf-8")  # beginnings of a word each
    assert [pair.good for pair in read_pair_files(path)] == ["dogs", "cats"]


def test_sentences_are_read_after_the_good_ones_before_them(tmp_path: Path):
    lm = thereafter.train(text=TEXT, order=4)
    path = tmp_path / "pairs.tsv"
    path.write_text("".join("\t".join(both) + "\n" for both in KNOWN * 2), encoding="utf-8")
    good = [both[0] for both in KNOWN * 2]

    def nats(*sentences: str) -> float:
        return lm.score(text="".join(f"\n{sentence}" for sentence in sentences) + "\n").nats

    def first(*sentences: str) -> float:
        return lm.score(text="".join(f"\n{sentence}" for sentence in sentences)).nats

    for context, before in (("item", 0), (1, 1), (2, 2), ("document", 4)):
        table = instruments.pair_table(lm, path, context=context)
        for place, (logp, _) in enumerate(table.logp_K2.tolist()):
            earlier = good[max(0, place - before) : place]
            expected = nats(*earlier, good[place]) - (first(*earlier) if earlier else 0)
            assert -logp == pytest.approx(expected, rel=1e-5), (context, place)


def test_several_runs_on_the_same_pairs(lm: Any, tmp_path: Path):
    other = thereafter.train(text=TEXT, tokens="word", order=1)
    lm.save(tmp_path / "first-run")
    other.save(tmp_path / "second run")
    path = tmp_path / "pairs.csv"
    path.write_text(TABLE.replace("1,dog", "1,cow"), encoding="utf-8")
    words = ["inspect", "pairs", str(tmp_path / "first-run"), str(tmp_path / "second run"), str(path)]
    result = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "both.csv")], catch_exceptions=False)
    rows = list(csv.DictReader(io.StringIO((tmp_path / "both.csv").read_text(encoding="utf-8"))))
    assert {"item", "condition", "logp_good_first_run", "logp_good_second_run"} <= set(rows[0])
    alone = [instruments.pair_table(model, path) for model in (lm, other)]
    for name, table in zip(("first_run", "second_run"), alone, strict=True):
        assert [float(row[f"difference_{name}"]) for row in rows] == pytest.approx(table.differences_K.tolist())
    (difference,) = instruments.compare_pairs([lm, tmp_path / "second run"], path).differences
    assert difference.difference.value == pytest.approx(alone[0].accuracy - alone[1].accuracy)
    assert (difference.difference.examples, difference.unit) == (24, "items")
    assert "first-run is better than second run by" in result.stdout
    figures = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert [row["model"] for row in figures] == ["first-run", "second run"]
    with assert_refused(OptionError, "pairs"):
        CliRunner().invoke(app, words[:-1], catch_exceptions=False)


def test_the_difference_of_two_models_has_the_interval_of_scipy(lm: Any):
    other = thereafter.train(text=TEXT, tokens="word", order=1)
    pairs = [Pair(*both) for both in (KNOWN + BACKWARDS) * 10]
    compared = ComparedPairs(tuple(score_each(reader_of(model), pairs) for model in (lm, other)))
    (difference,) = compared.differences
    right = compared.scores[0].right_K - compared.scores[1].right_K
    drawn = stats.bootstrap((right,), np.mean, n_resamples=9999, method="percentile", rng=np.random.default_rng(0))
    ends = sorted(abs(end) for end in drawn.confidence_interval)
    assert (difference.difference.low, difference.difference.high) == pytest.approx(ends, abs=0.08)
    assert difference.unit == "pairs"
    assert ComparedPairs(tuple(score_each(reader_of(model), pairs[:9]) for model in (lm, other))).differences == ()


def test_bpe_knows_every_word():
    bpe = thereafter.train(text=TEXT, tokens="bpe", vocabulary=300, order=3)
    known = score_each(reader_of(bpe), [Pair(*both) for both in ALL])
    assert known.judged_K.all()
    assert not known.caution


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, pairs, group in (("one", KNOWN, "x"), ("two", BACKWARDS + IN_BOTH, "x"), ("three", UNKNOWN, "y")):
        rows = [{"sentence_good": good, "sentence_bad": bad, "field": group, "UID": name} for good, bad in pairs]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return tmp_path


def test_several_files_are_groups(lm: Any, folder: Path):
    every = score_pair_files(reader_of(lm), f"{folder}/*.jsonl")
    assert [pair.file for pair in every.pairs] == ["one.jsonl"] * 2 + ["three.jsonl"] * 2 + ["two.jsonl"] * 2
    assert [pair.line for pair in every.pairs] == [1, 2] * 3
    rows = {(row["by"], row["group"]): (row["total"], row["judged"], row["accuracy"]) for row in every.groups()}
    assert rows["", "all"] == (6, 4, 0.75)
    assert rows["file", "one.jsonl"] == rows["UID", "one"] == (2, 2, 1.0)
    assert rows["file", "two.jsonl"] == (2, 2, 0.5)
    assert rows["file", "three.jsonl"][:2] == (2, 0)
    assert math.isnan(float(str(rows["file", "three.jsonl"][2])))
    assert rows["field", "x"] == (4, 4, 0.75)
    assert every.about["text"] == "6 pairs of 3 files"
    named = [str(folder / "two.jsonl"), folder / "one.jsonl", f"{folder}/o*.jsonl"]
    assert [pair.file for pair in read_pair_files(named)] == ["two.jsonl"] * 2 + ["one.jsonl"] * 2
    assert read_pair_files(folder) == read_pair_files(f"{folder}/*.jsonl")
    with assert_refused(SourceError, "blimp/*.jsonl"):
        read_pair_files(f"{folder}/*.nothing")


def test_from_python_the_caution_is_a_warning(lm: Any, folder: Path):
    with pytest.warns(UserWarning, match="2 of 6 pairs"):
        measured = instruments.pairs(lm, f"{folder}/*.jsonl")
    table = instruments.pair_table(lm, f"{folder}/*.jsonl")
    np.testing.assert_array_equal(measured["accuracy"], table.measurement()["accuracy"])


def test_the_figure_shows_the_intervals(scores: PairScores):
    measured = scores.measurement()
    figure = accuracy_by_group([measured])
    (bars,) = figure.plot.data
    assert bars.error_x.array[0] == pytest.approx(measured["high"][0] - 0.75)
    assert bars.error_x.arrayminus[0] == pytest.approx(0.75 - measured["low"][0])
    assert "95 % intervals" in figure.caption
    assert (
        "differ in a word unknown to the model: 2 for ngram; whose tokens are the same: 1 for ngram." in figure.caption
    )
    assert figure.table["unknown"] == [2]
    names = ("group", "by", "accuracy", "nats", "total")
    arrays = {name: measured[name] for name in names}
    earlier = Measurement("pairs", arrays, dict.fromkeys(names, ("group",)), measured.about)
    assert accuracy_by_group([earlier]).table["same"] == [0]


def test_the_command(lm: Any, folder: Path, tmp_path: Path):
    lm.save(tmp_path / "run")

    def asked(*options: str) -> Any:
        ended = CliRunner().invoke(app, ["inspect", "pairs", str(tmp_path / "run"), f"{folder}/*.jsonl", *options])
        assert ended.exit_code == 0, ended.output
        return ended

    printed = asked("--out", str(tmp_path / "pairs.csv"))
    assert "likelier in 75.0% of the pairs" in printed.stdout
    assert "; 2 pairs are left out: they differ in an unknown word\n" in printed.stdout
    assert "caution: 2 of 6 pairs" in printed.stderr
    rows = list(csv.DictReader(io.StringIO((tmp_path / "pairs.csv").read_text(encoding="utf-8"))))
    assert len(rows) == 6
    judged = [float(row["right"]) for row in rows if row["right"]]
    assert sum(judged) / len(judged) == 0.75
    groups = list(csv.DictReader(io.StringIO(asked("--csv").stdout)))
    assert groups[0]["group"] == "all"
    assert float(groups[0]["accuracy"]) == 0.75
    stored = json.loads(asked("--json").stdout)
    assert [row["group"] for row in stored] == [row["group"] for row in groups]
    assert next(row for row in stored if row["group"] == "three")["accuracy"] is None
    asked("--out", str(tmp_path / "pairs.npz"))
    assert Measurement.load(tmp_path / "pairs.npz")["judged"][0] == 4
    refused = CliRunner().invoke(app, ["inspect", "pairs", "run", "pairs.tsv", "--out", "pairs.xls"])
    assert refused.exit_code != 0


def test_the_guide_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    guide = (Path(__file__).resolve().parents[2] / "docs" / "pairs.md").read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", guide, re.DOTALL):
        exec(compile(block, "docs/pairs.md", "exec"), {})  # noqa: S102, our own page
    assert len((tmp_path / "scored.csv").read_text(encoding="utf-8").splitlines()) == 12

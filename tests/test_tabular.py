"""Rows become CSV, JSON, HTML and data frames, and come back as they were."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import dataclass
from pathlib import Path

import pytest

import thereafter
from refusals import assert_refused
from thereafter.base.tabular import PlainTable, Row, Tabular, csv_text, facts_html, json_text, text_table, write_table
from thereafter.comparing.task_trials import TaskComparison, TaskTrial
from thereafter.errors import MissingPackageError, OptionError
from thereafter.tasks.fill import Filled
from thereafter.tasks.labelling import measure_classes
from thereafter.tasks.tag.measures import measure_tagging
from thereafter.tasks.translate.measures import LengthBin, Pairs, Translation

WORDS = 'a "quoted", word\nover two lines <b>'


@dataclass(frozen=True)
class Two(Tabular):
    def to_rows(self) -> list[Row]:
        return [{"word": WORDS, "bits": 1.5, "rank": None}, {"word": "é", "bits": math.inf, "rank": 3}]


def test_csv_comes_back(tmp_path: Path):
    rows = list(csv.DictReader(io.StringIO(Two().to_csv())))
    assert rows == [{"word": WORDS, "bits": "1.5", "rank": ""}, {"word": "é", "bits": "inf", "rank": "3"}]
    path = Two().to_csv(tmp_path / "two.csv")
    assert path == tmp_path / "two.csv"
    assert path.read_text(encoding="utf-8") == Two().to_csv()
    tabs = write_table(Two().to_rows(), tmp_path / "two.tsv")
    with tabs.open(encoding="utf-8", newline="") as file:
        assert list(csv.DictReader(file, delimiter="\t")) == rows
    stored = json.loads(write_table(Two().to_rows(), tmp_path / "two.json").read_text(encoding="utf-8"))
    assert stored == [{"word": WORDS, "bits": 1.5, "rank": None}, {"word": "é", "bits": None, "rank": 3}]
    with assert_refused(OptionError, "two.csv"):
        write_table(Two().to_rows(), tmp_path / "two.xlsx")


def test_lists_and_tables_in_a_cell_and_no_rows():
    assert csv_text([{"weights": (0.25, 0.75), "of": {"a": math.nan}}]) == 'weights,of\n0.25 0.75,"{""a"": null}"\n'
    assert csv_text([]) == ""
    assert json_text([]) == "[]"
    assert text_table([]) == "no rows"
    assert PlainTable(()).to_rows() == []


def test_a_notebook_shows_the_first_rows_and_escapes_all():
    shown = Two()._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    many = PlainTable(tuple({"n": n} for n in range(25)))
    assert many._repr_html_().count("<tr>") == 21
    assert "5 more rows" in many._repr_html_()
    assert "&lt;x&gt;" in facts_html({"source": "<x>"}, "<x>")


def test_a_data_frame_has_the_rows():
    pandas = pytest.importorskip("pandas")
    frame = Two().to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == ["word", "bits", "rank"]
    assert frame["bits"].tolist() == [1.5, math.inf]
    assert frame["word"].tolist() == [WORDS, "é"]


def test_without_pandas_the_install_line_is_said(monkeypatch: pytest.MonkeyPatch):
    def missing(name: str) -> object:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr("thereafter.base.packages.import_module", missing)
    with assert_refused(MissingPackageError, "pip install pandas"):
        Two().to_pandas()


def test_a_score_a_trace_and_what_was_generated():
    lm = thereafter.train(text="the cat sat on the mat\nthe cat ate\n" * 3, tokens="word", order=2)
    score = lm.score(text="the cat sat\n")
    (row,) = score.to_rows()
    assert row["perplexity"] == score.perplexity
    assert row["tokens"] == 4
    trace = lm.trace("the cat sat")
    rows = trace.to_rows()
    assert [row["token"] for row in rows] == ["the", "cat", "sat"]
    assert sum(float(str(row["bits"])) for row in rows) == pytest.approx(-trace["log_prob"].sum() / math.log(2))
    best, probability = lm.next("the", k=1)[0]
    assert (rows[1]["likeliest"], rows[1]["rank"]) == (best, 1 if best == "cat" else 2)
    assert rows[1]["likeliest_probability"] == pytest.approx(probability, rel=1e-5)
    (one,) = lm.generate("the", 4, seed=1, return_log_probs=True)
    assert [row["token"] for row in one.to_rows()] == one.tokens
    assert sum(float(str(row["bits"])) for row in one.to_rows()) == pytest.approx(-one.log_prob / math.log(2))
    assert one.text in one._repr_html_()
    assert "ngram" in lm._repr_html_()
    assert "order" in lm._repr_html_()
    described = {str(row["name"]): row for row in trace.describe().to_rows()}
    assert described["log_prob"]["axes"] == "step"
    assert all(row["meaning"] for row in described.values())
    assert len(trace.table_of("top_log_prob").to_rows()) == trace["top_log_prob"].size


def test_a_task_shows_its_facts():
    shown = thereafter.load(Path(__file__).parent / "old_runs" / "tag" / "finished")._repr_html_()
    assert "TaskModel tag" in shown
    assert "<td>hidden</td>" in shown


def columns(rows: list[Row]) -> set[tuple[str, ...]]:
    return {tuple(row) for row in rows}


def test_the_scores_of_tasks():
    classes = measure_classes(["pos", "neg", "pos"], ["pos", "pos", "pos"])
    rows = classes.to_rows()
    assert [(row["by"], row["name"]) for row in rows] == [("all", ""), ("class", "neg"), ("class", "pos")]
    assert rows[0]["f1"] == pytest.approx(classes.accuracy)
    tags = measure_tagging([["B-X", "O"]], [["B-X", "B-Y"]], [["a", "b"]], {"a": 1})
    assert {row["by"] for row in tags.to_rows()} == {"all", "words", "tag", "span"}
    assert len(columns(tags.to_rows())) == 1
    bins = (LengthBin(1, 5, 2, 30.0),)
    translation = Translation(40.0, 50.0, (1.0,) * 4, 1.0, 1.0, 2, "s", "s", bins)
    pairs = Pairs(0.5, 0.75, 2, translation)
    for measured in (translation, pairs):
        assert [row["words_of_source"] for row in measured.to_rows()] == ["all", "1-5"]
        assert len(columns(measured.to_rows())) == 1
    assert Pairs(0.5, 0.75, 2).to_rows()[0]["exact"] == 0.5
    assert Filled(10, 1, 20.0, 4, 6).to_rows()[0]["accuracy"] == 0.4


def test_a_comparison_of_networks():
    trials = (
        TaskTrial("small", 0, {"accuracy": 0.5}, 1.0, 10, 1.0),
        TaskTrial("small", 1, {"accuracy": 0.7}, 2.0, 10, 1.0),
        TaskTrial("large", 0, {"accuracy": 0.8, "f1": 0.9}, 0.5, 90, 1.0),
    )
    small, large = TaskComparison("tag", "x", "test", trials).to_rows()
    assert small["accuracy"] == pytest.approx(0.6)
    assert small["accuracy_half_range"] == pytest.approx(0.1)
    assert (small["f1"], large["f1"]) == (None, 0.9)
    assert list(small) == list(large)

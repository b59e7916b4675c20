"""Stimuli: items read from a fresh state, tables whose columns are kept, conditions with intervals."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from pathlib import Path

import numpy as np
import pandas
import pytest
from scipy import stats
from typer.testing import CliRunner, Result

import thereafter
from refusals import assert_refused
from thereafter import LanguageModel
from thereafter.cli import app
from thereafter.errors import OptionError, SourceError, ThereafterError, UnknownNameError
from thereafter.evaluation.conditions import WordCounts
from thereafter.inspection.surprisal import column_marks

BOOK = "The old man saw the boats.\nThe dog, old and tired, sat.\nThe man sat.\n" * 12
LINES = ["The old man the boats.", "The dog sat, tired.", "", "The boats sat.", "The old man the boats."]
NAMES = ["man", "dog", "boats", "old dog", "tired man", "old boats"]
CONDITIONS = ("plain", "comma")


@pytest.fixture(scope="module", params=["word", "prose", "bpe", "lstm", "quotes"])
def lm(request: pytest.FixtureRequest) -> LanguageModel:
    if request.param == "lstm":
        settings = {"hidden": 8, "layers": 1, "tokens_budget": 2000, "batch": 4, "steps": 8}
        return thereafter.train(text=BOOK, model="lstm", seed=0, **settings)
    if request.param == "quotes":  # plain quotes are read as those of its training text
        return thereafter.train(text=BOOK + "“The man’s dog’s,” said the dog’s man.\n" * 60, order=3)
    return thereafter.train(text=BOOK, tokens=request.param, order=3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, a table of 24 items in two conditions, and a text."""
    folder = tmp_path_factory.mktemp("stimuli")
    (folder / "book.txt").write_text(BOOK, encoding="utf-8")
    for run, tokens in (("n-gram 1", "prose"), ("n-gram.1", "char")):
        thereafter.train(folder / "book.txt", tokens=tokens, order=3, out=folder / run)
    rows = [
        [item, condition, f"{item}/{condition}", f"The {NAMES[item % 6]}{',' * (condition == 'comma')} sat{'.' * k}"]
        for k, condition in enumerate(CONDITIONS)
        for item in range(1, 25)
    ]
    with open(folder / "stimuli.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["item", "condition", "word", "sentence"], *rows])
    (folder / "lines.txt").write_text("\n".join(LINES), encoding="utf-8")
    return folder


def ask(*words: object) -> Result:
    result = CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def nats_alone(lm: LanguageModel, *lines: str) -> float:
    return lm.score(text="".join(f"{line}\n" for line in lines)).nats


# ---- what an item is read after


def test_an_item_costs_what_it_costs_alone(lm: LanguageModel) -> None:
    by_line = lm.surprisal(text="\n".join(LINES), by="line", context="item")
    assert by_line.bits() * math.log(2) == pytest.approx([nats_alone(lm, line) for line in LINES], rel=1e-6)
    assert by_line.bits()[0] == by_line.bits()[4]
    assert lm.surprisal(text="\n".join(LINES)).bits().sum() != pytest.approx(by_line.bits().sum(), rel=1e-3) or (
        lm.config["text"]["context"] == "line"
    )
    assert lm.score(text="\n".join(LINES), context="item").nats == pytest.approx(
        by_line.bits().sum() * math.log(2), rel=1e-9
    )


def test_an_item_after_others_costs_what_they_add(lm: LanguageModel) -> None:
    costs = lm.surprisal(text="\n".join(LINES), by="line", context=2).bits() * math.log(2)
    for place, cost in enumerate(costs[1:].tolist(), start=1):
        before = LINES[max(0, place - 2) : place]
        assert cost == pytest.approx(
            nats_alone(lm, *before, LINES[place]) - nats_alone(lm, *before), rel=1e-4, abs=1e-4
        )
    whole = lm.surprisal(text="\n".join(LINES) + "\n", by="line", context="document").bits().sum()
    assert whole * math.log(2) == pytest.approx(nats_alone(lm, *LINES), rel=1e-6)


def test_predictions_of_an_item_are_those_of_the_item_alone(lm: LanguageModel) -> None:
    rows = lm.surprisal(text="\n".join(LINES), context="item", detail=True, top=1).to_rows()
    last = [row for row in rows if row["line"] == 5]
    alone = lm.surprisal(text=f"{LINES[4]}\n", detail=True, top=1).to_rows()
    for name in ("word", "rank", "context", "top_1"):
        assert [row[name] for row in last] == [row[name] for row in alone]
    assert [row["entropy"] for row in last] == pytest.approx([row["entropy"] for row in alone], rel=1e-5)
    assert [row["position"] for row in last] == list(range(1, len(last) + 1))


def test_a_context_that_is_none_is_refused(lm: LanguageModel) -> None:
    for wrong in ("items", "-1", True):
        with assert_refused(OptionError, "item"):
            lm.surprisal(text="The man sat.", context=wrong)


def test_the_same_sentence_costs_the_same_on_every_line_from_the_shell(folder: Path) -> None:
    run, lines = folder / "n-gram 1", folder / "lines.txt"
    for words, context in (("--items", "item"), ("--context item", "item"), ("", "document"), ("--context 1", "1")):
        result = ask("surprisal", run, lines, "--by", "line", "--json", *words.split())
        rows = json.loads(result.stdout)
        assert (rows[0]["bits"] == rows[4]["bits"]) == (context == "item")
        assert f"context {context}: " in result.stderr
    assert "context document" in ask("surprisal", run, lines).stdout
    assert "context item: each line" in ask("surprisal", run, lines, "--items").stdout
    by_item = ask("score", run, lines, "--by", "item", "--json")
    assert [row["bits"] for row in json.loads(by_item.stdout)] == [
        row["bits"] for row in json.loads(ask("surprisal", run, lines, "--by", "line", "--items", "--json").stdout)
    ]
    alone = [thereafter.load(run).score(text=f"{line}\n") for line in LINES]
    assert [row["bits_per_byte"] for row in json.loads(by_item.stdout)] == pytest.approx(
        [score.bits_per_byte for score in alone]
    )
    assert [row["perplexity"] for row in json.loads(by_item.stdout)] == pytest.approx(
        [score.perplexity for score in alone], rel=1e-5
    )
    with assert_refused(OptionError, "--items", "--context document"):
        ask("surprisal", run, lines, "--items", "--context", "document")


def test_candidates_of_rank_are_items_and_say_so(folder: Path) -> None:
    run = folder / "n-gram 1"
    plain = ask("rank", run, "The man sat.", "The dog sat.", "--json")
    assert plain.stdout == ask("rank", run, "The man sat.", "The dog sat.", "--context", "item", "--json").stdout
    assert "context item: each text is read from a fresh state" in plain.stderr
    assert "after 'The old man'" in ask("rank", run, " sat.", " saw.", "--context", "The old man").stderr
    with assert_refused(OptionError, "alternatives"):
        ask("rank", run, "The man sat.", "The dog sat.", "--context", "2")
    ranked = json.loads(ask("rank", run, f"{folder}/stimuli.csv:sentence", "--lines", "--json").stdout)
    assert len(ranked) == 48
    assert ranked[0]["log_prob"] == pytest.approx(-nats_alone(_loaded(run), ranked[0]["text"]), rel=1e-6)


def _loaded(run: Path) -> LanguageModel:
    lm = thereafter.load(run)
    assert isinstance(lm, LanguageModel)
    return lm


# ---- columns


def test_a_column_of_a_table_is_items_and_all_columns_are_kept(folder: Path) -> None:
    result = ask("surprisal", folder / "n-gram 1", f"{folder}/stimuli.csv:sentence", "--csv")
    assert "context item: each row" in result.stderr
    frame = pandas.read_csv(io.StringIO(result.stdout), keep_default_na=False)
    table = pandas.read_csv(folder / "stimuli.csv")
    for (line, rows), (_, row) in zip(frame.groupby("line"), table.iterrows(), strict=True):
        assert (rows[["item", "condition", "sentence"]] == row[["item", "condition", "sentence"]]).all(axis=None), line
        assert (rows["word_table"] == row["word"]).all()  # the user's own column called word
        assert " ".join(rows["word"][:-1]) == row["sentence"]
        assert rows["position"].tolist() == list(range(1, len(rows) + 1))
    document = ask("surprisal", folder / "n-gram 1", f"{folder}/stimuli.csv:4", "--csv", "--context", "document")
    assert "state is carried from row to row" in document.stderr
    score = _loaded(folder / "n-gram 1").score(f"{folder}/stimuli.csv:sentence")
    assert score.context == "item"
    assert frame["bits"].astype(float).sum() * math.log(2) == pytest.approx(score.nats, rel=1e-9)


def test_records_of_json_are_items_too(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "stimuli.jsonl"
    path.write_text("".join(json.dumps({"id": k, "text": line}) + "\n" for k, line in enumerate(LINES, start=1)))
    lm = _loaded(folder / "n-gram 1")
    rows = lm.surprisal(f"{path}:text", by="line").to_rows()
    assert [row["bits"] for row in rows] == lm.surprisal(
        text="\n".join(LINES), by="line", context="item"
    ).bits().tolist()
    assert [row["id"] for row in rows] == [1, 2, 3, 4, 5]


def test_a_row_a_word_with_what_a_mixed_model_asks_for(folder: Path) -> None:
    lm = _loaded(folder / "n-gram 1")
    rows = [row for row in lm.surprisal(f"{folder}/stimuli.csv:sentence").to_rows() if not row["line_end"]]
    words = re.findall(r"[\w]+", BOOK.casefold())
    for row in rows:
        bare = str(row["word"]).strip(".,")
        frequency = (words.count(bare.casefold()) + 1) / (len(words) + len(set(words)))
        assert (row["bare_word"], row["length"]) == (bare, len(bare))
        assert row["log_frequency"] == pytest.approx(math.log2(frequency))
        assert isinstance(row["entropy"], float)
    tokens = lm.surprisal(f"{folder}/stimuli.csv:sentence", by="token").to_rows()
    commas = {row["line"]: row["bits"] for row in tokens if row["token"] == ","}
    with_comma = [row for row in rows if str(row["word"]).endswith(",")]
    assert len(with_comma) == len(commas) == 24
    for row in with_comma:
        assert row["bare_bits"] == pytest.approx(row["bits"] - commas[row["line"]])  # type: ignore[operator]
    assert all(row["bare_bits"] == row["bits"] for row in rows if str(row["word"]).isalpha())


def test_frequencies_are_those_of_the_training_text_alone(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text(BOOK, encoding="utf-8")
    lm = thereafter.train(tmp_path / "book.txt", order=2, out=tmp_path / "run")
    assert lm.surprisal(text="The man.", context="item").to_rows()[0]["log_frequency"] is not None
    (tmp_path / "book.txt").write_text("Another text.\n", encoding="utf-8")
    table = _loaded(tmp_path / "run").surprisal(text="The man.", context="item")
    assert table.to_rows()[0]["log_frequency"] is None
    assert any("no log_frequency" in note for note in table.readings[0].notes)
    assert WordCounts.of_text(["a b", " a\n“A”"]).counts == {"a": 3, "b": 1}


def test_names_of_columns_survive_r_and_pandas(folder: Path) -> None:
    result = ask("surprisal", folder / "n-gram 1", folder / "n-gram.1", f"{folder}/stimuli.csv:sentence", "--csv")
    names = next(csv.reader(io.StringIO(result.stdout)))
    assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) for name in names)
    assert {"bits_n_gram_1", "bits_n_gram_1_2", "log_frequency_n_gram_1"} <= set(names)
    assert len(set(names)) == len(names)
    marks = column_marks(["a-b", "a.b", "a_b_2", "a b"])
    assert len(set(marks)) == 4


# ---- conditions


def test_conditions_have_the_means_and_intervals_of_pandas_and_scipy(folder: Path) -> None:
    source = f"{folder}/stimuli.csv:sentence"
    lm = _loaded(folder / "n-gram 1")
    rows = lm.surprisal(source, by="line").conditions("condition").to_rows()
    frame = pandas.read_csv(folder / "stimuli.csv")
    frame["bits"] = [lm.score(text=f"{line}\n").nats / math.log(2) for line in frame["sentence"]]
    wide = frame.pivot_table(index="item", columns="condition", values="bits")
    expected = {("plain", ""): wide["plain"], ("comma", ""): wide["comma"]}
    expected |= {("plain", "comma"): wide["plain"] - wide["comma"]}
    assert [(row["condition"], row["minus"]) for row in rows] == list(expected)
    for row, values in zip(rows, expected.values(), strict=True):
        assert row["bits"] == pytest.approx(values.mean(), rel=1e-6)
        assert row["items"] == 24
        drawn = stats.bootstrap((values,), np.mean, n_resamples=9999, method="percentile", rng=np.random.default_rng(0))
        low, high = drawn.confidence_interval
        assert (row["bits_low"], row["bits_high"]) == pytest.approx((low, high), abs=0.15 * (high - low))
    printed = ask("surprisal", folder / "n-gram 1", source, "--by", "condition").stdout
    assert re.search(r"plain +comma +24 +48 ", printed)
    with assert_refused(UnknownNameError, "condition"):
        ask("surprisal", folder / "n-gram 1", source, "--by", "conditions")
    with assert_refused(OptionError, "columns"):
        ask("surprisal", folder / "n-gram 1", folder / "lines.txt", "--by", "condition")


def test_few_items_have_no_interval_and_rows_without_items_no_difference(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "few.csv"
    path.write_text("pair,kind,text\n1,a,The man sat.\n1,b,The dog sat.\n2,a,The man.\n3,b,The dog.\n")
    run = folder / "n-gram 1"
    printed = ask("surprisal", run, f"{path}:text", "--by", "kind").stdout
    assert "no 95 % intervals where there are fewer than 20 items" in printed
    assert "try --item" in printed
    rows = json.loads(ask("surprisal", run, f"{path}:text", "--by", "kind", "--item", "pair", "--json").stdout)
    lm = _loaded(run)
    difference = nats_alone(lm, "The man sat.") - nats_alone(lm, "The dog sat.")  # item 1 alone has both
    assert rows[2]["bits"] == pytest.approx(difference / math.log(2), rel=1e-5)
    assert (rows[2]["items"], rows[2]["rows"], rows[2]["bits_low"]) == (1, 2, None)


# ---- a table is no prose


@pytest.mark.parametrize("command", ["score RUN", "surprisal RUN", "train", "compare", "rank RUN", "inspect pairs RUN"])
def test_a_table_without_a_column_is_refused_with_its_columns(folder: Path, command: str) -> None:
    words = [str(folder / "n-gram 1") if word == "RUN" else word for word in command.split()]
    with assert_refused(ThereafterError, "item", "condition", "word", "sentence") as caught:
        ask(*words, folder / "stimuli.csv")
    assert "stimuli.csv:sentence" in str(caught.value) or command.startswith("inspect")


def test_the_column_that_is_suggested_can_be_read(folder: Path, tmp_path: Path) -> None:
    lm = _loaded(folder / "n-gram 1")
    tables = {
        "plain.csv": "1,The man sat.\n2,The dog sat.\n",
        "single.tsv": "The man sat.\nThe dog sat.\n",
        "named.csv": "cond,my stimulus\na,The man sat.\nb,The dog sat.\n",
        "records.jsonl": '{"id": 1, "stimulus": "The man sat."}\n{"id": 2, "stimulus": "The dog sat."}\n',
    }
    for name, content in tables.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
        with assert_refused(SourceError, "table") as caught:
            lm.score(tmp_path / name)
        suggested = str(caught.value).rpartition("try ")[2].strip("'")
        assert lm.score(suggested).lines == (3 if name == "named.csv" else 2), suggested

"""Budgets of comparisons: counted in text, equal for all; where they are minutes the table says what they bought."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from refusals import assert_refused
from thereafter.base import progress
from thereafter.cli import app
from thereafter.comparing import budget
from thereafter.comparing.compare import compare
from thereafter.comparing.tables import SEEN, amount
from thereafter.errors import OptionError
from thereafter.text.sources import Source, Texts

TEXT = "".join(f"the {'cat' if k % 3 else 'dog'} sat on the {'mat' if k % 2 else 'log'} .\n" for k in range(100))
SMALL: dict[str, Any] = {"hidden": 8, "batch": 4, "steps": 8, "embed": 8}
runner = CliRunner()


class Notes(progress.Silent):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, message: str) -> None:
        self.lines.append(message)


# ---- seeds


@pytest.mark.parametrize("spelled", ["seed", "training.seed"])
def test_a_seed_is_the_seed_that_is_used(spelled: str):
    given = compare(text=TEXT, models="rnn", epochs=1, **SMALL, **{spelled: 7})
    same, other = (compare(text=TEXT, models="rnn", epochs=1, seeds=[seed], **SMALL) for seed in (7, 0))
    assert [trial.seed for trial in given.rows[0].trials] == given.about["seeds"] == [7]
    assert given.rows[0].bits_per_byte == same.rows[0].bits_per_byte != other.rows[0].bits_per_byte


def test_a_seed_on_the_command_line(tmp_path: Path):
    (tmp_path / "text.txt").write_text(TEXT)
    sizes = [word for name, value in SMALL.items() for word in ("--set", f"{name}={value}")]
    for number, how in enumerate((["--seed", "7"], ["--set", "seed=7"])):
        words = ["compare", str(tmp_path / "text.txt"), "--models", "rnn", "--epochs", "1", *how, *sizes, "--json"]
        done = runner.invoke(app, [*words, "--out", str(tmp_path / f"out-{number}")], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["seeds"] == [7]


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"seed": 1, "seeds": 3}, ("seed=1", "seeds=3", "seeds=[1]")),
        ({"seed": -1}, ("seed", -1, 0)),
        ({"seed": "one"}, ("seed", "'one'")),
        ({"rnn.seed": 1}, ("rnn.seed", "seed=1")),
        ({"rnn.minutes": 1}, ("rnn.minutes", "minutes=1")),
        ({"rnn.epochs": 9, "epochs": 3}, ("rnn.epochs",)),
    ],
)
def test_what_would_make_models_unequal_is_refused(options: dict[str, Any], facts: tuple[object, ...]):
    with assert_refused(OptionError, *facts):
        compare(text=TEXT, models="rnn,unigram", **options)


# ---- the default


def texts_of(characters: int) -> Texts:
    return Texts("book", {"text": Source.of_text("x" * characters)})


def test_the_default_budget_follows_from_the_size_of_the_text_and_from_the_finest_tokens():
    assert budget.default_budget(texts_of(100), ["prose"]) == {"epochs": budget.EPOCHS}
    letters = budget.TOKENS  # of training text, when nine tenths of the text are
    assert budget.default_budget(texts_of(round(letters / 0.9)), ["char"]) == {"epochs": 1.0}
    assert budget.default_budget(texts_of(round(letters / 0.9)), ["prose"]) == {"epochs": 5.0}
    assert budget.default_budget(texts_of(round(letters / 0.9)), ["prose", "char"]) == {"epochs": 1.0}
    parts = {name: Source.of_text("x" * size) for name, size in (("train", 4 * letters), ("valid", 9), ("test", 9))}
    assert budget.default_budget(Texts("corpus", parts), ["byte"]) == {"epochs": 0.25}


def test_without_a_budget_all_read_the_text_equally_often_and_it_is_said():
    reporter = Notes()
    with progress.reporting(reporter):
        comparison = compare(text=TEXT, models="unigram,rnn,lstm:char", **SMALL | {"batch": 16, "steps": 32})
    assert comparison.about["budget"] == {"epochs": budget.EPOCHS}
    for row in comparison.rows[1:]:
        assert row.first.training["epochs"] == budget.EPOCHS
        assert row.first.training["minutes"] is row.first.training["tokens_budget"] is None
    note = next(line for line in reporter.lines if "each neural model" in line)
    assert note in comparison.notes
    assert "trained for 30 epochs, chosen by the size of the text" in note


def test_counted_models_need_no_word_about_a_budget():
    assert not any("neural" in note for note in compare(text=TEXT, models="unigram").notes)


# ---- minutes


def test_with_minutes_the_tokens_each_model_saw_are_shown(tmp_path: Path):
    comparison = compare(text=TEXT, models="unigram,rnn,lstm", minutes=0.002, out=tmp_path, **SMALL)
    head, _, *lines = comparison.table().splitlines()
    assert head.endswith(SEEN)
    for row, line in zip(comparison.rows, lines, strict=False):
        assert line.split()[-1] == amount(row.first.seen)
    assert "in its minutes" in comparison.table()
    page = (tmp_path / "report.html").read_text()
    assert f"<th>{SEEN}</th>" in page
    for row in comparison.rows:
        assert re.search(rf">{row.name}</td>.*<td>{re.escape(amount(row.first.seen))}</td></tr>", page)
    stored = json.loads((tmp_path / "compare.json").read_text())
    assert [row["seen"] for row in stored["rows"]] == [row.first.seen for row in comparison.rows]


def test_with_epochs_all_saw_the_same_and_no_column_says_so():
    comparison = compare(text=TEXT, models="rnn,lstm", epochs=2, **SMALL)
    assert len({row.seen for row in comparison.rows}) == 1
    assert SEEN not in comparison.table()

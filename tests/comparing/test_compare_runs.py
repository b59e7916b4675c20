"""`thereafter compare RUN RUN --on TEXT`: models that exist on one text, in bits per byte, line by line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner, Result

import thereafter
from refusals import assert_refused
from thereafter import LanguageModel
from thereafter.cli import app
from thereafter.comparing.differences import ComparedRuns
from thereafter.errors import OptionError

BOOK = "".join(f"the {'cat' if k % 3 else 'dog'} sat on the {'mat' if k % 2 else 'log'} .\n" for k in range(90))
TEXT = "".join(
    f"the {'cat' if k % 4 else 'zebra'} sat on {k * 7 % 10} {'mat' if k % 2 else 'old'} logs .\n" for k in range(60)
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name, tokens, order in (("words", "word", 3), ("prose", "prose", 4), ("chars", "char", 3)):
        thereafter.train(text=BOOK, tokens=tokens, order=order).save(folder / name)
    lstm = {"hidden": 8, "layers": 1, "tokens_budget": 2000, "batch": 4, "steps": 8}
    thereafter.train(text=BOOK, model="lstm", seed=0, out=folder / "lstm", **lstm)
    (folder / "other.txt").write_text(TEXT, encoding="utf-8")
    return folder


def ask(*words: object) -> Result:
    result = CliRunner().invoke(app, ["compare", *map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def load(run: Path) -> LanguageModel:
    lm = thereafter.load(run)
    assert isinstance(lm, LanguageModel)
    return lm


@pytest.mark.parametrize("context", [None, "item"])
def test_the_figures_are_those_of_score(folder: Path, context: str | None) -> None:
    names = ["words", "prose", "chars", "lstm"]
    runs = [folder / name for name in names]
    compared = thereafter.compare(runs, on=folder / "other.txt", names=names, context=context)
    assert isinstance(compared, ComparedRuns)
    for name, row in zip(names, compared.to_rows(), strict=True):
        score = load(folder / name).score(folder / "other.txt", context=context)
        assert row["bits_per_byte"] == pytest.approx(score.bits_per_byte, rel=1e-6)
        assert row["perplexity"] == pytest.approx(score.perplexity, rel=1e-5)
        assert (row["tokens"], row["unknown"], row["bytes"]) == (score.tokens, score.unknown, score.bytes)
    assert compared.context.startswith(f"context {context or 'document'}: ")
    best = min(compared.to_rows(), key=lambda row: float(str(row["bits_per_byte"])))
    assert {one.better for one in compared.differences} == {best["model"]}
    assert {one.difference.block for one in compared.differences} == {1 if context else 4}


def test_the_interval_is_that_of_a_bootstrap_over_lines(folder: Path) -> None:
    models = [load(folder / name) for name in ("prose", "words")]
    compared = thereafter.compare(models, on=folder / "other.txt", names=["prose", "words"], context="item")
    bits = [[lm.score(text=f"{line}\n").bits_per_byte * (len(line) + 1) for line in TEXT.splitlines()] for lm in models]
    sizes = np.array([len(line) + 1 for line in TEXT.splitlines()], dtype=float)

    def figure(one: np.ndarray, other: np.ndarray, size: np.ndarray, axis: int = -1) -> np.ndarray:
        return np.abs(one.sum(axis) - other.sum(axis)) / size.sum(axis)  # type: ignore[no-any-return]

    drawn = stats.bootstrap(
        (*map(np.array, bits), sizes), figure, paired=True, vectorized=True, n_resamples=9999, method="percentile",
        rng=np.random.default_rng(0),
    )  # fmt: skip
    low, high = drawn.confidence_interval
    (difference,) = compared.differences
    assert difference.difference.value == pytest.approx(float(figure(*map(np.array, bits), sizes)), rel=1e-5)
    ends = (difference.difference.low, difference.difference.high)
    assert ends == pytest.approx((low, high), abs=0.15 * (high - low))


def test_from_the_shell(folder: Path) -> None:
    words = [folder / "words", folder / "lstm", "--on", folder / "other.txt"]
    printed = ask(*words).stdout
    assert "bits per byte (95 % interval" in printed
    assert "context document: the state is carried from line to line" in printed
    rows = json.loads(ask(*words, "--items", "--json").stdout)
    assert [row["model"] for row in rows] == ["words", "lstm"]
    (worse,) = [row for row in rows if row["worse_by"] is not None]
    assert worse["worse_by_low"] < worse["worse_by"] < worse["worse_by_high"]
    few = folder / "few.txt"
    few.write_text("the cat sat .\n" * 5, encoding="utf-8")
    assert "no intervals of differences: they take at least 20 lines" in ask(*words[:3], few).stdout


def test_what_makes_no_comparison_is_refused(folder: Path) -> None:
    runs = [folder / "words", folder / "prose"]
    for words, facts in (
        (runs, ("--on", "thereafter compare RUN RUN --on TEXT")),
        (runs[:1], ("--on",)),
        ([*runs[:1], "--on", folder / "other.txt"], (1,)),
        ([*runs, "--on", folder / "other.txt", "--epochs", 3], ("--epochs", "--on")),
        ([folder / "other.txt", "--items"], ("--on",)),
    ):
        with assert_refused(OptionError, *facts):
            ask(*words)
    with assert_refused(OptionError, "on="):
        thereafter.compare([load(folder / "words")])
    with assert_refused(OptionError, "on="):
        thereafter.compare("words", on="other.txt")


def test_models_that_read_a_text_in_other_forms_are_measured_on_the_same_bytes(folder: Path) -> None:
    quoted = thereafter.train(text="“The cat’s mat,” said the cat’s dog.\n" * 60, order=3)
    text = folder / "quotes.txt"
    text.write_text('"The dog\'s mat," said the cat.\n' * 30, encoding="utf-8")
    compared = thereafter.compare([quoted, folder / "words"], on=text, names=["quoted", "words"])
    assert [row["bytes"] for row in compared.to_rows()] == [text.stat().st_size] * 2
    assert len(compared.differences) == 1

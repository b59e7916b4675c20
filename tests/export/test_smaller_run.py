"""Run folders with weights in fewer bytes, by the command and by Python: what they cost is measured and printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import thereafter
from refusals import assert_refused
from thereafter.cli import app
from thereafter.errors import ExportError, OptionError, StorageError
from thereafter.language_model import load_language_model
from thereafter.task_model import load_task

TEXT = "the cat sat on the mat. a dog ran after the cat!\nand then it rained, for days and days.\n" * 30


@pytest.fixture(scope="module")
def lstm() -> thereafter.LanguageModel:
    return thereafter.train(text=TEXT, model="lstm", tokens="char", hidden=32, layers=1, epochs=1, seed=1)


@pytest.mark.parametrize(
    ("dtype", "smaller"), [pytest.param("float32", 1.0, marks=pytest.mark.wide), ("float16", 0.6), ("int8", 0.45)]
)
def test_the_command_writes_a_smaller_run_and_prints_what_it_costs(
    dtype: str, smaller: float, lstm: thereafter.LanguageModel, tmp_path: Path
) -> None:
    run = lstm.save(tmp_path / "run")
    (tmp_path / "other.txt").write_text("a cat ran.\n" * 120)
    out = tmp_path / "small"
    given = ["export", str(run), "--to", "run", "--out", str(out), "--dtype", dtype, "--check-steps", "1320"]
    result = CliRunner().invoke(app, [*given, "--check", str(tmp_path / "other.txt")])
    assert result.exit_code == 0, result.output
    assert "checked by our reader of run folders: 1,320 steps of" in result.output
    sizes = [(folder / "weights.safetensors").stat().st_size for folder in (out, run)]
    assert sizes[0] <= smaller * sizes[1]
    assert f"weights: {sizes[0]:,} bytes as {dtype}" in result.output
    again = load_language_model(out).score(tmp_path / "other.txt").bits_per_byte
    before = lstm.score(tmp_path / "other.txt").bits_per_byte
    assert again == pytest.approx(before, rel=0.01)
    printed = re.search(rf"bits per byte: ([\d.]+), in {dtype} ([\d.]+) \(", result.output)
    assert (printed is None) == (dtype == "float32")
    if printed is not None:
        assert float(printed[1]) == pytest.approx(before, rel=0.02)
        assert float(printed[2]) == pytest.approx(again, rel=0.02)


def test_a_run_that_costs_too_much_is_not_left(
    lstm: thereafter.LanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("thereafter.export.check.MORE_BITS", -1.0)
    with assert_refused(ExportError, "int8", "--dtype float32"):
        lstm.export(tmp_path / "small", "run", dtype="int8")
    assert not list(tmp_path.iterdir())


def test_wishes_that_do_not_go_together_are_one_sentence_each(lstm: thereafter.LanguageModel, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("x")
    with assert_refused(OptionError, "--int8"):
        lstm.export(tmp_path / "m.onnx", "onnx", dtype="int8")
    with assert_refused(OptionError, "--dtype int8"):
        lstm.export(tmp_path / "m", "run", int8=True)
    with assert_refused(OptionError, "float32"):
        lstm.export(tmp_path / "m", "run", dtype="int4")
    with assert_refused(StorageError, "files"):
        lstm.export(tmp_path / "full", "run", dtype="int8")
    counted = thereafter.train(text=TEXT, model="ngram", order=2)
    with assert_refused(OptionError, "weights"):
        counted.export(tmp_path / "n", "run", dtype="float16")
    with assert_refused(OptionError, "mixture"):
        thereafter.mixture([counted, counted]).export(tmp_path / "n", "run")
    assert [path.name for path in tmp_path.iterdir()] == ["full"]
    assert counted.export(tmp_path / "n", "run").checked.largest == 0.0


def test_a_task_is_scored_before_and_after(tmp_path: Path) -> None:
    source = tmp_path / "texts.tsv"
    source.write_text("".join(f"{word} day it was\t{word}\n" for word in ("good", "bad") * 20))
    small: Any = {"embed": 32, "hidden": 16, "epochs": 2}
    thereafter.train(source, task="classify", out=tmp_path / "run", **small)
    out = tmp_path / "small"
    given = ["export", str(tmp_path / "run"), "--to", "run", "--out", str(out), "--dtype", "int8"]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 0, result.output
    assert re.search(r"run folders: \d+ examples of .*, largest difference in figures", result.output)
    assert "score: " in result.output
    assert "score in int8: " in result.output
    assert load_task(out).predict("good day it was") in ("good", "bad")
    source.unlink()
    gone = CliRunner().invoke(app, [*given[:5], str(tmp_path / "again"), *given[6:]])
    assert gone.exit_code == 0, gone.output
    assert "score: not measured: " in gone.output

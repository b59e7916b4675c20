"""A language model of a folder with train, valid and test files: the test file is tested on, never trained on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import thereafter
from stops import stopping_at
from thereafter.cli import main
from thereafter.errors import OptionError
from thereafter.export.recalling import training_text
from thereafter.training.recipes import read_recipe

WORDS = {"train": ("the cat sat", "a dog ran"), "valid": ("the dog sat", "a cat ran"), "test": ("zebra quagga okapi",)}
SMALL: dict[str, Any] = {"model": "lstm", "tokens": "word", "hidden": 8, "epochs": 1, "batch": 8, "steps": 8}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    own = tmp_path / "own"
    own.mkdir()
    for part, lines in WORDS.items():
        (own / f"{part}.txt").write_text("".join(f"{line}\n" for line in lines * 40))
    return own


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr(sys, "argv", ["thereafter", *map(str, words)])
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


def test_an_ngram_does_not_learn_the_words_of_the_test_file(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    assert run(monkeypatch, "train", folder, "--tokens", "word", "--order", 2, "--out", tmp_path / "run") == 0
    printed = capfd.readouterr()
    note = "train.txt is the training part, valid.txt the validation part, test.txt the test part"
    assert note in printed.out + printed.err
    lm = thereafter.load(tmp_path / "run")
    assert "zebra" not in lm.tokenizer.vocabulary.forms
    scores = {line.split()[0]: line for line in printed.out.splitlines()}
    assert f"test       {lm.score(folder / 'test.txt')}".partition(": ")[2] == scores["test"].partition(": ")[2]
    assert lm.score(folder / "valid.txt").nats == lm.score(folder, part="valid").nats
    assert lm.score(folder).nats == lm.score(folder / "test.txt").nats
    assert lm.score(folder, parts=False).lines == 80 + 80 + 40
    assert training_text(thereafter.load(tmp_path / "run").trained).text() == (folder / "train.txt").read_text()


def test_a_neural_model_is_validated_and_tested_on_its_own_files(folder: Path):
    lm = thereafter.train(folder, **SMALL)
    plain = thereafter.train(folder / "train.txt", valid=folder / "valid.txt", **SMALL)
    assert [line["loss"] for line in lm.log if "loss" in line] == [line["loss"] for line in plain.log if "loss" in line]
    assert lm.config["source"]["valid_sha256"] == plain.config["source"]["valid_sha256"]
    assert set(lm.texts.parts) == {"train", "valid", "test"}


def test_without_a_validation_file_some_of_the_training_file_is_held_out(folder: Path):
    (folder / "valid.txt").unlink()
    lm = thereafter.train(folder, **SMALL)
    held_out = lm.texts.parts["valid"].text()
    assert (folder / "train.txt").read_text().endswith(held_out)
    assert lm.texts.parts["test"].text() == (folder / "test.txt").read_text()


def test_parts_no_reads_all_files_as_one_text_and_a_recipe_says_so(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    command = ("--tokens", "word", "--order", 2, "--out")
    assert run(monkeypatch, "train", folder, "--parts", "no", *command, tmp_path / "run") == 0
    lm = thereafter.load(tmp_path / "run")
    assert "zebra" in lm.tokenizer.vocabulary.forms
    assert lm.config["source"]["parts"] is False
    assert training_text(lm.trained).text().count("\n") == 200
    recipe = tmp_path / "run" / "config.toml"
    assert run(monkeypatch, "train", "--recipe", recipe, "--out", tmp_path / "again") == 0
    assert thereafter.load(tmp_path / "again").config == lm.config
    assert run(monkeypatch, "train", folder, "--parts", "perhaps", *command, tmp_path / "other") == 2
    with pytest.raises(OptionError, match="named corpus"):
        thereafter.train("python-docs", parts=False)


def test_a_recipe_of_a_run_with_parts_has_the_same_parts(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    lm = thereafter.train(folder, out=tmp_path / "run", **SMALL)
    (folder / "test2.txt").write_text("more\n")  # a file that came later is none of its own
    recipe = tmp_path / "run" / "config.toml"
    assert read_recipe(recipe).source is not None
    assert run(monkeypatch, "train", "--recipe", recipe, "--out", tmp_path / "again") == 0
    again = thereafter.load(tmp_path / "again")
    assert again.config["source"] == thereafter.load(tmp_path / "run").config["source"]
    assert again.log[-1]["best_step"] == lm.log[-1]["best_step"]


def test_a_resumed_run_has_the_same_parts(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    options = {**SMALL, "epochs": 3, "checkpoint_every": 2, "checkpoint_seconds": 0}
    whole = thereafter.train("own", out="whole", **options)
    nats = whole.score(whole.texts, part="test").nats
    with stopping_at(7), pytest.raises(KeyboardInterrupt):
        thereafter.train("own", out="run", **options)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    resumed = thereafter.resume(tmp_path / "run")
    assert resumed.score(resumed.texts, part="test").nats == nats


def test_a_split_of_a_folder_that_has_a_validation_file_is_refused(folder: Path):
    with pytest.raises(OptionError, match="valid part of its own"):
        thereafter.train(folder, split="90/10", **SMALL)
    assert thereafter.train(folder, split="90/10", parts=False, **SMALL).config["source"]["split"] == "90/10"


def test_a_comparison_tests_all_models_on_the_test_file(folder: Path):
    options: dict[str, Any] = {"models": ["unigram", "ngram-2"], "tokens": "word"}
    parted = thereafter.compare(folder, **options)
    size = (folder / "test.txt").stat().st_size
    assert {trial.score["bytes"] for row in parted.rows for trial in row.trials} == {size}
    assert any("test.txt the test part" in note for note in parted.notes)
    whole = thereafter.compare(folder, parts=False, **options)
    assert any("90 / 5 / 5" in note for note in whole.notes)
    assert "'parts': False" in whole.about["command"]

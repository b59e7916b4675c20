"""What the shell says of tasks over pictures: their settings, their training pictures, a stop before the first step."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thereafter
from refusals import assert_refused
from thereafter.cli import main
from thereafter.cli.train_report import described_settings
from thereafter.errors import OptionError
from thereafter.task_model import TaskModel
from thereafter.tasks import TASKS, finding
from thereafter.tasks.answering import training_caveat
from thereafter.tasks.fitting import idle_options, settle
from thereafter.training.settings import TrainingSettings

SMALL: dict[str, Any] = {"hidden": 4, "epochs": 1, "batch": 8, "seed": 1}


def labelled(path: Path, seed: int = 0, count: int = 24) -> Path:
    """Pictures that are dark or bright."""
    pixels = np.random.default_rng(seed).integers(0, 100, (count, 5, 4), dtype=np.uint8)
    pixels[::2] += 150
    np.savez(path, pixels=pixels, labels=["bright", "dark"] * (count // 2))
    return path


def thereafter_says(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: object) -> str:
    """What a command prints, notes and errors with it."""
    monkeypatch.setattr(sys, "argv", ["thereafter", *map(str, words)])
    with suppress(SystemExit):
        main()
    printed = capsys.readouterr()
    return printed.out + printed.err


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> TaskModel:
    return thereafter.train(labelled(tmp_path_factory.mktemp("pictures") / "a.npz"), task="classify", **SMALL)


def test_a_score_on_training_pictures_is_called_one(
    model: TaskModel, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, copy, other = model.save(tmp_path / "run"), labelled(tmp_path / "copy.npz"), labelled(tmp_path / "b.npz", 1)
    printed = thereafter_says(capsys, monkeypatch, "score", run, copy)
    assert (
        len(re.findall(r"training score, not a test: it learned from these very pictures \(.*copy\.npz\)", printed))
        == 1
    )
    assert "training score" not in thereafter_says(capsys, monkeypatch, "score", run, other)


def test_parts_of_one_file_are_no_training_examples(tmp_path: Path) -> None:
    rows = "\n".join(f"2026-01-{day:02d},{day % 7}" for day in range(1, 31))
    table = tmp_path / "a.csv"
    table.write_text(f"day,sold\n{rows}\n", encoding="utf-8")
    forecaster = thereafter.train(table, task="forecast", model="naive", horizon=2, split="70/10/20")
    scored = finding.find(forecaster.task, str(table), "test")
    assert training_caveat(forecaster.fitted, scored) == ""


def test_a_training_of_pictures_says_what_it_reads_and_with_what(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["--task", "classify", "--hidden", 4, "--epochs", 1, "--out", tmp_path / "run"]
    printed = thereafter_says(capsys, monkeypatch, "train", labelled(tmp_path / "a.npz"), *words)
    assert "pictures are read as pixels 5 x 4, grey\n" in printed
    assert re.search(r"^network    encoder lstm, hidden 4, layers 1, pooling last, .*read rows", printed, re.M)


def test_a_stop_before_the_first_step_says_that_nothing_was_learned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*given: object) -> None:
        raise KeyboardInterrupt

    source, run = labelled(tmp_path / "a.npz"), tmp_path / "run"
    words = ["train", source, "--task", "classify", "--hidden", 4, "--epochs", 1, "--out", run]
    with monkeypatch.context() as patched:
        patched.setattr(finding, "train_and_valid", interrupted)
        printed = thereafter_says(capsys, patched, *words)
        assert "nothing was learned yet and nothing was written; begin again with the same command" in printed
        assert not (run / "config.toml").exists()
    task = TASKS.load("classify-pictures")
    with monkeypatch.context() as patched:
        patched.setattr(type(task), "build", interrupted)  # written down, and not begun
        printed = thereafter_says(capsys, patched, *words)
        assert "stopped before its first step; begin again with: thereafter train --resume" in printed
        assert "nothing was learned" not in printed
    assert "saved " in thereafter_says(capsys, monkeypatch, "train", "--resume", run)
    with monkeypatch.context() as patched:
        patched.setattr(finding, "train_and_valid", interrupted)
        printed = thereafter_says(capsys, patched, *words)
        assert f"nothing was learned yet and the run in {run} is as it was" in printed


def test_the_settings_of_a_task_are_listed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    printed = thereafter_says(capsys, monkeypatch, "train", "--task", "caption", "--options")
    assert re.search(r"^  width +32 +Channels of the first stage of convolutions\.$", printed, re.M)
    assert re.search(r"^  min_count +3 +How often", printed, re.M)
    assert re.search(r"^  epochs +30.0 +Passes over", printed, re.M)  # of this task, not of all
    assert re.search(r"^  optimizer +adamw +adamw \(the default\), adam, sgd or nt-asgd\.$", printed, re.M)
    for idle in ("batching", "jitter", "unfreeze", "layer_decay", "heads", "feedforward"):
        assert not re.search(rf"^  {idle} ", printed, re.M)
    printed = thereafter_says(capsys, monkeypatch, "train", "moving-glyphs", "--task", "video", "--options")
    assert printed.startswith("next-frames: ")
    assert "expected --task with" in thereafter_says(capsys, monkeypatch, "train", "--options")


@pytest.mark.parametrize("settings", [*(TASKS.load(name).settings for name in TASKS), TrainingSettings])
def test_every_setting_of_a_task_is_described_in_whole_sentences(settings: type[object]) -> None:
    listed = described_settings(settings)
    assert listed
    for name, _, meaning in listed:
        assert meaning[:1].isupper() or meaning.startswith(("nt-asgd ", "adamw ")), name
        assert meaning.endswith("."), name
        assert len(meaning.split()) >= 2, name
        assert not re.search(r"`[A-Z_]+`|\(\)|\.py", meaning), name  # names of the source tell a user nothing


def test_settings_that_do_nothing_in_a_task_are_not_listed() -> None:
    values = {"batching": "lines", "jitter": True, "unfreeze": True, "layer_decay": 0.5}
    for task in map(TASKS.load, TASKS):
        idle = idle_options(task)
        assert {"batching", "jitter"} <= idle
        for option in idle:
            with assert_refused(OptionError, option):
                settle(task, {option: values[option]})
    assert "unfreeze" not in idle_options(TASKS.load("tag"))


def test_a_model_beside_captions_names_what_is_meant(tmp_path: Path) -> None:
    from thereafter.cli.train_report import remedy_for, settings_of

    own = settings_of("caption", None)
    assert (
        remedy_for("caption", "lstm", own) == "try --set cell=lstm, or --set see= with attention, every, first, nothing"
    )
    assert remedy_for("caption", "every", own) == "try --set see=every"

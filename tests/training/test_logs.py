"""Logs for other programs: CSV that pandas reads while it grows, event files that TensorBoard's own reader reads."""

from __future__ import annotations

import math
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pandas
import pytest
import torch

import thereafter
from log_readers import check_board, places_of, rows_of, scalars_of
from refusals import assert_refused
from stops import stopping_at
from tasks.toys import tagged
from thereafter.errors import FormatError, MissingPackageError, OptionError, StorageError
from thereafter.training.watching import StepReport, Training
from warm import Command

TEXT = "the cat sat on the mat .\nthe dog sat on the log .\n" * 30
SMALL: dict[str, Any] = {
    "model": "lstm", "tokens": "char", "hidden": 8, "layers": 1, "batch": 4, "steps": 8, "tokens_budget": 1600,
    "log_every": 5, "validate_every": 20, "checkpoint_every": 10, "checkpoint_seconds": 0,
}  # fmt: skip


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "book.txt"
    path.write_text(TEXT)
    return path


def test_both_logs_have_every_step_and_validation(book: Path, tmp_path: Path):
    reports: list[StepReport] = []
    watching = thereafter.watching(after_step=lambda training, report: reports.append(report))
    with watching:
        lm = thereafter.train(book, out=tmp_path / "run", log="csv,tensorboard", **SMALL)
    frame = pandas.read_csv(tmp_path / "run" / "log.csv")
    columns = "event step epoch seen seconds loss rate norm best perplexity"
    assert list(frame.columns) == columns.split()
    steps, validations = (frame[frame.event == event] for event in ("step", "validation"))
    for name in ("step", "epoch", "seen", "loss", "norm", "rate"):
        assert steps[name].tolist() == [getattr(report, name) for report in reports]  # every digit
    for name in ("step", "loss", "perplexity", "best"):
        lines = [line[name] for line in lm.log if line["event"] == "validation"]
        assert validations[name].tolist() == lines
    assert frame.seconds.is_monotonic_increasing
    check_board(tmp_path / "run" / "tensorboard", rows_of(tmp_path / "run" / "log.csv"))
    assert thereafter.load(tmp_path / "run").config["training"]["log"] == "csv,tensorboard"
    thereafter.train(book, out=tmp_path / "run", **SMALL | {"log": "tensorboard", "tokens_budget": 800})  # in its place
    assert not (tmp_path / "run" / "log.csv").exists()
    assert scalars_of(tmp_path / "run" / "tensorboard")["step/loss"][-1][0] == 25


def test_pandas_reads_the_log_of_a_task_while_it_grows(tmp_path: Path):
    seen: list[int] = []

    def look(training: Training, report: StepReport) -> None:
        if report.step > 1:
            frame = pandas.read_csv(tmp_path / "run" / "log.csv")
            assert frame.loss.map(math.isfinite).all()
            seen.append(int(frame[frame.event == "step"].step.max()))
            assert seen[-1] == report.step - 1  # the row of this step is written after this

    source = tagged(tmp_path / "tags.tsv", 20)
    with thereafter.watching(after_step=look):
        thereafter.train(source, task="tag", hidden=4, batch=4, epochs=2, out=tmp_path / "run", log="csv")
    assert len(seen) > 5


def test_a_stopped_training_goes_on_with_its_logs(book: Path, tmp_path: Path):
    thereafter.train(book, out=tmp_path / "whole", log="csv", **SMALL)
    with stopping_at(3, 33):
        with pytest.raises(KeyboardInterrupt):
            thereafter.train(book, out=tmp_path / "run", log="csv,tensorboard", **SMALL)
        with pytest.raises(KeyboardInterrupt):
            thereafter.resume(tmp_path / "run")
        thereafter.resume(tmp_path / "run")
    assert rows_of(tmp_path / "run" / "log.csv") == rows_of(tmp_path / "whole" / "log.csv")
    check_board(tmp_path / "run" / "tensorboard", rows_of(tmp_path / "run" / "log.csv"))


def test_a_training_that_goes_back_has_no_step_twice(book: Path, tmp_path: Path):
    """A weight is spoilt at step 16: the run goes back to step 10, at half the rate."""
    done: list[bool] = []

    def spoil(training: Training) -> None:
        if training.at.step == 16 and not done:
            done.append(True)
            with torch.no_grad():
                next(iter(training.model.parameters())).fill_(math.nan)

    with thereafter.watching(before_step=spoil):
        thereafter.train(book, out=tmp_path / "run", log="csv,tensorboard", schedule="constant", rate=0.01, **SMALL)
    rows = rows_of(tmp_path / "run" / "log.csv")
    steps = [int(row["step"]) for row in rows if row["event"] == "step"]
    assert steps == list(range(1, len(steps) + 1))
    assert {row["rate"] for row in rows[:10]} == {"0.01"}
    assert {row["rate"] for row in rows[10:]} == {"0.005", ""}
    check_board(tmp_path / "run" / "tensorboard", rows)


@pytest.mark.wide
def test_a_killed_training_goes_on_with_its_logs(book: Path, tmp_path: Path):
    """SIGKILL between two checkpoints, and half a row at the end of the file."""
    run, whole = tmp_path / "run", tmp_path / "whole"
    words = [str(book), "--model", "rnn", "--tokens", "char", "--hidden", "8", "--batch", "4", "--steps", "8"]
    words += ["--epochs", "8", "--set", "validate_every=50", "--set", "checkpoint_every=40"]
    words += ["--set", "checkpoint_seconds=0", "--log", "csv,tensorboard"]
    environment = {"THEREAFTER_NUMBA": "0"}
    together = [Command(["train", *words, "--out", str(out)], environment, 1) for out in (whole, run)]
    give_up = time.monotonic() + 300
    log = run / "log.csv"
    while not log.is_file() or log.read_bytes().count(b"\n") < 70:
        assert together[1].returncode is None, together[1].output()
        assert time.monotonic() < give_up
        time.sleep(0.001)
    together[1].send_signal(signal.SIGKILL)
    assert together[1].wait(300) == -signal.SIGKILL
    killed_at = places_of(log)[-1][0]
    with log.open("ab") as file:
        file.write(b"step,9")
    resumed = Command(["train", "--resume", str(run)], environment, 1)
    assert (together[0].wait(300), resumed.wait(300)) == (0, 0), resumed.output()
    assert killed_at < places_of(whole / "log.csv")[-1][0]
    assert rows_of(log) == rows_of(whole / "log.csv")
    check_board(run / "tensorboard", rows_of(log), every=10)


def test_any_training_in_a_block_is_logged(book: Path, tmp_path: Path):
    few = SMALL | {"tokens_budget": 130}
    with thereafter.logging_to(csv=tmp_path / "deep" / "losses.csv", tensorboard=tmp_path / "board", every=2):
        for _ in range(2):
            thereafter.train(text=TEXT, **few)
    first, second = tmp_path / "deep" / "losses.csv", tmp_path / "deep" / "losses-2.csv"
    assert rows_of(first) == rows_of(second)
    assert places_of(first) == [(1, "step"), (2, "step"), (3, "step"), (4, "step"), (5, "step"), (5, "validation")]
    for folder in (tmp_path / "board", tmp_path / "board-2"):
        check_board(folder, rows_of(first), every=2)
    with thereafter.logging_to(csv=first):  # another one with the same name takes its place
        thereafter.train(text=TEXT, **few | {"tokens_budget": 40})
    assert places_of(first) == [(1, "step"), (2, "step"), (2, "validation")]


def test_a_file_that_is_no_log_is_left_alone(tmp_path: Path, book: Path):
    table = tmp_path / "sales.csv"
    table.write_text("day,sold\n1,2\n")
    with (
        thereafter.logging_to(csv=table),
        assert_refused(FormatError, "sales.csv", "day,sold"),
    ):
        thereafter.train(text=TEXT, **SMALL)
    assert table.read_text() == "day,sold\n1,2\n"
    with thereafter.logging_to(csv=tmp_path), assert_refused(StorageError, tmp_path):
        thereafter.train(text=TEXT, **SMALL)
    with thereafter.logging_to(csv=table / "losses.csv"), assert_refused(StorageError, table):
        thereafter.train(text=TEXT, **SMALL)
    with stopping_at(12), pytest.raises(KeyboardInterrupt):
        thereafter.train(book, out=tmp_path / "run", log="csv", **SMALL)
    (tmp_path / "run" / "log.csv").unlink()
    (tmp_path / "run" / "log.csv").symlink_to(table)
    with assert_refused(FormatError, "log.csv"):
        thereafter.resume(tmp_path / "run")


def test_logs_that_cannot_be(book: Path, monkeypatch: pytest.MonkeyPatch):
    with assert_refused(OptionError, "xlsx", "csv", "tensorboard"):
        thereafter.train(book, out="unused", log="csv,xlsx", **SMALL)
    with assert_refused(OptionError, "csv", "out=", "logging_to"):
        thereafter.train(book, log="csv", **SMALL)
    with assert_refused(OptionError, "tensorboard"):
        thereafter.train(book, tensorboard=True, **SMALL)
    with assert_refused(OptionError, "csv=", "tensorboard="), thereafter.logging_to():
        pass
    with assert_refused(OptionError, "every", 0), thereafter.logging_to(csv="losses.csv", every=0):
        pass
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with (
        assert_refused(MissingPackageError, "TensorBoard", "thereafter[tensorboard]"),
        thereafter.logging_to(tensorboard="board"),
    ):
        pass
    assert not Path("board").exists()

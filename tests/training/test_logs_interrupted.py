"""Logs of trainings that are broken off at the worst moment: after the resume they are those of a whole training."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tensorboard.summary.writer import event_file_writer
from torch.utils.tensorboard import SummaryWriter

import thereafter
from log_readers import check_board, rows_of
from thereafter.base import progress
from thereafter.runs.writer import read_snapshot
from thereafter.training import logs, loop
from thereafter.training.control import COUNTED
from thereafter.training.neural import Validation
from thereafter.training.watching import StepReport, Training

TEXT = "the cat sat on the mat .\nthe dog sat on the log .\n" * 30
SMALL: dict[str, Any] = {
    "model": "lstm", "tokens": "char", "hidden": 8, "layers": 1, "batch": 4, "steps": 8, "tokens_budget": 1000,
    "log_every": 5, "validate_every": 10, "checkpoint_every": 7, "checkpoint_seconds": 0,
}  # fmt: skip
Rows = list[dict[str, str]]


@pytest.fixture(autouse=True)
def files_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorBoard reads files of one second and one process by number, as text: "10" before "9"."""
    monkeypatch.setattr(event_file_writer, "_global_uid", event_file_writer.AtomicCounter(1000))


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "book.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture(scope="module")
def whole(book: Path) -> Rows:
    """The log of a training that is never stopped."""
    thereafter.train(book, out=book.parent / "whole", log="csv", **SMALL)
    return rows_of(book.parent / "whole" / "log.csv")


def train(book: Path, run: Path, **options: Any) -> None:
    thereafter.train(book, out=run, log="csv,tensorboard", **SMALL | options)


def saved_step(run: Path) -> int:
    return int(read_snapshot(run / "state.safetensors", COUNTED).facts["at"]["step"])


def raising(error: type[BaseException], when: Callable[[StepReport], bool]) -> Callable[[Training, StepReport], None]:
    def look(training: Training, report: StepReport) -> None:
        if when(report):
            raise error

    return look


@pytest.mark.parametrize("stop", [pytest.param(2, marks=pytest.mark.wide), 10])
def test_a_function_that_stops_a_training_costs_no_row(stop: int, book: Path, whole: Rows, tmp_path: Path):
    given: list[int] = []
    with (
        thereafter.watching(after_step=raising(KeyboardInterrupt, lambda report: report.step == stop)),
        thereafter.watching(after_step=lambda training, report: given.append(report.step)),
        pytest.raises(KeyboardInterrupt),
    ):
        train(book, tmp_path / "run")
    assert given == list(range(1, stop + 1))
    thereafter.resume(tmp_path / "run")
    assert rows_of(tmp_path / "run" / "log.csv") == whole
    check_board(tmp_path / "run" / "tensorboard", whole)


class Notes(progress.Silent):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, message: str) -> None:
        self.lines.append(message)


def test_a_function_that_stops_it_again_and_again(
    book: Path, whole: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """As on a GPU: reports of several steps wait, and the function raises at the second while the first is rescued."""
    monkeypatch.setitem(loop.STEPS_AT_ONCE, "cpu", 8)
    given: list[int] = []
    notes = Notes()
    with (
        thereafter.watching(after_step=raising(KeyboardInterrupt, lambda report: report.step >= 13)),
        thereafter.watching(after_step=lambda training, report: given.append(report.step)),
        progress.reporting(notes),
        pytest.raises(KeyboardInterrupt),
    ):
        train(book, tmp_path / "run")
    assert given == list(range(1, saved_step(tmp_path / "run") + 1))
    assert given[-1] > 13
    assert f"stopped at step {given[-1]}; go on with" in notes.lines[-1]
    thereafter.resume(tmp_path / "run")
    assert rows_of(tmp_path / "run" / "log.csv") == whole
    check_board(tmp_path / "run" / "tensorboard", whole)


def test_what_a_function_raises_at_a_checkpoint_does_not_stop_its_writing(book: Path, tmp_path: Path):
    def fail(training: Training) -> None:
        raise RuntimeError("no room for a picture")

    with thereafter.watching(at_checkpoint=fail), pytest.raises(RuntimeError, match="no room"):
        train(book, tmp_path / "run")
    assert saved_step(tmp_path / "run") == 7


@pytest.mark.parametrize(  # the first row, and that of a validation
    ("row", "share"),
    [(11, 0.5), *(pytest.param(*one, marks=pytest.mark.wide) for one in ((1, 0.5), (1, 1.0), (11, 1.0)))],
)
def test_ctrl_c_while_a_row_is_written(
    row: int, share: float, book: Path, whole: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    rows = 0

    def write(file: io.FileIO, values: list[str]) -> None:
        nonlocal rows
        rows += 1
        line = (",".join(values) + "\n").encode()
        file.write(line[: int(len(line) * share)] if rows == row else line)
        if rows == row:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(logs, "write_row", write)
        with pytest.raises(KeyboardInterrupt):
            train(book, tmp_path / "run")
    thereafter.resume(tmp_path / "run")
    assert rows_of(tmp_path / "run" / "log.csv") == whole
    check_board(tmp_path / "run" / "tensorboard", whole)


@pytest.mark.parametrize(
    "scalar", [pytest.param(2, marks=pytest.mark.wide), 7, pytest.param(9, marks=pytest.mark.wide)]
)  # of step 5, of the validation of step 10, of step 15
def test_ctrl_c_while_a_scalar_is_written(
    scalar: int, book: Path, whole: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    own, scalars = SummaryWriter.add_scalar, 0

    def add(self: SummaryWriter, *given: Any) -> None:
        nonlocal scalars
        own(self, *given)
        scalars += 1
        if scalars == scalar:
            raise KeyboardInterrupt

    monkeypatch.setattr(SummaryWriter, "add_scalar", add)
    with pytest.raises(KeyboardInterrupt):
        train(book, tmp_path / "run")
    thereafter.resume(tmp_path / "run")
    assert rows_of(tmp_path / "run" / "log.csv") == whole
    check_board(tmp_path / "run" / "tensorboard", whole)


@pytest.mark.parametrize("every", [pytest.param(4, marks=pytest.mark.wide), 50])
def test_a_validation_is_not_shown_twice_where_few_steps_are(every: int, book: Path, whole: Rows, tmp_path: Path):
    """Killed after the validation of step 10, resumed from step 7: with `every` 50 no step is written before it."""
    with (
        thereafter.watching(after_step=raising(RuntimeError, lambda report: report.step == 12)),
        pytest.raises(RuntimeError),
    ):
        train(book, tmp_path / "run", log_every=every)
    thereafter.resume(tmp_path / "run")
    assert rows_of(tmp_path / "run" / "log.csv") == whole
    check_board(tmp_path / "run" / "tensorboard", whole, every)


@pytest.mark.parametrize("every", [5, pytest.param(50, marks=pytest.mark.wide)])
def test_a_validation_that_is_made_up_for_twice_is_shown_once(
    every: int, book: Path, whole: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Stopped in the validation of step 10; resumed and killed after it, before another checkpoint; resumed."""

    def stop(self: Validation) -> float:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Validation, "measure", stop)
        with pytest.raises(KeyboardInterrupt):
            train(book, tmp_path / "run", log_every=every)
    assert saved_step(tmp_path / "run") == 10
    with (
        thereafter.watching(after_step=raising(RuntimeError, lambda report: report.step == 12)),
        pytest.raises(RuntimeError),
    ):
        thereafter.resume(tmp_path / "run")
    thereafter.resume(tmp_path / "run")
    check_board(tmp_path / "run" / "tensorboard", whole, every)

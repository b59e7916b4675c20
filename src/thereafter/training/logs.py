"""Logs of trainings for other programs: CSV and TensorBoard, beside the `log.jsonl` that every run has.

    with thereafter.logging_to(csv="losses.csv"):
        thereafter.train("book.txt", model="lstm")

    thereafter.train("book.txt", model="lstm", out="runs/book", log="csv,tensorboard")

The second writes them into the run folder, and goes on with them when the run is resumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Protocol

from thereafter.errors import OptionError
from thereafter.runs.folder import BOARD, ROWS
from thereafter.training.log_csv import CsvLog
from thereafter.training.log_tensorboard import TensorBoardLog
from thereafter.training.settings import TrainingSettings, require_tensorboard
from thereafter.training.watching import StepReport, Training, ValidationReport, Watcher, adding


class TrainingLog(Protocol):
    """Writes the reports of one training. A report that comes again takes the place of the old one and of all after it.
    `sync`: what was reported is on the disk when it returns."""

    def step(self, report: StepReport) -> None: ...

    def validation(self, report: ValidationReport) -> None: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


@contextmanager
def logging_to(
    *, csv: str | PathLike[str] | None = None, tensorboard: str | PathLike[str] | None = None, every: int = 1
) -> Iterator[None]:
    """Every training that begins inside the block writes its figures: a row a step or validation to the file `csv`,
    scalars to the folder `tensorboard`, there of one step in `every`. The second training of a block has files of its
    own, `losses-2.csv`.

    A training that is resumed in a block with the same names goes on with its files. TensorBoard is an extra:
    `pip install 'thereafter[tensorboard]'`.

    Example: with thereafter.logging_to(csv="losses.csv"): thereafter.train("book.txt", model="gru")
    """
    places: list[tuple[Callable[[Path], TrainingLog], Path]] = []
    if csv is not None:
        places.append((CsvLog, Path(csv)))
    if tensorboard is not None:
        require_tensorboard()
        places.append((partial(TensorBoardLog, every=every), Path(tensorboard)))
    if every < 1:
        raise OptionError(f"every is {every}; expected 1 or more")
    if not places:
        raise OptionError("got no place to log to; expected csv= or tensorboard=; try csv='losses.csv'")
    with _logging(places):
        yield


@contextmanager
def logging_in(folder: Path | None, training: TrainingSettings) -> Iterator[None]:
    """The same for a run folder, as its settings ask for; nothing where there is no folder."""
    known: dict[str, tuple[Callable[[Path], TrainingLog], str]] = {
        "csv": (CsvLog, ROWS),
        "tensorboard": (partial(TensorBoardLog, every=training.log_every or 1), BOARD),
    }
    places = [] if folder is None else [(make, folder / name) for make, name in (known[log] for log in training.logs)]
    with _logging(places):
        yield


class _Logs:
    """The logs of the training that is under way."""

    def __init__(self, places: Sequence[tuple[Callable[[Path], TrainingLog], Path]]) -> None:
        self._places, self._logs = places, list[TrainingLog]()
        self._training: Training | None = None
        self._trainings = 0

    def step(self, training: Training, report: StepReport) -> None:
        for log in self._of(training):
            log.step(report)

    def validation(self, training: Training, report: ValidationReport) -> None:
        for log in self._of(training):
            log.validation(report)

    def sync(self, training: Training) -> None:
        for log in self._of(training):
            log.sync()

    def close(self) -> None:
        for log in self._logs:
            log.close()

    def _of(self, training: Training) -> list[TrainingLog]:
        if training is not self._training:
            self.close()
            self._training, self._trainings = training, self._trainings + 1
            self._logs = [make(_numbered(place, self._trainings)) for make, place in self._places]
        return self._logs


def _numbered(path: Path, number: int) -> Path:
    return path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")


@contextmanager
def _logging(places: Sequence[tuple[Callable[[Path], TrainingLog], Path]]) -> Iterator[None]:
    if not places:
        yield
        return
    logs = _Logs(places)
    try:
        watcher = Watcher(after_step=logs.step, at_validation=logs.validation, at_checkpoint=logs.sync, repeats=True)
        with adding(watcher):
            yield
    finally:
        logs.close()

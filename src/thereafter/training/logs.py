"""Logs of trainings for other programs: CSV and TensorBoard, beside the `log.jsonl` that every run has.

    with thereafter.logging_to(csv="losses.csv"):
        thereafter.train("book.txt", model="lstm")

    thereafter.train("book.txt", model="lstm", out="runs/book", log="csv,tensorboard")

The second writes them into the run folder, and goes on with them when the run is resumed. A training that goes back, or
is resumed after it was killed, reports some steps again; no step counts twice in a log.
"""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Protocol

from thereafter.base import packages
from thereafter.base.storage import is_plain
from thereafter.errors import FormatError, OptionError, StorageError
from thereafter.runs.folder import BOARD, ROWS
from thereafter.runs.writer import GrowingFile, storing
from thereafter.training.settings import TrainingSettings, require_tensorboard
from thereafter.training.watching import StepReport, Training, ValidationReport, Watcher, adding

_STEP = "step/"


class Board(Protocol):
    """What is used of TensorBoard's writer."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


class TensorBoardLog:
    """Writes the reports of one training to event files in a folder; of one step in `every`.

    These are the loss, learning rate and gradient norm of steps, and the figures of every validation. TensorBoard's own
    writer, which comes with torch, makes the files. It takes some 0.1 ms a scalar. Where steps are reported again, a
    new file begins with the mark by which TensorBoard drops what it has read of the old ones from that step on.
    """

    def __init__(self, folder: Path, every: int = 1) -> None:
        require_tensorboard()
        self._folder, self._every = folder, every
        self._board: Board | None = None
        self._last = (-1, 0)

    def step(self, report: StepReport) -> None:
        """Add the figures of a step."""
        board = self._board_at(report.step, 0)  # also for a step that is not written: what is purged begins with it
        if report.step % self._every == 0:
            for name, value in (("loss", report.loss), ("rate", report.rate), ("norm", report.norm)):
                board.add_scalar(f"{_STEP}{name}", value, report.step)

    def validation(self, report: ValidationReport) -> None:
        """Add the figures of a validation."""
        board = self._board_at(report.step, 1)
        for name, value in {"loss": report.loss, **report.figures}.items():
            board.add_scalar(f"validation/{name}", value, report.step)

    def sync(self) -> None:
        """Write what waits to the files."""
        if self._board is not None:
            self._board.flush()

    def close(self) -> None:
        """Nothing more is written."""
        if self._board is not None:
            self._board.close()
            self._board = None

    def _board_at(self, step: int, event: int) -> Board:
        """The writer for a step (event 0) or the validation after it (1): a new one where they do not go on."""
        if self._board is None or (step, event) <= self._last:
            self.close()
            # a validation that is made up for: of what is purged from its step on, the step itself is written again
            kept = _step_scalars(self._folder, step) if event and step and step % self._every == 0 else {}
            self._board = _board(self._folder, step)
            for tag, value in kept.items():
                self._board.add_scalar(tag, value, step)
        self._last = (step, event)
        return self._board


def _step_scalars(folder: Path, step: int) -> dict[str, float]:
    """The figures of a step as TensorBoard reads them, by tag."""
    module = packages.require("tensorboard.backend.event_processing.event_accumulator", "a log for TensorBoard")
    reader = module.EventAccumulator(str(folder), size_guidance={module.SCALARS: 0}).Reload()
    tags = [tag for tag in reader.Tags()[module.SCALARS] if tag.startswith(_STEP)]
    return {tag: event.value for tag in tags for event in reader.Scalars(tag) if event.step == step}


def _board(folder: Path, purge_step: int) -> Board:
    module = packages.require("torch.utils.tensorboard", "a log for TensorBoard")
    with storing(folder, "try another folder"):
        board: Board = module.SummaryWriter(str(folder), purge_step=purge_step)
    return board


COLUMNS = ("event", "step", "epoch", "seen", "seconds", "loss", "rate", "norm", "best")
"""Of every log; the figures that a training adds come after them."""
_EVENTS = ("step", "validation")
Place = tuple[int, int]
"""Where a row stands: its step, and 0 for the step itself, 1 for the validation after it."""
_END = (sys.maxsize, 0)  # what the file ends with is not known: the place of the next row is looked for


class CsvLog:
    """Writes the reports of one training to a file, which is opened at the first of them: a row as soon as it is known.

        event,step,epoch,seen,seconds,loss,rate,norm,best,perplexity
        step,1,0,512,0.021,4.1431,0.00012,0.8312,,63.0
        validation,500,3,256000,9.113,1.7912,,,true,5.997

    A row goes out in one write, so that whoever reads the file while it grows sees whole rows. A row that comes again
    replaces the old one and all that came after it, so that no step stands in the file twice.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: GrowingFile | None = None
        self._last: Place = _END

    def step(self, report: StepReport) -> None:
        """Add the row of a step."""
        row = {"rate": repr(report.rate), "norm": repr(report.norm)}
        self._add(0, report, row)

    def validation(self, report: ValidationReport) -> None:
        """Add the row of a validation."""
        self._add(1, report, {"best": "true" if report.best else "false"})

    def sync(self) -> None:
        """Wait until all rows are on the disk."""
        if self._file is not None:
            with self._storing():
                os.fsync(self._file.fileno())

    def close(self) -> None:
        """Nothing more is written."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _add(self, event: int, report: StepReport | ValidationReport, own: dict[str, str]) -> None:
        figures = {name: repr(value) for name, value in report.figures.items()}
        columns, place = (*COLUMNS, *figures), (report.step, event)
        row = {"event": _EVENTS[event], "step": str(report.step), "epoch": str(report.epoch), "seen": str(report.seen)}
        row |= {"seconds": f"{report.seconds:.3f}", "loss": repr(report.loss)} | own | figures
        with self._storing():
            file = self._file = self._file or self._open()
            if place <= self._last:
                self._go_back(file, place, columns)
            self._last = _END  # where the write is broken off, the file is looked at again
            write_row(file, [row.get(name, "") for name in columns])
        self._last = place

    def _open(self) -> GrowingFile:
        if self._path.exists() and not is_plain(self._path):
            raise StorageError(f"{self._path} is not a plain file; expected one for the log; try another name")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return GrowingFile(self._path, "a+")

    def _go_back(self, file: GrowingFile, place: Place, columns: Sequence[str]) -> None:
        """Cut the row of a place off, and all that come after it; an empty file gets its first line."""
        file.seek(0)
        written = file.readall() or b""
        first, *rows = written.splitlines(keepends=True) or [b""]
        head = _line(columns)
        if first != head and not head.startswith(first):  # a beginning of it: killed in its first write
            raise FormatError(
                f"{self._path} begins with {first[:80].decode('utf-8', 'replace')!r}; expected the log of a training, "
                f"{head.decode().strip()!r}; nothing was written; try another name, or moving it away"
            )
        if first != head:
            file.truncate(0)
            file.write(head)
            return
        length = len(head)
        for row in rows:
            before = _place(row)
            if before is None or before >= place:
                break
            length += len(row)
        file.truncate(length)

    def _storing(self) -> AbstractContextManager[None]:
        return storing(self._path, "the rows before stay; try freeing space, or another place")


def _place(row: bytes) -> Place | None:
    """Where a row stands; None for half a row, or one that is none."""
    event, _, rest = row.decode("utf-8", "replace").partition(",")
    step = rest.partition(",")[0]
    if not row.endswith(b"\n") or event not in _EVENTS or not step.isdecimal():
        return None
    return int(step), _EVENTS.index(event)


def _line(values: Sequence[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue().encode("utf-8")


def write_row(file: GrowingFile, values: Sequence[str]) -> None:
    file.write_whole(_line(values))


TrainingLog = CsvLog | TensorBoardLog
"""Writes the reports of one training. A report that comes again takes the place of the old one and of all after it."""


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
            number = self._trainings
            self._logs = [
                make(path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}"))
                for make, path in self._places
            ]
        return self._logs


@contextmanager
def _logging(places: Sequence[tuple[Callable[[Path], TrainingLog], Path]]) -> Iterator[None]:
    logs = _Logs(places)
    try:
        watcher = Watcher(after_step=logs.step, at_validation=logs.validation, at_checkpoint=logs.sync, repeats=True)
        with adding(watcher):
            yield
    finally:
        logs.close()


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
def logging_in(folder: Path, training: TrainingSettings) -> Iterator[None]:
    """The same for a run folder, as its settings ask for."""
    known: dict[str, tuple[Callable[[Path], TrainingLog], str]] = {
        "csv": (CsvLog, ROWS),
        "tensorboard": (partial(TensorBoardLog, every=training.log_every or 1), BOARD),
    }
    with _logging([(make, folder / name) for make, name in (known[log] for log in training.logs)]):
        yield

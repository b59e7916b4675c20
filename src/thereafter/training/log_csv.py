"""The log of a training as CSV: one row a step, one row a validation, in the file as soon as it is known.

    event,step,epoch,seen,seconds,loss,rate,norm,best,perplexity
    step,1,0,512,0.021,4.1431,0.00012,0.8312,,63.0
    validation,500,3,256000,9.113,1.7912,,,true,5.997

A row goes out in one write, so that whoever reads the file while it grows sees whole rows. A training that goes back,
or is resumed after it was killed, reports some steps again: a row that comes again replaces the old one and all that
came after it, so that no step stands in the file twice.
"""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from thereafter.errors import FormatError, StorageError
from thereafter.storage import is_plain
from thereafter.training.watching import StepReport, ValidationReport

COLUMNS = ("event", "step", "epoch", "seen", "seconds", "loss", "rate", "norm", "best")
"""Of every log; the figures that a training adds come after them."""
_EVENTS = ("step", "validation")
Place = tuple[int, int]
"""Where a row stands: its step, and 0 for the step itself, 1 for the validation after it."""
_END = (sys.maxsize, 0)  # what the file ends with is not known: the place of the next row is looked for


class CsvLog:
    """Writes the reports of one training to a file, which is opened at the first of them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: io.FileIO | None = None
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
            try:
                os.fsync(self._file.fileno())
            except OSError as error:
                raise self._storage_error(error) from error

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
        try:
            file = self._file = self._file or self._open()
            if place <= self._last:
                self._go_back(file, place, columns)
            self._last = _END  # where the write is broken off, the file is looked at again
            write_row(file, [row.get(name, "") for name in columns])
        except OSError as error:
            raise self._storage_error(error) from error
        self._last = place

    def _open(self) -> io.FileIO:
        if self._path.exists() and not is_plain(self._path):
            raise StorageError(f"{self._path} is not a plain file; expected one for the log; try another name")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return io.FileIO(self._path, "a+")

    def _go_back(self, file: io.FileIO, place: Place, columns: Sequence[str]) -> None:
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

    def _storage_error(self, error: OSError) -> StorageError:
        return StorageError(
            f"cannot write {self._path}: {error.strerror}; the rows before stay; try freeing space, or another place"
        )


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


def write_row(file: io.FileIO, values: Sequence[str]) -> None:
    raw = _line(values)
    written = file.write(raw) or 0
    if written < len(raw):  # a disk that is just full takes a part
        file.write(raw[written:])

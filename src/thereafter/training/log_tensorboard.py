"""The log of a training for TensorBoard: loss, learning rate and gradient norm of steps, the figures of every
validation. TensorBoard's own writer, which comes with torch, makes the files. It takes some 0.1 ms a scalar.

A training that goes back, or is resumed after it was killed, reports some steps again: a new file then begins with the
mark by which TensorBoard drops what it has read of the old ones from that step on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from thereafter import packages
from thereafter.errors import StorageError
from thereafter.training.settings import require_tensorboard
from thereafter.training.watching import StepReport, ValidationReport

_STEP = "step/"


class Board(Protocol):
    """What is used of TensorBoard's writer."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


class TensorBoardLog:
    """Writes the reports of one training to event files in a folder; of one step in `every`."""

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
    try:
        board: Board = module.SummaryWriter(str(folder), purge_step=purge_step)
    except OSError as error:
        raise StorageError(f"cannot write to {folder}: {error.strerror}; try another folder") from error
    return board

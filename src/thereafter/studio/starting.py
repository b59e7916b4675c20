"""The start of a studio: the ready models that are missing are unpacked, and those that do not ship are trained."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from thereafter.base import progress
from thereafter.errors import FormatError
from thereafter.serving.schema import Answer
from thereafter.studio.child import Report
from thereafter.studio.queue import QueuedTraining, Rank, Releasable, SharedLock, TrainingQueue

if TYPE_CHECKING:
    from thereafter.ready.models import Ready
    from thereafter.ready.tasks import ReadyTask

_MAKING = "ready models that do not ship with the package are made once"
_PAUSE = 0.2  # seconds between two looks at what another studio does


class StatusAnswer(Answer):
    """`making` is the ready model being trained, "" when all are there; `share` of them is done, 0 to 1."""

    loaded: bool
    making: str
    share: float
    note: str


class Stage:
    """How far the start is, for the line of progress on the page."""

    def __init__(self) -> None:
        self.loaded = False
        """Models can be asked."""
        self.making = ""
        """The ready model being trained, "" when all are there."""
        self.share = 0.0
        self.note = ""

    def answer(self) -> StatusAnswer:
        """What the page shows."""
        return StatusAnswer(loaded=self.loaded, making=self.making, share=self.share, note=self.note)


class MissingModels:
    """Makes the ready models that are missing in `folder`; `scale` shortens their training.

    Without `shipped` all of them are trained, also those whose weights the package has.
    """

    def __init__(
        self, folder: Path, stage: Stage, *, scale: float, shipped: bool, queue: TrainingQueue, lock: SharedLock
    ) -> None:
        self._folder, self._stage, self._scale, self._shipped = folder, stage, scale, shipped
        self._queue, self._ready_lock = queue, lock
        self._training: QueuedTraining | None = None
        self._made = self._total = 0
        self._closed = False
        self._lock = threading.Lock()

    def make(self) -> None:
        """Unpack what ships and train the rest; while another studio is at it, wait for its models."""
        from thereafter.ready import models as ready

        lock: Releasable | None = None
        while self._missing() and lock is None and not self._closed:
            lock = self._ready_lock.take()
            if lock is None:
                self._stage.note = "another studio is making the ready models"
                time.sleep(_PAUSE)
            elif self._shipped:
                self._unpack()
        self._stage.note = ""
        with self._lock:
            missing = ready.missing(self._folder)
            if missing and not self._closed:  # it may have been ended while it started
                self._train(missing, lock)
            elif lock is not None:
                lock.release()

    def close(self) -> None:
        """Let the training save its state and end; it goes on at the next start."""
        with self._lock:
            self._closed = True
            training = self._training
        if training is not None:
            self._queue.end([training])

    def _train(self, missing: list[Ready], lock: Releasable | None) -> None:
        self._stage.making, self._stage.note = missing[0].name, _MAKING
        self._total = len(missing)
        self._training = QueuedTraining(
            {"do": "ready", "folder": str(self._folder.absolute()), "scale": self._scale},
            rank=Rank.MISSING,
            name="the ready models that are missing",
            hear=self._hear,
            ended=self._ended,
            lock=lock,
        )
        try:
            self._queue.submit(self._training)
        except BaseException:
            self._training.release()
            raise

    def _missing(self) -> list[Ready | ReadyTask]:
        """What is still to be made, or at least to be unpacked."""
        from thereafter.ready import models, shipped, tasks

        absent: list[Ready | ReadyTask] = list(models.missing(self._folder))
        if self._shipped:
            place = self._folder / tasks.TASKS
            absent += [one for one in tasks.READY_TASKS if shipped.is_shipped(one) and not models.is_there(one, place)]
        return absent

    def _unpack(self) -> None:
        """Put the shipped models where they are missing; one whose files are damaged is trained like the others."""
        from thereafter.ready import shipped, tasks

        for one in self._missing():
            place = self._folder / tasks.TASKS if isinstance(one, tasks.ReadyTask) else self._folder
            try:
                shipped.unpack(one, place, self._folder / "texts")
            except (FormatError, OSError) as error:
                progress.warn(str(error))

    def _hear(self, report: Report) -> None:
        stage = self._stage
        stage.making = report.making or stage.making
        if report.ready:
            self._made += 1
            stage.share = self._made / self._total
        elif report.task == "training" and report.share is not None:
            stage.share = (self._made + report.share) / self._total
        stage.note = report.error or stage.note

    def _ended(self, code: int) -> None:
        self._stage.making = ""
        if code == 0:
            self._stage.share, self._stage.note = 1.0, ""
        elif self._stage.note == _MAKING:  # else the sentence of what went wrong stays
            self._stage.note = "the ready models are not finished; their training resumes at the next start"

"""Ready models that somebody asked for: those of a task where they are missing, or any of them anew.

One such command at a time; the queue says when it runs, and `worker.py` does it.
"""

from __future__ import annotations

import threading
from pathlib import Path

from thereafter.errors import OptionError, StorageError
from thereafter.serving.schema import Answer
from thereafter.studio.child import Report
from thereafter.studio.commands import ReadyCommand
from thereafter.studio.queue import QueuedTraining, Rank, SharedLock, TrainingQueue

ANEW = "anew"
LOCK = "lock"
"""In the folder of the ready models: the lock of whoever changes them."""


class MakingAnswer(Answer):
    """`task` is the one whose ready models are being trained, "anew" where `model` is trained anew, "" when nothing is;
    `share` of that is done, and `status` says how far it is."""

    task: str
    model: str
    share: float
    status: str
    error: str


class Making:
    """`folder` is that of all ready models; `scale` shortens the trainings."""

    def __init__(
        self, folder: Path, scale: float, *, queue: TrainingQueue | None = None, lock: SharedLock | None = None
    ) -> None:
        self.folder, self._scale = folder, scale
        self._queue = queue or TrainingQueue()
        self._ready_lock = lock or SharedLock(folder / LOCK)
        self._training: QueuedTraining | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._task = self._model = self._error = self._status = ""
        self._made, self._total, self._share = 0, 0, 0.0

    def answer(self) -> MakingAnswer:
        """What the page shows. `error` is that of the last training."""
        share = min(1.0, (self._made + self._share) / max(1, self._total))
        training, status = self._training, self._status
        if self._task and training is not None and training.is_waiting:
            status = f"waiting for {', '.join(self._queue.running) or 'its turn'}"
        return MakingAnswer(task=self._task, model=self._model, share=share, status=status, error=self._error)

    def begin(self, task: str) -> None:
        """Make the models of a task that are missing; where none is, or where that goes on already, nothing happens."""
        from thereafter.ready import tasks as ready_tasks

        with self._lock:
            if self._task == task:
                return
            absent = [one.name for one in ready_tasks.missing(self.folder, task)]
            if absent:
                folder = str(self.folder.absolute())
                self._start(task, absent, {"do": "tasks", "folder": folder, "scale": self._scale, "task": task})

    def begin_anew(self, name: str) -> None:
        """Train a ready model anew; where that goes on already, nothing happens."""
        with self._lock:
            if (self._task, self._model) != (ANEW, name):
                folder = str(self.folder.absolute())
                self._start(ANEW, [name], {"do": "anew", "folder": folder, "scale": self._scale, "name": name})

    def close(self) -> None:
        """Let a training save its state and end; it goes on when it is asked for again."""
        with self._lock:
            self._closed = True
            training = self._training
        if training is not None:
            self._queue.end([training])

    def _start(self, task: str, names: list[str], command: ReadyCommand) -> None:
        if self._closed:
            raise OptionError("the studio is closing; ask for the training when it is open again")
        if self._task:
            busy = f"the model {self._model!r} is" if self._task == ANEW else f"the models of {self._task!r} are"
            raise OptionError(f"{busy} being trained; try again when that has ended")
        lock = self._ready_lock.take()
        if lock is None:
            raise OptionError("another studio is training these models; try again in a minute")
        self._task, self._model, self._error, self._status = task, names[0], "", "starting"
        self._made, self._total, self._share = 0, len(names), 0.0
        title = f"the ready model {names[0]!r}" if task == ANEW else f"the ready models of {task!r}"
        self._training = QueuedTraining(
            command, rank=Rank.READY, name=title, hear=self._hear, ended=self._ended, lock=lock
        )
        try:
            self._queue.submit(self._training)
        except (OptionError, StorageError):
            self._training.release()
            self._task = self._model = ""
            raise

    def _hear(self, report: Report) -> None:
        self._model = report.making or self._model
        if report.ready:
            self._made, self._share = self._made + 1, 0.0
        if report.task:
            self._status = report.status or report.task
        if report.task == "training" and report.share is not None:
            self._share = report.share
        self._error = report.error or self._error

    def _ended(self, code: int) -> None:
        with self._lock:
            if code and not self._error:
                self._error = "the training was interrupted; it resumes when you ask for it again"
            self._task = self._model = ""

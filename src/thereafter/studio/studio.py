"""What all requests of a studio share: the shelf, the trainings, how far it has got with starting, and the export.

Ready models are made behind the page: those that are missing at the start, and those that somebody asks for. At the
start what ships is unpacked, and what does not ship is trained. Asked for are the models of a task where they are
missing, or any of them anew, one such command at a time. The queue says when a training runs, `worker.py` does it.
"""

from __future__ import annotations

import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from thereafter.base import progress
from thereafter.errors import FormatError, OptionError, ThereafterError
from thereafter.serving.lanes import ModelLanes
from thereafter.serving.schema import Answer, StartingError
from thereafter.serving.shelf import Shelf, TaskShelf
from thereafter.studio.jobs import JobAnswer, Jobs
from thereafter.studio.queue import QueuedTraining, Rank, Releasable, Report, SharedLock, TrainingQueue
from thereafter.studio.worker import ReadyCommand

if TYPE_CHECKING:
    from thereafter.language_model import LanguageModel
    from thereafter.ready.models import Ready
    from thereafter.ready.tasks import ReadyTask


ANEW = "anew"
LOCK = "lock"
"""In the folder of the ready models: the lock of whoever changes them."""
_MAKING = "ready models that do not ship with the package are made once"
_PAUSE = 0.2  # seconds between two looks at what another studio does


class MakingAnswer(Answer):
    """`task` is the one whose ready models are being trained, "anew" where `model` is trained anew, "" when nothing is;
    `share` of that is done, and `status` says how far it is."""

    task: str
    model: str
    share: float
    status: str
    error: str


class StatusAnswer(Answer):
    """`loaded`: models can be asked. `making` is the ready model being trained, "" when all are there; `share` of them
    is done, 0 to 1."""

    loaded: bool
    making: str
    share: float
    note: str


class _ReadyTraining(ABC):
    """A training of several ready models of a `folder`, one after the other; `scale` shortens it."""

    def __init__(self, folder: Path, scale: float, queue: TrainingQueue, lock: SharedLock) -> None:
        self.folder, self._scale = folder, scale
        self._queue, self._ready_lock = queue, lock
        self._training: QueuedTraining | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._made, self._total, self._share = 0, 0, 0.0

    @property
    def _done(self) -> float:
        """The share of all models that is done."""
        return (self._made + self._share) / max(1, self._total)

    def close(self) -> None:
        """Let a training save its state and end; it goes on when it is asked for again."""
        with self._lock:
            self._closed = True
            training = self._training
        if training is not None:
            self._queue.end([training])

    def _command(self, do: Literal["ready", "tasks", "anew"]) -> ReadyCommand:
        return {"do": do, "folder": str(self.folder.absolute()), "scale": self._scale}

    def _submit(self, command: ReadyCommand, rank: Rank, title: str, models: int, lock: Releasable | None) -> None:
        """Put a training of so many models in the queue; where it is refused the lock is free again."""
        self._made, self._total, self._share = 0, models, 0.0
        self._training = QueuedTraining(command, rank=rank, name=title, hear=self._hear, ended=self._ended, lock=lock)
        try:
            self._queue.submit(self._training)
        except BaseException:
            self._training.release()
            raise

    def _hear(self, report: Report) -> None:
        if report.ready:
            self._made, self._share = self._made + 1, 0.0
        elif report.task == "training" and report.share is not None:
            self._share = report.share

    @abstractmethod
    def _ended(self, code: int) -> None:
        """The training's process ended with this exit status."""


class Making(_ReadyTraining):
    """Makes what somebody asks for."""

    def __init__(
        self, folder: Path, scale: float, *, queue: TrainingQueue | None = None, lock: SharedLock | None = None
    ) -> None:
        super().__init__(folder, scale, queue or TrainingQueue(), lock or SharedLock(folder / LOCK))
        self._task = self._model = self._error = self._status = ""

    def answer(self) -> MakingAnswer:
        """What the page shows. `error` is that of the last training."""
        training, status = self._training, self._status
        if self._task and training is not None and training.is_waiting:
            status = f"waiting for {', '.join(self._queue.running) or 'its turn'}"
        share = min(1.0, self._done)
        return MakingAnswer(task=self._task, model=self._model, share=share, status=status, error=self._error)

    def begin(self, task: str) -> None:
        """Make the models of a task that are missing; where none is, or where that goes on already, nothing happens."""
        from thereafter.ready import tasks as ready_tasks

        with self._lock:
            if self._task == task:
                return
            absent = [one.name for one in ready_tasks.missing(self.folder, task)]
            if absent:
                self._start(task, absent, f"the ready models of {task!r}", {**self._command("tasks"), "task": task})

    def begin_anew(self, name: str) -> None:
        """Train a ready model anew; where that goes on already, nothing happens."""
        with self._lock:
            if (self._task, self._model) != (ANEW, name):
                self._start(ANEW, [name], f"the ready model {name!r}", {**self._command("anew"), "name": name})

    def _start(self, task: str, names: list[str], title: str, command: ReadyCommand) -> None:
        if self._closed:
            raise OptionError("the studio is closing; ask for the training when it is open again")
        if self._task:
            busy = f"the model {self._model!r} is" if self._task == ANEW else f"the models of {self._task!r} are"
            raise OptionError(f"{busy} being trained; try again when that has ended")
        lock = self._ready_lock.take()
        if lock is None:
            raise OptionError("another studio is training these models; try again in a minute")
        self._task, self._model, self._error, self._status = task, names[0], "", "starting"
        try:
            self._submit(command, Rank.READY, title, len(names), lock)
        except BaseException:
            self._task = self._model = ""
            raise

    def _hear(self, report: Report) -> None:
        super()._hear(report)
        self._model = report.making or self._model
        if report.task:
            self._status = report.status or report.task
        self._error = report.error or self._error

    def _ended(self, code: int) -> None:
        with self._lock:
            if code and not self._error:
                self._error = "the training was interrupted; it resumes when you ask for it again"
            self._task = self._model = ""


@dataclass
class Stage:
    """How far the start is, for the line of progress on the page: see `StatusAnswer`."""

    loaded: bool = False
    making: str = ""
    share: float = 0.0
    note: str = ""

    def answer(self) -> StatusAnswer:
        """What the page shows."""
        return StatusAnswer.of(self)


class MissingModels(_ReadyTraining):
    """Makes the ready models that are missing when a studio starts, and says so on its `stage`.

    Without `shipped` all of them are trained, also those whose weights the package has.
    """

    def __init__(
        self, folder: Path, stage: Stage, *, scale: float, shipped: bool, queue: TrainingQueue, lock: SharedLock
    ) -> None:
        super().__init__(folder, scale, queue, lock)
        self._stage, self._shipped = stage, shipped

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
            missing = ready.missing(self.folder)
            if missing and not self._closed:  # it may have been ended while it started
                self._stage.making, self._stage.note = missing[0].name, _MAKING
                title = "the ready models that are missing"
                self._submit(self._command("ready"), Rank.MISSING, title, len(missing), lock)
            elif lock is not None:
                lock.release()

    def _missing(self) -> list[Ready | ReadyTask]:
        """What is still to be made, or at least to be unpacked."""
        from thereafter.ready import models, shipped, tasks

        absent: list[Ready | ReadyTask] = list(models.missing(self.folder))
        if self._shipped:
            place = self.folder / tasks.TASKS
            absent += [one for one in tasks.READY_TASKS if shipped.is_shipped(one) and not models.is_there(one, place)]
        return absent

    def _unpack(self) -> None:
        """Put the shipped models where they are missing; one whose files are damaged is trained like the others."""
        from thereafter.ready import shipped, tasks

        for one in self._missing():
            place = self.folder / tasks.TASKS if isinstance(one, tasks.ReadyTask) else self.folder
            try:
                shipped.unpack(one, place, self.folder / "texts")
            except (FormatError, OSError) as error:
                progress.warn(str(error))

    def _hear(self, report: Report) -> None:
        super()._hear(report)
        self._stage.making = report.making or self._stage.making
        self._stage.share = self._done
        self._stage.note = report.error or self._stage.note

    def _ended(self, code: int) -> None:
        self._stage.making = ""
        if code == 0:
            self._stage.share, self._stage.note = 1.0, ""
        elif self._stage.note == _MAKING:  # else the sentence of what went wrong stays
            self._stage.note = "the ready models are not finished; their training resumes at the next start"


_HEAVY = ("numpy", "torch", "thereafter.api", "thereafter.instruments")
_FRESH = 0.2  # seconds for which one snapshot serves all open pages


class ExportAnswer(Answer):
    """The model that is being exported, "" if none is; `share` of the `task` is done, 0 to 1, if that is known."""

    model: str
    task: str
    share: float | None


class SnapshotAnswer(Answer):
    """All that changes by itself: the start, the names of the models, the trainings."""

    stage: StatusAnswer
    models: list[str]
    jobs: list[JobAnswer]


class Studio:
    """`runs`: the user's folder; `ready`: where the ready models are kept; `scale` shortens their training.

    Without `shipped` all ready models are trained, also those whose weights the package has.
    """

    def __init__(self, runs: Path, ready: Path, *, scale: float = 1.0, shipped: bool = True) -> None:
        self.shelf = Shelf(ready, runs)
        self.tasks = TaskShelf(ready, runs)
        self.queue = TrainingQueue()
        ready_lock = SharedLock(ready / LOCK)
        self.making = Making(ready, scale, queue=self.queue, lock=ready_lock)
        self.jobs = Jobs(runs, queue=self.queue)
        self.lanes = ModelLanes(server="studio")
        self.exporting = Exporting()
        self.stage = Stage()
        self._missing = MissingModels(
            ready, self.stage, scale=scale, shipped=shipped, queue=self.queue, lock=ready_lock
        )
        self._looking = threading.Lock()
        self._looked = 0.0
        self._snapshot = SnapshotAnswer(stage=self.stage.answer(), models=[], jobs=[])

    def start(self) -> None:
        """Load what models need and train the ready models that are missing, both behind the page."""
        threading.Thread(target=self._load, daemon=True).start()

    def close(self) -> None:
        """Let every training save its state and end."""
        self.queue.close()
        self._missing.close()
        self.making.close()
        self.jobs.close()

    def check_loaded(self) -> None:
        """Refuse what cannot be answered yet."""
        if not self.stage.loaded:
            raise StartingError("the studio is still loading; try again in a few seconds")

    def snapshot(self) -> SnapshotAnswer:
        """All that changes by itself: what a page gets whenever it does. Many open pages look once, not each."""
        with self._looking:
            if time.monotonic() - self._looked > _FRESH:
                loaded = self.stage.loaded
                models = [card.name for card in self.shelf.cards()] if loaded else []
                jobs = self.jobs.all() if loaded else []
                self._snapshot = SnapshotAnswer(stage=self.stage.answer(), models=models, jobs=jobs)
                self._looked = time.monotonic()
            return self._snapshot

    def _load(self) -> None:
        try:
            for package in _HEAVY:
                self.stage.note = f"loading {package}"
                import_module(package)
            # what is asked here is too small to share, and threads that wait for each other are slow on a busy machine
            import_module("torch").set_num_threads(1)
        except (ImportError, OSError) as error:
            self.stage.note = f"the studio cannot ask models: {error}"
            return
        self.stage.note, self.stage.loaded = "", True
        try:
            self._missing.make()
        except (ThereafterError, OSError) as error:
            self.stage.making, self.stage.note = "", f"the ready models cannot be trained: {error}"


_IDLE = ExportAnswer(model="", task="", share=None)


class Exporting(progress.Silent):
    """The verb `export`: a language model as one page that runs by itself, checked before it is handed over.

    Writes one page at a time, and reports how far that is.
    """

    def __init__(self) -> None:
        self._now = _IDLE

    def answer(self) -> ExportAnswer:
        return self._now

    def page(self, name: str, load: Callable[[str], LanguageModel]) -> bytes:
        """The page of a model; ExportError says why there is none. `load` gives a copy, which nobody else waits for."""
        self._now = ExportAnswer(model=name, task="loading the model", share=None)
        try:
            with progress.reporting(self), tempfile.TemporaryDirectory() as folder:
                # the name of a run may be as long as a file name can be
                path = Path(folder) / f"{name.partition(':')[2][:60]}.html"
                load(name).export(path, "html")
                return path.read_bytes()
        finally:
            self._now = _IDLE

    def begin(self, label: str, total: float | None, unit: str) -> progress.Advance:
        done = 0.0

        def advance(amount: float, status: str = "") -> None:
            nonlocal done
            done += amount
            self._now = self._now.model_copy(update={"share": min(1.0, done / total) if total else None})

        self._now = self._now.model_copy(update={"task": label, "share": None})
        return advance

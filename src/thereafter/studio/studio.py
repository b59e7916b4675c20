"""What all requests of a studio share: the shelf, the trainings, how far it has got with starting, and the export."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from thereafter.base import progress
from thereafter.errors import ThereafterError
from thereafter.serving.errors import StartingError
from thereafter.serving.lanes import ModelLanes
from thereafter.serving.schema import Answer
from thereafter.serving.shelf import Shelf, TaskShelf
from thereafter.studio.jobs import JobAnswer, Jobs
from thereafter.studio.making import LOCK, Making, MissingModels, Stage, StatusAnswer
from thereafter.studio.queue import SharedLock, TrainingQueue

if TYPE_CHECKING:
    from thereafter.language_model import LanguageModel


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


class Exporting:
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

    def end(self, label: str) -> None:
        return None

    def note(self, message: str) -> None:
        return None

"""What all requests of a studio share: the shelf, the trainings, and how far it has got with starting."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from thereafter import progress
from thereafter.errors import FormatError, ThereafterError
from thereafter.locks import FileLock, take
from thereafter.serving.errors import StartingError
from thereafter.serving.lanes import ModelLanes
from thereafter.serving.shelf import Shelf, TaskShelf
from thereafter.studio.child import Child
from thereafter.studio.jobs import Jobs
from thereafter.studio.making import Making

_HEAVY = ("numpy", "torch", "thereafter.api", "thereafter.instruments")
_MAKING = "ready models that do not ship with the package are made once"
_FRESH = 0.2  # seconds for which what was seen is told to others


@dataclass
class Stage:
    """Where the start has got to, for the line of progress on the page."""

    loaded: bool = False
    """Models can be asked."""
    making: str = ""
    """The ready model being trained, "" when all are there."""
    share: float = 0.0
    note: str = ""
    made: list[str] = field(default_factory=list)

    def facts(self) -> dict[str, Any]:
        return {"loaded": self.loaded, "making": self.making, "share": self.share, "note": self.note}


class Studio:
    """`runs`: the user's folder; `ready`: where the ready models are kept; `scale` shortens their training.

    Without `shipped` all ready models are trained, also those whose weights the package has.
    """

    def __init__(self, runs: Path, ready: Path, *, scale: float = 1.0, shipped: bool = True) -> None:
        self.shelf = Shelf(ready, runs)
        self.tasks = TaskShelf(ready, runs)
        self.making = Making(ready, scale)
        self.jobs = Jobs(runs)
        self.lanes = ModelLanes(server="studio")
        self.stage = Stage()
        self._ready, self._scale, self._shipped = ready, scale, shipped
        self._child: Child | None = None
        self._turn: FileLock | None = None
        self._closed = False
        self._lock = threading.Lock()
        self._looking = threading.Lock()
        self._looked, self._seen = 0.0, dict[str, Any]()

    def start(self) -> None:
        """Load what models need and train the ready models that are missing, both behind the page."""
        threading.Thread(target=self._load, daemon=True).start()

    def close(self) -> None:
        """Let every training save its state and end."""
        with self._lock:
            self._closed = True
        if self._child is not None:
            self._child.end()
        self.making.close()
        self.jobs.close()

    def check_loaded(self) -> None:
        """Refuse what cannot be answered yet."""
        if not self.stage.loaded:
            raise StartingError("the studio is still loading; try again in a few seconds")

    def snapshot(self) -> dict[str, Any]:
        """All that changes by itself: what a page is told whenever it does. Many open pages look once, not each."""
        with self._looking:
            if time.monotonic() - self._looked > _FRESH:
                loaded = self.stage.loaded
                models = [card.name for card in self.shelf.cards()] if loaded else []
                jobs = self.jobs.all() if loaded else []
                self._seen = {"stage": self.stage.facts(), "models": models, "jobs": jobs}
                self._looked = time.monotonic()
            return self._seen

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
            self._make()
        except (ThereafterError, OSError) as error:
            self.stage.making, self.stage.note = "", f"the ready models cannot be trained: {error}"

    def _make(self) -> None:
        """Unpack the ready models that are missing, and train what does not ship; while another studio is at it, wait
        for its models."""
        from thereafter.ready import models as ready

        turn = None
        while (missing := self._missing()) and turn is None and not self._closed:
            turn = take(self._ready / "lock")
            if turn is None:
                self.stage.note = "another studio is making the ready models"
                time.sleep(_FRESH)
            elif self._shipped:
                self._unpack()
        self.stage.note = ""
        with self._lock:
            self._turn = turn
            missing = ready.missing(self._ready)
            if missing and not self._closed:  # it may have been ended while it started
                self.stage.making, self.stage.note = missing[0].name, _MAKING
                order = {"do": "ready", "folder": str(self._ready.absolute()), "scale": self._scale}
                self._child = Child(order, lambda said: self._hear(said, len(missing)), self._made)
            elif turn is not None:
                turn.release()

    def _missing(self) -> list[Any]:
        """What is still to be made, or at least to be unpacked."""
        from thereafter.ready import models, shipped, tasks

        absent: list[Any] = list(models.missing(self._ready))
        if self._shipped:
            place = self._ready / tasks.TASKS
            absent += [one for one in tasks.READY_TASKS if shipped.is_shipped(one) and not models.is_there(one, place)]
        return absent

    def _unpack(self) -> None:
        """Put the shipped models where they are missing; one whose files are damaged is trained like the others."""
        from thereafter.ready import shipped, tasks

        for one in self._missing():
            place = self._ready / tasks.TASKS if isinstance(one, tasks.ReadyTask) else self._ready
            try:
                shipped.unpack(one, place, self._ready / "texts")
            except (FormatError, OSError) as error:
                progress.warn(str(error))

    def _hear(self, said: dict[str, Any], total: int) -> None:
        stage = self.stage
        if "making" in said:
            stage.making = str(said["making"])
        if "ready" in said:
            stage.made.append(str(said["ready"]))
        done = len(stage.made)
        if said.get("task") == "training" and said["share"] is not None:
            stage.share = (done + float(said["share"])) / total
        elif "ready" in said:
            stage.share = done / total
        if "error" in said:
            stage.note = str(said["error"])

    def _made(self, code: int) -> None:
        if self._turn is not None:
            self._turn.release()
        self.stage.making = ""
        if code == 0:
            self.stage.share, self.stage.note = 1.0, ""
        elif self.stage.note == _MAKING:  # else the sentence of what went wrong stays
            self.stage.note = "the ready models were not finished; they go on at the next start"

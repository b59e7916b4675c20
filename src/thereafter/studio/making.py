"""Ready models being trained because somebody asked for it: at most one order at a time, in a process of its own.

The models of a task where they are missing, or any ready model anew (`worker.py` does it).
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from thereafter.errors import OptionError, StorageError
from thereafter.locks import FileLock, take
from thereafter.ready.tasks import TASKS
from thereafter.studio.child import Child

ANEW = "anew"


class Making:
    """`folder` is that of all ready models; `scale` shortens the trainings."""

    def __init__(self, folder: Path, scale: float) -> None:
        self.folder, self._scale = folder, scale
        self._child: Child | None = None
        self._turn: FileLock | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._task = self._model = self._error = self._status = ""
        self._made, self._total, self._share = 0, 0, 0.0

    def facts(self) -> dict[str, Any]:
        """What the page is told. `task` is the one being learned, `ANEW` where a model is trained anew, "" when nothing
        is; `status` says how far it is, `error` is that of the last one."""
        share = min(1.0, (self._made + self._share) / max(1, self._total))
        facts = {"task": self._task, "model": self._model, "share": share, "status": self._status}
        return facts | {"error": self._error}

    def begin(self, task: str) -> None:
        """Make the models of a task that are missing; where none is, or where that goes on already, nothing happens."""
        from thereafter.ready import tasks as ready_tasks

        with self._lock:
            if self._task == task:
                return
            absent = [one.name for one in ready_tasks.missing(self.folder, task)]
            if absent:
                self._start(task, absent, {"do": "tasks", "task": task})

    def begin_anew(self, name: str) -> None:
        """Train a ready model anew; where that goes on already, nothing happens."""
        with self._lock:
            if (self._task, self._model) != (ANEW, name):
                self._start(ANEW, [name], {"do": "anew", "name": name})

    def _start(self, task: str, names: list[str], order: dict[str, Any]) -> None:
        if self._closed:
            raise OptionError("the studio is closing; ask for the training when it is open again")
        if self._task:
            busy = f"the model {self._model!r} is" if self._task == ANEW else f"the models of {self._task!r} are"
            raise OptionError(f"{busy} being trained; try again when that has ended")
        self._turn = take(self.folder / TASKS / "lock")
        if self._turn is None:
            raise OptionError("another studio is training these models; try again in a minute")
        self._task, self._model, self._error, self._status = task, names[0], "", "starting"
        self._made, self._total, self._share = 0, len(names), 0.0
        order = {"folder": str(self.folder.absolute()), "scale": self._scale} | order
        try:
            self._child = Child(order, self._hear, self._ended)
        except StorageError:
            self._turn.release()
            self._task = self._model = ""
            raise

    def close(self) -> None:
        """Let a training save its state and end; it goes on when it is asked for again."""
        with self._lock:
            self._closed = True
        if self._child is not None:
            self._child.end()

    def _hear(self, said: dict[str, Any]) -> None:
        if "making" in said:
            self._model = str(said["making"])
        if "ready" in said:
            self._made, self._share = self._made + 1, 0.0
        if said.get("task") == "training" and said["share"] is not None:
            self._share = float(said["share"])
        if "status" in said:
            self._status = str(said["status"] or said["task"])
        if "error" in said:
            self._error = str(said["error"])

    def _ended(self, code: int) -> None:
        with self._lock:
            if code and not self._error:
                self._error = "the training was broken off; it goes on when it is asked for again"
            if self._turn is not None:
                self._turn.release()
            self._task = self._model = ""

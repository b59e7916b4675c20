"""Trainings begun from the page: each a process, its run in the runs folder, its curve the run's own log.

A paused training is one whose process has saved its state and ended; resuming goes on from there, to the same weights
(`training/resume.py`). So a pause, a stop and a crash of the studio are the same to a run, and nothing is lost: what
was left unfinished is listed as paused the next time. The order of a training lies beside the runs (`orders.py`) until
its run folder can go on by itself: one that is paused while its text is still being read begins again.

A run that somebody else is training, in a terminal or in another studio, is listed as running elsewhere, with its
owner; it is theirs to pause and to go on with.
"""

from __future__ import annotations

import re
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from thereafter.errors import BusyError, OptionError, SourceError
from thereafter.locks import FileLock, Owner
from thereafter.serving.errors import NotThereError
from thereafter.serving.own import is_own_run
from thereafter.studio.answers.training import CurveAnswer
from thereafter.studio.child import Child
from thereafter.studio.orders import TEXTS, Orders, busy
from thereafter.studio.unfinished import Unfinished
from thereafter.studio.verbs.curves import curve

State = Literal["running", "elsewhere", "pausing", "paused", "stopping", "stopped", "finished", "failed"]
Order = dict[str, Any]
MOST_RUNNING = 2
_NAME = re.compile(r"[^\w-]+")
_LONGEST_NAME = 40  # characters: a number and an ending are added, and file systems count bytes
_AFTER: dict[State, State] = {"pausing": "paused", "stopping": "stopped"}


@dataclass
class Job:
    """A training. `name` is that of its run folder."""

    name: str
    model: str
    state: State = "running"
    share: float = 0.0
    status: str = ""
    """What the bar says: loss, speed, rate."""
    note: str = ""
    error: str = ""
    owner: str = ""
    """Who is training it, where that is not this studio."""
    order: Order | None = field(default=None, repr=False)
    """How to begin it, as long as there is no run to go on with."""
    child: Child | None = field(default=None, repr=False)
    lock: FileLock | None = field(default=None, repr=False)
    """Keeps other studios from it while it is this one's."""

    @property
    def alive(self) -> bool:
        return self.child is not None and self.child.alive

    def facts(self) -> dict[str, Any]:
        """What the page is told."""
        names = ("name", "model", "state", "share", "status", "note", "error", "owner")
        return {name: getattr(self, name) for name in names} | {"run": f"runs:{self.name}"}

    def release(self) -> None:
        """Leave it to whoever wants to go on with it."""
        if self.lock is not None:
            self.lock.release()
            self.lock = None


class Jobs:
    """The trainings of one studio, whose runs go to `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._jobs: dict[str, Job] = {}
        self._unfinished = Unfinished(folder)
        self._orders = Orders(folder)
        self._closed = False
        self._lock = threading.Lock()

    def all(self) -> list[dict[str, Any]]:
        """Every training known, oldest first, and every run left unfinished by somebody else."""
        with self._lock:
            for job in list(self._jobs.values()):
                if self._is_gone(job) or self._owner(job) is not None:
                    del self._jobs[job.name]
                elif job.state == "running" and job.child is not None and self._is_lost(job):
                    job.child.interrupt()
            return [job.facts() | {"resumable": self._can_go_on(job)} for job in (*self._jobs.values(), *self._left())]

    def begin(
        self,
        name: str,
        model: str,
        *,
        text: str | None = None,
        source: str | None = None,
        tokens: str | None = None,
        options: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Start a training on a text or on a named corpus; returns what `all` says of it."""
        if (text is None) == (source is None):
            got = "neither" if text is None else "both"
            raise SourceError(f"got {got} of a text and a corpus; expected one of them")
        if text is not None and not text.strip():
            raise SourceError("the text is empty; expected some sentences; try pasting a page of a book")
        with self._lock:
            self._check_room()
            run, lock = self._reserve(name or f"{source or 'text'}-{model}")
            job = Job(run, model, lock=lock)
            try:
                source = source if text is None else self._orders.write_text(run, text)
                job.order = {"do": "train", "source": source, "model": model, "tokens": tokens}
                job.order |= {"options": options or {}, "run": str((self.folder / run).absolute())}
                self._orders.write(run, job.order)
                return self._start(job, job.order)
            except BaseException:
                job.release()
                raise

    def pause(self, name: str) -> dict[str, Any]:
        """Save the state and end the process; `resume` goes on from there."""
        return self._leave(name, "pausing")

    def stop(self, name: str) -> dict[str, Any]:
        """End the training for good; the best weights so far stay in the run."""
        return self._leave(name, "stopping")

    def resume(self, name: str) -> dict[str, Any]:
        """Go on with a training that was paused, stopped, or left unfinished by anybody."""
        with self._lock:
            job = self._found(name)
            if job.alive or job.state == "finished":
                raise OptionError(f"the training {name!r} is {job.state}; expected one that is paused")
            self._check_ours(job)
            if not self._can_go_on(job):
                raise NotThereError(f"the training {name!r} left nothing to go on with; try starting it again")
            self._check_room()
            if job.lock is None:
                job.lock = self._orders.take(job.name)
            try:
                job.note = job.error = ""
                return self._start(job, job.order or {"do": "resume", "run": str((self.folder / job.name).absolute())})
            except BaseException:
                job.release()
                raise

    def curve(self, name: str) -> CurveAnswer:
        """What the log of a training says so far."""
        with self._lock:
            return curve(self.folder / self._found(name).name)

    def close(self) -> None:
        """Let every training save its state and end; nothing is begun from now on."""
        with self._lock:
            self._closed = True
            running = [job for job in self._jobs.values() if job.alive]
            for job in running:
                job.state = "pausing" if job.state == "running" else job.state
        children = [job.child for job in running if job.child is not None]
        for child in children:
            child.interrupt()
        for child in children:
            child.end()
        with self._lock:
            for job in self._jobs.values():
                job.release()

    def _leave(self, name: str, state: State) -> dict[str, Any]:
        with self._lock:
            job = self._found(name)
            self._check_ours(job)
            if job.child is not None and job.alive:
                job.state = state
                job.child.interrupt()
            elif state == "stopping" and job.state == "paused":
                job.state, job.note = "stopped", ""
                self._jobs[job.name] = job
            else:
                raise OptionError(f"the training {name!r} is {job.state}; expected one that runs")
            return job.facts() | {"resumable": self._can_go_on(job)}

    def _found(self, name: str) -> Job:
        """A training of the list, by its name and nothing else."""
        job = self._jobs.get(name)
        if job is not None and not self._is_gone(job):
            return job
        for left in self._left():
            if left.name == name:
                return left
        raise NotThereError(f"there is no training {name!r} (any more); pick one of the list")

    def _left(self) -> list[Job]:
        """What earlier studios, or anybody else, left unfinished, and what somebody else is training now."""
        from thereafter.runs.folder import is_run

        runs = self._unfinished.runs()
        jobs = {name: Job(name, left.kind, "paused", left.share, note="left unfinished") for name, left in runs.items()}
        for name, order in self._orders.waiting().items():
            # a folder without its configuration, which is written last, is no run yet
            if not is_run(self.folder / name):
                jobs[name] = Job(name, str(order["model"]), "paused", note="it had not begun yet", order=order)
        found = [job for name, job in jobs.items() if name not in self._jobs]
        for job in found:
            owner = self._owner(job)
            if owner is not None:
                job.state, job.note, job.owner = "elsewhere", "", str(owner)
        # the studio cannot go on with a task: it is shown only while somebody else trains it
        return [job for job in found if job.state == "elsewhere" or not (job.name in runs and runs[job.name].is_task)]

    def _owner(self, job: Job) -> Owner | None:
        """Who else is training it; None where nobody is, or this studio."""
        return None if job.alive or job.lock is not None else self._orders.owner(job.name)

    def _check_ours(self, job: Job) -> None:
        owner = self._owner(job)
        if owner is not None:
            raise busy(job.name, owner)

    def _start(self, job: Job, order: Order) -> dict[str, Any]:
        job.state, job.status = "running", "starting"

        def hear(said: dict[str, Any]) -> None:
            if "note" in said:
                job.note = str(said["note"])
            if "error" in said:
                job.error = str(said["error"])
            if "task" in said:
                job.status = said["status"] or str(said["task"])
            if said.get("task") == "training":
                job.share = job.share if said["share"] is None else float(said["share"])
                self._forget_order(job)

        def ended(code: int) -> None:
            with self._lock:
                job.release()
                if self._is_lost(job):
                    job.state, job.status = "failed", ""
                    job.error = "its run folder was removed while it was trained; try starting it again"
                elif code == 0:
                    job.state, job.share, job.status = "finished", 1.0, ""
                elif job.state in _AFTER:
                    job.state, job.status = _AFTER[job.state], ""
                else:
                    words = job.child.last_words if job.child else ""
                    job.state, job.status = "failed", ""
                    job.error = job.error or f"the training ended without a word ({words or f'exit code {code}'})"
                if job.state in ("finished", "failed"):
                    self._forget_order(job)
                if job.state == "failed" and not (self.folder / job.name).exists():
                    self._orders.text(job.name).unlink(missing_ok=True)

        job.child = Child(order, hear, ended)
        self._jobs[job.name] = job
        return job.facts() | {"resumable": False}

    def _forget_order(self, job: Job) -> None:
        """From now on its run folder says how to go on."""
        if job.order is not None:
            job.order = None
            self._orders.place(job.name).unlink(missing_ok=True)

    def _can_go_on(self, job: Job) -> bool:
        if job.alive or job.state not in ("paused", "stopped", "failed"):
            return False
        return job.order is not None or is_own_run(self.folder / job.name)

    def _is_lost(self, job: Job) -> bool:
        """Whether there is no run any more although its training has begun."""
        from thereafter.runs.folder import is_run

        return job.order is None and not is_run(self.folder / job.name)

    def _is_gone(self, job: Job) -> bool:
        """Whether somebody has removed what a training has made."""
        at_rest = job.state in ("paused", "stopped", "finished") and job.order is None
        return at_rest and not (self.folder / job.name).exists()

    def _check_room(self) -> None:
        if self._closed:
            raise OptionError("the studio is closing; start the training when it is open again")
        running = [job.name for job in self._jobs.values() if job.alive]
        if len(running) >= MOST_RUNNING:
            raise OptionError(f"{len(running)} trainings run already ({', '.join(running)}); pause one of them first")

    def _reserve(self, name: str) -> tuple[str, FileLock]:
        """A folder name that no run has yet, nor a text that one may go on with, kept from other studios."""
        plain, number = _NAME.sub("-", name).strip("-")[:_LONGEST_NAME].strip("-") or "run", 2
        run = plain
        while True:
            if run not in (TEXTS, *self._jobs) and self._orders.is_free(run):
                with suppress(BusyError):  # another studio was first
                    lock = self._orders.take(run)
                    if self._orders.is_free(run):
                        return run, lock
                    lock.release()
            run, number = f"{plain}-{number}", number + 1

"""Trainings begun from the page: each a process, its run in the runs folder, its curve the run's own log.

A paused training is one whose process has saved its state and ended; resuming goes on from there, to the same weights
(`training/protocol.py`). So a pause, a stop and a crash of the studio are the same to a run, and nothing is lost: what
was left unfinished is listed as paused the next time. The command of a training lies beside the runs (`worker.py`)
until its run folder can go on by itself: one that is paused while its text is still being read begins again.

When its process starts, which lock it has and how it is stopped is the queue's to know (`queue.py`).

A run that somebody else is training, in a terminal or in another studio, is listed as running elsewhere, with its
owner; it is theirs to pause and to go on with.
"""

from __future__ import annotations

import json
import math
import re
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from thereafter.base.storage import FileLock, Owner, read_plain
from thereafter.errors import BusyError, OptionError, SourceError
from thereafter.serving.listening import CONFIG, LOG, is_own_run, own_runs
from thereafter.serving.schema import Answer, NotThereError
from thereafter.studio.queue import QueuedTraining, Rank, Report, TrainingQueue
from thereafter.studio.worker import TEXTS, Command, StoredCommands, Tokens, TrainCommand, busy

if TYPE_CHECKING:
    from thereafter.training.settings import TrainingSettings


Line = dict[str, object]
"""A line of a log; somebody else may have written it."""
_POINTS = 600  # of a curve at most: more than a screen can show
_LARGEST = 1e300
_LOG = "log.jsonl"


class CurveAnswer(Answer):
    """Losses in nats a token by step and by tokens read (`seen`), while training and on the validation text."""

    step: list[int]
    seen: list[float | None]
    loss: list[float | None]
    valid_step: list[int]
    valid_seen: list[float | None]
    valid_seconds: list[float | None]
    valid_loss: list[float | None]
    valid_perplexity: list[float | None]


def curve(run: Path) -> CurveAnswer:
    """Losses in nats a token by step and by tokens read (`seen`); of validations also the perplexity and the seconds.

    All lists are empty where there is no log yet. What is not a number is None.
    """
    lines = _lines(run / _LOG)
    steps, valid = _points(lines, "step"), _points(lines, "validation")
    valid_steps = _steps(valid)
    return CurveAnswer(
        step=_steps(steps),
        seen=_column(steps, "seen"),
        loss=_column(steps, "loss"),
        valid_step=valid_steps,
        valid_seen=_seen_at(valid_steps, lines),
        valid_seconds=_column(valid, "seconds"),
        valid_loss=_column(valid, "loss"),
        valid_perplexity=_column(valid, "perplexity"),
    )


def _column(lines: list[Line], name: str) -> list[float | None]:
    return [_number(line.get(name)) for line in lines]


def _steps(lines: list[Line]) -> list[int]:
    return [int(step) for step in _column(lines, "step") if step is not None]


def _seen_at(steps: list[int], lines: list[Line]) -> list[float | None]:
    """The tokens read up to some steps, by the lines that have both; the last line calls its steps otherwise."""
    import numpy as np

    pairs = ((_number(line.get("step", line.get("steps"))), _number(line.get("seen"))) for line in lines)
    known = sorted({(at, seen) for at, seen in pairs if at is not None and seen is not None} | {(0.0, 0.0)})
    if len(known) < 2:
        return [None] * len(steps)
    at, seen = zip(*known, strict=True)
    return list(np.interp(steps, at, seen).tolist())


def _lines(path: Path) -> list[Line]:
    """What can be read of a log that may be written to at this moment, or by anybody."""
    try:
        written = read_plain(path, links=False).decode("utf-8", "replace")
    except OSError:
        return []
    lines = []
    for line in written.splitlines():
        try:
            content = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(content, dict):
            lines.append(content)
    return lines


def _points(lines: list[Line], event: str) -> list[Line]:
    """The lines of an event that say at which step it was: so many that a chart can show them, the last among them."""
    at_steps = [line for line in lines if line.get("event") == event and isinstance(line.get("step"), int)]
    points = [line for line in at_steps if _number(line["step"]) is not None]
    every = max(1, -(-len(points) // _POINTS))
    return points[::-every][::-1]


def _number(value: object) -> float | None:
    """A number that JSON can say; a log that somebody else wrote may hold anything."""
    if not isinstance(value, int | float) or abs(value) > _LARGEST:
        return None
    return float(value) if math.isfinite(value) else None


_NAME = re.compile(r"[^\w-]+")
_LONGEST_NAME = 40  # characters: a number and an ending are added, and file systems count bytes


State = Literal["running", "elsewhere", "pausing", "paused", "stopping", "stopped", "finished", "failed"]
"""Of a training, as the page shows it."""
_AFTER: dict[State, State] = {"pausing": "paused", "stopping": "stopped"}


class JobAnswer(Answer):
    """A training; `run` is the name of the model it makes, `share` of its budget is used, 0 to 1.

    One that runs elsewhere, in a terminal or in another studio, has an `owner` and cannot be changed from here.
    """

    name: str
    model: str
    state: State
    share: float
    status: str
    note: str
    error: str
    owner: str
    run: str
    resumable: bool


@dataclass
class StudioJob:
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
    command: TrainCommand | None = field(default=None, repr=False)
    """How to begin it, as long as there is no run to go on with."""
    training: QueuedTraining | None = field(default=None, repr=False)
    """Its place in the queue, from its last start on."""

    @property
    def alive(self) -> bool:
        return self.training is not None and self.training.alive

    @property
    def is_locked(self) -> bool:
        """Whether this studio keeps others from it."""
        return self.training is not None and self.training.lock is not None

    def answer(self, *, resumable: bool) -> JobAnswer:
        """What the page shows."""
        return JobAnswer.of(self, run=f"runs:{self.name}", resumable=resumable)


class Jobs:
    """The trainings of one studio, whose runs go to `folder`."""

    def __init__(self, folder: Path, *, queue: TrainingQueue | None = None) -> None:
        self.folder = folder
        self._queue = queue or TrainingQueue()
        self._jobs: dict[str, StudioJob] = {}
        self._unfinished = UnfinishedRuns(folder)
        self._commands = StoredCommands(folder)
        self._lock = threading.Lock()

    def all(self) -> list[JobAnswer]:
        """Every training known, oldest first, and every run left unfinished by somebody else."""
        with self._lock:
            for job in list(self._jobs.values()):
                if self._is_gone(job) or self._owner(job) is not None:
                    del self._jobs[job.name]
                elif job.state == "running" and job.training is not None and self._is_lost(job):
                    self._queue.interrupt(job.training)
            return [self._answer(job) for job in (*self._jobs.values(), *self._left())]

    def begin(
        self,
        name: str,
        model: str,
        *,
        text: str | None = None,
        source: str | None = None,
        tokens: Tokens | None = None,
        options: dict[str, float] | None = None,
    ) -> JobAnswer:
        """Start a training on a text or on a named corpus."""
        if (text is None) == (source is None):
            got = "neither" if text is None else "both"
            raise SourceError(f"got {got} of a text and a corpus; expected one of them")
        if text is not None and not text.strip():
            raise SourceError("the text is empty; expected some sentences; try pasting a page of a book")
        with self._lock:
            self._queue.check_room()
            run, lock = self._reserve(name or f"{source or 'text'}-{model}")
            try:
                path = str((self.folder / run).absolute())
                known = str(source) if text is None else self._commands.write_text(run, text)
                command = TrainCommand(
                    do="train", source=known, model=model, tokens=tokens, options=options or {}, run=path
                )
                self._commands.write(run, command)
                return self._start(StudioJob(run, model, command=command), command, lock)
            except BaseException:
                lock.release()
                raise

    def pause(self, name: str) -> JobAnswer:
        """Save the state and end the process; `resume` goes on from there."""
        return self._leave(name, "pausing")

    def stop(self, name: str) -> JobAnswer:
        """End the training for good; the best weights so far stay in the run."""
        return self._leave(name, "stopping")

    def resume(self, name: str) -> JobAnswer:
        """Go on with a training that was paused, stopped, or left unfinished by anybody."""
        with self._lock:
            job = self._find(name)
            if job.alive or job.state == "finished":
                raise OptionError(f"the training {name!r} is {job.state}; expected one that is paused")
            self._check_ours(job)
            if not self._can_go_on(job):
                raise NotThereError(f"the training {name!r} left nothing to go on with; try starting it again")
            self._queue.check_room()
            lock = self._commands.take(job.name)
            try:
                job.note = job.error = ""
                path = str((self.folder / job.name).absolute())
                return self._start(job, job.command or {"do": "resume", "run": path}, lock)
            except BaseException:
                lock.release()
                raise

    def curve(self, name: str) -> CurveAnswer:
        """What the log of a training says so far."""
        with self._lock:
            return curve(self.folder / self._find(name).name)

    def close(self) -> None:
        """Let every training save its state and end; nothing is begun from now on."""
        self._queue.close()
        with self._lock:
            running = [job for job in self._jobs.values() if job.alive]
            for job in running:
                job.state = "pausing" if job.state == "running" else job.state
        self._queue.end(job.training for job in running if job.training is not None)
        with self._lock:
            for job in self._jobs.values():
                if job.training is not None:
                    job.training.release()

    def _leave(self, name: str, state: State) -> JobAnswer:
        with self._lock:
            job = self._find(name)
            self._check_ours(job)
            if job.training is not None and job.alive:
                job.state = state
                self._queue.interrupt(job.training)
            elif state == "stopping" and job.state == "paused":
                job.state, job.note = "stopped", ""
                self._jobs[job.name] = job
            else:
                raise OptionError(f"the training {name!r} is {job.state}; expected one that runs")
            return self._answer(job)

    def _answer(self, job: StudioJob) -> JobAnswer:
        return job.answer(resumable=self._can_go_on(job))

    def _find(self, name: str) -> StudioJob:
        """A training of the list, by its name and nothing else."""
        job = self._jobs.get(name)
        if job is not None and not self._is_gone(job):
            return job
        for left in self._left():
            if left.name == name:
                return left
        raise NotThereError(f"there is no training {name!r} (any more); pick one of the list")

    def _left(self) -> list[StudioJob]:
        """What earlier studios, or anybody else, left unfinished, and what somebody else is training now."""
        from thereafter.runs.folder import is_run

        runs = self._unfinished.runs()
        jobs = {
            name: StudioJob(name, left.kind, "paused", left.share, note="left unfinished")
            for name, left in runs.items()
        }
        for name, command in self._commands.waiting().items():
            # a folder without its configuration, which is written last, is no run yet
            if not is_run(self.folder / name):
                note = "it had not begun yet"
                jobs[name] = StudioJob(name, command["model"], "paused", note=note, command=command)
        others = [job for name, job in jobs.items() if name not in self._jobs]
        for job in others:
            owner = self._owner(job)
            if owner is not None:
                job.state, job.note, job.owner = "elsewhere", "", str(owner)
        # the studio cannot go on with a task: it is shown only while somebody else trains it
        return [job for job in others if job.state == "elsewhere" or not (job.name in runs and runs[job.name].is_task)]

    def _owner(self, job: StudioJob) -> Owner | None:
        """Who else is training it; None where nobody is, or this studio."""
        return None if job.alive or job.is_locked else self._commands.owner(job.name)

    def _check_ours(self, job: StudioJob) -> None:
        owner = self._owner(job)
        if owner is not None:
            raise busy(job.name, owner)

    def _start(self, job: StudioJob, command: Command, lock: FileLock) -> JobAnswer:
        job.state, job.status = "running", "starting"

        def hear(report: Report) -> None:
            job.note = report.note or job.note
            job.error = report.error or job.error
            if report.task:
                job.status = report.status or report.task
            if report.task == "training":
                job.share = job.share if report.share is None else report.share
                self._forget_command(job)

        def ended(code: int) -> None:
            with self._lock:
                self._note_end(job, code)

        job.training = QueuedTraining(command, rank=Rank.OWN, name=job.name, hear=hear, ended=ended, lock=lock)
        try:
            self._queue.submit(job.training)
        except BaseException:
            job.training = None
            raise
        self._jobs[job.name] = job
        return job.answer(resumable=False)

    def _note_end(self, job: StudioJob, code: int) -> None:
        """Its process has ended: what the training is now."""
        job.status = ""
        if self._is_lost(job):
            job.state = "failed"
            job.error = "its run folder was removed while it was trained; try starting it again"
        elif code == 0:
            job.state, job.share = "finished", 1.0
        elif job.state in _AFTER:
            job.state = _AFTER[job.state]
        else:
            words = job.training.last_words if job.training else ""
            job.state = "failed"
            job.error = job.error or f"the training ended without a word ({words or f'exit code {code}'})"
        if job.state in ("finished", "failed"):
            self._forget_command(job)
        if job.state == "failed" and not (self.folder / job.name).exists():
            self._commands.text(job.name).unlink(missing_ok=True)

    def _forget_command(self, job: StudioJob) -> None:
        """From now on its run folder says how to go on."""
        if job.command is not None:
            job.command = None
            self._commands.place(job.name).unlink(missing_ok=True)

    def _can_go_on(self, job: StudioJob) -> bool:
        if job.alive or job.state not in ("paused", "stopped", "failed"):
            return False
        return job.command is not None or is_own_run(self.folder / job.name)

    def _is_lost(self, job: StudioJob) -> bool:
        """Whether there is no run any more although its training has begun."""
        from thereafter.runs.folder import is_run

        return job.command is None and not is_run(self.folder / job.name)

    def _is_gone(self, job: StudioJob) -> bool:
        """Whether somebody has removed what a training has made."""
        at_rest = job.state in ("paused", "stopped", "finished") and job.command is None
        return at_rest and not (self.folder / job.name).exists()

    def _reserve(self, name: str) -> tuple[str, FileLock]:
        """A folder name that no run has yet, nor a text that one may go on with, kept from other studios."""
        plain, number = _NAME.sub("-", name).strip("-")[:_LONGEST_NAME].strip("-") or "run", 2
        run = plain
        while True:
            if run not in (TEXTS, *self._jobs) and self._commands.is_free(run):
                with suppress(BusyError):  # another studio was first
                    lock = self._commands.take(run)
                    if self._commands.is_free(run):
                        return run, lock
                    lock.release()
            run, number = f"{plain}-{number}", number + 1


_NEEDED = frozenset({CONFIG, LOG})


@dataclass(frozen=True)
class UnfinishedRun:
    """A training that can go on: the kind of its model, and the share of its budget that is used."""

    kind: str
    share: float
    is_task: bool = False
    """Whether it is that of a task; `kind` is its name then."""


class UnfinishedRuns:
    """The runs of `folder` that have not finished. Each is read again only when its log has changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, tuple[tuple[int, int], UnfinishedRun | None]] = {}

    def runs(self) -> dict[str, UnfinishedRun]:
        """By name; links are not followed, and what cannot be read is left out."""
        runs = {path.name: self._look(path) for path in own_runs(self._folder, _NEEDED)}
        return {name: run for name, run in runs.items() if run is not None}

    def _look(self, path: Path) -> UnfinishedRun | None:
        try:
            facts = (path / LOG).lstat()
        except OSError:
            return None
        stamp = facts.st_mtime_ns, facts.st_size
        known = self._known.get(path.name)
        if known is None or known[0] != stamp:
            known = self._known[path.name] = stamp, _read(path)
        return known[1]


def _read(path: Path) -> UnfinishedRun | None:
    from thereafter.base import config as toml
    from thereafter.runs.folder import is_finished
    from thereafter.training.settings import TrainingSettings

    try:
        config = toml.loads(read_plain(path / CONFIG, links=False).decode("utf-8"), str(path))
        if "training" not in config or is_finished(path):
            return None
        budget = toml.build(TrainingSettings, config["training"], "training")
        kind = config["task"] if "task" in config else config["model"]
        return UnfinishedRun(str(kind), _used(path / LOG, budget), "task" in config)
    except Exception:  # a folder somebody else wrote may hold anything; it is not offered, and that is all
        return None


def _used(log: Path, budget: TrainingSettings) -> float:
    """The share of the budget that was used at the last step in the log."""
    from thereafter.training.control import Counters

    written = read_plain(log, links=False).splitlines(keepends=True)
    lines = (json.loads(line) for line in reversed(written) if line.endswith(b"\n"))
    last = next((line for line in lines if line.get("event") == "step"), None)
    if last is None:
        return 0.0
    return Counters(epoch=last["epoch"], seen=last["seen"], seconds=last["seconds"]).used(budget, 1)

"""One queue for all trainings of a studio: what runs, what waits, which lock each one has, and how it is stopped.

Each training is a process (`Child`). Two of them never fight for the processor unless the user asked for both:

- The user's own trainings start at once, at most `MOST_RUNNING` of them together.
- Ready models are made while no other training runs. Where one of the user's is begun meanwhile, what is being made
  saves its state and ends; it goes on when that training has ended.
- Ready models that somebody asked for come before those that are made because they are missing.

A worker, as `Child` starts it, listens to it and stops it, runs the code of this installation and nothing of the
folder the studio was started in, which may be somebody else's: Python would look there for every module (`-P` keeps
it from that), some libraries for settings, and the name of a corpus could mean a file. So it works in the folder of
this package, and what the environment says relative to the former folder is made absolute.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Protocol

from pydantic import BaseModel

from thereafter.base import storage
from thereafter.errors import OptionError, StorageError
from thereafter.studio.worker import Command

_INTERACTIVE = ("PYTHONSTARTUP", "PYTHONINSPECT")
_FOLDERS = frozenset({"THEREAFTER_DATA", "THEREAFTER_CACHE"})
_PATIENCE = 6.0  # seconds for a training to come to the end of a step; once more for saving what it has


def surroundings() -> dict[str, str]:
    """The environment of a worker.

    One core is left to the page and the browser: threads that wait for each other at every step of a sequence are
    slowed down many times over by whatever takes one of their cores away.
    """
    threads = str(max(1, (os.cpu_count() or 2) - 1))
    given = {"OMP_NUM_THREADS": threads} | dict(os.environ) | {"PYTHONUNBUFFERED": "1", "PYTHONSAFEPATH": "1"}
    for name in _INTERACTIVE:
        given.pop(name, None)
    for name in _FOLDERS & given.keys():
        if given[name]:
            given[name] = os.path.abspath(os.path.expanduser(given[name]))
    if "PYTHONPATH" in given:  # an empty entry, as in ":/modules", means the current folder
        paths = [os.path.abspath(path) for path in given["PYTHONPATH"].split(os.pathsep) if path]
        given["PYTHONPATH"] = os.pathsep.join(paths)
    return given


class Report(BaseModel):
    """What a worker reports in one line: how far a task is, or what has happened. What it does not mention is ""."""

    hello: bool = False
    """It listens now."""
    task: str = ""
    """What is being done now: "training", "counting"."""
    share: float | None = None
    """How much of the task is done, 0 to 1, where that is known."""
    status: str = ""
    note: str = ""
    error: str = ""
    making: str = ""
    """The ready model that is begun now."""
    ready: str = ""
    """The ready model that is there now."""


class Child:
    """A process that obeys one command. `hear` gets all it reports, on a thread; `ended` its exit code at the end."""

    def __init__(self, command: Command, hear: Callable[[Report], None], ended: Callable[[int], None]) -> None:
        self._hear, self._ended = hear, ended
        self._asked = self._listens = False
        self._lock = threading.Lock()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "thereafter.studio.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                env=surroundings(),
                cwd=Path(__file__).parent,
                start_new_session=os.name == "posix",  # Ctrl-C in the terminal is the studio's to handle
            )
        except OSError as error:
            raise StorageError(f"no process could be started ({error.strerror}); try ending another program") from error
        self._last = ""
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._listen, self._drain)]
        for thread in self._threads:
            thread.start()
        assert self._process.stdin is not None
        try:
            with self._process.stdin as to_worker:
                to_worker.write(json.dumps(command))
        except BrokenPipeError:
            pass  # it ended before it could read; `ended` says so

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def last_words(self) -> str:
        """The last line of its errors, where it ended without a sentence."""
        return self._last

    def interrupt(self) -> None:
        """Ask it to save what it has and to stop; returns at once, and asks only once.

        While it is still starting nobody listens there: Python would raise an exception somewhere in an import, which
        may be lost. So it is asked when it has reported that it listens.
        """
        with self._lock:
            first, self._asked = not self._asked, True
            if first and self._listens:
                self._signal()

    def end(self) -> None:
        """Interrupt it, wait for it, hurry it, and end it where it does not listen."""
        self.interrupt()
        for more in (self._signal, self._process.kill):
            try:
                self._process.wait(_PATIENCE)
                break
            except subprocess.TimeoutExpired:
                more()
        self._process.wait()
        for thread in self._threads:
            thread.join(_PATIENCE)

    def _signal(self) -> None:
        if self.alive:
            self._process.send_signal(signal.SIGINT if os.name == "posix" else signal.SIGTERM)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as out:
            for line in out:
                try:
                    report = Report.model_validate_json(line)
                except ValueError:
                    continue  # some library printed something
                if report.hello:
                    with self._lock:
                        self._listens = True
                        if self._asked:
                            self._signal()
                else:
                    self._hear(report)
        self._ended(self._process.wait())

    def _drain(self) -> None:
        """A pipe that nobody reads would stop the process."""
        assert self._process.stderr is not None
        with self._process.stderr as errors:
            for line in errors:
                self._last = line.strip() or self._last


MOST_RUNNING = 2
"""Trainings of the user's that run together."""
INTERRUPTED = 130
"""The exit code of a process that was asked to stop."""
_FAILED = 2  # the exit code of a process that has reported what went wrong


class Rank(IntEnum):
    """Who goes first: the greater one."""

    MISSING = 0
    """Ready models that nobody asked for."""
    READY = 1
    """Ready models that somebody asked for."""
    OWN = 2
    """A training of the user's."""


class Releasable(Protocol):
    """A lock that is kept until it is released."""

    def release(self) -> None: ...


@dataclass(eq=False)
class QueuedTraining:
    """A training in the queue, from the moment it is asked for until it has ended.

    `hear` gets every report of its process, on a thread; `ended` its exit code, once its lock is released.
    """

    command: Command
    rank: Rank = field(kw_only=True)
    name: str = field(kw_only=True)
    hear: Callable[[Report], None] = field(kw_only=True)
    ended: Callable[[int], None] = field(kw_only=True)
    lock: Releasable | None = field(default=None, kw_only=True)
    """Keeps other studios from it until it has ended."""
    child: Child | None = field(default=None, init=False)
    is_waiting: bool = field(default=False, init=False)
    gives_way: bool = field(default=False, init=False)
    """Its process was asked to stop so that another training can run; it goes on later."""

    @property
    def alive(self) -> bool:
        """Whether it waits or runs."""
        return self.is_waiting or (self.child is not None and self.child.alive)

    @property
    def last_words(self) -> str:
        """The last line of its process's errors, where it ended without a sentence."""
        return "" if self.child is None else self.child.last_words

    def release(self) -> None:
        """Leave it to whoever wants to go on with it."""
        if self.lock is not None:
            self.lock.release()
            self.lock = None


class TrainingQueue:
    """The trainings of one studio."""

    def __init__(self) -> None:
        self._running: list[QueuedTraining] = []
        self._waiting: list[QueuedTraining] = []
        self._closed = False
        self._lock = threading.RLock()  # a process may end while it is being started

    @property
    def running(self) -> list[str]:
        """The names of those whose process runs."""
        with self._lock:
            return [one.name for one in self._running if one.alive]

    def check_room(self) -> None:
        """Refuse one more training of the user's where there are enough, or where the studio is closing."""
        with self._lock:
            if self._closed:
                raise OptionError("the studio is closing; start the training when it is open again")
            own = [one.name for one in self._running if one.rank is Rank.OWN and one.alive]
        if len(own) >= MOST_RUNNING:
            raise OptionError(f"{len(own)} trainings run already ({', '.join(own)}); pause one of them first")

    def submit(self, training: QueuedTraining) -> None:
        """Start a training, or let it wait until it may start. StorageError where no process can be started."""
        with self._lock:
            if self._closed:
                raise OptionError("the studio is closing; ask for the training when it is open again")
            for other in self._running:
                if other.rank < training.rank and other.child is not None and other.alive:
                    other.gives_way = True
                    other.child.interrupt()
            if training.rank is Rank.OWN or not self._is_busy():
                self._start(training)
            else:
                self._wait(training)

    def interrupt(self, training: QueuedTraining) -> None:
        """Ask a training to save what it has and to stop; one that waits leaves the queue. Returns at once."""
        with self._lock:
            training.gives_way = False
            waited = training in self._waiting
            if waited:
                self._waiting.remove(training)
                training.is_waiting = False
            elif training.child is not None:
                training.child.interrupt()
        if waited:  # on a thread: whoever asks may have a lock that `ended` needs
            threading.Thread(target=self._finish, args=(training, INTERRUPTED), daemon=True).start()

    def end(self, trainings: Iterable[QueuedTraining]) -> None:
        """Interrupt trainings and wait until they have ended."""
        asked = list(trainings)
        for training in asked:
            self.interrupt(training)
        for training in asked:
            if training.child is not None:
                training.child.end()

    def close(self) -> None:
        """Start nothing from now on; what runs goes on until it is ended."""
        with self._lock:
            self._closed = True

    def _is_busy(self) -> bool:
        return any(one.alive for one in self._running)

    def _wait(self, training: QueuedTraining) -> None:
        """Put a training in the line, after those of its rank and before those of a lower one."""
        training.is_waiting = True
        self._waiting.append(training)
        self._waiting.sort(key=lambda one: -one.rank)

    def _start(self, training: QueuedTraining) -> None:
        training.is_waiting = training.gives_way = False
        self._running.append(training)
        try:
            training.child = Child(training.command, training.hear, lambda code: self._process_ended(training, code))
        except StorageError:
            self._running.remove(training)
            raise

    def _process_ended(self, training: QueuedTraining, code: int) -> None:
        """A process has ended: its training waits to go on where it gave way, and the next one starts."""
        with self._lock:
            if training in self._running:  # else it ended while it was being started
                self._running.remove(training)
            goes_on = training.gives_way and code not in (0, _FAILED) and not self._closed
            if goes_on:
                self._wait(training)
        if not goes_on:
            self._finish(training, code)
        self._start_next()

    def _start_next(self) -> None:
        """Start the first that waits, where nothing runs."""
        with self._lock:
            if self._closed or self._is_busy() or not self._waiting:
                return
            training = self._waiting.pop(0)
            try:
                self._start(training)
                return
            except StorageError as error:
                sentence = str(error)
        training.hear(Report(error=sentence))
        self._finish(training, _FAILED)

    def _finish(self, training: QueuedTraining, code: int) -> None:
        training.release()
        training.ended(code)


class SharedLock:
    """A file lock that several trainings of one studio have together; other studios get it when all have released it.

    Unpacking the ready models, making those that are missing, and training one anew all take this one.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: storage.FileLock | None = None
        self._users = 0
        self._lock = threading.Lock()

    def take(self) -> Releasable | None:
        """A share of the lock; None where another studio has it."""
        with self._lock:
            if self._file is None:
                self._file = storage.take_lock(self._path, command="thereafter studio")
            if self._file is None:
                return None
            self._users += 1
        return _Share(self)

    def give_back(self) -> None:
        """One user less."""
        with self._lock:
            self._users -= 1
            if not self._users and self._file is not None:
                self._file.release()
                self._file = None


class _Share:
    """A share of a lock, given back once."""

    def __init__(self, lock: SharedLock) -> None:
        self._lock: SharedLock | None = lock

    def release(self) -> None:
        if self._lock is not None:
            lock, self._lock = self._lock, None
            lock.give_back()

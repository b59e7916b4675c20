"""One queue for all trainings of a studio: what runs, what waits, which lock each one has, and how it is stopped.

Each training is a process (`child.py`). Two of them never fight for the processor unless the user asked for both:

- The user's own trainings start at once, at most `MOST_RUNNING` of them together.
- Ready models are made while no other training runs. Where one of the user's is begun meanwhile, what is being made
  saves its state and ends; it goes on when that training has ended.
- Ready models that somebody asked for come before those that are made because they are missing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from enum import IntEnum
from pathlib import Path
from typing import Protocol

from thereafter.base import locks
from thereafter.errors import OptionError, StorageError
from thereafter.studio.child import Child, Report
from thereafter.studio.commands import Command

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


class QueuedTraining:
    """A training in the queue, from the moment it is asked for until it has ended.

    `hear` gets every report of its process, on a thread; `ended` its exit code, once its lock is released.
    """

    def __init__(
        self,
        command: Command,
        *,
        rank: Rank,
        name: str,
        hear: Callable[[Report], None],
        ended: Callable[[int], None],
        lock: Releasable | None = None,
    ) -> None:
        self.command, self.rank, self.name, self.hear, self.ended = command, rank, name, hear, ended
        self.lock = lock
        """Keeps other studios from it until it has ended."""
        self.child: Child | None = None
        self.is_waiting = False
        self.gives_way = False
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
        self._file: locks.FileLock | None = None
        self._users = 0
        self._lock = threading.Lock()

    def take(self) -> Releasable | None:
        """A share of the lock; None where another studio has it."""
        with self._lock:
            if self._file is None:
                self._file = locks.take(self._path, command="thereafter studio")
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

"""A worker as the studio sees it: started, listened to, stopped.

It runs the code of this installation and nothing of the folder the studio was started in, which may be somebody else's:
Python would look there for every module (`-P` keeps it from that), some libraries for settings, and the name of a
corpus could mean a file. So it works in the folder of this package, and what the environment says relative to the
former folder is made absolute.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from thereafter.errors import StorageError
from thereafter.studio.commands import Command

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


@dataclass(frozen=True)
class Report:
    """What a worker reports in one line: how far a task is, or what has happened. What it does not mention is ""."""

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

    @classmethod
    def of(cls, line: dict[str, object]) -> Self:
        """A line of JSON; whatever else it holds is left out."""
        share = line.get("share")
        names = ("task", "status", "note", "error", "making", "ready")
        words = {name: str(line[name] or "") for name in names if name in line}
        return cls(share=float(share) if isinstance(share, int | float) else None, **words)


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
                    report = json.loads(line)
                except ValueError:
                    continue  # some library printed something
                if not isinstance(report, dict):
                    continue
                if "hello" in report:
                    with self._lock:
                        self._listens = True
                        if self._asked:
                            self._signal()
                else:
                    self._hear(Report.of(report))
        self._ended(self._process.wait())

    def _drain(self) -> None:
        """A pipe that nobody reads would stop the process."""
        assert self._process.stderr is not None
        with self._process.stderr as errors:
            for line in errors:
                self._last = line.strip() or self._last

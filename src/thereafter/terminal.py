"""Progress on the standard error: bars on a terminal (rich), now and then a plain line elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from thereafter import progress
from thereafter.packages import installed, require
from thereafter.progress import WARNING, Advance

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_PATIENCE = 0.5  # seconds a task may take before its bar is worth showing
_PLAIN_EVERY = 5.0  # seconds between plain lines
_REPORTS, _SECONDS = 4, 2.0  # reports after the first, and seconds, before the time left is estimated


@contextmanager
def show_progress() -> Iterator[None]:
    """Show progress if a terminal is attached and nothing above shows it already."""
    if progress.is_shown() or not sys.stderr.isatty():
        yield
    else:
        with progress.reporting(TerminalReporter()):
            yield


def notes_in_sight() -> frozenset[str]:
    """The notes that whoever reads the standard output has read on the same terminal already."""
    shown = progress.reporter()
    in_sight = sys.stdout.isatty() and sys.stderr.isatty()
    return frozenset(shown.notes) if in_sight and isinstance(shown, TerminalReporter) else frozenset()


class TerminalReporter:
    """Shows tasks on the standard error, so that results on the standard output can be piped."""

    def __init__(self) -> None:
        self._bars: dict[str, tuple[Progress, TaskID]] = {}
        self.notes: list[str] = []
        """All that were shown so far."""
        self._fancy = sys.stderr.isatty() and installed("rich")

    def begin(self, label: str, total: float | None, unit: str) -> Advance:
        return self._bar(label, total, unit) if self._fancy else self._lines(label, total)

    def end(self, label: str) -> None:
        if label in self._bars:
            bar, _ = self._bars.pop(label)
            bar.stop()

    def note(self, message: str) -> None:
        self.notes.append(message)
        loud = message.startswith(WARNING)
        for bar, _ in self._bars.values():
            bar.console.print(message, style="bold yellow" if loud else "dim", highlight=False, markup=False)
            return
        coloured = loud and sys.stderr.isatty() and not os.environ.get("NO_COLOR")
        sys.stderr.write(f"\x1b[1;33m{message}\x1b[0m\n" if coloured else f"{message}\n")

    def _bar(self, label: str, total: float | None, unit: str) -> Advance:
        began = time.monotonic()
        done, pace = 0.0, Pace(total)

        def advance(amount: float, status: str = "") -> None:
            nonlocal done
            done += amount
            now = time.monotonic()
            left = pace.left(now, done)
            if label not in self._bars:
                if now - began < _PATIENCE or self._bars:
                    return  # quick work shows nothing, and one bar at a time is enough
                self._bars[label] = self._open(label, total, unit)
            bar, task = self._bars[label]
            bar.update(task, completed=done, left=left)
            if status:
                bar.update(task, status=status)

        return advance

    def _open(self, label: str, total: float | None, unit: str) -> tuple[Progress, TaskID]:
        rich = require("rich.progress", "a progress bar")
        console = require("rich.console", "a progress bar").Console(stderr=True)
        amounts = {"B": rich.DownloadColumn, "%": rich.TaskProgressColumn}
        amount = amounts.get(unit, rich.MofNCompleteColumn)()
        left, status = (rich.TextColumn(f"{{task.fields[{name}]}}", markup=False) for name in ("left", "status"))
        columns = (rich.TextColumn("{task.description}"), rich.BarColumn(bar_width=24), amount, left, status)
        bar: Progress = rich.Progress(*columns, console=console, transient=True)
        bar.start()
        return bar, bar.add_task(label, total=total, status="", left="")

    def _lines(self, label: str, total: float | None) -> Advance:
        last = time.monotonic()
        done, pace = 0.0, Pace(total)

        def advance(amount: float, status: str = "") -> None:
            nonlocal done, last
            done += amount
            now = time.monotonic()
            left = pace.left(now, done)
            if now - last >= _PLAIN_EVERY:
                last = now
                share = f"{100 * done / total:.0f} %" if total else f"{done:,.0f}"
                shown = [f"{label}: {share}", status, left if status else ""]
                sys.stderr.write("  ".join(part for part in shown if part) + "\n")

        return advance


class Pace:
    """Estimates the time left from the speed since the first report.

    What was done before the first report does not count: a resumed training run begins in the middle, and the time
    before it went into compiling.
    """

    def __init__(self, total: float | None) -> None:
        self._total, self._reports = total, -1
        self._began, self._before = 0.0, 0.0

    def left(self, now: float, done: float) -> str:
        """Take a report; return "0:03:15 left", or nothing while it is not known."""
        self._reports += 1
        if not self._reports:
            self._began, self._before = now, done
        since, gained = now - self._began, done - self._before
        if not self._total or self._reports < _REPORTS or since < _SECONDS or gained <= 0.0:
            return ""
        rest = round(since * max(0.0, self._total - done) / gained)
        return f"{rest // 3600}:{rest // 60 % 60:02}:{rest % 60:02} left"

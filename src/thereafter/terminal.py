"""Progress on a terminal: rich bars where there is one, now and then a plain line where there is not."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from thereafter.packages import installed, require
from thereafter.progress import WARNING, Advance

_PATIENCE = 0.5  # seconds a task may take before its bar is worth showing
_PLAIN_EVERY = 5.0  # seconds between plain lines
_REPORTS, _SECONDS = 4, 2.0  # so many after the first, over so long, before anything is said of the time left


class TerminalReporter:
    """Shows tasks on the standard error, so that results on the standard output can be piped."""

    def __init__(self) -> None:
        self._bars: dict[str, tuple[Any, Any]] = {}
        self._fancy = sys.stderr.isatty() and installed("rich")

    def begin(self, label: str, total: float | None, unit: str) -> Advance:
        return self._bar(label, total, unit) if self._fancy else self._lines(label, total)

    def end(self, label: str) -> None:
        progress, _ = self._bars.pop(label, (None, None))
        if progress is not None:
            progress.stop()

    def note(self, message: str) -> None:
        loud = message.startswith(WARNING)
        for progress, _ in self._bars.values():
            progress.console.print(message, style="bold yellow" if loud else "dim", highlight=False, markup=False)
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
            progress, task = self._bars[label]
            progress.update(task, completed=done, left=left, **({"status": status} if status else {}))

        return advance

    def _open(self, label: str, total: float | None, unit: str) -> tuple[Any, Any]:
        rich = require("rich.progress", "a progress bar")
        console = require("rich.console", "a progress bar").Console(stderr=True)
        amounts = {"B": rich.DownloadColumn, "%": rich.TaskProgressColumn}
        amount = amounts.get(unit, rich.MofNCompleteColumn)()
        left, status = (rich.TextColumn(f"{{task.fields[{name}]}}", markup=False) for name in ("left", "status"))
        columns = (rich.TextColumn("{task.description}"), rich.BarColumn(bar_width=24), amount, left, status)
        progress = rich.Progress(*columns, console=console, transient=True)
        progress.start()
        return progress, progress.add_task(label, total=total, status="", left="")

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
    """How long the rest takes if it goes on as it has since the first report.

    What was done before that does not count: it is the work of an earlier process, where a training is resumed, and the
    time is that of compiling.
    """

    def __init__(self, total: float | None) -> None:
        self._total, self._reports = total, -1
        self._began, self._before = 0.0, 0.0

    def left(self, now: float, done: float) -> str:
        """Hear a report; "0:03:15 left", or nothing where that is not known yet."""
        self._reports += 1
        if not self._reports:
            self._began, self._before = now, done
        since, gained = now - self._began, done - self._before
        if not self._total or self._reports < _REPORTS or since < _SECONDS or gained <= 0.0:
            return ""
        rest = round(since * max(0.0, self._total - done) / gained)
        return f"{rest // 3600}:{rest // 60 % 60:02}:{rest % 60:02} left"

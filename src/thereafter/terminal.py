"""Progress on a terminal: rich bars where there is one, now and then a plain line where there is not."""

from __future__ import annotations

import sys
import time
from typing import Any

from thereafter.packages import installed, require
from thereafter.progress import Advance

_PATIENCE = 0.5  # seconds a task may take before its bar is worth showing
_PLAIN_EVERY = 5.0  # seconds between plain lines


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
        for progress, _ in self._bars.values():
            progress.console.print(message, style="dim", highlight=False, markup=False)
            return
        sys.stderr.write(f"{message}\n")

    def _bar(self, label: str, total: float | None, unit: str) -> Advance:
        began = time.monotonic()
        done = 0.0

        def advance(amount: float) -> None:
            nonlocal done
            done += amount
            if label not in self._bars:
                if time.monotonic() - began < _PATIENCE or self._bars:
                    return  # quick work shows nothing, and one bar at a time is enough
                self._bars[label] = self._open(label, total, unit)
            progress, task = self._bars[label]
            progress.update(task, completed=done)

        return advance

    def _open(self, label: str, total: float | None, unit: str) -> tuple[Any, Any]:
        rich = require("rich.progress", "a progress bar")
        console = require("rich.console", "a progress bar").Console(stderr=True)
        amount = rich.DownloadColumn() if unit == "B" else rich.MofNCompleteColumn()
        columns = (rich.TextColumn("{task.description}"), rich.BarColumn(), amount, rich.TimeRemainingColumn())
        progress = rich.Progress(*columns, console=console, transient=True)
        progress.start()
        return progress, progress.add_task(label, total=total)

    def _lines(self, label: str, total: float | None) -> Advance:
        last = time.monotonic()
        done = 0.0

        def advance(amount: float) -> None:
            nonlocal done, last
            done += amount
            if time.monotonic() - last >= _PLAIN_EVERY:
                last = time.monotonic()
                share = f"{100 * done / total:.0f} %" if total else f"{done:,.0f}"
                sys.stderr.write(f"{label}: {share}\n")

        return advance

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

        def advance(amount: float, status: str = "") -> None:
            nonlocal done
            done += amount
            if label not in self._bars:
                if time.monotonic() - began < _PATIENCE or self._bars:
                    return  # quick work shows nothing, and one bar at a time is enough
                self._bars[label] = self._open(label, total, unit)
            progress, task = self._bars[label]
            progress.update(task, completed=done, **({"status": status} if status else {}))

        return advance

    def _open(self, label: str, total: float | None, unit: str) -> tuple[Any, Any]:
        rich = require("rich.progress", "a progress bar")
        console = require("rich.console", "a progress bar").Console(stderr=True)
        amounts = {"B": rich.DownloadColumn, "%": rich.TaskProgressColumn}
        amount = amounts.get(unit, rich.MofNCompleteColumn)()
        texts = (rich.TextColumn("{task.description}"), rich.TextColumn("{task.fields[status]}", markup=False))
        columns = (texts[0], rich.BarColumn(bar_width=24), amount, rich.TimeRemainingColumn(), texts[1])
        progress = rich.Progress(*columns, console=console, transient=True)
        progress.start()
        return progress, progress.add_task(label, total=total, status="")

    def _lines(self, label: str, total: float | None) -> Advance:
        began = last = time.monotonic()
        done = 0.0

        def advance(amount: float, status: str = "") -> None:
            nonlocal done, last
            done += amount
            now = time.monotonic()
            if now - last >= _PLAIN_EVERY:
                last = now
                share = f"{100 * done / total:.0f} %" if total else f"{done:,.0f}"
                shown = [f"{label}: {share}", status, _left(now - began, done, total) if status else ""]
                sys.stderr.write("  ".join(part for part in shown if part) + "\n")

        return advance


def _left(seconds: float, done: float, total: float | None) -> str:
    """How long the rest takes if it goes on like this."""
    if not total or not 0.0 < done <= total:
        return ""
    rest = round(seconds * (total - done) / done)
    return f"{rest // 3600}:{rest // 60 % 60:02}:{rest % 60:02} left"

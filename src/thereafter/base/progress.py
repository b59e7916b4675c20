"""Progress, and the terminal that shows it. The library reports progress; its caller decides how to show it.

>>> with task("tokenizing", total=3) as advance:
...     advance(1); advance(2)

The names, words and labels that are printed may be a stranger's, and a terminal obeys control characters: they move the
cursor, rename the window, reverse a line. So whatever a command prints goes through an `EscapedStream`, which writes
them as `repr` does. Colours of our own are written by `print_caution` and `print_coloured`; texts of a model and tables
by `print_exactly`, which leaves them as they are where a file or a program gets them.

Progress is shown by bars on a terminal (rich), and now and then by a plain line elsewhere.
"""

from __future__ import annotations

import os
import re
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol, TextIO

from thereafter.base.packages import installed, require

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Advance(Protocol):
    """Advances a bar by an amount; `status` is shown beside it, such as the loss ("" keeps the last one)."""

    def __call__(self, amount: float, status: str = "") -> None: ...


class Reporter(Protocol):
    """What shows progress: a terminal, a notebook, a web page."""

    def begin(self, label: str, total: float | None, unit: str) -> Advance:
        """Open a bar and return the function that advances it."""
        return lambda amount, status="": None

    def end(self, label: str) -> None:
        """Close the bar."""
        return None

    def note(self, message: str) -> None:
        """Show one line, for instance that something compiles for the first time."""
        return None


class Silent(Reporter):
    """The default: shows nothing."""


_SILENT = Silent()  # without state, so it can be the default of every context
_reporter: ContextVar[Reporter] = ContextVar("thereafter_reporter", default=_SILENT)


def is_shown() -> bool:
    """Whether a reporter shows progress already."""
    return not isinstance(_reporter.get(), Silent)


def reporter() -> Reporter:
    """What shows progress at this moment."""
    return _reporter.get()


@contextmanager
def reporting(chosen: Reporter) -> Iterator[None]:
    """Send all progress inside the block to a reporter."""
    token = _reporter.set(chosen)
    try:
        yield
    finally:
        _reporter.reset(token)


class _Once:
    """Shows what another reporter does, every note once."""

    def __init__(self, inner: Reporter) -> None:
        self._inner, self._notes = inner, set[str]()

    def begin(self, label: str, total: float | None, unit: str) -> Advance:
        return self._inner.begin(label, total, unit)

    def end(self, label: str) -> None:
        self._inner.end(label)

    def note(self, message: str) -> None:
        if message not in self._notes:
            self._notes.add(message)
            self._inner.note(message)


@contextmanager
def each_note_once() -> Iterator[None]:
    """Inside the block a note is shown once, for example how a table is read that several models are trained on."""
    current = _reporter.get()
    if isinstance(current, Silent):
        yield
        return
    with reporting(_Once(current)):
        yield


@contextmanager
def task(label: str, total: float | None = None, unit: str = "") -> Iterator[Advance]:
    """A piece of work that may take longer than two seconds; yields the function that advances its bar."""
    current = _reporter.get()
    advance = current.begin(label, total, unit)
    try:
        yield advance
    finally:
        current.end(label)


WARNING = "warning: "
"""The beginning of a message that must not be missed; a terminal shows it in colour."""


def tell(message: str) -> None:
    """Send a note, or a warning if the message begins with `WARNING`."""
    (warn if message.startswith(WARNING) else note)(message)


def warn(message: str) -> None:
    """Warn the user that a result is worth less than it looks: as a note, or by Python's warnings if no reporter
    shows notes."""
    marked = message if message.startswith(WARNING) else WARNING + message
    if is_shown():
        note(marked)
    else:
        warnings.warn(marked.removeprefix(WARNING), stacklevel=2)


def note(message: str) -> None:
    """Send one line to the user."""
    _reporter.get().note(message)


_PATIENCE = 0.5  # seconds a task may take before its bar is worth showing
_PLAIN_EVERY = 5.0  # seconds between plain lines
_REPORTS, _SECONDS = 4, 2.0  # reports after the first, and seconds, before the time left is estimated
# C0 but newline and tab, DEL, C1, separators of lines, and what reverses the direction of writing
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_CONTROL_BUT_COLOURS = re.compile(f"\x1b\\[[0-9;]*m|{_CONTROL.pattern}")
_STREAMS = ("stdout", "stderr")
_LINE_ENDS = str.maketrans({"\n": "\\n", "\t": "\\t"})


def visible(text: str, *, one_line: bool = False) -> str:
    """A text with its control characters written as `repr` writes them; newlines and tabs too where it is `one_line`.

    >>> visible("so \\x1b[2J long\\n")
    'so \\\\x1b[2J long\\n'
    """
    escaped = _CONTROL.sub(lambda hit: repr(hit[0])[1:-1], text)
    return escaped.translate(_LINE_ENDS) if one_line else escaped


class EscapedStream:
    """A text stream that shows control characters instead of obeying them; with `colours` those of rich are obeyed."""

    def __init__(self, stream: TextIO, *, colours: bool = False) -> None:
        self.stream = stream
        self.escapes = True
        """Off after the command: packages that took the stream for their own reset its colours when Python ends."""
        self._control = _CONTROL_BUT_COLOURS if colours else _CONTROL

    def write(self, text: str) -> int:
        if self.escapes:
            text = self._control.sub(lambda hit: hit[0] if len(hit[0]) > 1 else visible(hit[0]), text)
        return self.stream.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    @property
    def rich_proxied_file(self) -> EscapedStream:
        """What rich writes to in the place of this stream: help and mistakes in the command have colours."""
        return EscapedStream(self.stream, colours=True)

    def __getattr__(self, name: str) -> object:
        if name == "buffer":  # bytes would pass by
            raise AttributeError(name)
        return getattr(self.stream, name)


@contextmanager
def escaped_streams() -> Iterator[None]:
    """The standard streams as EscapedStreams; they stay so after an error, for a traceback quotes what was read."""
    for name in _STREAMS:
        if not isinstance(stream := getattr(sys, name), EscapedStream | None):
            setattr(sys, name, EscapedStream(stream))
    try:
        yield
    except Exception:
        os.environ.setdefault("PYTHON_COLORS", "0")  # those of a traceback would be shown as characters
        raise
    except BaseException:
        _restore_streams()
        raise
    _restore_streams()


def _restore_streams() -> None:
    for name in _STREAMS:
        if isinstance(stream := getattr(sys, name), EscapedStream):
            stream.escapes = False
            setattr(sys, name, stream.stream)


def _inside(stream: TextIO) -> TextIO:
    return stream.stream if isinstance(stream, EscapedStream) else stream


def print_exactly(text: str) -> None:
    """Write to the standard output: as it is for a file or a program, with visible controls on a terminal."""
    stream = _inside(sys.stdout)
    stream.write(visible(text) if stream.isatty() else text)
    stream.flush()


def print_caution(text: str, *, err: bool = False) -> None:
    """Print a line in yellow."""
    stream = _inside(sys.stderr if err else sys.stdout)
    coloured = stream.isatty() and not os.environ.get("NO_COLOR")
    stream.write(f"\x1b[1;33m{visible(text)}\x1b[0m\n" if coloured else f"{visible(text)}\n")
    stream.flush()


def print_coloured(text: str) -> None:
    """Print a text with escapes of our own; the caller has made all others visible."""
    _inside(sys.stdout).write(f"{text}\n")


@contextmanager
def show_progress() -> Iterator[None]:
    """Show progress if a terminal is attached and nothing above shows it already."""
    if is_shown() or not sys.stderr.isatty():
        yield
    else:
        with reporting(TerminalReporter()):
            yield


def notes_in_sight() -> frozenset[str]:
    """The notes that the reader of the standard output has already seen on the same terminal."""
    current = reporter()
    in_sight = sys.stdout.isatty() and sys.stderr.isatty()
    return frozenset(current.notes) if in_sight and isinstance(current, TerminalReporter) else frozenset()


class TerminalReporter:
    """Shows tasks on the standard error, so that results on the standard output can be piped."""

    def __init__(self) -> None:
        self._bars: dict[str, tuple[Progress, TaskID]] = {}
        self.notes: list[str] = []
        """All notes so far."""
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
            bar.console.print(visible(message), style="bold yellow" if loud else "dim", highlight=False, markup=False)
            return
        if loud:
            print_caution(message, err=True)
        else:
            sys.stderr.write(f"{visible(message)}\n")

    def _bar(self, label: str, total: float | None, unit: str) -> Advance:
        began = time.monotonic()
        done, pace = 0.0, Pace(total)

        def advance(amount: float, status: str = "") -> None:
            nonlocal done
            done += amount
            now = time.monotonic()
            time_left = pace.time_left(now, done)
            if label not in self._bars:
                if now - began < _PATIENCE or self._bars:
                    return  # quick work shows nothing, and one bar at a time is enough
                self._bars[label] = self._open(label, total, unit)
            bar, task = self._bars[label]
            bar.update(task, completed=done, time_left=time_left)
            if status:
                bar.update(task, status=visible(status, one_line=True))

        return advance

    def _open(self, label: str, total: float | None, unit: str) -> tuple[Progress, TaskID]:
        rich = require("rich.progress", "a progress bar")
        console = require("rich.console", "a progress bar").Console(file=_inside(sys.stderr))
        amounts = {"B": rich.DownloadColumn, "%": rich.TaskProgressColumn}
        amount = amounts.get(unit, rich.MofNCompleteColumn)()
        places = ("description", "fields[time_left]", "fields[status]")
        name, time_left, status = (rich.TextColumn(f"{{task.{place}}}", markup=False) for place in places)
        columns = (name, rich.BarColumn(bar_width=24), amount, time_left, status)
        bar: Progress = rich.Progress(*columns, console=console, transient=True)
        bar.start()
        for name in _STREAMS:  # rich has put streams of its own over ours, which understand escapes
            if isinstance(getattr(getattr(sys, name), "rich_proxied_file", None), EscapedStream):
                setattr(sys, name, EscapedStream(getattr(sys, name)))
        return bar, bar.add_task(visible(label, one_line=True), total=total, status="", time_left="")

    def _lines(self, label: str, total: float | None) -> Advance:
        last = time.monotonic()
        done, pace = 0.0, Pace(total)

        def advance(amount: float, status: str = "") -> None:
            nonlocal done, last
            done += amount
            now = time.monotonic()
            time_left = pace.time_left(now, done)
            if now - last >= _PLAIN_EVERY:
                last = now
                share = f"{100 * done / total:.0f} %" if total else f"{done:,.0f}"
                parts = [f"{label}: {share}", status, time_left if status else ""]
                sys.stderr.write(visible("  ".join(part for part in parts if part), one_line=True) + "\n")

        return advance


class Pace:
    """Estimates the time left from the speed since the first report.

    What was done before the first report does not count: a resumed training run begins in the middle, and the time
    before it went into compiling.
    """

    def __init__(self, total: float | None) -> None:
        self._total, self._reports = total, -1
        self._began, self._before = 0.0, 0.0

    def time_left(self, now: float, done: float) -> str:
        """Take a report; return "0:03:15 left", or "" while there is no estimate."""
        self._reports += 1
        if not self._reports:
            self._began, self._before = now, done
        since, gained = now - self._began, done - self._before
        if not self._total or self._reports < _REPORTS or since < _SECONDS or gained <= 0.0:
            return ""
        rest = round(since * max(0.0, self._total - done) / gained)
        return f"{rest // 3600}:{rest // 60 % 60:02}:{rest % 60:02} left"

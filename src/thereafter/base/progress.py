"""Progress without printing: the library reports progress, its caller decides how to show it.

>>> with task("tokenizing", total=3) as advance:
...     advance(1); advance(2)
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


class Advance(Protocol):
    """Advances a bar by an amount; `status` is shown beside it, such as the loss ("" keeps the last one)."""

    def __call__(self, amount: float, status: str = "") -> None: ...


class Reporter(Protocol):
    """What shows progress: a terminal, a notebook, a web page."""

    def begin(self, label: str, total: float | None, unit: str) -> Advance:
        """Open a bar and return the function that advances it."""

    def end(self, label: str) -> None:
        """Close the bar."""

    def note(self, message: str) -> None:
        """Show one line, for instance that something compiles for the first time."""


class Silent:
    """The default: shows nothing."""

    def begin(self, label: str, total: float | None, unit: str) -> Advance:
        return lambda amount, status="": None

    def end(self, label: str) -> None:
        return None

    def note(self, message: str) -> None:
        return None


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

    def __init__(self, shown: Reporter) -> None:
        self._shown, self._notes = shown, set[str]()

    def begin(self, label: str, total: float | None, unit: str) -> Advance:
        return self._shown.begin(label, total, unit)

    def end(self, label: str) -> None:
        self._shown.end(label)

    def note(self, message: str) -> None:
        if message not in self._notes:
            self._notes.add(message)
            self._shown.note(message)


@contextmanager
def each_note_once() -> Iterator[None]:
    """Inside the block a note is shown once, such as how a table is read that several models learn from."""
    shown = _reporter.get()
    if isinstance(shown, Silent):
        yield
        return
    with reporting(_Once(shown)):
        yield


@contextmanager
def task(label: str, total: float | None = None, unit: str = "") -> Iterator[Advance]:
    """A piece of work that may take longer than two seconds; yields the function that advances its bar."""
    shown = _reporter.get()
    advance = shown.begin(label, total, unit)
    try:
        yield advance
    finally:
        shown.end(label)


WARNING = "warning: "
"""The beginning of a message that must not be missed; a terminal shows it in colour."""


def tell(message: str) -> None:
    """Send a note, or a warning if the message begins with `WARNING`."""
    (warn if message.startswith(WARNING) else note)(message)


def warn(message: str) -> None:
    """Warn the user of what makes a result worth less than it looks: as a note, or by Python's warnings if no reporter
    shows notes."""
    marked = message if message.startswith(WARNING) else WARNING + message
    if is_shown():
        note(marked)
    else:
        warnings.warn(marked.removeprefix(WARNING), stacklevel=2)


def note(message: str) -> None:
    """Send one line to the user."""
    _reporter.get().note(message)

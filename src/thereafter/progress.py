"""Progress without printing: the library reports, whoever stands on top decides how to show it.

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
    """Moves a bar on by an amount; `status` is what to show beside it, such as the loss ("" leaves what is there)."""

    def __call__(self, amount: float, status: str = "") -> None: ...


class Reporter(Protocol):
    """What shows progress: a terminal, a notebook, a web page."""

    def begin(self, label: str, total: float | None, unit: str) -> Advance:
        """Open a bar and return the function that moves it on by an amount."""

    def end(self, label: str) -> None:
        """Close the bar."""

    def note(self, message: str) -> None:
        """Say one line, for instance that something compiles for the first time."""


class Silent:
    """The default: shows nothing."""

    def begin(self, label: str, total: float | None, unit: str) -> Advance:
        return lambda amount, status="": None

    def end(self, label: str) -> None:
        return None

    def note(self, message: str) -> None:
        return None


_SILENT = Silent()  # holds nothing, so it may be everyone's default
_reporter: ContextVar[Reporter] = ContextVar("thereafter_reporter", default=_SILENT)


def is_shown() -> bool:
    """Whether somebody shows progress already."""
    return not isinstance(_reporter.get(), Silent)


@contextmanager
def reporting(reporter: Reporter) -> Iterator[None]:
    """Send all progress inside the block to `reporter`."""
    token = _reporter.set(reporter)
    try:
        yield
    finally:
        _reporter.reset(token)


@contextmanager
def task(label: str, total: float | None = None, unit: str = "") -> Iterator[Advance]:
    """A piece of work that may take longer than two seconds; yields the function that reports an advance."""
    reporter = _reporter.get()
    advance = reporter.begin(label, total, unit)
    try:
        yield advance
    finally:
        reporter.end(label)


WARNING = "warning: "
"""What a message begins with that must not be missed; a terminal shows it in colour."""


def tell(message: str) -> None:
    """A note, or a warning where it begins like one."""
    (warn if message.startswith(WARNING) else note)(message)


def warn(message: str) -> None:
    """Tell the user what makes a result worth less than it looks: as a note, or by Python's warnings if nobody shows
    notes."""
    spelled = message if message.startswith(WARNING) else WARNING + message
    if is_shown():
        note(spelled)
    else:
        warnings.warn(spelled.removeprefix(WARNING), stacklevel=2)


def note(message: str) -> None:
    """Tell the user one thing worth knowing."""
    _reporter.get().note(message)

"""Ctrl-C between two steps: what is saved then is the step it stopped at, whole.

The first signal to stop (SIGINT, SIGTERM) is granted as soon as the training is between two steps, or in the middle of
a validation, which changes nothing; a second one at once. A program that listens for a signal itself goes on doing so:
it may raise KeyboardInterrupt wherever it likes, and only what it broke off inside a step is lost.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_DEFAULTS = (signal.default_int_handler, signal.SIG_DFL)


class Stop:
    """Whether a signal to stop has come (`asked`), and whether no step is under way (`whole`)."""

    def __init__(self) -> None:
        self.asked = self.whole = False

    def allow(self) -> None:
        """From here on the training may be interrupted at any moment; at once where a signal has come already."""
        self.whole = True
        if self.asked:
            raise KeyboardInterrupt

    def hold(self) -> None:
        """A step begins: it must be finished before the training can be interrupted."""
        self.whole = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Inside the block signals to stop wait for `allow`. Only the main thread of a process hears any."""
        with _handling(self._hear, _DEFAULTS):
            yield

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.asked and self.whole:
            return  # it is on its way out, and what it has changed for a validation is being put back
        again, self.asked = self.asked, True
        if again or self.whole:
            raise KeyboardInterrupt


@contextmanager
def undisturbed() -> Iterator[None]:
    """Inside the block signals to stop are ignored, so that what a stop has to save is saved."""
    with _handling(lambda number, frame: None, None):
        yield


@contextmanager
def _handling(
    handler: Callable[[int, FrameType | None], None], instead_of: tuple[object, ...] | None
) -> Iterator[None]:
    """Another handler for signals to stop; where `instead_of` is given, only in the place of one of these."""
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in _SIGNALS:
            current = signal.getsignal(number)
            # None is a handler that was not set from Python, and cannot be put back
            if current is not None and (instead_of is None or current in instead_of):
                before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, handler_before in before.items():
            signal.signal(number, handler_before)

"""A process that does not wait for ever: programs whose blocks wait for each other on a GPU could."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import sys
import threading
from collections.abc import Iterator

STATUS = 3
"""The exit status of a process that was ended."""


@contextlib.contextmanager
def watched(name: str, seconds: float) -> Iterator[None]:
    """End this process, in words, where a block takes longer; what it began on a GPU ends with it."""
    timer = threading.Timer(seconds, _end, (f"{name}: no end after {seconds:g} s",))
    timer.daemon = True
    timer.start()
    faulthandler.dump_traceback_later(seconds + 10, exit=True)  # where something keeps Python's lock
    try:
        yield
    finally:
        timer.cancel()
        faulthandler.cancel_dump_traceback_later()


def _end(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")
    faulthandler.dump_traceback(all_threads=True)
    sys.stderr.flush()
    os._exit(STATUS)

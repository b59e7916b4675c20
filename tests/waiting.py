"""Waiting in tests: for something to happen, and for a coroutine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def run_async(coroutine: Coroutine[object, object, T]) -> T:
    """Run a coroutine to its end in an event loop of its own: that of Playwright may be running in this thread."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()  # noqa: TID251


def wait_for(happened: Callable[[], object], seconds: float = 180.0) -> None:
    """Wait until something has happened; fail where it does not."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)

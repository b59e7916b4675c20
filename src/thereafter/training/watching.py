"""Code of your own in the course of a training, whichever door starts it.

    def look(training: Training) -> None:
        print(training.at.step, training.at.rate)

    with watching(before_step=look):
        thereafter.train("book.txt", model="lstm")

A function may read the training or change it, and may raise: KeyboardInterrupt stops a training as Ctrl-C does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from torch import nn

from thereafter.runs.checkpoint import Snapshot
from thereafter.training.counters import Counters
from thereafter.training.guard import Guard


class Training(Protocol):
    """What a watcher sees of a training (`loop.Loop`)."""

    at: Counters
    guard: Guard
    loss_scale: float

    @property
    def model(self) -> nn.Module:
        """The network, with its weights as they are now."""

    def snapshot(self) -> Snapshot:
        """All that the following steps depend on, copied."""


def _nothing(training: Training) -> None:
    return None


@dataclass(frozen=True)
class Watcher:
    """Functions that a training calls.

    `before_step`: between two steps. `before_update`: the gradients of a step are there, its weights are the old ones;
    a step that is replayed from a CUDA graph does not call it. `at_end`: after the last step and the last validation.
    """

    before_step: Callable[[Training], None] = _nothing
    before_update: Callable[[Training], None] = _nothing
    at_end: Callable[[Training], None] = _nothing


_watchers: ContextVar[tuple[Watcher, ...]] = ContextVar("thereafter_watchers", default=())


def watchers() -> tuple[Watcher, ...]:
    """Those of the blocks that are open, the outermost first."""
    return _watchers.get()


@contextmanager
def watching(
    *,
    before_step: Callable[[Training], None] = _nothing,
    before_update: Callable[[Training], None] = _nothing,
    at_end: Callable[[Training], None] = _nothing,
) -> Iterator[None]:
    """Every training that begins inside the block calls these functions; see `Watcher`."""
    token = _watchers.set((*_watchers.get(), Watcher(before_step, before_update, at_end)))
    try:
        yield
    finally:
        _watchers.reset(token)

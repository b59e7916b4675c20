"""Ctrl-C at a step of a training, for tests of what a stopped training leaves behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from thereafter.training.watching import Training, watching


@contextmanager
def stopping_at(*steps: int) -> Iterator[list[int]]:
    """Inside the block trainings are stopped at these steps, one after the other; yields the steps still to come."""
    left = list(steps)

    def stop(training: Training) -> None:
        if left and training.at.step == left[0]:
            left.pop(0)
            raise KeyboardInterrupt

    with watching(before_step=stop):
        yield left

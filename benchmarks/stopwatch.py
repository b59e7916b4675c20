"""How much of a training loop's time is the model's own work."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from thereafter.training.loop import Loop


class Stopwatch:
    """Adds up the time in the model's loss, its backward, and the change of its weights, for the length of a block."""

    def __init__(self, loop: Loop) -> None:
        self.seconds = 0.0
        self._watched = ((loop, "_loss"), (loop._optimizer, "step"), (torch.autograd, "backward"))

    def __enter__(self) -> Stopwatch:
        self._before = [getattr(owner, name) for owner, name in self._watched]
        for (owner, name), function in zip(self._watched, self._before, strict=True):
            setattr(owner, name, self._timed(function))
        return self

    def __exit__(self, *_: object) -> None:
        for (owner, name), function in zip(self._watched, self._before, strict=True):
            setattr(owner, name, function)

    def _timed(self, function: Callable[..., object]) -> Callable[..., object]:
        def timed(*args: object, **kwargs: object) -> object:
            began = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - began

        return timed

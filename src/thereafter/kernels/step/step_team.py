"""Whether a pass over weights runs on all of torch's threads or on one: whichever was faster lately."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import perf_counter_ns

import torch

threads_of_torch = torch.get_num_threads


class StepTeam:
    """Runs a pass on all threads (torch's number, `most` at most) while that is faster than on one, else on one.

    A team may be late, where another program keeps one of its threads off its core in the middle of its work. So passes
    are timed: WINDOW of them on all threads that take longer than as many on one are broken off and followed by `rest`
    passes on one, twice as many each time this happens again and half as many each time it does not. What one thread
    takes is the median of its last LOOKS passes; it is measured at the start and again after every AGAIN windows. The
    first pass on all threads after some on one is not judged: it wakes those that fell asleep.

    A window is a millisecond or so, shorter than a time slice that is lost; the shortest rest is as long as a window,
    the longest some ten milliseconds, so that what was tried in vain stays below a tenth of the time.
    """

    WINDOW, LOOKS, AGAIN = 16, 5, 128
    FEWEST, MOST = 16, 1024

    def __init__(self, most: int) -> None:
        self.most = most
        self.rest = self.FEWEST
        self._alone = self.LOOKS  # passes on one thread that are still to come
        self._last: deque[int] = deque(maxlen=self.LOOKS)  # nanoseconds of passes on one thread
        self._lone = 0  # what one takes
        self._windows = 0
        self._taken = self._passes = 0  # of the window that is open
        self._asleep = False

    def run(self, call: Callable[[int], None]) -> None:
        """One pass: `call(threads)`."""
        team = min(threads_of_torch(), self.most)
        if team == 1:
            call(1)
            return
        began = perf_counter_ns()
        call(1 if self._alone else team)
        took = perf_counter_ns() - began
        if self._alone:
            self._judge_one(took)
        elif self._asleep:
            self._asleep = False
        else:
            self._judge_team(took)

    def _judge_one(self, took: int) -> None:
        self._last.append(took)
        self._alone -= 1
        if not self._alone:
            self._lone, self._asleep = sorted(self._last)[self.LOOKS // 2], True
            self._taken = self._passes = 0

    def _judge_team(self, took: int) -> None:
        self._taken += took
        self._passes += 1
        if self._taken > self.WINDOW * self._lone:
            self._alone, self.rest = self.rest, min(2 * self.rest, self.MOST)
        elif self._passes == self.WINDOW:
            self.rest = max(self.rest // 2, self.FEWEST)
            self._windows += 1
            if self._windows % self.AGAIN == 0:
                self._alone = self.LOOKS
            self._taken = self._passes = 0

"""The helpers of this process: threads for passes of microseconds, started when the first pass wants them.

They end with the process, and a process that was forked off starts its own.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading

from thereafter.base.compiled import compiled_once
from thereafter.kernels.loops import helpers as loops
from thereafter.kernels.loops import steps
from thereafter.kernels.loops.tiles import LINE

MOST_HELPERS = 7
"""More threads have never been measured."""
_FUNCTIONS = {
    loops.GIVE_WAY: "sched_yield",
    loops.NAP: "usleep",
    loops.CLOCK: "clock_gettime",
    loops.SLEEP: "sem_wait",
    loops.WAKE: "sem_post",
    loops.CORE_OF: "sched_getcpu",
    loops.GET_CORES: "sched_getaffinity",
    loops.SET_CORES: "sched_setaffinity",
}


class Helpers:
    """`board` is where passes find them (`loops.helpers`); 0 where the system has not what they need: Linux has."""

    def __init__(self) -> None:
        self.board = 0
        self._threads: list[threading.Thread] = []
        self._starting = threading.Lock()
        self._ended = False
        system = ctypes.CDLL(None) if sys.platform.startswith("linux") else None
        names = ("sem_init", "aligned_alloc", *_FUNCTIONS.values())
        if system is not None and all(hasattr(system, name) for name in names):
            self._functions = {place: getattr(system, name) for place, name in _FUNCTIONS.items()}
            self._make_flag, self._raise_flag = system.sem_init, system.sem_post
            # memory that is never given back: a helper may look at it until the process is gone
            system.aligned_alloc.restype = ctypes.c_void_p
            system.aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
            self.board = int(system.aligned_alloc(LINE, loops.board_bytes(MOST_HELPERS)) or 0)
        if self.board:
            self._clear()
            os.register_at_fork(
                before=self._starting.acquire, after_in_parent=self._starting.release, after_in_child=self._forget
            )
            atexit.register(self._end)

    def _clear(self) -> None:
        ctypes.memset(self.board, 0, loops.board_bytes(MOST_HELPERS))
        for place, function in self._functions.items():
            self._write(place, ctypes.cast(function, ctypes.c_void_p).value or 0)
        for number in range(1, MOST_HELPERS + 1):
            self._make_flag(ctypes.c_void_p(self._at(number) + loops.FLAG), 0, 0)

    def _at(self, number: int) -> int:
        return self.board + loops.HELPERS_AT + (number - 1) * loops.EACH_HELPER

    def _write(self, place: int, value: int) -> None:
        ctypes.c_int64.from_address(self.board + place).value = value

    def prepare(self) -> None:
        """Have at hand what they run: to compile it takes seconds, and to load it milliseconds."""
        self._share = steps.shared().address
        self._life, self._dismiss = loops.helper().ctypes, loops.dismiss().ctypes

    def start(self, team: int) -> None:
        """See to it that there are helpers for a team of so many threads, the one that calls included.

        Where the system gives no more threads there are fewer: what they would have done, the others do.
        """
        if len(self._threads) >= team - 1 or self._ended:
            return
        with self._starting:
            while len(self._threads) < min(team - 1, MOST_HELPERS) and not self._ended:
                number = len(self._threads) + 1
                thread = threading.Thread(
                    target=self._life, args=(self.board, number, self._share), name=f"thereafter-helper-{number}",
                    daemon=True,
                )  # fmt: skip
                self._threads.append(thread)  # before it starts: whatever interrupts this, no number is given twice
                try:
                    thread.start()
                except RuntimeError:
                    return

    def worked(self, number: int) -> int:
        """At how many passes a helper has worked (the first one is 1)."""
        return int(ctypes.c_int64.from_address(self._at(number) + loops.WORKED).value)

    def stop(self) -> None:
        """End them; the next pass starts others."""
        with self._starting:
            if self._threads:
                self._dismiss(self.board, len(self._threads))
            for thread in self._threads:
                if thread.ident is not None:
                    thread.join()
            self._threads.clear()
            self._write(loops.STOP, 0)

    def _end(self) -> None:
        """End them for good, before the machine code that they run goes."""
        self._ended = True
        self.stop()

    def _forget(self) -> None:
        """In a process that was forked off: the threads did not come along, nor does anybody work on a pass."""
        self._starting.release()
        self._threads.clear()
        self._clear()


@compiled_once
def helpers() -> Helpers:
    """Those of this process."""
    return Helpers()

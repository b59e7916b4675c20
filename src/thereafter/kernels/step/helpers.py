"""The helpers of this process: threads for passes of microseconds, started when the first pass wants them.

They end with the process, and a process that was forked off starts its own.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading

from thereafter.compiled import compiled_once
from thereafter.kernels.loops import helpers as loops
from thereafter.kernels.loops import steps
from thereafter.kernels.loops.tiles import LINE

MOST = 7
"""More threads have never been measured."""
_FUNCTIONS = {
    loops.GIVE_WAY: "sched_yield",
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
        system = ctypes.CDLL(None) if sys.platform.startswith("linux") else None
        names = ("sem_init", "aligned_alloc", *_FUNCTIONS.values())
        if system is not None and all(hasattr(system, name) for name in names):
            self._functions = {place: getattr(system, name) for place, name in _FUNCTIONS.items()}
            self._make_flag, self._raise_flag = system.sem_init, system.sem_post
            # memory that is never given back: a helper may look at it until the process is gone
            system.aligned_alloc.restype = ctypes.c_void_p
            system.aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
            self.board = int(system.aligned_alloc(LINE, loops.board_bytes(MOST)) or 0)
        if self.board:
            self._clear()
            os.register_at_fork(
                before=self._starting.acquire, after_in_parent=self._starting.release, after_in_child=self._forget
            )
            atexit.register(self.stop)

    def _clear(self) -> None:
        ctypes.memset(self.board, 0, loops.board_bytes(MOST))
        for place, function in self._functions.items():
            self._write(place, ctypes.cast(function, ctypes.c_void_p).value or 0)
        for number in range(1, MOST + 1):
            self._make_flag(ctypes.c_void_p(self._at(number) + loops.FLAG), 0, 0)

    def _at(self, number: int) -> int:
        return self.board + loops.HELPERS_AT + (number - 1) * loops.EACH_HELPER

    def _write(self, place: int, value: int) -> None:
        ctypes.c_int64.from_address(self.board + place).value = value

    def start(self, team: int) -> None:
        """See to it that there are helpers for a team of so many threads, the one that calls included."""
        if len(self._threads) >= team - 1:
            return
        share, run = steps.shared().address, loops.helper().ctypes
        with self._starting:
            while len(self._threads) < min(team - 1, MOST):
                number = len(self._threads) + 1
                thread = threading.Thread(
                    target=run, args=(self.board, number, share), name=f"thereafter-helper-{number}", daemon=True
                )
                thread.start()
                self._threads.append(thread)

    def stop(self) -> None:
        """End them, before the machine code that they run goes."""
        with self._starting:
            self._write(loops.STOP, 1)
            for number in range(1, len(self._threads) + 1):
                at = self._at(number)
                ctypes.c_int64.from_address(at + loops.ASLEEP).value = 0
                self._raise_flag(ctypes.c_void_p(at + loops.FLAG))
            for thread in self._threads:
                thread.join()
            self._threads.clear()
            self._write(loops.STOP, 0)

    def _forget(self) -> None:
        """In a process that was forked off: the threads did not come along, nor does anybody work on a pass."""
        self._starting.release()
        self._threads.clear()
        self._clear()


@compiled_once
def helpers() -> Helpers:
    """Those of this process."""
    return Helpers()

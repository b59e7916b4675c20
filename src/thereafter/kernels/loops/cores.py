"""A thread that was woken on the core of the one that woke it goes to another.

A system may do that though other cores are idle: to a virtual machine an idle core looks like one that its host has
taken away. The two threads then take turns on one core until the system notices, a tenth of a second later, and where
they work for microseconds and sleep again it may not notice at all (a streaming step of 256 units on two threads then
takes 150 us instead of 40).
"""

from __future__ import annotations

import numpy as np

from thereafter.base.compiled import jit
from thereafter.base.packages import require
from thereafter.kernels.arrays import Whole
from thereafter.kernels.loops.calls import caller, pointer

carray = require("numba", "a compiled loop").carray

_WORDS = 16  # of a set of cores, a bit each, as Linux has it: 1,024 of them
ROOM_BYTES = 2 * 8 * _WORDS
"""The room that `leave_core` needs."""
_call_3 = caller(3)


@jit()
def leave_core(core: int, get_cores: int, set_cores: int, room: int) -> None:
    """Move the thread that calls this away from a core, if it may use others: it is left those alone, which moves it at
    once, and then all that it had. `get_cores` and `set_cores` are the addresses of `sched_getaffinity` and
    `sched_setaffinity`."""
    sets: Whole = carray(pointer(room), (2, _WORDS), np.int64)
    sets[:] = 0  # and so it stays where there are more cores than fit in
    _call_3(get_cores, (0, 8 * _WORDS, room))
    others = 0
    for word in range(_WORDS):
        sets[1, word] = sets[0, word]
        if word == core // 64:
            sets[1, word] &= ~(1 << core % 64)
        others |= sets[1, word]
    if others:
        _call_3(set_cores, (0, 8 * _WORDS, room + 8 * _WORDS))
        _call_3(set_cores, (0, 8 * _WORDS, room))

"""What a thread does between two looks at a number that another thread is to change.

It looks again at once for a while, which takes microseconds; then it offers its core to others between looks; then it
sleeps. A thread that is held back on a busy core can move to one that is idle, not to one that is looked from.
"""

from __future__ import annotations

from thereafter.base.compiled import jit
from thereafter.kernels.loops.calls import caller, whole_number_from

_LOOKS, _YIELDS = 4000, 200
"""Some 2 and 50 us on an Intel Xeon of 2.5 GHz (2026-11-18): longer than threads that all run wait for one another,
much shorter than a time slice."""
_call_1 = caller(1)


@jit()
def be_patient(looks: int, give_way: int, sleep: int) -> None:
    """Called after each look, with their number and the addresses of `sched_yield` and `usleep`."""
    if looks > _LOOKS + _YIELDS:
        _call_1(sleep, (1,))
    elif looks > _LOOKS:
        whole_number_from(give_way)

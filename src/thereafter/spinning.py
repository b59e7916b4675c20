"""How long threads that share a product wait for one another by looking, before they sleep.

At the end of every product torch's threads wait for the last one. GNU's OpenMP library has them look for a millisecond
or more. Where another program has one of the cores, the thread there is held back for the length of a time slice, and
the one that looks keeps it from moving to the other core: an LSTM kept a quarter of its speed beside an endless loop,
torch's own a tenth. A thread that sleeps after a tenth of a millisecond leaves its core to the other: half of the speed
or more is left, and nothing is lost on quiet cores (benchmarks/busy.py).

The library reads its settings once, when torch is loaded. Settings of the user's own stand.
"""

from __future__ import annotations

import os
import platform
import sys

LOOKS = "GOMP_SPINCOUNT"
_POLICY = "OMP_WAIT_POLICY"
_PAUSES = 2_000  # looks of x86, which pauses for up to 140 cycles between two
_NO_PAUSES = 30_000  # of processors whose looks take some cycles each


def spin_briefly() -> None:
    """Set the number of looks for a torch that is not loaded yet."""
    if "torch" in sys.modules or _POLICY in os.environ:
        return
    pauses = platform.machine().lower() in ("x86_64", "amd64", "i686")
    os.environ.setdefault(LOOKS, str(_PAUSES if pauses else _NO_PAUSES))


def line() -> str:
    """In words, for torch's threads as they are now."""
    policy, looks = os.environ.get(_POLICY), os.environ.get(LOOKS)
    if policy:
        return f"as {_POLICY}={policy} says"
    return f"looks {looks} times, then sleeps ({LOOKS})" if looks else f"as torch has it; {LOOKS} is not set"

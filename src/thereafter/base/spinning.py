"""How long threads that share a product wait for one another by looking, before they sleep.

At the end of every product torch's threads wait for the last one. GNU's OpenMP library has them look for a millisecond
or more. Where another program has one of the cores, the thread there is delayed by a time slice, and
the one that looks keeps it from moving to the other core. A thread that sleeps after some ten microseconds leaves its
core to the other. Forward and backward at (16 and 32, 35, 256, 256) on two cores of an Intel Xeon (2026-11-17), the
share of the quiet speed beside an endless loop on one core: our LSTM 0.26 and 0.35 as the library has it, 0.53 and 0.45
with 2,000 looks; our GRU 0.16 and 0.20, then 0.49 and 0.65; torch's LSTM 0.10 and 0.09, then 0.53 and 0.52. Quiet times
were within the noise of the machine; without any look they were up to a half longer. `GOMP_SPINCOUNT=300000 python
benchmarks/busy.py` measures the one, without the variable it measures the other. Of 22 rows of that benchmark the least
share was 0.52 with 2,000 looks, 0.42 with 8,000, 0.34 with 20,000 (2026-11-17, `--quick`). 2,000 looks are 10 us there;
they take up to ten times that on processors that pause longer. The count for others than x86 was not measured.

The library reads its settings once, when torch is loaded, and programs that are started inherit them. Settings of the
user's own stand.
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

"""Another program on the machine: endless loops, each on a core of its own, for as long as a `with` block lasts.

On the way out they are ended, whatever the way: the end of the block, an exception, Ctrl-C. Where this process is
killed before it can end them, they see that their parent is another one and end by themselves, within milliseconds.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_LOOP = """
import os, sys
parent, core = map(int, sys.argv[1:])
if core >= 0:
    os.sched_setaffinity(0, {core})
print("running", flush=True)
while os.getppid() == parent:
    for _ in range(100_000):
        pass
"""


@contextmanager
def endless_loops(count: int = 1) -> Iterator[list[int]]:
    """`count` processes that count, on the last of the cores that this one may use; gives their process ids.

    Each is kept to its core where the system lets a process be kept; else the system puts it where it likes.
    """
    cores = sorted(os.sched_getaffinity(0))[-count:] if hasattr(os, "sched_setaffinity") else [-1] * count
    if len(cores) < count:
        raise ValueError(f"there are {len(cores)} cores, and {count} loops were asked for")
    loops: list[subprocess.Popen[str]] = []
    try:
        for core in cores:
            command = [sys.executable, "-S", "-c", _LOOP, str(os.getpid()), str(core)]
            loops.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
        for loop in loops:
            if loop.stdout is None or not loop.stdout.readline():
                raise RuntimeError("an endless loop did not start")
        yield [loop.pid for loop in loops]
    finally:
        for loop in loops:
            loop.kill()
        for loop in loops:
            loop.communicate()

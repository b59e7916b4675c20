"""One CUDA graph is recorded at a time: torch records all graphs of a process on one stream.

Two threads that record at once would take each other's kernels. Whoever records holds `RECORDING` from before the
capture until its end; to replay a graph needs no lock.
"""

from __future__ import annotations

from threading import Lock

RECORDING = Lock()

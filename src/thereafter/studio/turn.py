"""One studio at a time trains the ready models: a lock on a file, which the system takes back when its holder ends."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO


def take(path: Path) -> IO[bytes] | None:
    """The lock, to be closed when done; None where somebody else has it. On a disk without locks everybody gets it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    held = path.open("ab")
    try:
        _lock(held)
    except (BlockingIOError, PermissionError):
        held.close()
        return None
    except OSError:
        pass
    return held


if sys.platform != "win32":
    import fcntl

    def _lock(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

else:
    import msvcrt

    def _lock(file: IO[bytes]) -> None:
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

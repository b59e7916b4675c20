"""One writer at a time: a lock on a file, which the system releases when its owner ends, however it ends.

The file names its owner, so that an error can say who is writing. The system holds the lock, not the file: a file that
a killed process left behind locks nothing, and the next owner takes it over. On a disk without locks every process gets
the lock. A link, a pipe or a device in the place of the file is refused: in a folder that somebody else made it could
lead to any file, which would be overwritten.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

_PATIENCE = 0.3  # seconds: `owner` takes a free lock for a moment, and must not make anybody else give up
_PAUSE = 0.02


@dataclass(frozen=True)
class Owner:
    """The owner of a lock: its process id, its machine, its command, and since when (ISO 8601, UTC)."""

    pid: int = 0
    host: str = ""
    command: str = ""
    since: str = ""

    def __str__(self) -> str:
        if not self.pid:
            return "another process"
        where = "" if self.host == socket.gethostname() else f" on {self.host}"
        return f"process {self.pid}{where} ({self.command}), since {self.since}"


class FileLock:
    """A lock that is held until `release`, or until the process ends. Use it as a context manager, or keep it."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.path, self._file = path, file

    def release(self) -> None:
        """Release the lock; the file is removed first, while nobody else can take the lock."""
        if self._file.closed:
            return
        with suppress(OSError):  # some systems do not remove an open file; it stays, and locks nothing
            self.path.unlink()
        self._file.close()

    def __enter__(self) -> FileLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()


def take(path: Path, *, command: str = "", patience: float = _PATIENCE) -> FileLock | None:
    """Lock a file, which is created if needed; None if another process keeps the lock longer than `patience` seconds.

    `command` says what the owner is doing, for the error of a process that is refused.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    give_up = time.monotonic() + patience
    while True:
        file = _open(path, "ab", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            _lock(file)
        except (BlockingIOError, PermissionError):
            file.close()
            if time.monotonic() >= give_up:
                return None
            time.sleep(_PAUSE)
            continue
        except OSError:
            pass  # a disk without locks
        if not _is_at(file, path):  # its former owner removed it between our opening and locking it
            file.close()
            continue
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        owner = Owner(os.getpid(), socket.gethostname(), command or Path(sys.argv[0]).name, since)
        lock = FileLock(path, file)
        try:
            file.truncate(0)
            file.write(json.dumps(asdict(owner)).encode())
        except OSError:  # a full disk: the next process must not have to wait for this one to end
            lock.release()
            raise
        return lock


def owner(path: Path) -> Owner | None:
    """The owner of the lock of a file now, None if there is none. It neither waits nor changes anything."""
    try:
        file = _open(path, "rb+", os.O_RDWR)
    except OSError:
        return None
    with file:
        try:
            _lock(file)
        except (BlockingIOError, PermissionError):
            return _read_owner(file)
        except OSError:
            return None
        return None


def _open(path: Path, mode: str, flags: int) -> IO[bytes]:
    """Open or create a lock file; anything but a plain file is an OSError, at once."""
    if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
        raise OSError(errno.EINVAL, "it is no plain file", str(path))
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
        flags |= getattr(os, name, 0)
    return os.fdopen(os.open(path, flags, 0o666), mode, buffering=0)


def _read_owner(file: IO[bytes]) -> Owner:
    """The owner that a lock file names; an empty one while it is not written, or not by this program."""
    try:
        file.seek(0)
        facts = json.loads(file.read(4096))
        return Owner(int(facts["pid"]), str(facts["host"]), str(facts["command"]), str(facts["since"]))
    except (OSError, ValueError, LookupError, TypeError):
        return Owner()


def _is_at(file: IO[bytes], path: Path) -> bool:
    """Whether an open file is still the one at its path."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except OSError:
        return False


if sys.platform != "win32":
    import fcntl

    def _lock(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

else:
    import msvcrt

    _BEHIND = 1 << 30  # a locked byte cannot be read on Windows, so one far after the text is locked

    def _lock(file: IO[bytes]) -> None:
        file.seek(_BEHIND)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

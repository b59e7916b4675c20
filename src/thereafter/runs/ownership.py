"""Who may write to a run folder: one process at a time, for the whole of a training.

The lock is the file `.lock` in the folder; see `thereafter.base.locks` for what it outlives and what it does not. It is
gone when a training ends, well or not; after a kill the file stays, says who it was, and locks nothing.
"""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from thereafter.base import locks
from thereafter.errors import BusyError, StorageError

LOCK = ".lock"
_LONGEST = 80  # characters of a command that are quoted
_own: ContextVar[frozenset[Path]] = ContextVar("thereafter_own_runs", default=frozenset())
"""The folders this call is writing to: a training that saves its model at the end has the lock already. Every thread
begins with none."""


def owner_of(run: Path) -> locks.Owner | None:
    """The process that is writing to a run folder at this moment; None where there is none."""
    return locks.owner(run / LOCK) if _is_plain(run / LOCK) else None


def check_idle(run: Path) -> None:
    """Refuse a folder that another process is writing to."""
    if _place(run) in _own.get():
        return
    owner = owner_of(run)
    if owner is not None:
        raise _busy(run, owner)


@contextmanager
def owning(run: Path) -> Iterator[None]:
    """Inside the block no other process writes to the run folder; BusyError names the one that does.

    The folder is made where it is not there, and goes away again where nothing was written to it.
    """
    place = _place(run)
    if place in _own.get():
        yield
        return
    made = _missing(place)
    lock = _take(run)
    token = _own.set(_own.get() | {place})
    try:
        yield
    finally:
        _own.reset(token)
        lock.release()
        with suppress(OSError):  # one that holds something stays
            for folder in made:
                folder.rmdir()


def _take(run: Path) -> locks.FileLock:
    path = run / LOCK
    try:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise StorageError(f"{path} is no plain file; expected none or that of a lock; try removing it")
        lock = locks.take(path, command=_command())
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise StorageError(f"cannot write the run folder {str(run)[:200]!r}: {reason}; try another --out") from error
    if lock is None:
        raise _busy(run, locks.owner(path))
    return lock


def _busy(run: Path, owner: locks.Owner | None) -> BusyError:
    return BusyError(
        f"{run} is being written by {owner or 'another process'}; nothing was changed; "
        "try again when that has ended, or another --out"
    )


def _place(run: Path) -> Path:
    return Path(run).absolute()


def _missing(folder: Path) -> list[Path]:
    """The folders that must be made for this one, itself first."""
    missing = []
    for one in (folder, *folder.parents):
        try:
            if one.exists():
                break
        except (OSError, ValueError):  # a name no system takes: what comes next says so
            break
        missing.append(one)
    return missing


def _is_plain(path: Path) -> bool:
    """Whether it is a file, and no link or pipe that somebody put there to be opened."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def _command() -> str:
    """The command of this process, for the message to others: our module by its name, else the script."""
    program, home = Path(sys.argv[0] if sys.argv else ""), Path(__file__).parents[1]
    if program.is_relative_to(home):
        parts = (home.name, *program.relative_to(home).with_suffix("").parts)
        name = ".".join(part for part in parts if part != "__main__")
    else:
        name = program.name or "python"
    return " ".join([name, *sys.argv[1:]])[:_LONGEST]

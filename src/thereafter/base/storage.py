"""Folders of this machine; files that are written so that nothing is lost; arrays mapped, not read; locks on files.

A safetensors file is a length, a JSON header and raw arrays, so mapping one needs no package; writing one uses the
package itself.

One writer at a time: a lock on a file, which the system releases when its owner ends, however it ends. The file names
its owner, so that an error can say who is writing. The system holds the lock, not the file: a file that a killed
process left behind locks nothing, and the next owner takes it over. On a disk without locks every process gets the
lock. A link, a pipe or a device in the place of the file is refused: in another user's folder it could lead
to any file, which would be overwritten.
"""

from __future__ import annotations

import errno
import json
import math
import os
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from io import BufferedReader
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from thereafter.base.packages import installed, require
from thereafter.errors import FormatError, StorageError


def data_folder() -> Path | None:
    """`$THEREAFTER_DATA`, where named corpora are looked for first; None where it is not set."""
    named = os.environ.get("THEREAFTER_DATA")
    return Path(named).expanduser() if named else None


def cache_folder() -> Path:
    """`$THEREAFTER_CACHE`, else the platform's cache folder for this user. It may not exist yet."""
    named = os.environ.get("THEREAFTER_CACHE")
    if named:
        return Path(named).expanduser()
    if installed("platformdirs"):
        return Path(require("platformdirs", "finding the cache folder").user_cache_dir("thereafter", appauthor=False))
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "thereafter"


def programs_folder() -> Path | None:
    """`$THEREAFTER_GPU_PROGRAMS`, a folder of GPU programs that were compiled elsewhere; None where it is not set."""
    named = os.environ.get("THEREAFTER_GPU_PROGRAMS")
    return Path(named).expanduser() if named else None


_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "<i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "<u1", "BOOL": "<?",
}  # fmt: skip
_LONGEST_HEADER = 100_000_000
_SORTS = {stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
_SYSTEM_FLAGS = ("O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY")  # each where the system has it


def is_plain(path: Path, *, links: bool = True) -> bool:
    """Whether a path leads to a plain file; without `links`, whether it is one itself. Nothing is opened."""
    try:
        return stat.S_ISREG((path.stat() if links else path.lstat()).st_mode)
    except (OSError, ValueError):
        return False


def open_plain(path: str | os.PathLike[str], *, links: bool = True) -> BufferedReader:
    """Open a plain file for reading. Anything else is an OSError, at once: opening a pipe would block until something
    is written to it, and some devices act when they are opened.

    The path is checked before it is opened and the open file again: another process may have replaced it in between.
    Without `links` a link is refused as well.
    """
    _check_plain(os.stat(path, follow_symlinks=links), path)
    file = os.fdopen(os.open(path, os.O_RDONLY | _system_flags(links=links)), "rb")
    try:
        _check_plain(os.fstat(file.fileno()), path)
    except OSError:
        file.close()
        raise
    return file


def read_plain(path: str | os.PathLike[str], *, links: bool = True) -> bytes:
    """The content of a plain file, by the rules of `open_plain`."""
    with open_plain(path, links=links) as file:
        return file.read()


def _system_flags(*, links: bool) -> int:
    """The flags of a plain file, as far as the system has them; without `links` none is followed."""
    flags = 0
    for name in (*_SYSTEM_FLAGS, *(() if links else ("O_NOFOLLOW",))):
        flags |= getattr(os, name, 0)
    return flags


def _check_plain(facts: os.stat_result, path: str | os.PathLike[str]) -> None:
    if not stat.S_ISREG(facts.st_mode):
        sort = _SORTS.get(stat.S_IFMT(facts.st_mode), "device")
        raise OSError(errno.EINVAL, f"it is a {sort}, expected a plain file", os.fspath(path))


@contextmanager
def replacing(target: Path, *, durable: bool = False) -> Iterator[Path]:
    """A temporary path beside `target`: it replaces `target` when the block succeeds and is removed when it fails.

    `durable`: the file is flushed to the disk before the block ends. A link is followed; what is no plain file, such as
    a pipe or `/dev/stdout`, is written to directly.
    """
    try:
        target = target.resolve() if target.is_symlink() else target
        in_place = target.exists() and not target.is_file() and not target.is_dir()
        if not in_place:
            target.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
            os.close(handle)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise StorageError(f"cannot write {str(target)[:200]!r}: {reason}; try another folder") from error
    if in_place:
        yield target
        return
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())  # mkstemp files are private; a run folder follows the user's umask
        if durable:
            _to_disk(temporary)
        os.replace(temporary, target)
        if durable:
            _to_disk(target.parent)
    except OSError as error:
        full = error.errno in (None, errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        remedy = "try freeing space" if full else "try another place"
        raise StorageError(f"cannot write {target}: {error.strerror}; nothing was changed; {remedy}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _to_disk(path: Path) -> None:
    """Flush a file, or the entries of a folder, to the disk; folders only where the system can."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        if path.is_dir():
            return
        raise
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    """The umask. Reading it means setting it, for all threads: so it is set to a stricter one, and back."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def write_text(target: Path, text: str, *, durable: bool = False) -> None:
    """Write a small text file in one piece."""
    with replacing(target, durable=durable) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_arrays(
    target: Path,
    arrays: Mapping[str, NDArray[np.generic]],
    facts: Mapping[str, str] | None = None,
    *,
    durable: bool = False,
) -> None:
    """Write named arrays as a safetensors file, with small texts in its header."""
    save_file = require("safetensors.numpy", "saving a model").save_file
    with replacing(target, durable=durable) as temporary:
        try:
            whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
            save_file(whole, str(temporary), metadata=dict(facts) if facts else None)
        except OSError:
            raise
        except Exception as error:  # safetensors wraps the system's "no space left" in an exception of its own
            raise OSError(None, str(error)) from error


def map_arrays(path: Path) -> tuple[dict[str, NDArray[np.generic]], dict[str, str]]:
    """Map a safetensors file: arrays that are read from disk when they are used, and the texts of its header.

    Every size is checked and nothing is executed.
    """
    try:
        with open_plain(path) as file:
            size = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or not 2 <= length <= min(size - 8, _LONGEST_HEADER):
                raise FormatError(
                    f"{path} is not a safetensors file (header of {length} bytes in {size}); try training again"
                )
            header = json.loads(file.read(length))
        if not isinstance(header, dict):
            raise FormatError(f"{path}: its header is not a table; try training again")
        data = (
            np.memmap(path, dtype=np.uint8, mode="r", offset=8 + length) if size > 8 + length else np.empty(0, np.uint8)
        )
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror}; expected a safetensors file") from error
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: its header is damaged ({error}); try training again") from error
    facts = header.pop("__metadata__", {})
    places = {name: _place(path, name, entry) for name, entry in header.items()}
    reached = 0
    for name, (first, end, _, _) in sorted(places.items(), key=lambda item: item[1][:2]):
        if first != reached:  # the format leaves no hole between arrays, and none may lie over another
            raise FormatError(f"{path}: the array {name!r} overlaps another or leaves a gap; try training again")
        reached = end
    if reached != len(data):
        raise FormatError(f"{path} holds {len(data):,} bytes of arrays, expected {reached:,}; try training again")
    try:
        arrays = {n: np.asarray(data[a:b]).view(dtype).reshape(shape) for n, (a, b, dtype, shape) in places.items()}
    except ValueError as error:  # more axes than an array can have, or an axis no machine can count
        raise FormatError(f"{path}: an array has an impossible shape ({error}); try training again") from error
    return arrays, facts if isinstance(facts, dict) else {}


def _place(path: Path, name: str, entry: object) -> tuple[int, int, np.dtype[np.generic], tuple[int, ...]]:
    """Where the data of an array begins and ends, its dtype and its shape, which must fit each other."""
    try:
        if not isinstance(entry, dict):
            raise TypeError("it is not a table")
        dtype = np.dtype(_DTYPES[entry["dtype"]])
        shape = tuple(int(axis) for axis in entry["shape"])
        first, end = (int(offset) for offset in entry["data_offsets"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise FormatError(f"{path}: the entry {name!r} is damaged ({error}); try training again") from error
    if not 0 <= first <= end or min(shape, default=0) < 0 or end - first != math.prod(shape) * dtype.itemsize:
        raise FormatError(f"{path}: the size of the array {name!r} does not match its shape; try training again")
    return first, end, dtype, shape


_PATIENCE = 0.3  # seconds: `owner` takes a free lock for a moment, and must not make another process give up
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


class FileLock(AbstractContextManager["FileLock"]):
    """A lock that lasts until `release`, or until the process ends. Use it as a context manager, or store it."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.path, self._file = path, file

    def release(self) -> None:
        """Release the lock; the file is removed first, while no other process can take the lock."""
        if self._file.closed:
            return
        with suppress(OSError):  # some systems do not remove an open file; it stays, and locks nothing
            self.path.unlink()
        self._file.close()

    def __exit__(self, *error: object) -> None:
        self.release()


def take_lock(path: Path, *, command: str = "", patience: float = _PATIENCE) -> FileLock | None:
    """Lock a file, which is created if needed; None if another process keeps the lock longer than `patience` seconds.

    `command` says what the owner is doing, for the error of a process that is refused.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    give_up = time.monotonic() + patience
    while True:
        file = _open(path, "ab", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            lock_now(file)
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
        lock_owner = Owner(os.getpid(), socket.gethostname(), command or Path(sys.argv[0]).name, since)
        lock = FileLock(path, file)
        try:
            file.truncate(0)
            file.write(json.dumps(asdict(lock_owner)).encode())
        except OSError:  # a full disk: the next process must not have to wait for this one to end
            lock.release()
            raise
        return lock


def lock_owner(path: Path) -> Owner | None:
    """The owner of the lock of a file now, None if there is none. It neither waits nor changes anything."""
    try:
        file = _open(path, "rb+", os.O_RDWR)
    except OSError:
        return None
    with file:
        try:
            lock_now(file)
        except (BlockingIOError, PermissionError):
            return _read_owner(file)
        except OSError:
            return None
        return None


def _open(path: Path, mode: str, flags: int) -> IO[bytes]:
    """Open or create a lock file; anything but a plain file is an OSError, at once."""
    if os.path.lexists(path):
        _check_plain(path.lstat(), path)
    return os.fdopen(os.open(path, flags | _system_flags(links=False), 0o666), mode, buffering=0)


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

    def lock_now(file: IO[bytes]) -> None:
        """Lock an open file; BlockingIOError or PermissionError where another process has it, any other OSError on a
        disk without locks."""
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

else:
    import msvcrt

    _BEHIND = 1 << 30  # a locked byte cannot be read on Windows, so one far after the text is locked

    def lock_now(file: IO[bytes]) -> None:
        file.seek(_BEHIND)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

"""A run on disk: `config.toml`, `tokenizer.json`, `weights.safetensors`, `log.jsonl`. Loading one executes nothing.

What is trained step by step also has `state.safetensors`, from which its training goes on. The same files hold a
language model and a task: `tokenizer.json` has whatever turns a user's data into numbers and back.

One process at a time may write to a run folder, for the whole of a training. Its lock is the file `.lock`; see
`thereafter.base.storage` for what it outlives and what it does not. It is gone when a training ends, well or not;
after a kill the file stays, says who it was, and locks nothing.

The log is one JSON line an event.
"""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import datetime
from pathlib import Path

from thereafter.base import config as toml
from thereafter.base import progress, storage
from thereafter.base.config import Table
from thereafter.base.storage import is_plain, read_plain
from thereafter.errors import BusyError, FormatError, StorageError, nearest

CONFIG, TOKENIZER, WEIGHTS, LOG = "config.toml", "tokenizer.json", "weights.safetensors", "log.jsonl"
STATE = "state.safetensors"
ROWS, BOARD = "log.csv", "tensorboard"  # of a run that is asked for them
FILES = (CONFIG, LOG, TOKENIZER, WEIGHTS)
FORMAT = 1
_LARGEST = {CONFIG: 4_000_000, TOKENIZER: 1_000_000_000, LOG: 4_000_000_000}
"""Bytes of a file that is read whole, at most: no run has more."""


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run."""
    return is_file(folder / CONFIG)


def is_file(path: Path) -> bool:
    """Whether a path is a plain file; one that no system could open is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def check_free(folder: Path) -> None:
    """Refuse a folder that a run may not be written to, or that another process is writing to: before the training, so
    that no work is lost."""
    if "\0" in str(folder):
        raise StorageError(f"{str(folder)!r} holds a NUL and can be no folder; try another --out")
    owner = None if folder.absolute() in _own.get() else owner_of(folder)
    if owner is not None:
        raise _busy(folder, owner)
    try:
        if folder.exists() and not folder.is_dir():
            raise StorageError(f"{folder} is a file; expected a folder for the run; try another --out")
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        own = (*FILES, STATE, ROWS, BOARD, LOCK)
        if any(name not in own and not left_behind(name) for name in names) and not is_run(folder):
            raise StorageError(f"{folder} holds other files and no run; nothing was written; try a new folder")
        if is_file(folder / STATE) and not is_finished(folder):
            raise StorageError(
                f"{folder} holds a training that has not finished; nothing was written; try: thereafter train --resume "
                f"{folder}, or another --out"
            )
    except (OSError, ValueError) as error:
        raise StorageError(f"cannot use {str(folder)[:200]!r} as a run folder: {error}; try another --out") from error


def say_replaced(folder: Path) -> None:
    """Tell the user of a finished run that a training is going to replace; nothing where there is none."""
    if not is_run(folder) or not is_finished(folder):
        return
    try:
        config = toml.loads(read_plain(folder / CONFIG).decode("utf-8"))
        written = datetime.fromtimestamp((folder / CONFIG).stat().st_mtime)
    except (OSError, ValueError, FormatError):
        return
    source = config.get("source")
    name = f" of {source['name']}" if isinstance(source, dict) and "name" in source else ""
    kind = config.get("task") or config.get("model")
    progress.note(f"{folder} holds a finished run, {kind}{name}, written {written:%Y-%m-%d %H:%M}: it is replaced")


def left_behind(name: str) -> bool:
    """Whether it is the name of what a save that was killed left of a file."""
    # a temporary file beside a temporary file has two dots before its name
    return name.endswith(".tmp") and any(name.lstrip(".").startswith(f"{file}.") for file in (*FILES, STATE))


def is_finished(folder: Path) -> bool:
    """Whether the training in a run folder has come to its end: its log says so in the last line."""
    try:
        return has_ended(read_plain(folder / LOG))
    except (OSError, ValueError):
        return False


def read_config(folder: Path) -> tuple[Table, list[Line]]:
    """The configuration and the log of a run, checked."""
    if not is_run(folder):
        raise FormatError(_no_run(folder))
    check_files(folder)
    try:
        config = toml.loads(read_plain(folder / CONFIG).decode("utf-8"), str(folder / CONFIG))
        log = read_log(folder / LOG)
    except (OSError, ValueError, RecursionError) as error:
        raise FormatError(f"the run {folder} cannot be read: {error}; try training again") from error
    path = folder / CONFIG
    if config.get("format") != FORMAT:
        raise FormatError(f"{path} is of format {config.get('format')!r}; expected {FORMAT}; try training again")
    if not isinstance(config.get("task", config.get("model")), str):
        raise FormatError(f"{path} names neither a model nor a task; try training again")
    return config, log


def check_files(folder: Path) -> None:
    """Refuse links in the place of files, which may lead anywhere, and files that are too large to be what they are
    called: before any of them is opened."""
    for name in (*FILES, STATE, ROWS):
        path = folder / name
        try:
            facts = path.lstat()
        except (OSError, ValueError):
            continue
        if stat.S_ISLNK(facts.st_mode):
            raise FormatError(
                f"{path} is a link; expected a plain file; if you trust where it leads, try copying: cp -rL {folder} "
                f"{folder}-copy"
            )
        if facts.st_size > _LARGEST.get(name, facts.st_size):
            raise FormatError(
                f"{path} has {facts.st_size:,} bytes; expected at most {_LARGEST[name]:,}; try training again"
            )


def check_tables(config: Table, folder: Path, tables: Mapping[str, Sequence[str]]) -> None:
    """Refuse a configuration that lacks one of these tables or a name in it; then they are taken for granted."""
    for table, names in tables.items():
        values = config.get(table)
        missing = [name for name in names if not isinstance(values, dict) or name not in values]
        if not isinstance(values, dict) or missing:
            raise FormatError(
                f"{folder / CONFIG} is not complete: expected the table [{table}] {'with ' if names else ''}"
                f"{', '.join(missing)}; try training again"
            )


def holds_task(folder: Path) -> bool:
    """Whether a folder holds the run of a task, not that of a language model."""
    try:
        check_files(folder)
        return "task" in toml.loads(read_plain(folder / CONFIG).decode("utf-8"))
    except (OSError, ValueError, FormatError):
        return False


def check_weights(config: Table, folder: Path) -> None:
    """Refuse a training that was stopped before its first weights were saved."""
    if not is_file(folder / WEIGHTS) and config.get("training"):
        raise FormatError(
            f"the training in {folder} was stopped before its first weights were saved; try: thereafter train "
            f"--resume {folder}"
        )


def free_folder(base: Path, name: str) -> Path:
    """`base/name`, or with the first number that no run has taken yet."""
    folder, number = base / name, 2
    while folder.exists():
        folder, number = base / f"{name}-{number}", number + 1
    return folder


def _no_run(folder: Path) -> str:
    if folder.is_dir():
        return f"{folder} holds no {CONFIG}: expected a run folder; try: thereafter train SOURCE --out RUN"
    beside: list[str] = []
    if folder.parent.is_dir():
        beside = sorted(str(other) for other in folder.parent.iterdir() if is_run(other))
    hint = nearest(str(folder), beside) if beside else "try: thereafter train SOURCE --out RUN"
    return f"there is no run {folder}; {hint}"


LOCK = ".lock"
_LONGEST = 80  # characters of a command that are quoted
_own: ContextVar[frozenset[Path]] = ContextVar("thereafter_own_runs", default=frozenset())
"""The folders this call is writing to: a training that saves its model at the end has the lock already. Every thread
begins with none."""


def owner_of(run: Path) -> storage.Owner | None:
    """The process that is writing to a run folder at this moment; None where there is none."""
    return storage.lock_owner(run / LOCK) if is_plain(run / LOCK, links=False) else None


@contextmanager
def owning(run: Path) -> Iterator[None]:
    """Inside the block no other process writes to the run folder; BusyError names the one that does.

    The folder is made where it is not there, and goes away again where nothing was written to it.
    """
    place = run.absolute()
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


def _take(run: Path) -> storage.FileLock:
    path = run / LOCK
    try:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise StorageError(f"{path} is no plain file; expected none or that of a lock; try removing it")
        lock = storage.take_lock(path, command=_command())
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise StorageError(f"cannot write the run folder {str(run)[:200]!r}: {reason}; try another --out") from error
    if lock is None:
        raise _busy(run, storage.lock_owner(path))
    return lock


def _busy(run: Path, owner: storage.Owner | None) -> BusyError:
    return BusyError(
        f"{run} is being written by {owner or 'another process'}; nothing was changed; "
        "try again when that has ended, or another --out"
    )


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


def _command() -> str:
    """The command of this process, for the message to others: our module by its name, else the script."""
    program, home = Path(sys.argv[0] if sys.argv else ""), Path(__file__).parents[1]
    if program.is_relative_to(home):
        parts = (home.name, *program.relative_to(home).with_suffix("").parts)
        name = ".".join(part for part in parts if part != "__main__")
    else:
        name = program.name or "python"
    return " ".join([name, *sys.argv[1:]])[:_LONGEST]


Line = Table
_ENDS = ("trained", "read")


def read_lines(written: bytes) -> tuple[list[Line], int]:
    """The lines of a log up to the first that is none, and their bytes.

    What comes after them is not a log any more: half a line of a process that was killed, zeros after a power cut, the
    bytes of two writers at once.
    """
    lines: list[Line] = []
    length = 0
    for raw in written.splitlines(keepends=True):
        try:
            line = json.loads(raw.decode("utf-8")) if raw.endswith(b"\n") else None
        except (ValueError, RecursionError):
            break
        if not isinstance(line, dict):
            break
        lines.append(line)
        length += len(raw)
    return lines, length


def read_log(path: Path) -> list[Line]:
    """What can be read of the log of a run; nothing where there is none.

    Of a damaged log: the lines before the damage, and the last one if it says how the training ended.
    """
    if not path.is_file():
        return []
    written = path.read_bytes()
    lines, length = read_lines(written)
    last = _last_line(written[length:])
    return [*lines, last] if last is not None and last.get("event") in _ENDS else lines


def has_ended(written: bytes) -> bool:
    """Whether a log says that its training has come to its end; where the last line is damaged, the one before."""
    last = _last_line(written)
    if last is None:
        last = next(reversed(read_lines(written)[0]), None)
    return last is not None and last.get("event") in _ENDS


def _last_line(written: bytes) -> Line | None:
    """The last whole line; None where it is damaged, or there is none."""
    whole = written[: written.rfind(b"\n") + 1]
    return next(iter(read_lines(whole[whole.rfind(b"\n", 0, -1) + 1 :])[0]), None)

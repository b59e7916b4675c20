"""One writer at a time, in one process and in several, and after an owner that died."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from thereafter.base import storage

_HOLD = """
import sys, time
from pathlib import Path
from thereafter.base import storage
lock = storage.take_lock(Path(sys.argv[1]), command="thereafter train --out run")
print("taken" if lock else "refused", flush=True)
time.sleep(60)
"""


@contextmanager
def _holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock, until it is killed or the block ends."""
    command = [sys.executable, "-c", _HOLD, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "taken\n"
            yield child
        finally:
            child.kill()


def test_a_second_taker_is_refused_and_told_who_has_it(tmp_path: Path) -> None:
    path = tmp_path / "run" / ".lock"
    with _holder(path) as child:
        assert storage.take_lock(path) is None
        owner = storage.lock_owner(path)
        assert owner is not None
        assert owner.pid == child.pid
        assert "thereafter train --out run" in str(owner)


def test_a_killed_owner_locks_nothing(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with _holder(path) as child:
        child.kill()
        child.wait()
    assert path.exists()
    assert storage.lock_owner(path) is None
    with storage.take_lock(path) as lock:  # type: ignore[union-attr]
        assert lock is not None
        owner = storage.lock_owner(path)
        assert owner is not None
        assert owner.pid == os.getpid()
    assert not path.exists()
    assert storage.lock_owner(path) is None


def test_two_takers_of_one_process_exclude_each_other(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    first = storage.take_lock(path)
    assert first is not None
    assert storage.take_lock(path, patience=0.0) is None
    first.release()
    first.release()
    second = storage.take_lock(path)
    assert second is not None
    second.release()


def test_looking_never_takes_the_lock_away_from_anybody(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    path.touch()
    for _ in range(50):
        assert storage.lock_owner(path) is None
        lock = storage.take_lock(path)
        assert lock is not None
        lock.release()
        path.touch()


def test_a_full_disk_leaves_no_lock(tmp_path: Path) -> None:
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limit[1]))  # the system lets no file grow
    try:
        with pytest.raises(OSError, match="too large"):
            storage.take_lock(tmp_path / ".lock")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert not (tmp_path / ".lock").exists()


def test_a_link_or_a_pipe_in_the_place_of_the_lock_is_neither_written_nor_waited_for(tmp_path: Path) -> None:
    """A folder that somebody else made may hold one: the owner must not be written over a file elsewhere."""
    elsewhere, link, pipe = tmp_path / "letter.txt", tmp_path / "link" / ".lock", tmp_path / "pipe" / ".lock"
    elsewhere.write_text("dear reader", encoding="utf-8")
    for path in (link, pipe):
        path.parent.mkdir()
    link.symlink_to(elsewhere)
    os.mkfifo(pipe)
    for path in (link, pipe):
        assert storage.lock_owner(path) is None
        with pytest.raises(OSError, match="expected a plain file"):
            storage.take_lock(path)
    assert elsewhere.read_text(encoding="utf-8") == "dear reader"

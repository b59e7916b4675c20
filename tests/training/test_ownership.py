"""One process at a time writes to a run folder, and whoever is refused is told who does."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import thereafter
from tasks.toys import tagged
from thereafter.errors import BusyError, EmptyCorpusError, StorageError
from thereafter.runs.ownership import owner_of, owning

TEXT = "the cat sat on the mat .\nthe dog ran off .\n" * 30
SMALL: dict[str, Any] = {"hidden": 8, "batch": 4, "steps": 8, "layers": 1, "tokens": "char"}
HOLD = """
import sys
from pathlib import Path
from thereafter.runs.ownership import owning
with owning(Path(sys.argv[1])):
    print("taken", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(run: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that is writing to a run folder, until it is killed or the block ends."""
    command = [sys.executable, "-c", HOLD, str(run)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            assert child.stdout.readline() == "taken\n"
            yield child
        finally:
            child.kill()


def listing(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def unfinished(run: Path) -> Path:
    """A run whose log has lost its last line: there is something left to do."""
    book = run.parent / "book.txt"
    book.write_text(TEXT)
    thereafter.train(book, model="rnn", out=run, epochs=1, **SMALL)
    lines = (run / "log.jsonl").read_text().splitlines(keepends=True)
    (run / "log.jsonl").write_text("".join(lines[:-1]))
    return run


def unfinished_task(run: Path) -> Path:
    thereafter.train(tagged(run.parent / "tags.tsv", 20), task="tag", out=run, hidden=4, epochs=1)
    lines = (run / "log.jsonl").read_text().splitlines(keepends=True)
    (run / "log.jsonl").write_text("".join(lines[:-1]))
    (run / "state.safetensors").unlink(missing_ok=True)
    return run


WRITERS: dict[str, tuple[Callable[[Path], Any], Callable[[Path], Any]]] = {
    "train": (lambda run: None, lambda run: thereafter.train(text=TEXT, model="rnn", out=run, epochs=1, **SMALL)),
    "n-grams": (lambda run: None, lambda run: thereafter.train(text=TEXT, order=2, out=run)),
    "save": (lambda run: None, lambda run: thereafter.train(text=TEXT, order=2).save(run)),
    "resume": (unfinished, thereafter.resume),
    "fit": (
        lambda run: None,
        lambda run: thereafter.train(tagged(run.parent / "t.tsv", 20), task="tag", out=run, hidden=4),
    ),
    "resume a task": (unfinished_task, thereafter.resume),
    "compare": (lambda run: None, lambda run: thereafter.compare(text=TEXT, models="unigram", out=run, tokens="word")),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_folder_in_use_is_refused_and_left_as_it_is(name: str, tmp_path: Path):
    prepare, write = WRITERS[name]
    run = tmp_path / "run"
    prepare(run)
    with holder(run) as other:
        before = listing(run)
        owner = owner_of(run)
        assert owner is not None
        assert owner.pid == other.pid
        with pytest.raises(BusyError, match=f"being written by process {other.pid} .*try again"):
            write(run)
        assert listing(run) == before
        other.kill()  # an owner that died holds nothing
        other.wait()
    assert (run / ".lock").exists()
    assert owner_of(run) is None
    write(run)
    assert not (run / ".lock").exists()


def test_the_command_line_says_who_is_at_it(tmp_path: Path):
    """A real training in one process, and every way to write to its folder from another."""
    book = tmp_path / "book.txt"
    book.write_text(TEXT)
    run = tmp_path / "run"
    words = [sys.executable, "-m", "thereafter", "train"]
    first = [book, "--model", "rnn", "--hidden", "8", "--tokens", "char", "--out", run]
    env = os.environ | {"OMP_NUM_THREADS": "1", "THEREAFTER_NUMBA": "0"}
    endless = [*words, *map(str, first), "--tokens-budget", "100000000000", "--set", "log_every=1"]
    with subprocess.Popen(endless, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as training:
        try:
            while not ((run / "log.jsonl").is_file() and (run / "log.jsonl").stat().st_size > 2000):
                assert training.poll() is None
                time.sleep(0.01)
            for others in (["--resume", run], [book, "--out", run], [*first]):
                answer = subprocess.run([*words, *map(str, others)], env=env, capture_output=True, text=True)
                assert answer.returncode == 2
                assert answer.stderr.count("\n") == 1
                assert f"process {training.pid} (thereafter train " in answer.stderr
            assert training.poll() is None
        finally:
            training.kill()


def test_another_thread_is_another_writer(tmp_path: Path):
    refused: list[str] = []

    def write() -> None:
        try:
            thereafter.train(text=TEXT, order=2, out=tmp_path / "run")
        except BusyError as error:
            refused.append(str(error))

    with owning(tmp_path / "run"):
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
        with owning(tmp_path / "run"):  # whoever has it may ask again
            pass
        assert owner_of(tmp_path / "run") is not None
    assert len(refused) == 1
    assert f"process {os.getpid()}" in refused[0]


def test_a_training_that_fails_leaves_no_folder(tmp_path: Path):
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(EmptyCorpusError):
        thereafter.train(tmp_path / "empty.txt", out=tmp_path / "new" / "deep" / "run", order=2)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_a_lock_that_is_no_file_is_never_opened(kind: str, tmp_path: Path):
    run, victim = tmp_path / "run", tmp_path / "victim"
    run.mkdir()
    victim.write_text("precious")
    if kind == "link":
        (run / ".lock").symlink_to(victim)
    elif kind == "pipe":
        os.mkfifo(run / ".lock")
    else:
        (run / ".lock").mkdir()
    assert owner_of(run) is None
    with pytest.raises(StorageError, match="no plain file"):
        thereafter.train(text=TEXT, order=2, out=run)
    assert victim.read_text() == "precious"

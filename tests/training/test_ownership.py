"""One process at a time writes to a run folder, and whoever is refused is told who does."""

from __future__ import annotations

import os
import signal
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
from refusals import assert_refused
from tasks.toys import tagged
from thereafter.errors import BusyError, EmptyCorpusError, StorageError
from thereafter.runs.folder import owner_of, owning
from warm import Command

TEXT = "the cat sat on the mat .\nthe dog ran off .\n" * 30
SMALL: dict[str, Any] = {"hidden": 8, "batch": 4, "steps": 8, "layers": 1, "tokens": "char"}
HOLD = """
import sys
from contextlib import ExitStack
from pathlib import Path
from thereafter.runs.folder import owning
with ExitStack() as stack:
    for run in sys.argv[1:]:
        stack.enter_context(owning(Path(run)))
    print("taken", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(*runs: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that is writing to run folders, until it is killed or the block ends."""
    command = [sys.executable, "-c", HOLD, *map(str, runs)]
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
        lambda run: thereafter.train(tagged(run.parent / "t.tsv", 20), task="tag", out=run, hidden=4, epochs=1),
    ),
    "resume a task": (unfinished_task, thereafter.resume),
    "compare": (lambda run: None, lambda run: thereafter.compare(text=TEXT, models="unigram", out=run, tokens="word")),
}


def test_a_folder_in_use_is_refused_and_left_as_it_is(tmp_path: Path):
    """Every writer has a folder of its own; one process holds them all."""
    runs = {name: tmp_path / str(number) / "run" for number, name in enumerate(WRITERS)}
    for name, run in runs.items():
        run.parent.mkdir()
        WRITERS[name][0](run)
    with holder(*runs.values()) as other:
        for name, run in runs.items():
            before, owner = listing(run), owner_of(run)
            assert owner is not None, name
            assert owner.pid == other.pid, name
            with assert_refused(BusyError, other.pid):
                WRITERS[name][1](run)
            assert listing(run) == before, name
        other.kill()  # an owner that died holds nothing
        other.wait()
    for name, run in runs.items():
        assert (run / ".lock").exists(), name
        assert owner_of(run) is None, name
        WRITERS[name][1](run)
        assert not (run / ".lock").exists(), name


def test_the_command_line_says_who_is_at_it(tmp_path: Path):
    """A real training in one process, and every way to write to its folder from another."""
    book = tmp_path / "book.txt"
    book.write_text(TEXT)
    run = tmp_path / "run"
    first = [book, "--model", "rnn", "--hidden", "8", "--tokens", "char", "--out", run]

    def start(*words: object) -> Command:
        return Command(["train", *map(str, words)], {"THEREAFTER_NUMBA": "0"})

    training = start(*first, "--tokens-budget", "100000000000", "--set", "log_every=1")
    try:
        while not ((run / "log.jsonl").is_file() and (run / "log.jsonl").stat().st_size > 2000):
            assert training.returncode is None, training.output()
            time.sleep(0.01)
        owner = owner_of(run)
        assert owner is not None
        for others in (["--resume", run], [book, "--out", run], [*first]):
            answer = start(*others)
            assert answer.wait(300) == 2
            assert answer.output().count("\n") == 1
            assert f"process {owner.pid} (thereafter train " in answer.output()
        assert training.returncode is None
    finally:
        training.send_signal(signal.SIGKILL)
        training.wait(300)


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
    with assert_refused(StorageError, run / ".lock"):
        thereafter.train(text=TEXT, order=2, out=run)
    assert victim.read_text() == "precious"

"""A run folder may hold anything: pipes, links, devices in the place of its files. Nobody waits for them."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

import thereafter
from refusals import assert_refused
from thereafter.base import storage
from thereafter.errors import FormatError
from thereafter.runs.folder import is_finished
from thereafter.task_model import load_task

TEXT = "the cat sat on the mat .\nthe dog sat on the log .\n" * 20


@pytest.fixture(autouse=True)
def _awake() -> Iterator[None]:
    """Whoever waits for a pipe is woken, and the test fails."""

    def wake(number: int, frame: FrameType | None) -> None:
        pytest.fail("somebody waits for a pipe")  # no OSError, which would be taken for a file that cannot be read

    former = signal.signal(signal.SIGALRM, wake)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, former)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    thereafter.train(text=TEXT, model="ngram", order=2, tokens="word", out=folder)
    return folder


def test_only_plain_files_are_opened(tmp_path: Path) -> None:
    plain, pipe, link, dangling = (tmp_path / name for name in ("plain", "pipe", "link", "dangling"))
    plain.write_bytes(b"text")
    os.mkfifo(pipe)
    link.symlink_to(plain)
    dangling.symlink_to(tmp_path / "nowhere")
    assert storage.read_plain(plain) == storage.read_plain(link) == storage.read_plain(plain, links=False) == b"text"
    assert [storage.is_plain(path) for path in (plain, link, pipe, dangling, tmp_path)] == [True, True, *[False] * 3]
    assert not storage.is_plain(link, links=False)
    for path, links, sort in ((pipe, True, "pipe"), (tmp_path, True, "folder"), (link, False, "link")):
        with assert_refused(OSError, sort):
            storage.open_plain(path, links=links)
    with assert_refused(OSError, "device"):
        storage.open_plain("/dev/zero")
    with pytest.raises(FileNotFoundError):
        storage.open_plain(dangling)


@pytest.mark.parametrize("name", ["config.toml", "tokenizer.json", "weights.safetensors"])
def test_a_pipe_in_a_run_is_refused_with_a_sentence(run: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run" / name).unlink()
    os.mkfifo(tmp_path / "run" / name)
    with pytest.raises(FormatError):
        thereafter.load(tmp_path / "run")
    with pytest.raises(FormatError):
        load_task(tmp_path / "run")


def test_a_pipe_as_a_log_is_no_log(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run" / "log.jsonl").unlink()
    os.mkfifo(tmp_path / "run" / "log.jsonl")
    assert not is_finished(tmp_path / "run")
    assert thereafter.load(tmp_path / "run").next("the", 1)

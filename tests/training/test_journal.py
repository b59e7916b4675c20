"""The log of a run survives what killed processes, power cuts and second writers leave of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import thereafter
from stops import stopping_at
from tasks.toys import tagged
from thereafter.base import progress
from thereafter.runs.folder import has_ended, read_lines
from thereafter.runs.writer import Journal

TEXT = "the cat sat on the mat .\nthe dog ran off .\n" * 30
SMALL: dict[str, Any] = {"hidden": 8, "batch": 4, "steps": 8, "layers": 1, "tokens": "char", "log_every": 1}
LINE = b'{"event": "step", "step": 1}\n'
DAMAGE: dict[str, bytes] = {
    "half a line": b'{"event": "st',
    "a line without its end": LINE[:-1],
    "zeros after a power cut": bytes(512),
    "two writers at once": b'{"event": "st{"event": "step", "step": 4}\nep", "step": 4}\n' + LINE,
    "bytes that are no text": b"\xff\xfe\x00\n" + LINE,
    "a line that is no object": b"[1, 2]\n" + LINE,
    "brackets without end": b"[" * 100_000 + b"\n",
}


class Notes(progress.Silent):
    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, message: str) -> None:
        self.said.append(message)


@pytest.mark.parametrize("name", DAMAGE)
def test_the_whole_lines_before_the_damage_are_kept(name: str, tmp_path: Path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(LINE * 3 + DAMAGE[name])
    assert read_lines(path.read_bytes()) == ([json.loads(LINE)] * 3, 3 * len(LINE))
    assert not has_ended(path.read_bytes())
    notes = Notes()
    with progress.reporting(notes):
        journal = Journal(path, keep=path.stat().st_size)
    assert "damaged after its first 3 lines" in notes.said[0]
    journal.write({"event": "resumed"})
    journal.close()
    assert path.read_bytes() == LINE * 3 + b'{"event": "resumed"}\n'
    assert journal.length == path.stat().st_size


def test_an_end_is_an_end_whatever_comes_before_or_after_it():
    end = b'{"event": "trained"}\n'
    assert has_ended(LINE + end)
    assert not has_ended(end + LINE)
    for damage in DAMAGE.values():
        assert has_ended(LINE + end + damage) == (not damage.endswith(LINE))
        assert has_ended(LINE + damage + b"\n" + end)
    assert not has_ended(b"")


def stop_early(run: Path, task: bool) -> None:
    """Begin a training that is stopped at step 12."""

    def begin() -> None:
        if task:
            options = {"hidden": 8, "batch": 4, "epochs": 3, "log_every": 1, "validate_every": 5}
            thereafter.train(tagged(run.parent / "tags.tsv", 40), task="tag", out=run, **options)
        else:
            (run.parent / "book.txt").write_text(TEXT)
            thereafter.train(run.parent / "book.txt", model="rnn", out=run, epochs=2, validate_every=5, **SMALL)

    with stopping_at(12), pytest.raises(KeyboardInterrupt):
        begin()


@pytest.mark.parametrize("task", [False, True])
def test_a_run_with_a_damaged_log_can_be_read_and_goes_on(task: bool, tmp_path: Path):
    run = tmp_path / "run"
    stop_early(run, task)
    log = run / "log.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    cut = len(b"".join(lines[:6]))
    log.write_bytes(b"".join(lines[:6]) + bytes(len(log.read_bytes()) - cut))  # as long as it was, and zeros
    assert [json.loads(line) for line in lines[:6]] == thereafter.load(run).log
    notes = Notes()
    with progress.reporting(notes):
        done = thereafter.resume(run)
    assert any("damaged after its first 6 lines" in said for said in notes.said)
    steps = [line["step"] for line in done.log if line["event"] == "step"]
    assert steps[-1] == done.log[-1]["steps"]
    assert 13 in steps
    assert done.log == [json.loads(line) for line in log.read_text().splitlines()]
    with log.open("ab") as file:
        file.write(bytes(100))
    assert thereafter.resume(run).log[-1]["event"] == "trained"

"""Folders and files that no run can be written to or read from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import thereafter
from tasks.toys import tagged
from thereafter.base import progress
from thereafter.errors import FormatError, StorageError


def test_the_run_folder_is_judged_before_the_training(tmp_path: Path):
    (tmp_path / "letter.txt").touch()
    for wrong in (tmp_path, tmp_path / "letter.txt", "a" * 5000, "a\0b"):
        with pytest.raises(StorageError):
            thereafter.train(text="a b a b", out=wrong)
    killed = tmp_path / "killed"
    killed.mkdir()
    (killed / ".weights.safetensors.abc.tmp").touch()
    assert thereafter.train(text="a b a b", out=killed)


def test_hostile_shapes_are_a_format_error(tmp_path: Path):
    folder = thereafter.train(text="a b a b", out=tmp_path / "run").save(tmp_path / "run")
    for shape in ([2**70, 0], [1] * 100):
        header = json.dumps({"word": {"dtype": "I32", "shape": shape, "data_offsets": [0, 4 * (0 in shape or 1)]}})
        body = len(header).to_bytes(8, "little") + header.encode() + (b"" if 0 in shape else b"\0" * 4)
        (folder / "weights.safetensors").write_bytes(body)
        with pytest.raises(FormatError):
            thereafter.load(folder)


def test_a_finished_run_that_is_replaced_is_named(tmp_path: Path):
    notes: list[str] = []

    class Listener(progress.Silent):
        def note(self, message: str) -> None:
            notes.append(message)

    run = tmp_path / "run"
    with progress.reporting(Listener()):
        thereafter.train(text="a b a b\n" * 9, order=2, out=run)
        assert not any("replaced" in note for note in notes)
        thereafter.train(text="a b a b\n" * 9, order=3, out=run)
    (note,) = (note for note in notes if "replaced" in note)
    assert note.startswith(f"{run} holds a finished run, ngram of text, written 20")
    assert note.endswith(": it is replaced")
    notes.clear()
    with progress.reporting(Listener()):
        for _ in range(2):
            thereafter.train(tagged(tmp_path / "tags.tsv", 30), task="tag", out=run, hidden=4, epochs=1)
    named = [note for note in notes if "replaced" in note]
    assert [", ngram of text," in note for note in named] == [True, False]
    assert ", tag of" in named[1]

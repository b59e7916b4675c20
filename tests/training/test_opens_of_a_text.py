"""A text is opened few times: for its form, for its hash, and once to be read, however often it is needed."""

from __future__ import annotations

import builtins
import io
import os
from pathlib import Path

import pytest

import thereafter

TEXT = "".join(f"The cat of number {k % 7} sat on the mat, and no dog came.\n" for k in range(60))


def count_opens(monkeypatch: pytest.MonkeyPatch, path: Path) -> list[str]:
    """A list that grows whenever the file is opened."""
    opened: list[str] = []
    real = io.open

    def counting(file, *args, **kwargs):
        if isinstance(file, str | os.PathLike) and Path(file) == path:
            opened.append(os.fspath(file))
        return real(file, *args, **kwargs)

    monkeypatch.setattr(builtins, "open", counting)
    monkeypatch.setattr(io, "open", counting)
    return opened


@pytest.mark.parametrize("model", ["lstm", "ngram"])
def test_training_opens_its_text_three_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str):
    path = tmp_path / "book.txt"
    path.write_text(TEXT, encoding="utf-8")
    opened = count_opens(monkeypatch, path)
    thereafter.train(path, model=model, **({"epochs": 1, "hidden": 4} if model == "lstm" else {}))
    assert 1 <= len(opened) <= 3


def test_a_text_that_was_written_again_is_read_again(tmp_path: Path):
    path = tmp_path / "book.txt"
    path.write_text(TEXT, encoding="utf-8")
    first = thereafter.train(path, model="ngram")
    path.write_text(TEXT.replace("cat", "cow"), encoding="utf-8")
    second = thereafter.train(path, model="ngram")
    assert " cow" in second.tokenizer.vocabulary
    assert " cow" not in first.tokenizer.vocabulary
    assert first.config["source"]["text_sha256"] != second.config["source"]["text_sha256"]
    assert first.config["source"]["sha256"] != second.config["source"]["sha256"]

"""Corpora that need no network: the same every time, whole, and made of what they say."""

from __future__ import annotations

import hashlib
import platform
import pydoc_data.topics
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from refusals import assert_refused
from thereafter.data import corpora
from thereafter.errors import CorpusError, StorageError
from thereafter.text import agreement, builtin

PARTS = ["train", "valid", "test"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("THEREAFTER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A standard library of a few files, some of which must not be taken and none of which may be run."""
    root = tmp_path / "lib"
    files = {
        "json/__init__.py": b'"""JSON."""\r\nraise SystemExit\r\n',
        "json/decoder.py": b'def decode():\n    """Decode it."""',
        "json/tests/test_it.py": b"not this\n",
        "json/__pycache__/x.py": b"not this\n",
        "abc.py": b'\xef\xbb\xbfclass A:\n    """An A."""\n',
        "ast.py": b"",
        "bad.py": b"not this\n",  # no module of the standard library is called so
        "ftplib.py": "# -*- coding: latin-1 -*-\n# é\n".encode("latin-1"),
        "heapq.py": b"this is ( no Python\n",
        "site-packages/json/x.py": b"not this\n",
        "encodings/cp1252.py": b"not this\n",
        "_sysconfigdata__linux_x86_64-linux-gnu.py": b"not this\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text)
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"stdlib": str(root)})
    return root


def whole(found: corpora.Corpus) -> str:
    assert list(found.parts) == PARTS
    return "".join(found.parts[part].read_bytes().decode("utf-8") for part in PARTS)


@pytest.mark.parametrize("name", ["python-docs", "python-code"])
def test_read_from_this_interpreter_the_same_every_time(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = corpora.locate(name, download=False)
    text = whole(first)
    assert first.tokens == "prose"
    assert 100_000 < len(text.encode()) < 12_000_000
    assert "\r" not in text
    assert "\0" not in text
    assert text.endswith("\n")
    assert platform.python_version() in first.detail
    assert hashlib.sha256(text.encode()).hexdigest() in first.detail
    lines = {part: path.read_bytes().count(b"\n") for part, path in first.parts.items()}
    total = sum(lines.values())
    assert lines["train"] == total * 90 // 100
    assert abs(lines["valid"] - lines["test"]) <= 1
    monkeypatch.setenv("THEREAFTER_CACHE", str(tmp_path / "another"))
    second = corpora.locate(name)
    assert second.detail == first.detail
    assert second.parts != first.parts
    assert whole(second) == text
    assert corpora.status(name) == "built in"


def test_the_manual_holds_every_topic() -> None:
    text = whole(corpora.locate("python-docs"))
    for topic in pydoc_data.topics.topics.values():
        assert topic.strip("\n") in text
    assert 'The "if" statement' in text


def test_the_code_is_the_standard_library() -> None:
    import json.decoder
    import textwrap

    text = whole(corpora.locate("python-code"))
    for module in (textwrap, json.decoder):
        assert Path(str(module.__file__)).read_text(encoding="utf-8") in text
    for stranger in ("build_time_vars = {", "pytest_plugins = ", "decoding_table = ("):
        assert stranger not in text


def test_what_is_taken_from_the_library(library: Path) -> None:
    taken = dict(builtin.standard_library())
    assert list(taken) == ["abc.py", "ast.py", "heapq.py", "json/__init__.py", "json/decoder.py"]
    assert taken["json/__init__.py"] == '"""JSON."""\nraise SystemExit\n'
    assert taken["json/decoder.py"].endswith('"""Decode it."""\n')
    assert taken["abc.py"].startswith("class A")
    assert whole(corpora.locate("python-code")) == "".join(taken.values())


def test_without_the_topics_the_docstrings_are_read(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    found = corpora.locate("python-docs")
    assert whole(found) == "An A.\n\nJSON.\n\nDecode it.\n"
    assert found.detail.startswith("docstrings of the standard library of ")


def test_an_interpreter_without_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (tmp_path, tmp_path / "python311.zip"):
        monkeypatch.setattr(sysconfig, "get_paths", lambda place=place: {"stdlib": str(place)})
        with assert_refused(CorpusError, ".py"):
            corpora.locate("python-code")


def test_a_spoilt_part_is_mended(library: Path) -> None:
    found = corpora.locate("python-code")
    text = whole(found)
    found.parts["train"].write_bytes(b"spoilt")
    found.parts["test"].unlink()
    assert whole(corpora.locate("python-code")) == text
    assert sorted(path.name for path in found.parts["test"].parent.iterdir()) == ["test.txt", "train.txt", "valid.txt"]


def test_a_changed_library_is_another_corpus(library: Path) -> None:
    before = corpora.locate("python-code")
    (library / "abc.py").write_bytes(b"x = 1\n")
    after = corpora.locate("python-code")
    assert before.parts["train"].parent != after.parts["train"].parent
    assert before.detail != after.detail


@pytest.mark.parametrize("name", ["python-code", "agreement"])
def test_a_cache_that_cannot_be_written(name: str, library: Path, cache: Path) -> None:
    cache.write_text("a file where the folder should be")
    with assert_refused(StorageError, "THEREAFTER_CACHE"):
        corpora.locate(name)


@pytest.mark.wide
def test_agreement_as_everyone_gets_it(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THEREAFTER_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))  # others need it too
    found = corpora.locate("agreement")
    text = whole(found)
    assert found.tokens == "word"
    assert len(text) > 100_000
    assert text.isascii()
    assert f"seed {agreement.DEFAULT_SEED}" in found.detail
    assert hashlib.sha256(text.encode()).hexdigest() in found.detail
    for part, path in found.parts.items():
        lines = path.read_text().splitlines()
        assert len(lines) == agreement.DEFAULT_SENTENCES[part]
        assert f"{len(lines):,}" in found.detail
        known = next(agreement.read_sentences(path.with_suffix(".jsonl")))
        assert known.text == lines[0]


def test_agreement_is_generated_once_and_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[Path] = []
    generate = agreement.write_corpus

    def fewer(folder: Path, **options: Any) -> dict[str, Path]:
        runs.append(folder)
        return generate(folder, **(options | {"sizes": {"train": 200, "valid": 20, "test": 20}}))

    monkeypatch.setattr(agreement, "write_corpus", fewer)
    first = corpora.locate("agreement")
    text = whole(first)
    sentences = {part: set(path.read_text().splitlines()) for part, path in first.parts.items()}
    assert not sentences["train"] & (sentences["valid"] | sentences["test"])
    assert corpora.locate("agreement") == first
    assert len(runs) == 1
    first.parts["valid"].write_text("spoilt\n")
    assert corpora.locate("agreement") == first
    first.parts["train"].with_suffix(".jsonl").unlink()
    assert corpora.locate("agreement") == first
    (runs[0] / "files.json").write_text('{"parts": 3}')
    assert corpora.locate("agreement") == first
    assert whole(first) == text
    assert len(runs) == 4

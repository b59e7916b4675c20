"""Texts as people have them, with no option but the file: trained on, scored, generated from, compared, and the form of
each printed."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import pytest

import text.lookalikes as make
from thereafter.cli import main

PROSE = make.paragraphs(40)
UNWRAPPED, KEPT = "hard-wrapped prose unwrapped", "lines kept as they are"
TEXTS: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "gutenberg": (make.gutenberg(make.wrapped(PROSE)).encode(), ("header and licence left out", UNWRAPPED)),
    "gutenberg-verse": (make.gutenberg(make.verse()).encode(), ("header and licence left out", KEPT)),
    "novel": (make.wrapped(PROSE).encode(), (UNWRAPPED,)),
    "verse": (make.verse().encode(), (KEPT,)),
    "play": (make.play().encode(), (KEPT,)),
    "dialogue": (make.dialogue().encode(), (KEPT,)),
    "dictionary": (make.dictionary().encode(), (KEPT,)),
    "code": (make.code().encode(), (KEPT,)),
    "log": (make.log().encode(), (KEPT,)),
    "chat": (make.chat().encode(), (KEPT,)),
    "sentences": (make.sentence_a_line().encode(), (KEPT,)),
    "chinese": (make.chinese().encode(), (KEPT,)),
    "arabic": (make.arabic().encode(), (KEPT,)),
    "utf16": (make.wrapped(PROSE).encode("utf-16"), (UNWRAPPED,)),
    "latin1": (make.wrapped(PROSE).replace("captain", "capitán").encode("latin-1"), ("Windows-1252", UNWRAPPED)),
}

PLAIN = ("gutenberg", "novel", "verse", "chinese", "utf16", "latin1")
"""One of each form and of each encoding; the others look like one of these."""


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    def run(*words: object) -> str:
        monkeypatch.setattr(sys, "argv", ["thereafter", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = capsys.readouterr()
        assert code == 0, err
        return out

    return run


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind in PLAIN else pytest.mark.wide) for kind in TEXTS]
)
def test_any_text_goes_through_every_command(kind: str, command, tmp_path: Path) -> None:
    content, expected = TEXTS[kind]
    book, run = tmp_path / f"{kind}.txt", tmp_path / "run"
    book.write_bytes(content)
    shown = command("train", book, "--out", run)
    assert all(reason in shown for reason in expected), shown
    assert "bits per byte" in command("score", run, book)
    words = list(csv.DictReader(io.StringIO(command("surprisal", run, book, "--csv"))))
    assert len(words) > 100
    assert command("generate", run, "--seed", 1).strip()


@pytest.mark.parametrize("kind", ["gutenberg", "latin1"])
def test_any_text_is_compared_in_one_form(kind: str, command, tmp_path: Path) -> None:
    content, expected = TEXTS[kind]
    book = tmp_path / f"{kind}.txt"
    book.write_bytes(content)
    shown = command("compare", book, "--models", "unigram,ngram-3", "--out", tmp_path / "compared")
    assert all(reason in shown for reason in expected), shown


def test_switches_keep_licence_and_lines_in_training_and_scoring(command, tmp_path: Path) -> None:
    book, plain, whole = tmp_path / "book.txt", tmp_path / "plain", tmp_path / "whole"
    book.write_bytes(TEXTS["gutenberg"][0])
    command("train", book, "--out", plain)
    shown = command("train", book, "--keep-licence", "--wrapped", "--out", whole)
    assert shown.count("as asked for") == 2
    size = {run: int(json.loads(command("score", run, book, "--json"))["bytes"]) for run in (plain, whole)}
    assert size[whole] == len(TEXTS["gutenberg"][0])
    assert size[plain] == len(("\n".join(PROSE) + "\n").encode())

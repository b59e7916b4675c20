"""Mistakes on the command line are one sentence; what is printed as JSON is JSON."""

from __future__ import annotations

import io
import json
import sys
import tempfile
from pathlib import Path

import pytest

import thereafter
from refusals import assert_refused
from thereafter.cli import main
from thereafter.errors import SourceError


@pytest.mark.parametrize("words", [["generate", "RUN", "--seed", "-1"], ["score", "a" * 5000, "x"], ["next", "a\0b"]])
def test_more_mistakes_are_one_sentence(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    run = str(thereafter.train(text="a b a b").save(tmp_path / "run"))
    monkeypatch.setattr(sys, "argv", ["thereafter", *(run if word == "RUN" else word for word in words)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_json_is_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    run = str(thereafter.train(text="a b\n" * 3, tokens="word", smoothing="mle", order=2).save(tmp_path / "run"))
    monkeypatch.setattr(sys, "argv", ["thereafter", "score", run, "--text", "b a", "--json"])
    with pytest.raises(SystemExit):
        main()
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail)["perplexity"] is None


@pytest.mark.parametrize(
    ("words", "ending"),
    [
        (["train", "nowhere.txt"], "(text itself is piped in, with - as the source)"),
        (["score", "RUN"], "expected one (a path or a corpus name, or --text '...')"),
        (
            ["train", "shapes", "--task", "caption", "--model", "gru"],
            "--task is caption; try --set cell=gru, or --set see= with attention, every, first, nothing",
        ),
    ],
)
def test_the_shell_has_its_own_way_out(
    words: list[str], ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    run = str(thereafter.train(text="a b a b").save(tmp_path / "run"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["thereafter", *(run if word == "RUN" else word for word in words)])
    with pytest.raises(SystemExit):
        main()
    printed = capsys.readouterr().err
    assert printed.endswith(f"{ending}\n")
    assert "text=" not in printed


def test_in_python_it_is_that_of_python():
    with assert_refused(SourceError, "nowhere.txt", "text="):
        thereafter.train("nowhere.txt")


def test_a_pdf_named_txt_gets_the_advice_of_one(tmp_path: Path):
    path = tmp_path / "book.txt"
    path.write_bytes(b"%PDF-1.7\n\xe2\xe3\xcf\xd3 1 0 obj")
    for options in ({}, {"encoding": "latin-1"}, {"keep_licence": True, "wrapped": True, "markup": True}):
        with assert_refused(SourceError, "pdftotext book.txt book-text.txt"):
            thereafter.train(str(path), **options)
    lm = thereafter.train(text="a b a b")
    with assert_refused(SourceError, "pdftotext"):
        lm.score(str(path))


@pytest.mark.parametrize(
    ("words", "content", "said"),
    [
        (["score", "RUN", "-"], b"caf\xe9 \xff", "standard input is not utf-8 text: byte 0xe9 at byte offset 3"),
        (["train", "-", "--model", "lstm"], b"caf\xe9 \xff", "standard input is not utf-8 text"),
        (["train", "-", "--task", "classify"], b"a,b\n1,2\n3\n", "line 3 of standard input has 1 column"),
        (["train", "-", "--task", "tag"], b"the,cat\nsat,on\n", "line 1 of standard input has 1 column"),
        (["train", "-", "--task", "forecast"], b"a,b\nx,2\ny,3\n", "standard input has no column of times"),
    ],
)
def test_mistakes_in_what_is_piped_in_name_standard_input(
    words: list[str],
    content: bytes,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    run = str(thereafter.train(text="a b a b").save(tmp_path / "run"))
    monkeypatch.setattr(sys, "argv", ["thereafter", *(run if word == "RUN" else word for word in words)])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    printed = capsys.readouterr().err
    assert f"error: {said}" in printed
    assert tempfile.gettempdir() not in printed

"""The command line: what it prints, and that a user's mistake is one sentence and exit code 2."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

import thereafter
from thereafter.cli import main

BOOK = "the cat sat on the mat .\nthe dog sat on the log .\nthe cat saw the dog .\n" * 20


class Shell:
    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.capsys, self.monkeypatch = capsys, monkeypatch

    def __call__(self, *words: object) -> tuple[int, str, str]:
        self.monkeypatch.setattr(sys, "argv", ["thereafter", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = self.capsys.readouterr()
        return code, out, err

    def works(self, *words: object) -> str:
        code, out, err = self(*words)
        assert code == 0, err
        return out

    def refuses(self, *words: object) -> str:
        code, _, err = self(*words)
        assert code == 2
        assert "Traceback" not in err
        return err


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    return Shell(capsys, monkeypatch)


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "book.txt"
    path.write_text(BOOK)
    return path


@pytest.fixture
def run(shell: Shell, book: Path) -> Path:
    folder = book.parent / "run"
    shell.works("train", book, "--order", 3, "--out", folder)
    return folder


def test_train_says_what_it_did_and_saves(shell: Shell, book: Path, tmp_path: Path):
    out = shell.works("train", book, "--out", tmp_path / "run", "--arpa", tmp_path / "book.arpa.gz")
    for expected in ("prose", "context stream", "vocabulary", "n-grams", "discounts", "saved"):
        assert expected in out
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "config.toml",
        "tokenizer.json",
        "weights.safetensors",
        "log.jsonl",
    }
    assert gzip.decompress((tmp_path / "book.arpa.gz").read_bytes()).startswith(b"\\data\\\n")


def test_a_run_without_a_name_gets_a_free_one(shell: Shell, book: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(book.parent)
    assert "runs/book-ngram\n" in shell.works("train", book)
    assert "runs/book-ngram-2\n" in shell.works("train", book)


def test_score_agrees_with_the_library(shell: Shell, run: Path, book: Path):
    printed = json.loads(shell.works("score", run, book, "--json"))
    score = thereafter.load(run).score(book)
    assert printed == json.loads(json.dumps(score.as_dict()))
    table = shell.works("score", run, book)
    assert f"perplexity     {score.perplexity:.3f}" in table
    assert f"unknown        {score.unknown:,}" in table
    assert "context        stream" in table


def test_score_reads_standard_input(shell: Shell, run: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BOOK.encode()), encoding="utf-8"))
    from_pipe = json.loads(shell.works("score", run, "-", "--json"))
    as_text = json.loads(shell.works("score", run, "--text", BOOK, "--json"))
    assert from_pipe["nats"] == pytest.approx(as_text["nats"], rel=1e-9)


def test_next_and_generate(shell: Shell, run: Path):
    lines = shell.works("next", run, "the cat", "-k", 3).splitlines()
    assert len(lines) == 3
    assert {line.split(maxsplit=1)[1] for line in lines} >= {"' sat'", "' saw'"}
    twice = [shell.works("generate", run, "the", "--seed", 7, "--max-new-tokens", 12) for _ in range(2)]
    assert twice[0] == twice[1]
    assert twice[0].startswith("the")


def test_arpa_files_are_models_too(shell: Shell, book: Path, tmp_path: Path):
    shell.works("train", book, "--tokens", "word", "--order", 3, "--out", tmp_path / "words")
    shell.works("arpa", tmp_path / "words", tmp_path / "words.arpa")
    from_run = json.loads(shell.works("score", tmp_path / "words", book, "--json"))
    from_arpa = json.loads(shell.works("score", tmp_path / "words.arpa", book, "--json"))
    assert from_arpa["perplexity"] == pytest.approx(from_run["perplexity"], rel=1e-5)


def test_data_commands(shell: Shell, data: Path):
    listed = shell.works("data", "list")
    assert all(name in listed for name in ("agreement", "python-docs", "python-code", "ptb", "tinyshakespeare"))
    assert shell.works("data", "path", "ptb:test").strip() == str(data / "ptb" / "ptb.test.txt")
    assert "valid" in shell.works("data", "get", "ptb")
    assert "did you mean 'ptb'" in shell.refuses("data", "path", "ptbb")
    assert "did you mean 'valid'" in shell.refuses("data", "path", "ptb:vald")


def test_mistakes_are_one_sentence(shell: Shell, book: Path, run: Path, tmp_path: Path):
    latin = tmp_path / "latin.txt"
    latin.write_bytes("caf\xe9 au lait".encode("latin-1"))
    empty = tmp_path / "empty.txt"
    empty.touch()
    assert "--encoding" in shell.refuses("train", latin)
    assert "offset 3" in shell.refuses("train", latin)
    assert "no tokens" in shell.refuses("train", empty)
    assert "did you mean" in shell.refuses("train", str(book).replace("book", "bok"))
    assert "did you mean 'kneser-ney'" in shell.refuses("train", book, "--smoothing", "kneser-nay")
    assert "1 to 10" in shell.refuses("train", book, "--order", 11)
    assert "did you mean 'prose'" in shell.refuses("train", book, "--tokens", "prosa")
    assert "0,0,1" in shell.refuses("train", book, "--cutoffs", "few")
    assert "there is no run" in shell.refuses("score", tmp_path / "nowhere", book)
    assert "neither" in shell.refuses("score", run)
    assert "temperature" in shell.refuses("generate", run, "--temperature", -1)
    assert "holds other files" in shell.refuses("train", book, "--out", tmp_path)
    shell.works("train", book, "--smoothing", "add-alpha", "--out", tmp_path / "added")
    assert "back-off" in shell.refuses("arpa", tmp_path / "added", tmp_path / "added.arpa")
    assert shell.works("train", latin, "--encoding", "latin-1", "--out", tmp_path / "latin")


def test_a_reader_that_goes_away_is_no_error(run: Path):
    command = f"{sys.executable} -m thereafter generate {run} --max-new-tokens 20000 --seed 1 | head -c 10"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    assert len(done.stdout) == 10

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
from refusals import assert_names, assert_remedies_parse
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

    def assert_refuses(self, *words: object, facts: tuple[object, ...] = ()) -> None:
        """The command ends with 2 and a sentence that names the facts and what can be typed."""
        code, _, err = self(*words)
        assert code == 2
        assert "Traceback" not in err
        assert_names(err, *facts)
        assert_remedies_parse(err)


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


def test_score_mixes_remembers_and_learns(shell: Shell, book: Path, tmp_path: Path):
    counted, learned = tmp_path / "counted", tmp_path / "learned"
    shell.works("train", book, "--order", 3, "--split", "90/10", "--out", counted)
    shell.works("train", book, "--model", "gru", "--hidden", 8, "--epochs", 1, "--split", "90/10", "--out", learned)
    held = tmp_path / "held.txt"
    held.write_text("the dog saw the cat .\nthe log sat on the mat .\n" * 5)

    table = shell.works("score", counted, book, "--mix", learned, "--weights", "0.75,0.25")
    both = thereafter.mixture([counted, learned], weights=[0.75, 0.25])
    assert f"perplexity     {both.score(book).perplexity:.3f}" in table
    assert "weights        0.7500 ngram, 0.2500 gru" in table
    assert "switches       mixture of 0.75 ngram, 0.25 gru" in table
    assert "weights        0.5000 ngram, 0.5000 gru" in shell.works("score", counted, book, "--mix", learned)

    told = json.loads(shell.works("score", counted, book, "--mix", learned, "--tune", held, "--json"))
    tuned = thereafter.mixture([counted, learned], tune=held)
    assert told["weights"] == pytest.approx(tuned.config["mixture"]["weights"], abs=1e-6)
    assert told["switches"].endswith(f"tuned on {held}")

    cached = shell.works("score", learned, book, "--cache", "--cache-size", 9, "--cache-weight", 0.2)
    assert "switches       with a cache of 9 tokens (theta 0.3, weight 0.2)" in cached
    plain = json.loads(shell.works("score", learned, book, "--json"))
    adapted = json.loads(shell.works("score", learned, book, "--dynamic", "--dynamic-rate", 0.001, "--json"))
    assert (plain["switches"], plain["weights"]) == ("", [])
    assert adapted["nats"] != plain["nats"]
    assert adapted["switches"].startswith("with dynamic evaluation (rms, rate 0.001,")
    everything = shell.works("score", learned, book, "--mix", counted, "--cache", "--dynamic", "--tune", held)
    assert "dynamic evaluation (rms" in everything
    assert everything.count("a cache of 500 tokens") == 2


def test_switches_that_make_no_sense_are_refused(shell: Shell, run: Path, book: Path, tmp_path: Path):
    held = ("--tune", book)
    shell.assert_refuses("score", run, book, "--weights", "0.5,0.5", facts=("--weights", "--mix"))
    shell.assert_refuses("score", run, book, "--mix", run, "--weights", "half", facts=("0.3,0.7",))
    shell.assert_refuses("score", run, book, "--mix", run, "--weights", "0.5,0.6", facts=(1,))
    shell.assert_refuses("score", run, book, "--mix", run, "--weights", "1,0", *held, facts=("--weights", "--tune"))
    shell.assert_refuses("score", run, book, *held, facts=("--tune",))
    shell.assert_refuses("score", run, book, "--dynamic", facts=("neural",))
    shell.assert_refuses("score", run, book, "--cache-size", 9, facts=("--cache-size", "--cache"))
    shell.assert_refuses("score", run, book, "--dynamic-rate", 0.1, facts=("--dynamic-rate", "--dynamic"))
    shell.assert_refuses("score", run, book, "--cache", "--cache-theta", 0.3, facts=("theta", 0.3))
    shell.works("train", book, "--tokens", "char", "--out", tmp_path / "letters")
    shell.assert_refuses("score", run, book, "--mix", tmp_path / "letters", facts=("tokenizers",))


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


def test_generating_in_every_way(shell: Shell, run: Path):
    lm = thereafter.load(run)
    drawn = shell.works(
        "generate", run, "the", "--seed", 3, "--top-p", 0.9, "--min-p", 0.01, "--repetition-penalty", 1.1
    )
    assert drawn == lm.generate("the", seed=3, top_p=0.9, min_p=0.01, repetition_penalty=1.1) + "\n"
    stopped = shell.works("generate", run, "the", "--seed", 3, "--stop", "\\n", "--stop", "zebra")
    assert stopped == lm.generate("the", seed=3, stop_strings="\n") + "\n"
    beams = shell.works("generate", run, "the", "--num-beams", 3, "--length-penalty", 0.5, "--stop", ".")
    assert beams == lm.generate("the", num_beams=3, length_penalty=0.5, stop_strings=".") + "\n"
    several = shell.works("generate", run, "the", "--samples", 2, "--seed", 3, "--max-new-tokens", 5)
    texts = lm.generate("the", 5, num_return_sequences=2, seed=3)
    assert [line for line in several.splitlines() if not line.startswith("---")] == "\n".join(texts).splitlines()
    told = json.loads(shell.works("generate", run, "the", "--samples", 2, "--seed", 3, "--max-new-tokens", 5, "--json"))
    assert [one["text"] for one in told["samples"]] == texts
    assert (
        [len(one["tokens"]) for one in told["samples"]] == [len(one["log_probs"]) for one in told["samples"]] == [5, 5]
    )
    shell.assert_refuses("generate", run, "the", "--top-p", 2, facts=("top_p", 2.0))
    code, out, err = shell("generate", run, "the", "--stop", "")
    assert (code, out) == (2, "")  # nothing is shown before the options are looked at
    assert "stop string is empty" in err


def test_generated_text_is_shown_as_it_is_drawn(shell: Shell, run: Path, monkeypatch: pytest.MonkeyPatch):
    shown: list[str] = []
    monkeypatch.setattr("thereafter.cli.ask.print_exactly", shown.append)
    shell.works("generate", run, "the cat", "--seed", 1, "--max-new-tokens", 9, "--as-written")
    assert shown[0] == "the cat"
    assert len(shown) == 11
    assert "".join(shown) == thereafter.load(run, as_written=True).generate("the cat", 9, seed=1) + "\n"


def test_rank_orders_candidates(shell: Shell, run: Path, monkeypatch: pytest.MonkeyPatch):
    lines = shell.works("rank", run, "cat the sat", "the cat sat", "the cat sad").splitlines()
    ranked = thereafter.load(run).rank(["cat the sat", "the cat sat", "the cat sad"])
    assert [line.split(maxsplit=1)[1] for line in lines] == [text for text, _ in ranked]
    assert lines[0].split() == [f"{ranked[0][1]:.4f}", "the", "cat", "sat"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("the cat sät\r\n\nthe cat sat".encode()), "utf-8"))
    told = json.loads(shell.works("rank", run, "-", "--json", "--lines", "--per", "token"))
    assert [one["text"] for one in told] == ["the cat sat", "the cat sät"]
    whole = dict(thereafter.load(run).rank(["the cat sat\n"], per="token"))
    assert told[0]["log_prob"] == pytest.approx(whole["the cat sat\n"])
    after = shell.works("rank", run, " sat", " log", "--context", "the cat").splitlines()
    assert after[0].endswith("   sat")
    shell.assert_refuses("rank", run, "a", "--per", "tokens", facts=("tokens", "token"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\n \n")))
    shell.assert_refuses("rank", run, "-")


def test_neighbours_need_embeddings(shell: Shell, run: Path):
    shell.assert_refuses("neighbours", run, "cat", facts=("ngram",))


def test_arpa_files_are_models_too(shell: Shell, book: Path, tmp_path: Path):
    shell.works("train", book, "--tokens", "word", "--order", 3, "--out", tmp_path / "words")
    shell.works("arpa", tmp_path / "words", tmp_path / "words.arpa")
    from_run = json.loads(shell.works("score", tmp_path / "words", book, "--json"))
    from_arpa = json.loads(shell.works("score", tmp_path / "words.arpa", book, "--json"))
    assert from_arpa["perplexity"] == pytest.approx(from_run["perplexity"], rel=1e-5)


def test_data_commands(shell: Shell, corpora_folder: Path):
    listed = shell.works("data", "list")
    assert all(name in listed for name in ("agreement", "python-docs", "python-code", "ptb", "tinyshakespeare"))
    assert shell.works("data", "path", "ptb:test").strip() == str(corpora_folder / "ptb" / "ptb.test.txt")
    assert "valid" in shell.works("data", "get", "ptb")
    shell.assert_refuses("data", "path", "ptbb", facts=("ptbb", "ptb"))
    shell.assert_refuses("data", "path", "ptb:vald", facts=("vald", "valid"))


def test_mistakes_are_one_sentence(shell: Shell, book: Path, run: Path, tmp_path: Path):
    latin = tmp_path / "latin.txt"
    latin.write_bytes("caf\xe9 au lait".encode("latin-1"))
    damaged = tmp_path / "damaged.txt"
    damaged.write_bytes("caf\xe9 au ".encode() + b"l\xe9t")
    empty = tmp_path / "empty.txt"
    empty.touch()
    shell.assert_refuses("train", damaged, facts=("--encoding", 10))
    shell.assert_refuses("train", empty, facts=(empty,))
    shell.assert_refuses("train", str(book).replace("book", "bok"), facts=(book,))
    shell.assert_refuses("train", book, "--smoothing", "kneser-nay", facts=("kneser-nay", "kneser-ney"))
    shell.assert_refuses("train", book, "--order", 11, facts=(11, 1, 10))
    shell.assert_refuses("train", book, "--tokens", "prosa", facts=("prosa", "prose"))
    shell.assert_refuses("train", book, "--cutoffs", "few", facts=("few", "0,0,1"))
    shell.assert_refuses("score", tmp_path / "nowhere", book, facts=(tmp_path / "nowhere",))
    shell.assert_refuses("score", run, facts=("--text",))
    shell.assert_refuses("generate", run, "--temperature", -1, facts=("temperature", -1.0))
    shell.assert_refuses("train", book, "--out", tmp_path, facts=(tmp_path,))
    shell.works("train", book, "--smoothing", "add-alpha", "--out", tmp_path / "added")
    shell.assert_refuses("arpa", tmp_path / "added", tmp_path / "added.arpa", facts=("add-alpha",))
    assert shell.works("train", latin, "--encoding", "latin-1", "--out", tmp_path / "latin")


def test_a_reader_that_goes_away_is_no_error(run: Path):
    command = f"{sys.executable} -m thereafter generate {run} --max-new-tokens 20000 --seed 1 | head -c 10"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    assert len(done.stdout) == 10

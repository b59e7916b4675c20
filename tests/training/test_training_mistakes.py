"""What a newcomer does wrong, and the sentence that helps."""

from __future__ import annotations

import json
import resource
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import thereafter
from refusals import assert_refused
from stops import stopping_at
from thereafter.cli import main
from thereafter.errors import (
    EmptyCorpusError,
    FormatError,
    MissingPackageError,
    OptionError,
    SourceError,
    StorageError,
    UnknownNameError,
)
from thereafter.text.sources import Source, Texts
from thereafter.training.watching import Training, watching

TEXT = "the cat sat on the mat .\nthe dog sat on the log .\n" * 30
SMALL: dict[str, Any] = {"hidden": 8, "layers": 1, "batch": 4, "steps": 8, "epochs": 1, "checkpoint_every": 5}


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "book.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture
def unfinished(book: Path) -> Path:
    """A run that was broken off at step 12, its last checkpoint at 10, its first weights not yet there."""
    folder = book.parent / "run"
    with stopping_at(12), pytest.raises(KeyboardInterrupt):
        thereafter.train(book, out=folder, model="lstm", validate_every=1000, **SMALL)
    return folder


def test_an_unknown_model():
    with assert_refused(UnknownNameError, "ltsm", "lstm"):
        thereafter.train(text=TEXT, model="ltsm")


@pytest.mark.parametrize(
    ("model", "option", "facts"),
    [
        ("ngram", {"hidden": 64}, ("ngram", "hidden", "lstm")),
        ("ngram", {"epochs": 3}, ("ngram", "epochs", "lstm")),
        ("lstm", {"order": 3}, ("lstm", "order", "ngram")),
        ("gru", {"peephole": True}, ("gru", "peephole", "awd-lstm", "lstm")),
        ("lstm", {"hiden": 3}, ("lstm", "hiden", "hidden")),
        ("lstm", {"gru.hidden": 3}, ("gru.hidden", "lstm")),
        ("lstm", {"trainng.clip": 3}, ("trainng", "training")),
        ("lstm", {"hidden": "large"}, ("hidden", "lstm", "large", "str", "int")),
        ("lstm", {"optimizer": "adamm"}, ("adamm", "adam")),
        ("lstm", {"dropout": 2.0}, ("dropout", 2.0)),
        ("lstm", {"device": "cuda"}, ("GPU",)),
        ("lstm", {"batching": "lines", "context": "stream"}, ("batching", "lines", "context", "stream")),
        ("lstm", {"split": "80/10"}, ("split", "80/10", 100, "90/10")),
        ("lstm", {"split": "100/0/0"}, ("split", "100/0/0", 100, "90/10")),
        ("lstm", {"split": "80-20"}, ("split", "80-20")),
        ("lstm", {"split": "90/10", "valid": __file__}, ("valid=", "split='90/10'")),
    ],
)
def test_an_option_that_does_not_apply(model: str, option: dict[str, Any], facts: tuple[object, ...]):
    with assert_refused(OptionError, *facts):
        thereafter.train(text=TEXT, model=model, **option)


@pytest.mark.parametrize("name", ["rate", "epochs", "minutes"])
@pytest.mark.parametrize("value", [float("inf"), float("nan"), -1.0, 0.0])
def test_a_number_that_is_none_to_train_by(name: str, value: float):
    with assert_refused(OptionError, name, value, 0):
        thereafter.train(text=TEXT, model="rnn", **{name: value})
    with assert_refused(OptionError, "clip", "inf", 0):
        thereafter.train(text=TEXT, model="rnn", clip=float("inf"))


def test_a_seed_is_welcome_everywhere():
    """n-grams have nothing random: they take a seed, and it changes nothing."""
    assert thereafter.train(text=TEXT, seed=3).score(text=TEXT) == thereafter.train(text=TEXT).score(text=TEXT)


@pytest.mark.parametrize("text", ["", "cat dog", "cat dog\n", "cat\ndog\n", "\n"])
def test_a_text_too_short(text: str):
    with pytest.raises(EmptyCorpusError, match="try a"):
        thereafter.train(text=text, model="lstm", tokens="word")


def test_no_validation_text(tmp_path: Path, book: Path):
    (tmp_path / "empty.txt").touch()
    with assert_refused(EmptyCorpusError, "valid=", "--valid"):
        thereafter.train(book, model="lstm", valid=tmp_path / "empty.txt", **SMALL)
    with assert_refused(SourceError, "boook.txt", "book.txt"):
        thereafter.train(book, model="lstm", valid=str(tmp_path / "boook.txt"), **SMALL)
    parts = {name: Source.of_text(TEXT) for name in ("train", "valid")}
    with pytest.raises(OptionError, match="valid part of its own"):
        thereafter.train(Texts("corpus", parts), model="lstm", split="90/10", **SMALL)


def test_resume_with_another_text(unfinished: Path, book: Path):
    book.write_text(TEXT.replace("cat", "cow"))
    with assert_refused(SourceError, book):
        thereafter.resume(unfinished)
    book.unlink()
    with assert_refused(SourceError, book):
        thereafter.resume(unfinished)
    book.write_text(TEXT)
    assert thereafter.resume(unfinished).log[-1]["event"] == "trained"


def test_resume_with_another_validation_text(book: Path, tmp_path: Path):
    other = tmp_path / "other.txt"
    other.write_text("the dog saw the cat .\n" * 5)
    with stopping_at(12), pytest.raises(KeyboardInterrupt):
        thereafter.train(book, out=tmp_path / "run", model="lstm", valid=other, **SMALL)
    other.write_text("the dog saw the cow .\n" * 5)
    with assert_refused(SourceError, "other.txt"):
        thereafter.resume(tmp_path / "run")
    other.write_text("the dog saw the cat .\n" * 5)
    assert thereafter.resume(tmp_path / "run").config["source"]["valid_source"] == str(other)


def test_a_corpus_with_a_validation_file_of_ones_own_is_found_again(tmp_path: Path):
    """The corpus stays as it is, the file of one's own is brought into its form: both must be so after a stop, too."""
    valid = tmp_path / "valid.txt"
    sentence = "The old captain waited for the harbour, and nobody could see the long winter. He wrote about it. "
    valid.write_text("\n\n".join(textwrap.fill(sentence * 6, 60) for _ in range(4)) + "\n")
    options = {"hidden": 8, "layers": 1, "tokens_budget": 4000, "batch": 4, "steps": 8}
    with stopping_at(3), pytest.raises(KeyboardInterrupt):
        thereafter.train("remember-first", model="rnn", tokens="word", valid=valid, out=tmp_path / "run", **options)
    assert "formed" in (tmp_path / "run" / "config.toml").read_text()
    thereafter.resume(tmp_path / "run")


def test_resume_of_text_that_was_given_as_it_is(tmp_path: Path):
    with stopping_at(12), pytest.raises(KeyboardInterrupt):
        thereafter.train(text=TEXT, out=tmp_path / "run", model="lstm", **SMALL)
    with pytest.raises(SourceError, match="cannot be found again; try training again from a file"):
        thereafter.resume(tmp_path / "run")


def test_resume_of_what_is_no_training(tmp_path: Path, book: Path):
    with assert_refused(FormatError, tmp_path):
        thereafter.resume(tmp_path)
    with assert_refused(FormatError, tmp_path / "nowhere"):
        thereafter.resume(tmp_path / "nowhere")
    counted = thereafter.train(book, out=tmp_path / "counted")
    assert thereafter.resume(tmp_path / "counted").score(text=TEXT) == counted.score(text=TEXT)


def test_load_before_the_first_weights(unfinished: Path):
    with assert_refused(FormatError, f"thereafter train --resume {unfinished}"):
        thereafter.load(unfinished)


def test_a_checkpoint_that_is_damaged(unfinished: Path):
    state = unfinished / "state.safetensors"
    whole = state.read_bytes()
    tensors = load_file(state)
    header = json.loads(whole[8 : 8 + int.from_bytes(whole[:8], "little")])["__metadata__"]
    for content in (b"", whole[:100], whole[:-10], b"x" * 1000):
        state.write_bytes(content)
        with pytest.raises(FormatError):
            thereafter.resume(unfinished)
    facts = json.loads(header["training"])
    for spoilt in (
        {},
        {"training": "[]"},
        {"training": json.dumps(facts | {"format": 2})},
        {"training": json.dumps(facts | {"at": {}})},
        {"training": json.dumps(facts | {"at": facts["at"] | {"strange": 1}})},
        {"training": json.dumps(facts | {"guard": 3})},
        {"training": json.dumps({name: fact for name, fact in facts.items() if name != "log_bytes"})},
    ):
        save_file(tensors, state, metadata=spoilt)
        with pytest.raises(FormatError, match="checkpoint"):
            thereafter.resume(unfinished)
    fewer = {name: tensor for name, tensor in tensors.items() if not name.startswith("optimizer/")}
    other = {name: tensor[:1] if name.startswith("model/") else tensor for name, tensor in tensors.items()}
    no_generator = {name: tensor for name, tensor in tensors.items() if not name.startswith("generator/")}
    short = tensors | {"generator/cpu": np.zeros(3, np.uint8)}
    for spoilt_tensors in (fewer, other, no_generator, short):
        save_file(spoilt_tensors, state, metadata=header)
        with pytest.raises(FormatError):
            thereafter.resume(unfinished)


def test_weights_that_are_damaged(book: Path, tmp_path: Path):
    folder = tmp_path / "run"
    thereafter.train(book, out=folder, model="lstm", **SMALL)
    whole = load_file(folder / "weights.safetensors")
    raw = (folder / "weights.safetensors").read_bytes()
    facts = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])["__metadata__"]
    name = next(iter(whole))
    for arrays, known in (
        ({key: array for key, array in whole.items() if key != name}, facts),
        (whole | {"more": whole[name]}, facts),
        (whole | {name: whole[name][:-1]}, facts),
        (whole | {name: whole[name].astype(np.float64)}, facts),
        (whole, {}),
        (whole, {"neural": "{}"}),
        (whole, {"neural": facts["neural"].replace('"stream"', '"page"')}),
    ):
        save_file(arrays, folder / "weights.safetensors", metadata=known)
        with pytest.raises(FormatError, match="weight"):
            thereafter.load(folder)


@pytest.mark.parametrize("limit", [20_000, 0])
def test_a_full_disk_loses_nothing_that_was_saved(book: Path, tmp_path: Path, limit: int):
    """From step 20 on no file may grow beyond the limit: the log of one case, the checkpoint of the other."""
    run, whole = tmp_path / "run", tmp_path / "whole"
    options: dict[str, Any] = {"tokens": "char", "hidden": 16, "layers": 1, "batch": 4, "steps": 8, "epochs": 1}
    options |= {"checkpoint_every": 10, "log_every": 1, "checkpoint_seconds": 0.0}
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(training: Training) -> None:
        if training.at.step == 19:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))

    try:
        with watching(before_step=fill), pytest.raises(StorageError) as caught:
            thereafter.train(book, out=run, model="lstm", **options)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "cannot write" in str(caught.value)
    assert "freeing space" in str(caught.value)
    assert not list(run.glob(".*.tmp"))
    thereafter.train(book, out=whole, model="lstm", **options)
    resumed = thereafter.resume(run)
    assert min(line["step"] for line in resumed.log if line["event"] == "resumed") >= 10
    assert (run / "weights.safetensors").read_bytes() == (whole / "weights.safetensors").read_bytes()


def test_a_folder_that_cannot_be_written(book: Path, tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError):
        thereafter.train(book, out=tmp_path / "file", model="lstm", **SMALL)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limit[1]))
    try:
        with pytest.raises(StorageError):
            thereafter.train(book, out=tmp_path / "run", model="lstm", **SMALL)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)


def test_tensorboard_that_is_not_installed(book: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    for option in ({"tensorboard": True}, {"log": "csv,tensorboard"}):
        with assert_refused(MissingPackageError, "thereafter[tensorboard]"):
            thereafter.train(book, out=tmp_path / "run", model="lstm", **option, **SMALL)
    assert not (tmp_path / "run" / "config.toml").exists()


def cli(*words: object, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["thereafter", *map(str, words)])
    with pytest.raises(SystemExit) as stop:
        main()
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


def test_the_command_line(
    book: Path, unfinished: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def shell(*words: object) -> tuple[int, str, str]:
        return cli(*words, capsys=capsys, monkeypatch=monkeypatch)

    for words, said in (
        (["train"], "train needs a text"),
        (["train", book, "--resume", unfinished], "leave the other options out"),
        (["train", "--resume", unfinished, "--epochs", 3], "leave the other options out"),
        (["train", "--resume", book.parent], "expected a run folder"),
        (["train", book, "--model", "lstmm"], "did you mean 'lstm'"),
        (["train", book, "--hidden", 8], "try model="),
        (["train", book, "--model", "lstm", "--set", "clip"], "expected name=value"),
        (["train", book, "--model", "lstm", "--set", "training.clop=1"], "did you mean 'clip'"),
        (["train", book, "--out", unfinished], "--resume"),
        (["train", "--recipe", book.parent / "nothing.toml"], "could not be read"),
        (["score", unfinished, book], "--resume"),
    ):
        code, _, err = shell(*words)
        assert (code, "Traceback" in err) == (2, False)
        assert said in err, err
    code, out, _ = shell("train", "--resume", unfinished)
    assert code == 0
    assert "validation" in out
    assert "saved" in out
    code, out, err = shell("train", "--resume", unfinished)
    assert code == 0
    assert "finished" in out
    assert "has finished" in err
    recipe = book.parent / "recipe.toml"
    recipe.write_text((unfinished / "config.toml").read_text())
    code, out, _ = shell("train", "--recipe", recipe, "--out", book.parent / "again", "--set", "validate_every=7")
    assert code == 0
    assert "hidden 8" in out
    again, first = (thereafter.load(book.parent / name) for name in ("again", "run"))
    assert again.config["training"] == first.config["training"] | {"validate_every": 7}
    assert again.config["lstm"] == first.config["lstm"]
    recipe.write_text('model = "lstm"\n[trainng]\nclip = 1\n')
    code, _, err = shell("train", "--recipe", recipe, book)
    assert code == 2
    assert "did you mean 'training'" in err


@pytest.mark.parametrize("seed", [2**64, 10**30, -1])
def test_a_seed_that_is_none(seed: int, tmp_path: Path):
    """torch's generators take 64 bits; what they do not take is a sentence for every kind of training."""
    for train in (
        lambda: thereafter.train(text=TEXT, model="lstm", seed=seed),
        lambda: thereafter.train(text=TEXT, seed=seed),
        lambda: thereafter.train(tmp_path / "never-read.tsv", task="tag", seed=seed),
    ):
        with assert_refused(OptionError, "seed", seed, "0"):
            train()


def test_the_largest_seed(book: Path):
    assert thereafter.train(book, model="lstm", seed=2**64 - 1, **SMALL).config["training"]["seed"] == 2**64 - 1

"""A score on a text that chose or taught anything says so, whatever the file is called; bad choices are warned of."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import thereafter
from thereafter.cli import main
from thereafter.text.sources import Source

TRAIN = "the cat sat on the mat\nthe dog sat on the log\na cat saw the dog\n" * 8
VALID = "the dog saw the mat\na dog sat on the cat\n" * 4
TEST = "a log sat on the dog\nthe cat saw a mat\n" * 4
SMALL: dict[str, Any] = {"hidden": 8, "layers": 1, "batch": 2, "steps": 8, "epochs": 1, "tokens": "word"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("texts")
    for name, text in (("train", TRAIN), ("valid", VALID), ("test", TEST)):
        (place / f"{name}.txt").write_text(text)
    thereafter.train(place / "train.txt", model="rnn", valid=place / "valid.txt", out=place / "rnn", **SMALL)
    thereafter.train(place / "train.txt", tokens="word", out=place / "ngram")
    return place


def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: object) -> tuple[str, str]:
    monkeypatch.setattr(sys, "argv", ["thereafter", *map(str, words)])
    with pytest.raises(SystemExit) as stop:
        main()
    out, err = capsys.readouterr()
    assert not stop.value.code, err
    return out, err


def test_one_text_has_one_hash(tmp_path: Path) -> None:
    plain, packed, windows = (tmp_path / name for name in ("a.txt", "b.gz", "c.txt"))
    plain.write_bytes(b"one\n\ntwo\n")
    packed.write_bytes(gzip.compress(b"one\n\ntwo"))
    windows.write_bytes(b"\xef\xbb\xbfone\r\n\r\ntwo\r\n")
    sources = [Source(path.name, (path,)) for path in (plain, packed, windows)]
    hashes = {source.text_hash() for source in [*sources, Source.of_text("one\n\ntwo")]}
    assert len(hashes) == 1
    others = {Source.of_text(text).text_hash() for text in ("one\n\ntwo\n\n", "one\ntwo\n", "\none\n\ntwo")}
    assert len(others | hashes) == 4


def test_the_text_that_chose_the_weights_gives_a_validation_score(folder: Path) -> None:
    lm = thereafter.load(folder / "rnn")
    assert lm.score(folder / "test.txt").caveat == ""
    for score in (lm.score(folder / "valid.txt"), lm.score(text=VALID)):  # by what it says, not by where it lies
        assert score.caveat.startswith("validation score, not a test: the weights were chosen by")
        assert score.caveat in str(score)
        assert score.as_dict()["caveat"] == score.caveat
    assert lm.score(folder / "train.txt").caveat.startswith("training score, not a test")


def test_the_part_a_neural_model_held_out_is_its_validation_text() -> None:
    lm = thereafter.train(text=TRAIN + VALID, model="rnn", **SMALL)
    assert lm.texts is not None
    held_out = lm.texts.parts["valid"].text()
    assert lm.score(text=held_out).caveat.startswith("validation score")
    assert lm.score(text=TRAIN + VALID).caveat.startswith("training score")
    assert lm.score(text=TEST).caveat == ""


def test_an_n_gram_chooses_nothing_by_a_validation_text(folder: Path) -> None:
    lm = thereafter.train(folder / "train.txt", tokens="word", valid=folder / "valid.txt")
    assert lm.score(folder / "valid.txt").caveat == ""
    assert lm.score(folder / "train.txt").caveat.startswith("training score")


def test_a_mixture_tuned_on_a_text_has_a_validation_score_there(folder: Path) -> None:
    members = [thereafter.load(folder / name) for name in ("rnn", "ngram")]
    lm = thereafter.mixture(members, tune=folder / "test.txt")
    assert lm.score(text=TEST).caveat.startswith("validation score, not a test: the shares of the mixture were chosen")
    assert "the weights of rnn" in lm.score(text=VALID).caveat
    assert lm.score(text="a mat saw the log\n").caveat == ""
    nested = thereafter.mixture([lm, thereafter.load(folder / "ngram")])
    assert "the shares of the mixture" in nested.score(text=TEST).caveat


def test_switches_tuned_on_a_text_give_a_validation_score_there(folder: Path) -> None:
    lm = thereafter.load(folder / "ngram")
    score = lm.score(text=TEST, cache=True, tune=folder / "test.txt")
    assert score.caveat == "validation score, not a test: the settings of the switches were chosen by this very text"
    assert lm.score(text=VALID, cache=True, tune=folder / "test.txt").caveat == ""


@pytest.mark.parametrize("valid", [TRAIN, TRAIN[: len(TRAIN) // 2], TRAIN + VALID])
def test_validating_on_the_training_text_is_warned_of(folder: Path, tmp_path: Path, valid: str) -> None:
    other = tmp_path / "other.txt"
    other.write_text(valid)
    with pytest.warns(UserWarning, match=r"the validation text \(.*other.txt\) .* the training text") as told:
        lm = thereafter.train(folder / "train.txt", model="rnn", valid=other, **SMALL)
    assert len(told) == 1
    assert any("know it by heart" in note for note in lm.summary()["notes"])


def test_tuning_on_the_training_text_is_warned_of(folder: Path) -> None:
    members = [thereafter.load(folder / name) for name in ("rnn", "ngram")]
    with pytest.warns(UserWarning, match="tuning on text, which rnn, ngram learned from"):
        score = thereafter.mixture(members).score(text=TEST, tune=Source.of_text(TRAIN))
    assert "learned from" in score.switches
    with pytest.warns(UserWarning, match="learned from"):
        lm = thereafter.mixture(members, tune=folder / "train.txt")
    assert "learned from" in lm.log[-1]["notes"][0]
    with pytest.warns(UserWarning, match="which it learned from"):
        members[0].score(text=TEST, dynamic={"rule": "sgd"}, tune=folder / "train.txt")


def test_the_commands_say_so_too(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*words: object) -> tuple[str, str]:
        return command(capsys, monkeypatch, *words)

    copy = tmp_path / "copy.txt"
    copy.write_text(VALID)
    assert (
        "caution        validation score, not a test: the weights were chosen" in run("score", folder / "rnn", copy)[0]
    )
    assert "caution" not in run("score", folder / "rnn", folder / "test.txt")[0]
    stored = json.loads(run("score", folder / "rnn", copy, "--json")[0])
    assert stored["caveat"].startswith("validation score")
    tuned = ("score", folder / "rnn", folder / "test.txt", "--mix", folder / "ngram", "--tune")
    out, err = run(*tuned, folder / "test.txt")
    assert "caution        validation score" in out
    assert "warning" not in err
    assert "warning: tuning on" in run(*tuned, folder / "train.txt")[1]
    copy.write_text(TRAIN)
    small = ("--hidden", 8, "--layers", 1, "--epochs", 1, "--tokens", "word")
    trained = ("train", folder / "train.txt", "--model", "rnn", "--valid", copy, "--out", tmp_path / "run")
    out, err = run(*trained, *small)
    assert "warning: the validation text" in err
    assert "note       warning: the validation text" in out
    assert "know it by heart" in (tmp_path / "run" / "log.jsonl").read_text()

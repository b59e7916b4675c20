"""`thereafter train` for tasks: what a recipe says is done, and a resumed run ends like one that never stopped."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from toys import Shell, labelled, tagged

import thereafter
from stops import stopping_at
from thereafter.cli import main
from thereafter.tasks import fitting
from thereafter.tasks.translate.task import TRANSLATING

SMALL = ("--hidden", 8, "--set", "embed=8", "--set", "letter_hidden=4", "--set", "letter_embed=4", "--batch", 8)


@pytest.mark.parametrize("spelled", ["minutes", "training.minutes", "tokens_budget", "training.tokens_budget"])
def test_a_budget_takes_the_place_of_the_epochs_a_task_has_of_its_own(spelled: str):
    assert TRANSLATING.defaults["epochs"]
    assert fitting.settle(TRANSLATING, {spelled: 3})[1].epochs is None
    assert fitting.settle(TRANSLATING, {spelled: 3, "training.epochs": 2.0})[1].epochs == 2.0
    assert fitting.settle(TRANSLATING, {})[1].epochs == TRANSLATING.defaults["epochs"]


def test_a_recipe_names_the_examples_to_validate_on(shell: Shell, tmp_path: Path):
    train, valid = tagged(tmp_path / "train.conll", 40), tagged(tmp_path / "valid.conll", 30, seed=2)
    recipe = tmp_path / "tagger.toml"
    recipe.write_text(
        f"""
task = "tag"
[source]
files = ["{train}"]
valid_files = ["{valid}"]
[training]
epochs = 1
"""
    )
    assert shell("train", "--recipe", recipe, "--out", tmp_path / "run", *SMALL)[1] == 0
    began = thereafter.load(tmp_path / "run").log[0]
    assert (began["examples"], began["validation_examples"]) == (40, 30)


def test_a_resumed_run_reports_what_an_unbroken_one_does(shell: Shell, tmp_path: Path):
    source, run = tagged(tmp_path / "train.conll", 80), tmp_path / "run"
    command = ("train", source, "--task", "tag", "--epochs", 2, *SMALL, "--set", "checkpoint_every=3")
    command += ("--set", "checkpoint_seconds=0", "--out")
    whole, code = shell(*command, tmp_path / "whole")
    assert code == 0
    with stopping_at(7):
        assert shell(*command, run)[1] != 0
    resumed, code = shell("train", "--resume", run)
    assert code == 0
    assert resumed[0].rpartition(",")[0] == whole[0].rpartition(",")[0]  # but for the seconds
    assert resumed[1:-1] == whole[1:-1]
    assert resumed[-1] == f"saved      {run}"
    assert shell("train", "--resume", run) == ([f"finished   {run}"], 0)


@pytest.mark.parametrize("with_valid", [False, pytest.param(True, marks=pytest.mark.wide)])
def test_a_training_ends_with_its_score_on_what_was_held_out(shell: Shell, tmp_path: Path, with_valid: bool):
    source, valid = labelled(tmp_path / "texts.tsv"), labelled(tmp_path / "others.tsv", seed=5)
    text = "".join(f"{line.split(chr(9))[0]}\n" for line in source.read_text().splitlines())
    thereafter.train(text=text, model="lstm", tokens="word", hidden=8, layers=1, epochs=1, out=tmp_path / "lm")
    given = ("--valid", valid) if with_valid else ()
    for name, options in (("fresh", ("--set", "hidden=8")), ("from", ("--from", tmp_path / "lm"))):
        run = tmp_path / name
        lines, code = shell("train", source, "--task", "classify", "--epochs", 2, *given, *options, "--out", run)
        assert code == 0
        rows = source.read_text().splitlines()
        if with_valid:
            held_out = valid
        else:
            held_out = tmp_path / "last.tsv"
            held_out.write_text("".join(f"{row}\n" for row in rows[len(rows) - round(0.1 * len(rows)) :]))
        assert f"valid      {thereafter.load(run).score(str(held_out))}" in lines


# ---- predict


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("labels")
    thereafter.train(str(labelled(folder / "texts.tsv")), task="classify", hidden=8, epochs=2, out=folder / "run")
    return folder / "run"


@pytest.mark.parametrize(
    "given",
    [
        b"a gripping film\n\ndull\n",
        b"\xef\xbb\xbfa gripping film\r\n\r\ndull\r\n",
        b"a gripping film\r\rdull",
        b"a gripping film\n  \ndull",
        "a gripping film\n\ndull\n".encode("utf-16"),
    ],
)
def test_standard_input_is_read_as_any_text_and_blank_lines_keep_their_place(
    labels: Path, given: bytes, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [str(answer) for answer in thereafter.load(labels).predict(["a gripping film", "dull"])]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given), encoding="utf-8"))
    assert shell("predict", labels) == ([answers[0], "", answers[1]], 0)


def test_bytes_that_are_no_text_are_refused(
    labels: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"fine\ncaf\xe9 film\n"), encoding="utf-8"))
    assert shell("predict", labels)[1] == 2


def test_validating_on_the_training_examples_is_warned_of(tmp_path: Path) -> None:
    path, copy = labelled(tmp_path / "texts.tsv", 40), labelled(tmp_path / "copy.tsv", 40)
    with pytest.warns(UserWarning, match="validation examples .* are the training examples"):
        found = thereafter.train(str(path), task="classify", valid=str(copy), hidden=8, epochs=1)
    assert any("know them by heart" in note for note in found.log[0]["notes"])


# ---- every verb works on what a run holds, or says in a sentence why not


def test_a_task_is_scored_by_the_same_verb(labels: Path, shell: Shell) -> None:
    source = labels.parent / "texts.tsv"
    model = thereafter.load(labels)
    assert shell("score", labels, source) == (str(model.score(source)).splitlines(), 0)
    (line,), code = shell("score", labels, source, "--json")
    assert code == 0
    assert json.loads(line)["accuracy"] == model.score(source).accuracy
    assert shell("score", labels, source, "--cache")[1] == 2


@pytest.mark.parametrize(
    "words", [("generate",), ("next", "the"), ("neighbours", "film"), ("inspect", "trace", "the film")]
)
def test_what_needs_a_language_model_says_so(
    words: tuple[str, ...], labels: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    verbs = 2 if words[0] == "inspect" else 1
    monkeypatch.setattr(sys, "argv", ["thereafter", *words[:verbs], str(labels), *words[verbs:]])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert "holds the task 'classify'; expected a language model; try: thereafter predict" in error
    assert "Traceback" not in error


def test_what_needs_a_task_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    thereafter.train(text="the cat sat\nthe dog sat\n", order=2, out=tmp_path / "run")
    monkeypatch.setattr(sys, "argv", ["thereafter", "predict", str(tmp_path / "run"), "the cat"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert "holds the language model 'ngram'; expected a task; try: thereafter next" in capsys.readouterr().err

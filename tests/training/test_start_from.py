"""A language model goes on with the weights and the tokenizer of a run: what it begins with, what is refused, and that
it is resumed to the bit without that run."""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import thereafter
from refusals import assert_refused
from stops import stopping_at
from thereafter.cli import app
from thereafter.errors import FormatError, OptionError, SourceError
from thereafter.training.settings import TrainingSettings
from thereafter.training.weights import Layering, make_optimizer
from warm import Command

WORDS = ["the", "a", "cat", "dog", "bird", "saw", "heard", "and", "which", "old", "small", ".", "it", "was"]
SMALL: dict[str, Any] = {"hidden": 8, "layers": 2, "batch": 4, "steps": 8, "epochs": 1, "log_every": 1}
FIXED: dict[str, Any] = {"batch": 4, "steps": 8, "log_every": 1}


def write(path: Path, seed: int, words: list[str] = WORDS, lines: int = 60) -> Path:
    draw = random.Random(seed)
    path.write_text("".join(" ".join(draw.choices(words, k=draw.randint(3, 9))) + "\n" for _ in range(lines)))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("start")


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    book = write(folder / "book.txt", 1)
    thereafter.train(book, model="lstm", tokens="word", min_count=1, out=folder / "run", **SMALL)
    return folder / "run"


@pytest.fixture(scope="module")
def other(folder: Path) -> Path:
    return write(folder / "other.txt", 2, WORDS[:6])


def weights(lm: Any) -> dict[str, torch.Tensor]:
    return dict(lm.model.state_dict())


def equal(one: Any, two: Any) -> bool:
    ours, theirs = weights(one), weights(two)
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_without_a_step_it_is_the_run(run: Path, other: Path):
    """A rate that moves no weight: every probability is the run's own, and so is the first validation."""
    before = thereafter.load(run)
    lm = thereafter.train(other, start_from=run, epochs=1, rate=1e-30, weight_decay=0.0, **FIXED)
    assert equal(lm, before)
    for prompt in ("", "the cat", "a bird saw the", "nonsense it was"):
        assert np.array_equal(lm.distribution(prompt), before.distribution(prompt))
    first = next(line for line in lm.log if line["event"] == "validation")
    assert (first["step"], first["best"]) == (0, True)
    valid = lm.texts.parts["valid"].text()
    assert first["perplexity"] == pytest.approx(before.score(text=valid).perplexity, rel=1e-5)
    assert lm.score(text=valid).nats == before.score(text=valid).nats


def test_it_learns_the_new_text(run: Path, other: Path):
    lm = thereafter.train(other, start_from=run, epochs=4, rate=0.02, dropout=0.1, **FIXED)
    first, *_, last = (line["loss"] for line in lm.log if line["event"] == "validation")
    assert last < first
    assert lm.config["lstm"]["hidden"] == 8
    assert lm.config["lstm"]["dropout"] == 0.1  # how it learns is free
    assert lm.tokenizer.vocabulary.forms == thereafter.load(run).tokenizer.vocabulary.forms


def test_the_configuration_says_where_it_began(run: Path, other: Path, folder: Path):
    lm = thereafter.train(other, start_from=run, out=folder / "second", epochs=1, **FIXED)
    start = thereafter.load(folder / "second").config["start"]
    assert start == lm.config["start"]
    assert start["run"] == str(run.absolute())
    assert len(start["sha256"]) == 64
    # what the first run learned from is known to both
    assert lm.score(folder / "book.txt").caveat == thereafter.load(run).score(folder / "book.txt").caveat != ""
    third = thereafter.train(write(folder / "t.txt", 3), start_from=folder / "second", epochs=1, **FIXED)
    assert set(third.config["start"]["texts"]) > set(start["texts"])


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"hidden": 16}, ("hidden", 16, "hidden=8")),
        ({"tokens": "char"}, ("tokens", "char", "tokens='word'")),
        ({"lower": True}, ("lower", True, "lower=False")),
        ({"min_count": 3}, ("min_count", 3, "min_count=1")),
        ({"model": "gru"}, ("model", "gru", "lstm")),
    ],
)
def test_what_contradicts_the_run_is_refused(
    run: Path, other: Path, options: dict[str, Any], facts: tuple[object, ...]
):
    with assert_refused(OptionError, run, *facts):
        thereafter.train(other, start_from=run, **options)


def test_what_agrees_with_the_run_is_taken(run: Path, other: Path):
    options = {"hidden": 8, "sizes": (8, 8), "tokens": "word", "model": "lstm", "lower": False}
    assert thereafter.train(other, start_from=run, epochs=1, **options, **FIXED).model.settings.sizes == (8, 8)


def test_counted_models_and_tasks_are_refused(tmp_path: Path, other: Path):
    thereafter.train(other, tokens="word", out=tmp_path / "ngram")
    with assert_refused(OptionError, "ngram", "thereafter.mixture(["):
        thereafter.train(other, start_from=tmp_path / "ngram")
    with assert_refused(FormatError, tmp_path / "nothing"):
        thereafter.train(other, start_from=tmp_path / "nothing")
    rows = tmp_path / "rows.tsv"
    rows.write_text("a fine film\tgood\na dull film\tbad\n" * 6)
    thereafter.train(rows, task="classify", out=tmp_path / "task", embed=4, hidden=4, epochs=1)
    with assert_refused(FormatError, tmp_path / "task"):
        thereafter.train(other, start_from=tmp_path / "task")


def test_unknown_words_are_counted_loudly(run: Path, tmp_path: Path, other: Path):
    known = thereafter.train(other, start_from=run, epochs=1, **FIXED)
    note = next(note for note in known.log[0]["notes"] if "unknown" in note)
    assert note.startswith("0 of ")
    assert note.endswith(f"word tokens (0.0 %) are unknown to {run}")
    strange = write(tmp_path / "strange.txt", 4, ["the", "cat", "zebra"])
    with pytest.warns(UserWarning, match=r"are unknown to .*: little of this text"):
        lm = thereafter.train(strange, start_from=run, epochs=1, **FIXED)
    note = next(note for note in lm.log[0]["notes"] if "unknown" in note)
    words = strange.read_text().split()
    total = len(words) + 60
    assert f"{words.count('zebra'):,} of {total:,} word tokens" in note
    assert note.startswith("warning: ")
    assert note.endswith("try training anew")


def test_plain_text_is_rewritten_as_the_text_of_the_run(tmp_path: Path):
    """Also after it was stopped: the text is found again in the same form."""
    sentences = [f"{who} {verb} the {what}" for who in ("He", "She") for verb in ("isn't", "likes") for what in WORDS]
    tokenised, plain = tmp_path / "tokenised.txt", tmp_path / "plain.txt"
    tokenised.write_text("".join(f"{one.replace(chr(39), ' ' + chr(39))} , too .\n" for one in sentences * 3))
    plain.write_text("".join(f"{one}, too.\n" for one in sentences * 2))
    first = thereafter.train(tokenised, model="lstm", tokens="word", min_count=1, out=tmp_path / "first", **SMALL)
    assert first.style is not None
    options = OPTIONS | {"epochs": 1}
    whole = thereafter.train(plain, start_from=tmp_path / "first", **options)
    assert any(note.startswith("rewritten as the text of") for note in whole.log[0]["notes"])
    unknown = next(note for note in whole.log[0]["notes"] if "unknown" in note)
    assert unknown.startswith("0 of "), unknown
    with stopping_at(5), pytest.raises(KeyboardInterrupt):
        thereafter.train(plain, start_from=tmp_path / "first", out=tmp_path / "second", **options)
    assert equal(thereafter.resume(tmp_path / "second"), whole)


OPTIONS: dict[str, Any] = {**FIXED, "epochs": 2, "dropout": 0.3, "checkpoint_every": 4, "checkpoint_seconds": 0.0}


BY_LAYER: dict[str, dict[str, Any]] = {"plain": {}, "by layer": {"unfreeze": True, "layer_decay": 0.4}}


@pytest.fixture(scope="module")
def whole(run: Path, other: Path) -> Callable[[str], thereafter.LanguageModel]:
    """Trainings that are never stopped."""
    return cache(lambda how: thereafter.train(other, start_from=run, **OPTIONS, **BY_LAYER[how]))


@pytest.mark.parametrize(
    ("how", "step"),
    [
        ("plain", 0),
        ("by layer", 13),
        *(pytest.param(*one, marks=pytest.mark.wide) for one in (("plain", 13), ("by layer", 0))),
    ],
)
def test_it_is_resumed_to_the_bit_without_the_run(
    run: Path, other: Path, whole: Callable[[str], thereafter.LanguageModel], tmp_path: Path, how: str, step: int
):
    extra = BY_LAYER[how]
    shutil.copytree(run, tmp_path / "first")
    with stopping_at(step), pytest.raises(KeyboardInterrupt):
        thereafter.train(other, start_from=tmp_path / "first", out=tmp_path / "second", **OPTIONS, **extra)
    shutil.rmtree(tmp_path / "first")
    assert equal(thereafter.resume(tmp_path / "second"), whole(how))
    assert equal(thereafter.load(tmp_path / "second"), whole(how))


def test_killed_before_its_first_checkpoint_it_asks_for_the_run(
    run: Path, other: Path, whole: Callable[[str], thereafter.LanguageModel], tmp_path: Path
):
    shutil.copytree(run, tmp_path / "first")
    with stopping_at(0), pytest.raises(KeyboardInterrupt):
        thereafter.train(other, start_from=tmp_path / "first", out=tmp_path / "second", **OPTIONS)
    (tmp_path / "second" / "state.safetensors").unlink()
    (tmp_path / "first").rename(tmp_path / "gone")
    with assert_refused(SourceError, tmp_path / "first"):
        thereafter.resume(tmp_path / "second")
    (tmp_path / "gone").rename(tmp_path / "first")
    assert equal(thereafter.resume(tmp_path / "second"), whole("plain"))


@pytest.mark.wide
def test_really_killed_it_goes_on_without_the_run(run: Path, other: Path, tmp_path: Path):
    shutil.copytree(run, tmp_path / "first")
    words = ["--from", "first", "--epochs", "8", "--batch", "4", "--steps", "8", "--dropout", "0.3", "--unfreeze"]
    words += ["--set", "checkpoint_every=5", "--set", "checkpoint_seconds=0"]

    def start(*own: str) -> Command:
        paths = [str(tmp_path / word) if word in ("first", "whole", "broken") else word for word in own]
        return Command(["train", *paths], {"THEREAFTER_NUMBA": "0"}, 1)

    together = [start(str(other), *words, "--out", name) for name in ("whole", "broken")]
    give_up = time.monotonic() + 300
    while not (tmp_path / "broken" / "state.safetensors").exists():
        assert together[1].returncode is None, together[1].output()
        assert time.monotonic() < give_up
        time.sleep(0.001)
    together[1].send_signal(signal.SIGKILL)
    assert together[1].wait(300) == -signal.SIGKILL
    assert together[0].wait(300) == 0, together[0].output()
    shutil.rmtree(tmp_path / "first")
    resumed = start("--resume", "broken")
    assert resumed.wait(300) == 0, resumed.output()
    ours, theirs = ((tmp_path / name / "weights.safetensors").read_bytes() for name in ("whole", "broken"))
    assert ours == theirs


def test_layers_are_unfrozen_from_the_head_down(run: Path, other: Path):
    """Two layers under a tied head: in the first epoch the head learns, in the second the upper layer too."""
    before = weights(thereafter.load(run))
    for epochs, lowest in ((1, 2), (2, 1), (3, 0)):
        lm = thereafter.train(other, start_from=run, **OPTIONS | {"epochs": epochs, "unfreeze": True, "rate": 0.03})
        assert lm.log[-1]["best_step"] == lm.log[-1]["steps"]  # the last weights are the ones that are kept
        for name, weight in weights(lm).items():
            frozen = name.startswith("layers.") and int(name.rpartition("_l")[2]) < lowest
            assert torch.equal(weight, before[name]) == frozen, (epochs, name)
        assert all(weight.requires_grad for weight in lm.model.parameters())


def stacked() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2))


LAYERS = [["2.weight", "2.bias"], ["1.weight", "1.bias"], ["0.weight", "0.bias"]]


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_rates_by_layer_by_hand(name: str):
    """r d^l for the layer l from the head down; adam's first step is the sign of the gradient times its rate."""
    model = stacked()
    settings = TrainingSettings(optimizer=name, rate=0.1, weight_decay=0.0, layer_decay=0.38)
    optimizer = make_optimizer(model, settings, Layering(model, settings, LAYERS).factors)
    before = {weight_name: weight.detach().clone() for weight_name, weight in model.named_parameters()}
    model(torch.randn(5, 3, generator=torch.Generator().manual_seed(1))).square().sum().backward()
    optimizer.step(0.1)
    for depth, names in enumerate(LAYERS):
        for weight_name in names:
            weight = model.get_parameter(weight_name)
            assert weight.grad is not None
            moved = weight.grad if name == "sgd" else weight.grad / (weight.grad.abs() + 1e-8)
            torch.testing.assert_close(weight.detach(), before[weight_name] - 0.1 * 0.38**depth * moved)


def test_a_frozen_layer_takes_no_gradient():
    model, settings = stacked(), TrainingSettings(unfreeze=True)
    layering = Layering(model, settings, LAYERS)
    for epoch, open_layers in ((0, 1), (1, 2), (2, 3), (7, 3)):
        layering.open(epoch)
        learning = {name for name, weight in model.named_parameters() if weight.requires_grad}
        assert learning == {name for names in LAYERS[:open_layers] for name in names}
    assert not layering.open(8)
    layering.open(0)
    layering.open_all()
    assert all(weight.requires_grad for weight in model.parameters())


@pytest.mark.parametrize("option", [{"unfreeze": True}, {"layer_decay": 0.4}])
def test_a_model_without_layers_has_no_rates_by_layer(other: Path, option: dict[str, Any]):
    with assert_refused(OptionError, "average"):
        thereafter.train(other, model="average", tokens="word", **option)
    with assert_refused(OptionError, "layer_decay", "0.0", 0):
        TrainingSettings(layer_decay=0.0)


def test_the_command(run: Path, other: Path, tmp_path: Path):
    words = ["train", str(other), "--from", str(run), "--out", str(tmp_path / "new"), "--epochs", "1"]
    words += ["--layer-decay", "0.5", "--unfreeze", "--dropout", "0.1"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    config = thereafter.load(tmp_path / "new").config
    assert (config["model"], config["training"]["layer_decay"], config["training"]["unfreeze"]) == ("lstm", 0.5, True)
    again = ["train", "--recipe", str(tmp_path / "new" / "config.toml"), "--out", str(tmp_path / "again")]
    assert CliRunner().invoke(app, again).exit_code == 0
    assert equal(thereafter.load(tmp_path / "new"), thereafter.load(tmp_path / "again"))

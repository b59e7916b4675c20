"""Every recipe of the folder: its header says what to expect, and it takes real steps on a crumb of its corpus."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest
import torch

import thereafter
from thereafter.base import config as toml
from thereafter.errors import FormatError
from thereafter.models.build import build, settings_of
from thereafter.tasks import TASKS as TASKS_BY_NAME
from thereafter.tasks import finding, fitting
from thereafter.text.sources import resolve
from thereafter.training.recipes import read_recipe

RECIPES = sorted((Path(__file__).resolve().parents[2] / "recipes").glob("*.toml"))
LANGUAGE_MODELS = [path for path in RECIPES if read_recipe(path).task is None]
TASKS = [path for path in RECIPES if read_recipe(path).task is not None]
CRUMB = 3_000  # characters
EXAMPLES = 40
QUICK = {
    "act": "catch", "caption": "flickr8k-small", "classify": "sst2-classifier", "classify-pictures": "mnist-rows-lstm",
    "draw": "mnist-draw", "forecast": "ett-24-gru", "glimpse": "cluttered-glimpses", "tag": "ewt-tagger",
    "next-frames": "moving-digits-small", "translate": "multi30k-attention", "video": "moving-digit-small",
    "ngram": "ptb-ngram", "awd-lstm": "ptb-awd-lstm", "lstm": "ptb-lstm-small", "rnn": "ptb-rnn",
    "window": "ptb-window", "transformer": "tinyshakespeare-transformer",
}  # fmt: skip
"""For every task and kind of model the recipe that takes real steps."""
CORE = {"ptb-ngram", "ptb-lstm-small", "ewt-tagger", "multi30k-attention"}
"""Those in each run of the tests: one counted, one neural, one of a task, one with a decoder. The others are wide."""
HEAVY: dict[str | None, dict[str, Any]] = {
    "tinyshakespeare-transformer": {"transformer.hidden": 48, "transformer.layers": 2, "transformer.context": 32},
    "tinyshakespeare-lstm": {"lstm.sizes": [64, 64]},
    "ptb-awd-lstm": {"awd-lstm.embed": 40, "awd-lstm.sizes": [115, 115, 40]},
    "ptb-lstm-medium": {"lstm.hidden": 65},
    "wikitext-2-lstm": {"lstm.hidden": 65},
    "mnist-permuted-mingru": {"classify-pictures.layers": 1, "classify-pictures.hidden": 32},
    "multi30k-transformer": {"translate.hidden": 64, "translate.layers": 2, "translate.feedforward": 128},
    "multi30k-attention": {"translate.hidden": 64},
    "multi30k-no-attention": {"translate.hidden": 64},
    "flickr8k-attention": {"caption.width": 16, "caption.hidden": 128, "caption.embed": 64},
    "video": {"video.width": 8, "video.hidden": 32, "training.rate": 0.01, "training.epochs": 6},
    "next-frames": {"next-frames.hidden": 8, "next-frames.layers": 1},
    "glimpse": {"glimpse.hidden": 32, "glimpse.read": 16, "training.rate": 0.01, "training.epochs": 8},
    "act": {"act.hidden": 16, "act.read": 8},
    "draw": {"draw.hidden": 16, "draw.latent": 4, "draw.strokes": 4, "training.rate": 0.02, "training.epochs": 8},
}
"""By task or recipe: sizes of networks that would take minutes for these few steps. Their own make a network, too: one
without numbers, on torch's meta device."""
TWINS = {"moving-digit": "moving-glyph", "moving-digits": "moving-glyphs", "cluttered-digits": "cluttered-glyphs"}
"""Corpora that need all of MNIST, and what is drawn in their place."""


@pytest.fixture(scope="module", params=["stand-in", pytest.param("classic", marks=pytest.mark.slow)])
def corpora_on_disk(request: pytest.FixtureRequest) -> Path:
    """As everywhere; a crumb of a classic corpus teaches a recipe nothing more, and takes as long again."""
    if request.param == "classic":
        return request.getfixturevalue("classic_folder")
    return request.getfixturevalue("stand_ins")[0]


def quick_first(paths: list[Path]) -> list[Any]:
    return [path if path.stem in CORE else pytest.param(path, marks=pytest.mark.wide) for path in paths]


def test_every_task_and_kind_of_the_recipes_takes_real_steps():
    assert {recipe.task or recipe.model for recipe in map(read_recipe, RECIPES)} == set(QUICK)
    assert {*QUICK.values(), *CORE} <= {path.stem for path in RECIPES}


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_its_header_says_command_time_and_score(path: Path):
    header = re.findall(r"^# (\w+): +(.+)$", path.read_text(encoding="utf-8"), re.M)
    said = dict(header)
    assert said.keys() >= {"command", "time", "score"}
    assert said["command"] == f"thereafter train --recipe recipes/{path.name}"
    assert re.search(r"\d", said["score"])


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_its_options_are_those_of_its_network_and_training(path: Path):
    recipe = read_recipe(path)
    if recipe.task is not None:
        _, settings, training = settled(recipe.task, recipe.options)
        assert toml.build(type(settings), vars(settings), recipe.task) == settings
        assert training.rate is None or training.rate > 0
    elif recipe.model != "ngram":
        network_of(str(recipe.model), recipe.options)


@pytest.mark.filterwarnings("ignore:the validation text")  # learning by heart is what is asked for here
@pytest.mark.parametrize("path", quick_first(LANGUAGE_MODELS), ids=lambda path: path.stem)
def test_it_takes_real_steps(path: Path, corpora_folder: Path, tmp_path: Path):
    recipe = read_recipe(path)
    assert isinstance(recipe.source, str)
    crumb = crumb_of(recipe.source, tmp_path)
    options: dict[str, Any] = dict(recipe.options)
    if recipe.model != "ngram":
        # a budget of its own in place of the recipe's; schedule, optimizer and batch stay
        for name in ("training.epochs", "training.tokens_budget"):
            options.pop(name, None)
        options |= {"training.epochs": 3, "training.log_every": 1, "training.validate_every": 1}
        network_of(str(recipe.model), options)
        options |= HEAVY.get(path.stem, {})
    lm = thereafter.train(
        crumb,
        model=str(recipe.model),
        tokens=options.pop("text.tokens", "word"),
        valid=crumb if recipe.split is None and recipe.model != "ngram" else None,
        split=recipe.split,
        **options,
    )
    steps, validations = ([line for line in lm.log if line["event"] == event] for event in ("step", "validation"))
    if recipe.model == "ngram":
        assert lm.config["ngram"]["order"] == 5
    else:
        assert len(steps) >= 3
        assert all(math.isfinite(line["loss"]) and line["rate"] > 0 and line["norm"] > 0 for line in steps)
        assert len({line["loss"] for line in validations}) == len(validations) >= 3  # each step changed the model
    assert math.isfinite(lm.score(text="the company said\n").nats)


def network_of(kind: str, options: dict[str, Any]) -> None:
    """The network of the sizes that a recipe says."""
    sizes = {name.partition(".")[2]: value for name, value in options.items() if name.startswith(f"{kind}.")}
    with torch.device("meta"):
        build(kind, toml.build(settings_of(kind), sizes, kind), vocabulary_size=10_000)


def crumb_of(corpus: str, folder: Path) -> Path:
    """The beginning of a corpus as a file."""
    first = next(iter(resolve(corpus).parts.values()))
    path = folder / "crumb.txt"
    path.write_text("".join(islice(chain.from_iterable(first.chunks()), CRUMB)), encoding="utf-8")
    return path


@pytest.mark.parametrize("path", quick_first(TASKS), ids=lambda path: path.stem)
def test_a_task_takes_real_steps(path: Path, corpora_folder: Path):
    recipe = read_recipe(path)
    for name in ("training.epochs", "training.minutes"):
        recipe.options.pop(name, None)
    if "training.precision" in recipe.options:
        recipe.options["training.precision"] = "float32"  # this machine may be slow in any other
    given = recipe.options | {"training.epochs": 2, "training.log_every": 1, "training.batch": 8}
    own, own_settings, _ = settled(str(recipe.task), given)
    given |= HEAVY.get(recipe.task, {}) | HEAVY.get(path.stem, {})
    task, settings, training = settled(str(recipe.task), given)
    examples = TWINS.get(str(recipe.source), recipe.source)
    train, valid, notes = finding.train_and_valid(task, examples, None)
    crumbs = [replace(part, examples=part.examples[:EXAMPLES]) for part in (train, valid)]
    source = {"name": recipe.source, "sha256": train.fingerprint}
    known = [one for one in crumbs[1].examples if fits(task, crumbs[0], one)]
    crumbs[1] = replace(crumbs[1], examples=known)
    with torch.device("meta"):
        own.build(own_settings, own.codecs(crumbs[0].examples))
    fitted = fitting.fit(task, *crumbs, settings, training, source=source, notes=notes)
    steps = [line for line in fitted.log if line["event"] == "step"]
    assert len(steps) >= 8
    assert all(math.isfinite(line["loss"]) and line["norm"] > 0 for line in steps)
    assert steps[-1]["loss"] < steps[0]["loss"] or recipe.task == "act"  # a game is seldom won at first


def settled(name: str, options: dict[str, Any]) -> tuple[Any, Any, Any]:
    """The task with its settings and those of its training."""
    task = TASKS_BY_NAME.load(name)
    settings, training = fitting.settle(task, options)
    return task.configured(settings), settings, training


def fits(task: Any, train: Any, example: Any) -> bool:
    """Whether so few examples have taught all labels of this one."""
    try:
        task.check([example], task.codecs(train.examples), "a crumb")
    except FormatError:
        return False
    return True

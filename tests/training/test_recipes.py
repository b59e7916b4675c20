"""Every recipe of the folder: its header says what to expect, and it takes real steps on a crumb of its corpus."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest

import thereafter
from thereafter.errors import FormatError
from thereafter.tasks import TASKS as TASKS_BY_NAME
from thereafter.tasks import finding, fitting
from thereafter.text.sources import resolve
from thereafter.training.recipes import read_recipe

RECIPES = sorted((Path(__file__).resolve().parents[2] / "recipes").glob("*.toml"))
LANGUAGE_MODELS = [path for path in RECIPES if read_recipe(path).task is None]
TASKS = [path for path in RECIPES if read_recipe(path).task is not None]
CRUMB = 3_000  # characters
EXAMPLES = 40
HEAVY: dict[str | None, dict[str, Any]] = {
    "mnist-permuted-mingru": {"classify-pictures.layers": 1},
    "video": {"video.width": 8, "video.hidden": 32, "training.rate": 0.01, "training.epochs": 6},
    "next-frames": {"next-frames.hidden": 8, "next-frames.layers": 1},
    "glimpse": {"glimpse.hidden": 32, "glimpse.read": 16, "training.rate": 0.01, "training.epochs": 8},
    "act": {"act.hidden": 16, "act.read": 8},
    "draw": {"draw.hidden": 16, "draw.latent": 4, "draw.strokes": 4, "training.rate": 0.02, "training.epochs": 8},
}
"""By task or recipe: sizes of networks that would take minutes for these few steps."""
TWINS = {"moving-digit": "moving-glyph", "moving-digits": "moving-glyphs", "cluttered-digits": "cluttered-glyphs"}
"""Corpora that need all of MNIST, and what is drawn in their place."""


@pytest.fixture(scope="module", params=["stand-in", pytest.param("classic", marks=pytest.mark.slow)])
def corpora_on_disk(request: pytest.FixtureRequest) -> Path:
    """As everywhere; a crumb of a classic corpus teaches a recipe nothing more, and takes as long again."""
    if request.param == "classic":
        return request.getfixturevalue("classic_folder")
    return request.getfixturevalue("stand_ins")[0]


def test_there_are_recipes():
    assert len(RECIPES) >= 9


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_its_header_says_command_time_and_score(path: Path):
    header = re.findall(r"^# (\w+): +(.+)$", path.read_text(encoding="utf-8"), re.M)
    said = dict(header)
    assert said.keys() >= {"command", "time", "score"}
    assert said["command"] == f"thereafter train --recipe recipes/{path.name}"
    assert re.search(r"\d", said["score"])


@pytest.mark.filterwarnings("ignore:the validation text")  # learning by heart is what is asked for here
@pytest.mark.parametrize("path", LANGUAGE_MODELS, ids=lambda path: path.stem)
def test_it_takes_real_steps(path: Path, corpora_folder: Path, tmp_path: Path):
    recipe = read_recipe(path)
    assert isinstance(recipe.source, str)
    crumb = crumb_of(recipe.source, tmp_path)
    options: dict[str, Any] = dict(recipe.options)
    if recipe.model != "ngram":
        # a budget of its own in place of the recipe's; schedule, optimizer, sizes and batch stay
        for name in ("training.epochs", "training.tokens_budget"):
            options.pop(name, None)
        options |= {"training.epochs": 3, "training.log_every": 1, "training.validate_every": 1}
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


def crumb_of(corpus: str, folder: Path) -> Path:
    """The beginning of a corpus as a file."""
    first = next(iter(resolve(corpus).parts.values()))
    path = folder / "crumb.txt"
    path.write_text("".join(islice(chain.from_iterable(first.chunks()), CRUMB)), encoding="utf-8")
    return path


@pytest.mark.parametrize("path", TASKS, ids=lambda path: path.stem)
def test_a_task_takes_real_steps(path: Path, corpora_folder: Path):
    recipe = read_recipe(path)
    for name in ("training.epochs", "training.minutes"):
        recipe.options.pop(name, None)
    if "training.precision" in recipe.options:
        recipe.options["training.precision"] = "float32"  # this machine may be slow in any other
    given = recipe.options | {"training.epochs": 2, "training.log_every": 1, "training.batch": 8}
    given |= HEAVY.get(recipe.task, {}) | HEAVY.get(path.stem, {})
    task, settings, training = settled(str(recipe.task), given)
    examples = TWINS.get(str(recipe.source), recipe.source)
    train, valid, notes = finding.train_and_valid(task, examples, None)
    crumbs = [replace(part, examples=part.examples[:EXAMPLES]) for part in (train, valid)]
    source = {"name": recipe.source, "sha256": train.fingerprint}
    known = [one for one in crumbs[1].examples if fits(task, crumbs[0], one)]
    crumbs[1] = replace(crumbs[1], examples=known)
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
    """Whether forty examples have taught all labels of this one."""
    try:
        task.check([example], task.codecs(train.examples), "a crumb")
    except FormatError:
        return False
    return True

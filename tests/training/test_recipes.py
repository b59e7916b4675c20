"""Every recipe of the folder: its header says what to expect, and it takes real steps on a crumb of its corpus."""

from __future__ import annotations

import math
import re
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest

import thereafter
from thereafter.text.sources import resolve
from thereafter.training.recipes import read_recipe

RECIPES = sorted((Path(__file__).resolve().parents[2] / "recipes").glob("*.toml"))
CRUMB = 3_000  # characters


def test_there_are_recipes():
    assert len(RECIPES) >= 9


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_its_header_says_command_time_and_score(path: Path):
    header = re.findall(r"^# (\w+): +(.+)$", path.read_text(encoding="utf-8"), re.M)
    said = dict(header)
    assert said.keys() >= {"command", "time", "score"}
    assert said["command"] == f"thereafter train --recipe recipes/{path.name}"
    assert re.search(r"\d", said["score"])


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_it_takes_real_steps(path: Path, data: Path, tmp_path: Path):
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

"""Texts whose lines have nothing to do with each other are read line by line; the rate of an LSTM (docs/claims.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import thereafter
from thereafter.text.sources import Source, Texts, resolve
from thereafter.training.kinds import About
from thereafter.training.neural import complete_model, complete_training
from thereafter.training.recipes import read_recipe
from thereafter.training.settings import TrainingSettings

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.toml"))
TINY: dict[str, Any] = {"hidden": 4, "layers": 1, "tokens": "word", "tokens_budget": 300}
LINES = "the cat sees the dogs\nthe dogs see the cat\n" * 20
SENTENCES = Texts(
    "sentences", {part: Source.of_text(LINES) for part in ("train", "valid")}, independent_lines=True
)  # as those of a generated corpus, and few


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn", "mingru", "transformer"])
def test_generated_sentences_begin_afresh(kind: str):
    config = thereafter.train(SENTENCES, model=kind, **TINY).config
    assert (config["text"]["context"], config["training"]["batching"]) == ("line", "lines")


def test_what_the_user_says_goes_first():
    for choice in ({"text.context": "stream"}, {"batching": "stream"}):
        config = thereafter.train(SENTENCES, model="rnn", **TINY, **choice).config
        assert (config["text"]["context"], config["training"]["batching"]) == ("stream", "stream")


def test_running_text_is_carried_on():
    text = "the cat sat on the mat\nand the dog ate\n" * 20
    config = thereafter.train(text=text, tokens="word", model="rnn", hidden=4, tokens_budget=100).config
    assert config["text"]["context"] == "stream"


def test_a_part_of_such_a_corpus_is_one_too():
    assert resolve("agreement").independent_lines
    assert resolve("agreement:train").independent_lines
    assert resolve("remember-first").independent_lines
    assert not resolve("python-docs").independent_lines


def test_an_lstm_takes_steps_twice_as_large():
    about = About(tokens=1_000_000, valid=50_000, vocabulary=900, tokenizer="word", context="line", longest_line=40)

    def rate(kind: str) -> float:
        model, _ = complete_model(kind, {}, about)
        training, _ = complete_training(kind, model, TrainingSettings(), about, "cpu", "float32")
        assert training.rate is not None
        return training.rate

    assert rate("lstm") == pytest.approx(2 * rate("gru"))
    assert rate("rnn") == rate("gru") == rate("mingru")


@pytest.mark.parametrize("path", [path for path in RECIPES if "lstm" in path.stem], ids=lambda path: path.stem)
def test_the_figures_of_recipes_rest_on_no_default_rate(path: Path):
    assert read_recipe(path).options["training.rate"] > 0

"""A text that grows: token by token it is what `lm.generate` says, and what is shown beside it is the model's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thereafter
from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.studio.panels.generation import MOST_UNITS, GrowingText


@pytest.mark.parametrize("name", ["letters", "lstm", "ngram", "transformer", "window"])
@pytest.mark.parametrize(
    "drawn",
    [
        pytest.param({"temperature": 0.0}, marks=pytest.mark.wide),
        pytest.param({"temperature": 1.0, "seed": 1}, marks=pytest.mark.wide),
        {"temperature": 0.7, "top_k": 5, "seed": 2},
    ],
)
def test_it_writes_what_generate_says(ready_folder: Path, name: str, drawn: dict):
    lm = thereafter.load(ready_folder / name)
    for prompt in ("the nurse", "", "🙂 def "):
        writer = GrowingText(lm, prompt, **drawn)
        pieces = writer.write(40)
        assert [piece.number for piece in pieces] == list(range(1, 41))
        written = "".join(piece.text for piece in pieces) + writer.end()
        assert prompt + written == lm.generate(prompt, 40, **drawn)


def test_what_is_shown_is_what_the_model_knows_after_the_text_so_far(ready_folder: Path):
    lm = thereafter.load(ready_folder / "letters")
    writer = GrowingText(lm, "def ", seed=3)
    text = "def "
    for piece in [writer.piece(), *writer.write(20)]:
        text += piece.text
        known = lm.trace(text)["l0.h"][-1]
        assert len(piece.state) == 1
        assert np.abs(np.array(piece.state[0]) - known).max() <= 0.000501
        expected = lm.next(text, 10)
        assert [one.text for one in piece.top] == [word for word, _ in expected]
        assert [one.p for one in piece.top] == pytest.approx([p for _, p in expected], abs=1e-5)


def test_settings_change_from_the_next_token_on(ready_folder: Path):
    lm = thereafter.load(ready_folder / "letters")
    writer = GrowingText(lm, "if ", temperature=1.5, seed=4)
    before = "if " + "".join(piece.text for piece in writer.write(30))
    assert before == lm.generate("if ", 30, temperature=1.5, seed=4)
    writer.set(0.0, None)
    after = before + "".join(piece.text for piece in writer.write(30))
    assert after == lm.generate(before, 30, temperature=0)
    writer.set(2.0, 1)  # of one word there is nothing to choose
    rest = "".join(piece.text for piece in writer.write(10))
    assert after + rest == lm.generate(after, 10, temperature=0)


def test_a_layer_is_a_row_and_a_wide_one_is_cut():
    lm = thereafter.train(
        text="one two three four five\n" * 30,
        model="gru",
        tokens="word",
        hidden=MOST_UNITS + 8,
        layers=2,
        tokens_budget=100,
        seed=0,
    )
    rows = GrowingText(lm, "one").piece().state
    assert [len(row) for row in rows] == [MOST_UNITS, MOST_UNITS]


@pytest.mark.parametrize("name", ["ngram", "transformer", "window"])
def test_a_model_without_units_has_no_rows(ready_folder: Path, name: str):
    assert GrowingText(thereafter.load(ready_folder / name), "the").piece().state == []


def test_a_text_ends_where_nothing_can_follow():
    # letters met once are unknown ones, which are never said: so nothing follows b
    lm = thereafter.train(text="abXabYab", model="ngram", tokens="char", order=2, smoothing="mle")
    writer = GrowingText(lm, "a", seed=0)
    pieces = writer.write(10)
    assert writer.ended
    assert [piece.text for piece in pieces] == ["b"]
    assert lm.generate("a", 10, seed=0) == "ab"
    assert writer.write(10) == []
    assert writer.end() == ""


def test_half_a_character_is_held_back_and_said_at_the_end():
    lm = thereafter.train(text="é" * 200, model="ngram", tokens="byte", order=3)
    writer = GrowingText(lm, "", temperature=0)
    assert [piece.text for piece in writer.write(3)] == ["", "é", ""]
    assert writer.end() == "\ufffd"
    assert writer.ended


def test_a_temperature_that_is_none_is_refused(ready_folder: Path):
    writer = GrowingText(thereafter.load(ready_folder / "ngram"), "the")
    with assert_refused(OptionError, "temperature", -1, 0, 0.8):
        writer.set(-1, None)

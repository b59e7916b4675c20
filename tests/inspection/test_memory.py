"""The memory instrument: readers whose memory is known beforehand, and cells that learn a task in seconds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import thereafter
from refusals import assert_refused
from thereafter.cli import app
from thereafter.errors import OptionError
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.memory import memory, remembered
from thereafter.inspection.sentence_reader import SentenceReader
from thereafter.text.memory import TASKS, task, text_of


class Rule:
    """A model that reads words and says which one it expects; all others are equally unlikely."""

    def __init__(self, words: list[str], rule: Callable[[list[str]], str | None]) -> None:
        self.words, self.rule, self.vocabulary_size = words, rule, len(words)

    def start(self, batch: int) -> list[list[str]]:
        return [[] for _ in range(batch)]

    def predict(self, state: list[list[str]]) -> np.ndarray:
        chosen = [self.rule([word for word in read if word != "</s>"]) for read in state]
        return np.array([[-1.0 if word == one else -9.0 for word in self.words] for one in chosen])

    def step(self, token_B: np.ndarray, state: list[list[str]]) -> tuple[np.ndarray, list[list[str]]]:
        state = [[*read, self.words[token]] for read, token in zip(state, token_B, strict=True)]
        return self.predict(state), state


def ruled(name: str, rule: Callable[[list[str]], str | None], context: str = "line") -> SentenceReader:
    text = text_of(task(name), count=50)
    tokenizer = thereafter.train(text=text, tokens="word", order=1, min_count=1).tokenizer
    return SentenceReader(Rule(tokenizer.vocabulary.forms, rule), tokenizer, context)  # type: ignore[arg-type]


@pytest.mark.parametrize("context", ["line", "stream"])
def test_who_sees_so_many_words_remembers_over_so_many_steps(context: str):
    reader = ruled("remember-first", lambda read: read[0] if 0 < len(read) <= 6 else None, context)
    found = memory(reader, task("remember-first"), range(1, 11), count=20)
    assert found["n"].tolist() == list(range(1, 11))
    np.testing.assert_array_equal(found["accuracy"], [1.0] * 5 + [0.25] * 5)
    np.testing.assert_array_equal(found["chance"], [0.25] * 10)
    np.testing.assert_array_equal(found["total"], [20] * 10)


def test_a_clock_that_fires_too_early_or_late_is_wrong():
    fires = ruled("count-and-fire", lambda read: "!" if read.count("b") == min(read.count("a"), 4) else "b")
    found = memory(fires, task("count-and-fire"), (1, 2, 4, 5, 8), count=2)
    np.testing.assert_array_equal(found["accuracy"], [1, 1, 1, 0, 0])
    late = memory(ruled("count-and-fire", lambda read: "b"), task("count-and-fire"), (1, 3), count=2)
    np.testing.assert_array_equal(late["accuracy"], [0, 0])
    unsure = memory(ruled("count-and-fire", lambda read: None), task("count-and-fire"), (1, 3), count=2)
    np.testing.assert_array_equal(unsure["accuracy"], unsure["chance"])


def test_a_stack_closes_every_bracket_and_a_short_one_only_the_inner():
    def rule(depth: int) -> Callable[[list[str]], str | None]:
        def closes(read: list[str]) -> str | None:
            stack: list[str] = []
            for word in read:
                stack = [*stack, word] if word in "([" else stack[:-1]
            return {"(": ")", "[": "]"}[stack[-1]] if stack and len(stack) > depth else None

        return closes

    brackets = task("balanced-brackets")
    whole = memory(ruled("balanced-brackets", rule(0)), brackets, range(0, 13, 2), count=30)
    np.testing.assert_array_equal(whole["accuracy"], np.ones(7))
    blind = memory(ruled("balanced-brackets", rule(1)), brackets, (12,), count=30)
    np.testing.assert_array_equal(blind["accuracy"], [0.5])


def test_an_n_gram_remembers_as_far_as_it_sees():
    """Only the cue and the answer are sure: `a = a` is in sight of three words, and nothing longer is."""
    lm = thereafter.train(text=text_of(task("remember-first"), count=3000, longest=8), tokens="word", order=3)
    found = memory(SentenceReader.of(lm.model, lm.tokenizer, lm.config), task("remember-first"), (1, 4, 8), count=200)
    assert found["accuracy"][0] == 1
    assert found["accuracy"][1:].max() < 0.4


SECONDS: dict[str, Any] = {"hidden": 32, "layers": 1, "embed": 16, "tied": False, "dropout": 0.0, "init": 1.0}
SECONDS |= {"batch": 16, "seed": 0}


@pytest.mark.parametrize(
    ("name", "kind", "options"),
    [
        ("remember-first", "gru", {"count": 2000, "longest": 4, "epochs": 6, "rate": 0.02}),
        pytest.param(
            "count-and-fire", "lstm", {"count": 2000, "longest": 6, "epochs": 12, "rate": 0.02}, marks=pytest.mark.wide
        ),
        pytest.param(
            "balanced-brackets",
            "lstm",
            {"count": 1200, "longest": 6, "epochs": 5, "rate": 0.02},
            marks=pytest.mark.wide,
        ),
    ],
)
def test_the_right_cell_learns_a_short_task_in_seconds(name: str, kind: str, options: dict[str, Any]):
    one, given = task(name), dict(options)
    longest = given.pop("longest")
    text = text_of(one, count=given.pop("count"), longest=longest)
    lm = thereafter.train(text=text, model=kind, tokens="word", **SECONDS, **given)
    found = memory(SentenceReader.of(lm.model, lm.tokenizer, lm.config), one, one.spans(longest=longest), count=30)
    assert found["accuracy"].min() > 0.9


@pytest.mark.parametrize(
    ("accuracy", "said"),
    [
        ([1, 1, 0.9], "remembers over all of the 3 steps asked for"),
        ([1, 0.9, 0.3], "remembers over 2 steps, not over 3"),
        ([1, 0.3, 1], "remembers over 1 steps, not over 2 (and over some longer ones)"),
        ([0.3, 0.2, 0.3], "does not remember over 1 steps"),
    ],
)
def test_the_verdict(accuracy: list[float], said: str):
    arrays = {"n": np.arange(1, 4), "accuracy": np.array(accuracy), "chance": np.full(3, 0.25)}
    assert remembered(Measurement("memory", arrays, dict.fromkeys(arrays, ("n",)))) == said


def test_memory_on_the_command_line(tmp_path: Path):
    thereafter.train("remember-first", order=3, out=tmp_path / "run")
    asked = ["inspect", "memory", str(tmp_path / "run"), "--longest", "4", "--count", "50"]
    ended = CliRunner().invoke(app, [*asked, "--out", str(tmp_path / "found.npz")])
    assert ended.exit_code == 0, ended.output
    assert "remembers over 1 steps, not over 2" in ended.output
    found = Measurement.load(tmp_path / "found.npz")
    assert found["n"].tolist() == [1, 2, 3, 4]
    assert found.about["longest"] == 30


def test_a_model_of_other_words_is_refused():
    lm = thereafter.train(text="the cat sat\n" * 4, tokens="word", order=2)
    for one in TASKS.values():
        with assert_refused(OptionError, "word"):
            memory(SentenceReader.of(lm.model, lm.tokenizer, lm.config), one, one.spans()[:2], count=1)
    with assert_refused(OptionError, 0):
        memory(SentenceReader.of(lm.model, lm.tokenizer, lm.config), task("remember-first"), ())

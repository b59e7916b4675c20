"""One model asked by several threads at once gives each of them what it gives one: states are values."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

import thereafter
from thereafter.training.kinds import MODELS

THREADS = 8
TEXT = "the cat sat on the mat\nthe dog sat on the cat\n\na cat ate the fish on the mat\nwhere is the dog\n" * 4
WORDS = TEXT.split()
SMALL: dict[str, dict[str, Any]] = {
    "awd-lstm": {"embed": 48, "sizes": (64, 64, 48)},
    "transformer": {"hidden": 32, "layers": 2, "heads": 2, "transformer.context": 12},
    "average": {"embed": 32},
    "window": {"embed": 16, "hidden": 32},
}
CORE = ("ngram", "lstm", "mingru", "transformer", "mixture")  # a kind of state each, the rest is wide
KINDS = [
    pytest.param(kind, marks=() if kind in CORE else pytest.mark.wide)
    for kind in [*MODELS, "mixture", "mixture of mixtures"]
]
Ask = Callable[[], Any]


@pytest.fixture(autouse=True)
def _restless() -> Iterator[None]:
    """Threads take turns as often as the interpreter can make them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@cache
def asked(kind: str) -> thereafter.LanguageModel:
    if kind == "mixture":
        return thereafter.mixture([asked("lstm"), asked("gru")])
    if kind == "mixture of mixtures":
        return thereafter.mixture([asked("mixture"), asked("rnn")], weights=[0.7, 0.3])
    options = {} if kind == "ngram" else {"epochs": 1, **SMALL.get(kind, {"hidden": 64, "layers": 2})}
    return thereafter.train(text=TEXT, model=kind, tokens="word", **options)


def requests(lm: thereafter.LanguageModel, count: int, seed: int) -> list[Ask]:
    """Random questions of every sort."""
    draw = random.Random(seed)
    return [_request(lm, draw) for _ in range(count)]


def _request(lm: thereafter.LanguageModel, draw: random.Random) -> Ask:
    prompt = " ".join(draw.choices(WORDS, k=draw.randint(0, 24)))  # a few tokens are streamed, more are not
    text, seed = f"{prompt}\n{prompt} the", draw.randint(0, 9)
    others = [" ".join(draw.choices(WORDS, k=draw.randint(1, 5))) for _ in range(3)]
    sort = draw.choice(("next", "next", "score", "generate", "several", "beams", "rank", "trace", "cache"))
    if sort == "next":
        return lambda: lm.next(prompt, k=4)
    if sort == "score":
        return lambda: lm.score(text=text).nats
    if sort == "generate":
        return lambda: lm.generate(prompt, 6, seed=seed, return_log_probs=True)
    if sort == "several":
        return lambda: lm.generate(prompt, 5, seed=seed, num_return_sequences=3)
    if sort == "beams":
        return lambda: lm.generate(prompt, 4, num_beams=2)
    if sort == "rank":
        return lambda: lm.rank(others, prompt)
    if sort == "trace":
        return lambda: {name: array.tolist() for name, array in lm.trace(text).arrays.items()}
    return lambda: lm.score(text=text, cache={"size": 9}).nats


def together(asks: list[Ask]) -> list[Any]:
    """The answers, each thread with its share of the questions, all beginning at once."""
    begin = threading.Barrier(THREADS)

    def answer(part: list[Ask]) -> list[Any]:
        begin.wait()
        return [ask() for ask in part]

    with ThreadPoolExecutor(THREADS) as pool:
        parts = list(pool.map(answer, [asks[k::THREADS] for k in range(THREADS)]))
    answers: list[Any] = [None] * len(asks)
    for k, part in enumerate(parts):
        answers[k::THREADS] = part
    return answers


def wrong(asks: list[Ask], expected: list[Any]) -> list[int]:
    """The questions that several threads were answered otherwise."""
    return [k for k, (one, other) in enumerate(zip(together(asks), expected, strict=True)) if one != other]


@pytest.mark.parametrize("kind", KINDS)
def test_threads_get_the_answers_of_one_thread(kind: str) -> None:
    lm = asked(kind)
    asks = requests(lm, 48, seed=1)
    expected = [ask() for ask in asks]
    assert wrong(asks, expected) == []


@pytest.mark.parametrize(
    "kind", ["lstm", "mingru", "transformer", *(pytest.param(kind, marks=pytest.mark.wide) for kind in ("gru", "rnn"))]
)
def test_threads_that_step_do_not_meet(kind: str) -> None:
    """Token by token from states of their own, of one, two and three rows."""
    model = asked(kind).model
    ids = np.random.default_rng(0).integers(0, model.vocabulary_size, (THREADS * 2, 3, 25))

    def stepping(rows_BT: np.ndarray) -> Ask:
        def step() -> list[Any]:
            state, found = model.start(len(rows_BT)), []
            for token_B in rows_BT.T:
                logp_BV, state = model.step(token_B, state)
                found.append(np.asarray(logp_BV).tolist())
            return found

        return step

    asks = [stepping(rows[: 1 + k % 3]) for k, rows in enumerate(ids)]
    assert wrong(asks, [ask() for ask in asks]) == []


def test_a_text_scored_with_dynamic_evaluation_leaves_the_model_to_others() -> None:
    """Weights that are learned while a text is scored are those of that score alone."""
    lm = asked("lstm")
    learning = {"rate": 0.5, "rule": "sgd", "segment": 5}
    asks: list[Ask] = [
        (lambda: lm.score(text=TEXT, dynamic=learning).nats) if k % 2 else (lambda: lm.next("the cat sat", k=5))
        for k in range(16)
    ]
    before = [weight.detach().clone() for weight in lm.model.parameters()]  # type: ignore[attr-defined]
    assert wrong(asks, [ask() for ask in asks]) == []
    for weight, was in zip(lm.model.parameters(), before, strict=True):  # type: ignore[attr-defined]
        torch.testing.assert_close(weight.detach(), was, rtol=0, atol=0)


def test_a_model_in_training_mode_is_quiet_for_all_who_ask() -> None:
    """Dropout is off for everybody until the last one has been answered, and on again afterwards."""
    lm = thereafter.train(text=TEXT, model="lstm", tokens="word", hidden=64, layers=2, dropout=0.5, epochs=1)
    lm.model.train()  # type: ignore[attr-defined]
    asks: list[Ask] = [lambda: lm.next("the cat sat on the mat and where is the dog a cat ate", k=5)] * 48
    expected = [asks[0]()] * len(asks)
    assert wrong(asks, expected) == []
    assert lm.model.training  # type: ignore[attr-defined]

"""Beam search against the enumeration of every text there is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

from thereafter.decoding.beam import Hypothesis, Search, beam_search
from thereafter.decoding.writing import Written
from thereafter.ngram.model import NgramModel, estimate
from thereafter.text.tokenizers.base import Vocabulary
from thereafter.text.tokenizers.byte_level import CharTokenizer

TOKENIZER = CharTokenizer(Vocabulary(["<unk>", "a", "b", "c"]))
LONGEST = 5
WIDE = 4**LONGEST


@cache
def model(seed: int, smoothing: str = "witten-bell") -> NgramModel:
    return estimate(np.random.default_rng(seed).integers(0, 4, 40), 4, order=3, smoothing=smoothing)


def every_text(
    net: NgramModel, stop: str, forbidden: tuple[int, ...] = ()
) -> Iterator[tuple[tuple[int, ...], list[float]]]:
    """All token sequences that end with their first stop string or at the greatest length, with their log p."""

    def grow(tokens: tuple[int, ...], logs: list[float], state: Any) -> Iterator[tuple[tuple[int, ...], list[float]]]:
        if len(tokens) == LONGEST or (tokens and stop in TOKENIZER.decode(tokens)):
            yield tokens, logs
            return
        logp = net.predict(state)[0].astype(float)
        for token in range(4):
            if token not in forbidden and logp[token] > -math.inf:
                yield from grow((*tokens, token), [*logs, logp[token]], net.step(np.array([token]), state)[1])

    return grow((), [], net.start(1))


def penalised(tokens: tuple[int, ...], logs: list[float], penalty: float, prompt: tuple[int, ...] = ()) -> float:
    """The sum where a token that came before counts `penalty` times."""
    return math.fsum(
        log * (penalty if token in prompt + tokens[:place] else 1.0)
        for place, (token, log) in enumerate(zip(tokens, logs, strict=True))
    )


def search(
    net: NgramModel, stop: str = "ab", beams: int = WIDE, prompt: Any = None, **options: Any
) -> list[Hypothesis]:
    written = Written(TOKENIZER, (stop,))
    return beam_search(net, net.start(1), written, Search(beams, LONGEST, **options), prompt)


@pytest.mark.parametrize("length_penalty", [-1.0, 0.0, 0.7, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(4))
def test_a_wide_beam_finds_the_best_of_all_texts(seed: int, length_penalty: float):
    net = model(seed)
    texts = sorted(
        ((sum(logs) / len(tokens) ** length_penalty, tokens) for tokens, logs in every_text(net, "ab")), reverse=True
    )
    found = search(net, length_penalty=length_penalty)
    assert len(found) == len(texts)
    np.testing.assert_allclose([one.score(length_penalty) for one in found], [score for score, _ in texts], atol=1e-6)
    assert {one.tokens for one in found} == {tokens for _, tokens in texts}
    best = found[0]
    assert best.total == pytest.approx(math.fsum(best.log_probs))
    assert best.text + best.written.end() == TOKENIZER.decode(best.tokens).split("ab")[0]


@pytest.mark.parametrize("penalty", [0.7, 1.4])
def test_the_repetition_penalty_counts_in_the_search(penalty: float):
    net, prompt = model(1), (2,)
    texts = {tokens: penalised(tokens, logs, penalty, prompt) for tokens, logs in every_text(net, "ab")}
    found = search(net, length_penalty=0.0, repetition_penalty=penalty, prompt=np.array(prompt))
    for one in found:
        assert one.total == pytest.approx(texts[one.tokens], abs=1e-6)
        whole, _ = net.log_probs(np.array([one.tokens]), net.start(1))
        np.testing.assert_allclose(one.log_probs, whole[0], atol=1e-6)  # what is reported is the model's own
    assert found[0].total == pytest.approx(max(texts.values()), abs=1e-6)


def test_forbidden_tokens_are_in_no_hypothesis():
    net = model(2)
    found = search(net, forbidden=[0, 3])
    assert {one.tokens for one in found} == {tokens for tokens, _ in every_text(net, "ab", (0, 3))}


def naive(net: NgramModel, stop: str, beams: int, length_penalty: float) -> list[tuple[int, ...]]:
    """The same search with nothing clever in it: it never stops early, and scores every prefix from its beginning."""

    def score(tokens: tuple[int, ...]) -> float:
        logs, _ = net.log_probs(np.array([tokens]), net.start(1))
        return float(logs.sum(dtype=float))

    running: list[tuple[int, ...]] = [()]
    ended: list[tuple[int, ...]] = []
    for _ in range(LONGEST):
        grown = sorted(((*tokens, token) for tokens in running for token in range(4)), key=score, reverse=True)
        stopped = {tokens for tokens in grown if stop in TOKENIZER.decode(tokens)}
        ended += [tokens for tokens in grown[:beams] if tokens in stopped]
        running = [tokens for tokens in grown if tokens not in stopped][:beams]
    return sorted(ended + running, key=lambda tokens: score(tokens) / len(tokens) ** length_penalty, reverse=True)[
        :beams
    ]


@pytest.mark.parametrize("length_penalty", [-1.0, 0.0, 1.0, 2.0])
@pytest.mark.parametrize("beams", [1, 2, 3, 7])
def test_a_narrow_beam_keeps_what_it_says(beams: int, length_penalty: float):
    for seed in range(6):
        for stop in ("never", "a", "ab"):
            found = search(model(seed), stop, beams, length_penalty=length_penalty)
            assert [one.tokens for one in found] == naive(model(seed), stop, beams, length_penalty)


def test_it_stops_early_when_told_and_when_nothing_can_change():
    net = model(0)

    class Counting:
        vocabulary_size = net.vocabulary_size

        def __init__(self) -> None:
            self.steps: list[int] = []

        def predict(self, state: Any) -> Any:
            return net.predict(state)

        def step(self, tokens: Any, state: Any) -> Any:
            self.steps.append(len(tokens))
            return net.step(tokens, state)

    def steps(beams: int, **options: Any) -> tuple[list[int], list[Hypothesis]]:
        counting = Counting()
        written = Written(TOKENIZER, ("a", "b"))
        options = {"max_new_tokens": 60, "length_penalty": 0.0, **options}
        return counting.steps, beam_search(counting, net.start(1), written, Search(beams, **options))  # type: ignore[arg-type]

    all_steps, exact = steps(2)
    early_steps, early = steps(2, early_stopping=True)
    assert set(all_steps) <= {2}  # one batch a step
    assert len(early_steps) <= len(all_steps) < 30
    assert exact[0].score(0.0) >= early[0].score(0.0)
    # with a penalty of 0 nothing longer can beat what ended: the same comes out however long it may run
    assert [one.tokens for one in steps(2, max_new_tokens=12)[1]] == [one.tokens for one in exact]


def test_dead_ends_are_texts_too():
    net = estimate(np.array([1, 2, 0, 1, 3, 0, 1, 2]), 4, order=2, smoothing="mle")
    found = search(net, "never", 3, forbidden=[0])
    assert {one.tokens for one in found} == {(1, 2), (1, 3)}
    assert [one.text for one in search(net, "never", 3, forbidden=range(4))] == [""]

"""A text from the engine is that of `lm.generate` with the same seed, alone and among others, for every model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from stepping_models import Inbox

import thereafter
from breadth import core
from thereafter.decoding.generation import GenerationSettings
from thereafter.decoding.sampling import generators
from thereafter.models.build import build, settings_of
from thereafter.models.cache import CacheModel, CacheSettings
from thereafter.models.mixture import MixtureModel
from thereafter.serving.engine import Engine
from thereafter.serving.engine_prompts import TextRequest, TextRow
from thereafter.training.kinds import Trained

TEXT = "the cat sat on the mat\nthe dog sat on the cat\n\na cat ate the fish\nle café où est né 日本\n" * 4
OPTIONS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.7, "top_k": 5},
    {"do_sample": False},
    {"top_p": 0.8, "min_p": 0.01},
    {"repetition_penalty": 1.3},
    {"temperature": 1.4},
]
SIZES: dict[str, dict[str, Any]] = {
    "lstm": {"hidden": 16, "layers": 2},
    "mingru": {"hidden": 16},
    "window": {"hidden": 16, "embed": 8, "window": 3},
    "transformer": {"hidden": 16, "layers": 2, "heads": 2, "context": 8},
}


def of_kind(kind: str, counted: thereafter.LanguageModel) -> Any:
    if kind == "ngram":
        return counted.model
    if kind == "mixture":
        return MixtureModel([counted.model, of_kind("lstm", counted)], [0.4, 0.6])
    if kind == "cache":
        return CacheModel(of_kind("lstm", counted), CacheSettings(size=9, weight=0.3, theta=0.4))
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return build(
            kind,
            settings_of(kind)(**SIZES[kind]),
            vocabulary_size=len(counted.tokenizer.vocabulary),
            context=counted.config["text"]["context"],
            line_end=counted.tokenizer.line_end_id,
        )


@pytest.fixture(scope="module")
def counted() -> thereafter.LanguageModel:
    return thereafter.train(text=TEXT, tokens="prose", order=3)


@pytest.fixture(
    scope="module", params=core(["ngram", "mixture", "cache", *SIZES], ["ngram", "mixture", "lstm", "transformer"])
)
def served(request: pytest.FixtureRequest, counted: thereafter.LanguageModel) -> Iterator[Any]:
    model = of_kind(request.param, counted)
    engine = Engine(model, most_rows=6)
    yield thereafter.LanguageModel(Trained(model, counted.tokenizer, counted.config)), engine
    engine.close()


def submit(lm: thereafter.LanguageModel, engine: Engine, inbox: Inbox, number: int) -> tuple[TextRow, dict[str, Any]]:
    """One of many different rows, and what `generate` needs for the same text."""
    given = {"prompt": TEXT[number : number + 5 * (number % 7)], "max_new_tokens": 3 + 4 * (number % 6), "seed": number}
    options = OPTIONS[number % len(OPTIONS)]
    request = TextRequest(
        lm.encode(given["prompt"]),
        given["max_new_tokens"],
        GenerationSettings(**options).warping,
        generators(number, 1)[0],
        forbidden=() if lm.tokenizer.unknown_id is None else (lm.tokenizer.unknown_id,),
    )
    return engine.submit(request, inbox.deliver), given | options


def test_a_row_is_the_text_of_generate_alone_and_among_others(served: Any) -> None:
    lm, engine = served
    inbox = Inbox()
    for number in range(2):
        row, options = submit(lm, engine, inbox, number)
        inbox.wait([row])
        assert_text_of_generate(lm, inbox, row, options)
    asked = [submit(lm, engine, inbox, number) for number in range(14)]
    inbox.wait([row for row, _ in asked])
    for row, options in asked:
        assert_text_of_generate(lm, inbox, row, options)
    assert engine.steps < engine.tokens


def assert_text_of_generate(lm: thereafter.LanguageModel, inbox: Inbox, row: TextRow, options: dict[str, Any]) -> None:
    text = lm.generate(return_log_probs=True, **options)[0]
    assert inbox.tokens(row) == text.tokens
    log_probs = [event.log_prob for event in inbox.events[row] if event.token is not None]
    np.testing.assert_allclose(log_probs, text.log_probs, rtol=1e-5, atol=1e-5)


def test_scores_are_those_of_the_model(served: Any) -> None:
    lm, engine = served
    texts = [lm.encode(TEXT[:200]), lm.encode(TEXT[7:30])]
    scored = engine.score(texts, top=4).result(60)
    for ids, one in zip(texts, scored, strict=True):
        logp_1T, _ = lm.model.log_probs(ids[None], lm.model.start(1))
        np.testing.assert_allclose(one.log_probs, np.asarray(logp_1T)[0], rtol=1e-5, atol=1e-5)
        before = lm.model.read(ids[None, :5], lm.model.start(1))
        likeliest = np.sort(np.asarray(lm.model.predict(before))[0])[::-1][:4]
        np.testing.assert_allclose([logp for _, logp in one.top[5]], likeliest, rtol=1e-5, atol=1e-5)

"""What a client hears when a model fails or works for too long, and that others are answered afterwards."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import openai
import pytest
from fastapi.testclient import TestClient
from numpy.typing import NDArray

import thereafter
from refusals import assert_refused
from served_runs import served_language_model, served_runs
from thereafter.api import LanguageModel
from thereafter.ngram.model import NgramModel
from thereafter.serving.server import verbs
from thereafter.serving.server.app import make_app
from thereafter.serving.server.models import ServedModel, ServedModels
from thereafter.serving.server.verbs import TextScoreAnswer


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return thereafter.train(text="the cat sat on the mat\n" * 3, tokens="char", order=3)


@pytest.fixture(scope="module")
def broken(lm: LanguageModel) -> LanguageModel:
    """A model that fails after the first token."""
    model = lm.model
    assert isinstance(model, NgramModel)

    class Broken(NgramModel):
        def step(self, token_B: NDArray, state: object) -> object:
            raise RuntimeError("the wires crossed")

    failing = object.__new__(Broken)
    failing.__dict__.update(model.__dict__)
    return LanguageModel(replace(lm.trained, model=failing))


def test_a_stream_whose_model_fails_ends_in_an_error_event(broken: LanguageModel, capfd: pytest.CaptureFixture[str]):
    with (
        served_runs([served_language_model(broken, "broken")]) as server,
        openai.OpenAI(base_url=f"{server.address}/v1", api_key="none", max_retries=0, timeout=60) as client,
    ):
        stream = client.completions.create(model="broken", prompt="the", max_tokens=9, stream=True)
        assert next(stream).choices[0].text
        with assert_refused(openai.APIError, "terminal") as event:
            list(stream)
        assert event.value.type == "server_error"
        with assert_refused(openai.InternalServerError, "terminal"):
            client.completions.create(model="broken", prompt="the", max_tokens=9)
    assert capfd.readouterr().err.count("RuntimeError: the wires crossed") == 2


@contextmanager
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """/score waits until the block is left."""
    over = threading.Event()

    def wait(*given: object) -> TextScoreAnswer:
        assert over.wait(60)
        return TextScoreAnswer(log_prob=None, perplexity=None, bits_per_byte=None, tokens=0, unknown=0, bytes=0)

    with monkeypatch.context() as patched:
        patched.setattr(verbs, "_score", wait)
        try:
            yield
        finally:
            over.set()


def test_a_verb_that_takes_too_long_is_broken_off_and_the_next_has_its_turn(
    lm: LanguageModel, monkeypatch: pytest.MonkeyPatch
):
    app = make_app(ServedModels([ServedModel("book", language_model=lm)]))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        with stuck(monkeypatch):
            app.state.seconds = 0.5
            late = client.post("/score", json={"text": "the cat"})
            assert late.status_code == 503
            assert "longer than 0.5 seconds" in late.json()["error"]["message"]
            assert late.headers["x-should-retry"] == "false"
            app.state.seconds = 60.0
            assert client.post("/next", json={"prompt": "the"}).status_code == 200
        assert client.post("/score", json={"text": "the cat"}).status_code == 200

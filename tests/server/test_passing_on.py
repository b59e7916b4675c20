"""Events of quick steps go to the event loop together; the first token of a text and its end never wait.

Labels of alternatives are made on a thread, and rows whose events nobody takes pause: others notice neither.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from copy import copy
from dataclasses import replace

import httpx
import numpy as np
import pytest

import thereafter
from served_runs import ServedRuns, served_language_model, served_runs
from thereafter.api import LanguageModel
from thereafter.decoding.sampling import Warping, generators
from thereafter.serving.engine import Engine
from thereafter.serving.engine_prompts import Events, RowEvent, TextRequest
from thereafter.serving.server import jobs
from thereafter.serving.server.texts import TokenLabels
from thereafter.text.tokenizers.byte_level import CharTokenizer
from waiting import run_async, wait_for

TOKENS = 40


@pytest.mark.parametrize(("seconds", "calls"), [(3600.0, 2), (0.0, TOKENS)])
def test_events_are_passed_on_in_order_and_together(seconds: float, calls: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jobs, "TOGETHER", seconds)
    lm = thereafter.train(text="the cat sat on the mat\n" * 3, tokens="char", order=3)
    engine = Engine(lm.model)
    passed_on: list[int] = []

    class Counted(jobs.Post):
        def _arrive(self, events: Events) -> None:
            passed_on.append(len(events))
            super()._arrive(events)

    async def ask() -> list[RowEvent]:
        post, events, ended = Counted(engine), [], asyncio.Event()

        def sink(event: RowEvent) -> None:
            events.append(event)
            if event.end:
                ended.set()

        nothing, unknown = np.empty(0, np.int32), lm.tokenizer.unknown_id
        forbidden = () if unknown is None else (unknown,)
        post.submit(TextRequest(nothing, TOKENS, Warping(), generators(1, 1)[0], forbidden=forbidden), sink)
        await asyncio.wait_for(ended.wait(), 60)
        return events

    try:
        events = run_async(ask())
    finally:
        engine.close()
    assert [event.token for event in events] == list(lm.stream("", TOKENS, seed=1))
    assert passed_on[0] == 1
    assert (len(passed_on), sum(passed_on)) == (calls, TOKENS)


class GatedTokenizer(CharTokenizer):
    """Labels wait while the gate is closed."""

    gate: threading.Event
    labels: list[int]

    def bytes_of(self, id: int) -> bytes:
        assert self.gate.wait(30)
        self.labels.append(id)
        return super().bytes_of(id)


@pytest.fixture
def gated() -> Iterator[LanguageModel]:
    lm = thereafter.train(text="the cat sat on the mat\n" * 3, tokens="char", order=3)
    tokenizer = copy(lm.tokenizer)
    tokenizer.__class__ = GatedTokenizer
    assert isinstance(tokenizer, GatedTokenizer)
    tokenizer.gate, tokenizer.labels = threading.Event(), []
    yield LanguageModel(replace(lm.trained, tokenizer=tokenizer))
    tokenizer.gate.set()


def asked(server: ServedRuns, **options: object) -> socket.socket:
    """A connection with a request on its way."""
    line = socket.create_connection(("127.0.0.1", int(server.address.rpartition(":")[2])), 30)
    body = json.dumps({"prompt": "the", **options}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n"
    line.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
    return line


@pytest.mark.parametrize("stream", [False, True])
def test_while_labels_are_made_others_are_answered_and_rows_do_not_run_ahead(gated: LanguageModel, stream: bool):
    rows, top = 8, 20
    most = rows * (jobs.MOST_UNREAD // (1 + top))
    with served_runs([served_language_model(gated, "gated")]) as server:
        engine = server.models.get().engine
        assert engine is not None
        with asked(server, n=rows, max_tokens=4_000, logprobs=top, stream=stream):
            wait_for(lambda: engine.tokens >= most)
            with httpx.Client(base_url=server.address, timeout=30) as other:
                assert other.get("/health").json()["status"] == "ok"
                answer = other.post("/v1/completions", json={"prompt": "the", "max_tokens": 50, "seed": 1})
                assert "the" + answer.json()["choices"][0]["text"] == gated.generate("the", 50, seed=1)
            assert engine.tokens == most + 50  # its rows have paused
            assert engine.rows == rows
        wait_for(lambda: engine.rows == 0, 20)  # the client has left; the labels are not made yet
        gated.tokenizer.gate.set()


def test_rows_that_paused_go_on_to_the_same_end(gated: LanguageModel, monkeypatch: pytest.MonkeyPatch):
    """With all alternatives, whoever waits for whom."""
    options = {"prompt": "the", "n": 3, "max_tokens": 300, "logprobs": 3, "seed": 7}
    tokenizer = gated.tokenizer
    assert isinstance(tokenizer, GatedTokenizer)
    answers = []
    for most in (8, 1 << 20):
        monkeypatch.setattr(jobs, "MOST_UNREAD", most)
        tokenizer.gate.clear()
        with served_runs([served_language_model(gated, "gated")]) as server:
            threading.Timer(0.2, tokenizer.gate.set).start()
            answer = httpx.post(f"{server.address}/v1/completions", json=options, timeout=60).json()
            answers.append(answer["choices"])
    assert answers[0] == answers[1]
    assert [len(choice["logprobs"]["tokens"]) for choice in answers[0]] == [300] * 3


def test_a_label_is_made_once(gated: LanguageModel):
    tokenizer = gated.tokenizer
    assert isinstance(tokenizer, GatedTokenizer)
    tokenizer.gate.set()
    labels = TokenLabels(tokenizer, "x")
    for _ in range(50):
        entry = labels.entry(3, -1.0, [(4, -2.0), (5, -3.0)])
    assert entry.top == {tokenizer.piece(4): -2.0, tokenizer.piece(5): -3.0, tokenizer.piece(3): -1.0}
    assert len(tokenizer.labels) <= 2 * 3  # after "x", and after themselves

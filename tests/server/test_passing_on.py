"""Events of quick steps go to the event loop together; the first token of a text and its end never wait."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import thereafter
from thereafter.decoding.sampling import generators
from thereafter.decoding.warping import Warping
from thereafter.server import jobs
from thereafter.serving.engine import Engine
from thereafter.serving.engine_rows import Events, RowEvent, TextRequest
from waiting import run_async

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

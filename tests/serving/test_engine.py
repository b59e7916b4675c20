"""The engine: rows come and go at any step, and nothing that happens to one is felt by another."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from stepping_models import Inbox, Last, Lonely, Upwards, V, ask

from refusals import assert_refused
from thereafter.decoding.sampling import Warping, generators
from thereafter.errors import BusyError, OptionError
from thereafter.models.base import Logs
from thereafter.serving.engine import Engine
from thereafter.serving.engine_prompts import PIECE, Events, TextRequest
from thereafter.serving.schema import EndingError
from waiting import run_async, wait_for

Start = Callable[..., Engine]


@pytest.fixture
def start() -> Iterator[Start]:
    engines: list[tuple[Upwards, Engine]] = []

    def begin(model: Upwards, **limits: int) -> Engine:
        engines.append((model, Engine(model, **limits)))
        return engines[-1][1]

    yield begin
    for model, engine in engines:
        model.gate.set()
        engine.close()


@pytest.mark.parametrize("kind", [Upwards, Lonely])
def test_rows_join_and_leave_at_any_step(start: Start, kind: type[Upwards]) -> None:
    model, inbox = kind(), Inbox()
    engine = start(model, most_rows=5)
    rng = np.random.default_rng(0)
    asked = []
    for number in range(40):
        first, count = 10 * number, int(rng.integers(1, 12))
        asked.append((engine.submit(ask(first, count, prompt=min(first, 3)), inbox.deliver), first, count))
        if number % 7 == 0:
            time.sleep(0.002)
    inbox.wait([row for row, _, _ in asked])
    for row, first, count in asked:
        assert inbox.tokens(row) == list(range(first + 1, first + count + 1))
        assert [event.end for event in inbox.events[row]] == [""] * (count - 1) + ["length"]
        assert row.written == count
    assert engine.tokens == sum(count for _, _, count in asked)
    assert max(model.together) == (5 if kind is Upwards else 1)
    assert engine.steps == len(model.together)
    wait_for(lambda: engine.rows == engine.waiting == 0)


def test_one_call_a_step_for_each_receiver(start: Start) -> None:
    model, one, other = Upwards(), Inbox(), Inbox()
    engine = start(model)
    model.gate.clear()
    first = engine.submit(ask(0, 30, prompt=0), one.deliver)
    one.wait_for_tokens(first, 1)
    rows = [engine.submit(ask(100 + number, 20), (one, other)[number % 2].deliver) for number in range(8)]
    model.gate.set()
    one.wait([first, *rows[::2]])
    other.wait(rows[1::2])
    assert other.calls == 20  # its four rows read their prompts together and have gone in step ever since
    assert 30 <= one.calls <= 31  # the first tokens of those that joined came by themselves
    assert max(model.together) == 9


def test_a_row_that_is_cancelled_leaves_before_the_next_step(start: Start) -> None:
    model, inbox = Upwards(), Inbox()
    engine = start(model, most_rows=2)
    model.gate.clear()
    rows = [engine.submit(ask(100 * number, 50, prompt=0 if number == 0 else 1), inbox.deliver) for number in range(3)]
    inbox.wait_for_tokens(rows[1], 1)
    assert model.at_gate.wait(60)
    wait_for(lambda: engine.waiting == 1)
    engine.cancel(rows[1])
    engine.cancel(rows[2])  # it has not begun
    assert engine.waiting == 0
    model.gate.set()
    inbox.wait(rows[:1])
    assert inbox.tokens(rows[0]) == list(range(1, 51))
    assert inbox.tokens(rows[1]) == [101]  # the step under way was its last, and nobody hears of it
    assert rows[2] not in inbox.events
    assert model.together[:3] == [2, 1, 1]
    engine.cancel(rows[0])  # it has ended: nothing happens


@pytest.mark.parametrize("kind", [Upwards, Lonely])
def test_a_row_whose_receiver_falls_behind_pauses_and_goes_on_where_it_stopped(start: Start, kind: type[Upwards]):
    inbox = Inbox()
    engine = start(kind(), most_rows=2)
    slow = [engine.submit(ask(first, 20, most_unread=8), inbox.deliver) for first in (100, 200)]
    inbox.wait([engine.submit(ask(300, 5), inbox.deliver) for _ in range(6)])  # paused rows take nobody's place
    assert [len(inbox.tokens(row)) for row in slow] == [8, 8]
    assert engine.rows == 2
    engine.acknowledge({slow[0]: 3})
    inbox.wait([engine.submit(ask(300, 5), inbox.deliver)])
    assert len(inbox.tokens(slow[0])) == 8  # not yet by half
    engine.acknowledge({slow[0]: 1, slow[1]: 8})
    inbox.wait_for_tokens(slow[0], 12)
    inbox.wait_for_tokens(slow[1], 16)
    engine.acknowledge(dict.fromkeys(slow, 8))
    inbox.wait(slow)
    for row, first in zip(slow, (100, 200), strict=True):
        assert inbox.tokens(row) == list(range(first + 1, first + 21))
    wait_for(lambda: engine.rows == 0)


def test_paused_rows_are_few_leave_when_cancelled_and_hear_of_the_end(start: Start):
    inbox = Inbox()
    engine = start(Upwards(), most_rows=1, most_waiting=2)
    rows = []
    for first in (100, 200, 300):
        rows.append(engine.submit(ask(first, 20, most_unread=2), inbox.deliver))
        inbox.wait_for_tokens(rows[-1], 2)
    last = engine.submit(ask(400, 5), inbox.deliver)
    wait_for(lambda: (engine.rows, engine.waiting) == (3, 1))  # as many paused rows as may be: whoever comes now waits
    assert last not in inbox.events
    engine.cancel(rows[1])
    inbox.wait([last])
    wait_for(lambda: engine.rows == 2)
    engine.close()
    assert [inbox.end_of(row) for row in rows] == ["ending", "", "ending"]
    with assert_refused(OptionError, "most_unread", 0):
        ask(0, 1, most_unread=0)


def test_a_full_queue_refuses_and_there_is_room_again_later(start: Start) -> None:
    model, inbox = Upwards(), Inbox()
    engine = start(model, most_rows=1, most_waiting=2)
    model.gate.clear()
    rows = [engine.submit(ask(0, 5, prompt=0), inbox.deliver)]
    assert model.at_gate.wait(60)
    rows += [engine.submit(ask(10, 5), inbox.deliver) for _ in range(2)]
    with assert_refused(BusyError, 2):
        engine.submit(ask(20, 5), inbox.deliver)
    assert (engine.rows, engine.waiting) == (1, 2)
    model.gate.set()
    inbox.wait(rows)
    inbox.wait([engine.submit(ask(20, 5), inbox.deliver)])


def test_what_cannot_be_generated_is_refused_at_once(start: Start) -> None:
    engine = start(Upwards())
    with pytest.raises(OptionError, match=f"expected 0 to {V - 1}"):
        engine.submit(ask(V + 5, 5), Inbox().deliver)
    with assert_refused(OptionError, 0):
        engine.score([np.array([V], dtype=np.int32)])
    with assert_refused(OptionError, "max_tokens", 0):
        ask(0, 0)
    with assert_refused(OptionError, "top", -1):
        ask(0, 1, top=-1)
    with assert_refused(OptionError, "most_rows", 0):
        Engine(Upwards(), most_rows=0)


def test_an_error_reaches_the_row_that_caused_it_and_no_other(start: Start) -> None:
    model, inbox = Upwards(bad=(205, 307, 498)), Inbox()
    engine = start(model)
    firsts = (100, 200, 300, 400, 500)
    rows = [engine.submit(ask(first, 20, prompt=3), inbox.deliver) for first in firsts]
    inbox.wait(rows)
    assert [inbox.end_of(row) for row in rows] == ["length", "error", "error", "length", "error"]
    assert inbox.tokens(rows[1]) == list(range(201, 206))
    assert inbox.tokens(rows[2]) == list(range(301, 308))
    assert inbox.tokens(rows[4]) == []  # while it read its prompt
    for row in (rows[1], rows[2], rows[4]):
        assert isinstance(inbox.events[row][-1].error, ZeroDivisionError)
    for row, first in ((rows[0], 100), (rows[3], 400)):
        assert inbox.tokens(row) == list(range(first + 1, first + 21))
    alone = engine.submit(ask(200, 20), inbox.deliver)
    inbox.wait([alone])
    assert inbox.end_of(alone) == "error"
    inbox.wait([engine.submit(ask(10, 5), inbox.deliver)])  # the thread is alive


class Narrow(Upwards):
    """Its predictions lack a word after some tokens."""

    def predict(self, state: Last) -> Logs:
        logp_BV = super().predict(state)
        return logp_BV[:, :0] if 503 in state.tokens else logp_BV


def test_an_error_of_no_row_in_particular_ends_all_and_the_engine_goes_on(start: Start) -> None:
    inbox = Inbox()
    engine = start(Narrow())
    rows = [engine.submit(ask(first, 20), inbox.deliver) for first in (500, 503)]
    inbox.wait(rows)
    assert [inbox.end_of(row) for row in rows] == ["error"] * 2
    assert all(isinstance(inbox.events[row][-1].error, Exception) for row in rows)
    again = engine.submit(ask(10, 5), inbox.deliver)
    inbox.wait([again])
    assert inbox.tokens(again) == [11, 12, 13, 14, 15]
    wait_for(lambda: engine.rows == 0)


def test_an_error_of_no_row_in_particular_ends_each_row_once(start: Start) -> None:
    class NarrowAlone(Narrow, Lonely):
        pass

    model, inbox = NarrowAlone(), Inbox()
    engine = start(model)
    model.gate.clear()
    first = engine.submit(ask(0, 30, prompt=0), inbox.deliver)
    assert model.at_gate.wait(60)
    rows = [engine.submit(ask(at, 20), inbox.deliver) for at in (100, 503)]  # they join together, the second in vain
    model.gate.set()
    inbox.wait([first, *rows])
    inbox.wait([engine.submit(ask(10, 5), inbox.deliver)])
    for row in (first, *rows):
        assert [event.end for event in inbox.events[row] if event.end] == ["error"]


class Lost(Upwards):
    """After some tokens its predictions are no numbers."""

    def predict(self, state: Last) -> Logs:
        logp_BV = super().predict(state)
        logp_BV[np.isin(state.tokens, (205, 300))] = np.nan
        return logp_BV


@pytest.mark.parametrize("top_k", [None, 3])
def test_a_row_without_numbers_ends_alone_in_an_error(start: Start, top_k: int | None) -> None:
    inbox = Inbox()
    engine = start(Lost())
    warping = Warping(top_k=top_k)
    rows = [engine.submit(ask(at, 20, prompt=3, warping=warping, top=2), inbox.deliver) for at in (100, 200, 300)]
    inbox.wait(rows)
    assert [inbox.end_of(row) for row in rows] == ["length", "error", "error"]
    assert inbox.tokens(rows[0]) == list(range(101, 121))
    assert inbox.tokens(rows[1]) == list(range(201, 206))
    assert inbox.tokens(rows[2]) == []
    assert isinstance(inbox.events[rows[1]][-1].error, FloatingPointError)


def test_an_engine_that_waits_keeps_nothing_of_cancelled_rows(start: Start) -> None:
    model, inbox = Upwards(), Inbox()
    engine = start(model)
    model.gate.clear()
    rows = [
        engine.submit(ask(100, 500), inbox.deliver),
        engine.submit(ask(7 * PIECE, 5, prompt=7 * PIECE), inbox.deliver),
    ]
    inbox.wait_for_tokens(rows[0], 1)
    assert model.at_gate.wait(60)
    for row in rows:
        engine.cancel(row)
    model.gate.set()
    wait_for(lambda: engine.rows == 0 and not any(batch.rows for batch in engine._batches))
    wait_for(lambda: not engine._prompts.rows)
    assert all(batch._state is None for batch in engine._batches)


def test_a_dead_end_is_an_end(start: Start) -> None:
    inbox = Inbox()
    engine = start(Upwards())
    rows = [engine.submit(ask(V - 4, 20), inbox.deliver), engine.submit(ask(V - 1, 20), inbox.deliver)]
    inbox.wait(rows)
    assert [inbox.end_of(row) for row in rows] == ["dead end"] * 2
    assert [len(inbox.tokens(row)) for row in rows] == [3, 0]


def test_a_receiver_that_fails_hears_nothing_more_and_stops_nobody(start: Start) -> None:
    model, inbox = Upwards(), Inbox()
    engine = start(model)
    calls = []

    def fail(events: Events) -> None:
        calls.append(events)
        raise RuntimeError("the loop is closed")

    engine.submit(ask(50, 20), fail)
    row = engine.submit(ask(0, 30, prompt=0), inbox.deliver)
    inbox.wait([row])
    assert len(calls) == 1
    wait_for(lambda: engine.rows == 0)


def test_a_long_prompt_is_read_in_pieces_and_stops_nobody(start: Start) -> None:
    model, inbox = Upwards(), Inbox()
    engine = start(model)
    model.gate.clear()
    row = engine.submit(ask(0, 30, prompt=0), inbox.deliver)
    inbox.wait_for_tokens(row, 1)
    long = engine.submit(ask(7 * PIECE, 3, prompt=7 * PIECE), inbox.deliver)
    scored = engine.score([np.arange(1, 5 * PIECE, dtype=np.int32)])
    model.gate.set()
    inbox.wait([row, long])
    assert inbox.tokens(long) == [7 * PIECE + k for k in (1, 2, 3)]
    assert not np.isneginf(scored.result(60)[0].log_probs).any()
    assert max(size for _, size in model.pieces) == PIECE
    assert len(model.pieces) >= 12
    assert len(model.together) >= 29  # a step between any two pieces while there are rows


def test_prompts_that_come_together_are_read_together(start: Start) -> None:
    model, inbox = Upwards(), Inbox()
    engine = start(model)
    model.gate.clear()
    first = engine.submit(ask(0, 12, prompt=0), inbox.deliver)
    assert model.at_gate.wait(60)
    rows = [engine.submit(ask(100 + 50 * number, 3, prompt=4 + number % 2), inbox.deliver) for number in range(6)]
    model.gate.set()
    inbox.wait([first, *rows])
    assert model.pieces == [(6, 4), (3, 1)]
    for number, row in enumerate(rows):
        assert inbox.tokens(row) == [100 + 50 * number + k for k in (1, 2, 3)]


def test_scores_are_those_of_the_whole_text(start: Start) -> None:
    engine = start(Upwards())
    texts = [np.arange(1, 400, dtype=np.int32), np.array([1, 2, 9], dtype=np.int32), np.empty(0, dtype=np.int32)]

    async def wait() -> list[object]:
        return list(await asyncio.wrap_future(engine.score(texts, top=2)))

    whole = engine.score(texts).result(60)
    assert [one.log_probs.shape for one in whole] == [(399,), (3,), (0,)]
    assert (whole[0].log_probs == 0).all()
    assert whole[1].log_probs.tolist() == [0, 0, -np.inf]
    assert all(not one.top for one in whole)
    with_top = run_async(wait())
    assert [len(one.top) for one in with_top] == [399, 3, 0]  # type: ignore[attr-defined]
    assert [top[0] for top in with_top[1].top] == [(1, 0.0), (2, 0.0), (3, 0.0)]  # type: ignore[attr-defined]


def test_a_score_that_fails_or_is_not_wanted_any_more_stops_nobody(start: Start) -> None:
    model = Upwards(bad=(7,))
    engine = start(model)
    with pytest.raises(ZeroDivisionError):
        engine.score([np.arange(1, 9, dtype=np.int32)]).result(60)
    model.gate.clear()
    engine.submit(ask(0, 3, prompt=0), Inbox().deliver)
    assert model.at_gate.wait(60)
    waiting = engine.score([np.arange(1, 5, dtype=np.int32)])
    assert waiting.cancel()
    model.gate.set()
    assert engine.score([]).result(60) == []
    wait_for(lambda: engine.waiting == 0)


def refuses(engine: Engine) -> bool:
    """Whether it is ending. A text that it still takes is taken back."""
    try:
        engine.cancel(engine.submit(ask(0, 5, prompt=0), Inbox().deliver))
    except EndingError:
        return True
    return False


def test_closing_ends_the_rows_in_flight_and_those_that_wait(start: Start) -> None:
    model, inbox = Upwards(), Inbox()
    engine = start(model, most_rows=2)
    model.gate.clear()
    rows = [engine.submit(ask(100, 50), inbox.deliver) for _ in range(4)]
    scored = engine.score([np.arange(1, 5 * PIECE, dtype=np.int32)])
    assert model.at_gate.wait(60)
    closing = threading.Thread(target=engine.close)
    closing.start()
    wait_for(lambda: refuses(engine))
    model.gate.set()
    closing.join(60)
    assert not closing.is_alive()
    assert [inbox.end_of(row) for row in rows] == ["ending"] * 4
    assert len(inbox.tokens(rows[0])) <= 2
    with pytest.raises(EndingError):
        scored.result(0)
    assert (engine.rows, engine.waiting) == (0, 0)
    engine.close()  # once more: nothing happens


def test_closing_with_patience_lets_rows_end_by_themselves(start: Start) -> None:
    inbox = Inbox()
    engine = start(Upwards(), most_rows=2)
    rows = [engine.submit(ask(100, 60), inbox.deliver) for _ in range(5)]
    engine.close(patience=60)
    assert [inbox.end_of(row) for row in rows] == ["length"] * 5


def test_the_likeliest_tokens_are_reported_beside_each(start: Start) -> None:
    inbox = Inbox()
    engine = start(Upwards())
    rows = [engine.submit(ask(10, 2, top=top), inbox.deliver) for top in (0, 3, 1, 2 * V)]
    inbox.wait(rows)
    for row, top in zip(rows, (0, 3, 1, V), strict=True):
        for token, event in enumerate(inbox.events[row], 11):
            assert len(event.top) == top
            assert event.log_prob == 0.0
            assert event.top[:1] == (((token, 0.0),) if top else ())


def test_a_row_has_its_own_settings(start: Start) -> None:
    inbox = Inbox()
    engine = start(Upwards())
    forbidden = TextRequest(np.array([5], dtype=np.int32), 4, Warping(), generators(0, 1)[0], forbidden=(8,))
    rows = [
        engine.submit(forbidden, inbox.deliver),
        engine.submit(ask(5, 4, warping=Warping(temperature=0)), inbox.deliver),
        engine.submit(ask(5, 4, warping=Warping(repetition_penalty=2.0, top_k=3)), inbox.deliver),
    ]
    inbox.wait(rows)
    assert [inbox.tokens(row) for row in rows] == [[6, 7], [6, 7, 8, 9], [6, 7, 8, 9]]
    assert [inbox.end_of(row) for row in rows] == ["dead end", "length", "length"]

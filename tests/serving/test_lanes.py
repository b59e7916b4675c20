"""Lanes: one piece of work at a time for each model, in order, while whoever waits keeps no thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from thereafter.serving.lanes import MOST, ModelLanes, Together
from thereafter.serving.schema import AbandonedError, EndingError
from waiting import run_async, wait_for


async def always() -> bool:
    return True


async def never() -> bool:
    return False


def test_a_lane_works_in_order_and_one_at_a_time():
    done: list[int] = []
    at_work = threading.Lock()

    def work(number: int) -> int:
        assert at_work.acquire(blocking=False), "two at once"
        done.append(number)
        at_work.release()
        return number

    async def main() -> list[int]:
        lanes = ModelLanes(4)
        answers = await asyncio.gather(*(lanes.run("a", lambda number=number: work(number)) for number in range(50)))
        assert lanes.users == 0
        lanes.close()
        return answers

    assert run_async(main()) == done == list(range(50))


def test_a_lane_that_is_busy_holds_up_no_other_and_those_who_wait_keep_no_thread():
    free = threading.Event()

    async def main() -> None:
        lanes = ModelLanes(2)
        slow = [asyncio.create_task(lanes.run("slow", lambda: free.wait(60))) for _ in range(100)]
        await asyncio.sleep(0)
        for number in range(20):  # with threads that wait for the lane none of the two would be left
            assert await asyncio.wait_for(lanes.run("other", lambda number=number: number), 30) == number
        assert lanes.users == 100
        free.set()
        assert all(await asyncio.gather(*slow))
        lanes.close()

    run_async(main())


def test_work_that_nobody_waits_for_is_not_begun():
    begun: list[str] = []

    async def main() -> None:
        lanes = ModelLanes()
        with pytest.raises(AbandonedError):
            await lanes.run("a", lambda: begun.append("nobody"), never)
        await lanes.run("a", lambda: begun.append("somebody"), always)
        lanes.close()

    run_async(main())
    assert begun == ["somebody"]


def test_an_error_belongs_to_who_asked_and_frees_the_lane():
    async def main() -> None:
        lanes = ModelLanes()
        with pytest.raises(ZeroDivisionError):
            await lanes.run("a", lambda: 1 // 0)
        assert await lanes.run("a", lambda: 1) == 1
        lanes.close()

    run_async(main())


def test_the_end_reaches_those_who_wait_and_those_whose_work_is_not_done():
    free = threading.Event()

    async def main() -> ModelLanes:
        lanes = ModelLanes(1)
        asked = [asyncio.create_task(lanes.run(key, lambda: free.wait(60))) for key in ("a", "a", "b")]
        await asyncio.sleep(0.01)
        lanes.close()
        errors = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(error) for error in errors] == [EndingError] * 3
        assert lanes.busy
        return lanes

    lanes = run_async(main())
    free.set()
    wait_for(lambda: not lanes.busy)


def test_questions_that_wait_are_answered_together_and_each_gets_its_own_answer():
    batches: list[list[int]] = []
    free = threading.Event()

    def work(key: str, questions: Sequence[int]) -> list[int | Exception]:
        free.wait(60)
        batches.append(list(questions))
        return [ValueError(question) if question % 7 == 3 else 10 * question for question in questions]

    async def main() -> list[int | BaseException]:
        lanes = ModelLanes()
        questions = Together(lanes, work)
        asked = [
            asyncio.create_task(questions.ask("a", number, never if number == 5 else always)) for number in range(40)
        ]
        await asyncio.sleep(0.01)
        free.set()
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert await questions.ask("a", 1, always) == 10
        lanes.close()
        return answers

    answers = run_async(main())
    assert [number for batch in batches for number in batch] == [number for number in range(40) if number != 5] + [1]
    assert max(map(len, batches)) == MOST
    for number, answer in enumerate(answers):
        if number == 5:
            assert isinstance(answer, AbandonedError)
        elif number % 7 == 3:
            assert isinstance(answer, ValueError)
        else:
            assert answer == 10 * number

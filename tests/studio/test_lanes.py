"""Lanes: one piece of work at a time for each model, in order, while whoever waits keeps no thread."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

import thereafter
from conftest import run_async, wait_for
from thereafter.studio.errors import EndingError, GoneError
from thereafter.studio.lanes import Lanes
from thereafter.studio.routes.prediction import KEPT, Predictions, questions_of
from thereafter.studio.studio import Studio
from thereafter.studio.together import MOST, Together
from thereafter.studio.verbs.prediction import predict


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
        lanes = Lanes(4)
        answers = await asyncio.gather(*(lanes.run("a", lambda number=number: work(number)) for number in range(50)))
        assert lanes.users == 0
        lanes.close()
        return answers

    assert run_async(main()) == done == list(range(50))


def test_a_lane_that_is_busy_holds_up_no_other_and_those_who_wait_keep_no_thread():
    free = threading.Event()

    async def main() -> None:
        lanes = Lanes(2)
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
        lanes = Lanes()
        with pytest.raises(GoneError):
            await lanes.run("a", lambda: begun.append("nobody"), never)
        await lanes.run("a", lambda: begun.append("somebody"), always)
        lanes.close()

    run_async(main())
    assert begun == ["somebody"]


def test_an_error_belongs_to_who_asked_and_frees_the_lane():
    async def main() -> None:
        lanes = Lanes()
        with pytest.raises(ZeroDivisionError):
            await lanes.run("a", lambda: 1 // 0)
        assert await lanes.run("a", lambda: 1) == 1
        lanes.close()

    run_async(main())


def test_the_end_reaches_those_who_wait_and_those_whose_work_is_not_done():
    free = threading.Event()

    async def main() -> Lanes:
        lanes = Lanes(1)
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
        lanes = Lanes()
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
            assert isinstance(answer, GoneError)
        elif number % 7 == 3:
            assert isinstance(answer, ValueError)
        else:
            assert answer == 10 * number


@pytest.mark.parametrize("model", ["ready:lstm", "ready:ngram", "ready:transformer"])
def test_an_answer_among_many_or_from_memory_is_the_one_alone_to_the_bit(
    ready_folder: Path, tmp_path: Path, model: str
):
    texts = ["the nurse" + " near the farmers" * (number % 6) + " \n the" * (number % 3) for number in range(30)]
    lm = thereafter.load(ready_folder / model.partition(":")[2])
    expected = [{"model": model} | predict(lm, text, 8) for text in texts]

    async def main() -> list[bytes]:
        studio = Studio(tmp_path, ready_folder)
        questions = questions_of(studio)
        found = await asyncio.gather(*(questions.ask(model, (text, 8), always) for text in [*texts, *texts]))
        studio.lanes.close()
        return found

    assert [json.loads(answer) for answer in run_async(main())] == [*expected, *expected]


def test_kept_answers_are_bounded_and_those_of_the_model_that_is_there(ready_folder: Path, tmp_path: Path):
    shutil.copytree(ready_folder / "ngram", tmp_path / "run")
    predictions = Predictions(Studio(tmp_path, ready_folder))
    first = predictions.answer("runs:run", [("the", 3)])
    assert predictions.answer("runs:run", [("the", 3)]) == first
    predictions.answer("runs:run", [(f"the {number}", 1) for number in range(KEPT + 10)] + [("the " * 5_000, 1)])
    (kept,) = predictions._kept.values()
    assert len(kept) == KEPT
    shutil.rmtree(tmp_path / "run")
    shutil.copytree(ready_folder / "lstm", tmp_path / "run")
    assert predictions.answer("runs:run", [("the", 3)]) != first

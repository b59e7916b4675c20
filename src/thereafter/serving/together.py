"""Questions that wait for one model are answered together: one turn, one thread and one look at the disk for all.

While a model works, further questions gather; at its next turn it answers all of them, up to `MOST`. The more people
ask at once, the less each of them costs. An answer does not depend on who else asked.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from thereafter.serving.errors import AbandonedError, EndingError
from thereafter.serving.lanes import ModelLanes, Wanted

MOST = 16
"""Questions of a turn: so few that the event loop, which sends all their answers, is never busy with them for long."""
Key = TypeVar("Key", bound=Hashable)
Question = TypeVar("Question")
Result = TypeVar("Result")


@dataclass(frozen=True)
class _Asked(Generic[Question, Result]):
    question: Question
    wanted: Wanted
    answer: asyncio.Future[Result]


class Together(Generic[Key, Question, Result]):
    """`work` answers questions of one key, on a thread: for each a result, or the error that one gets instead."""

    def __init__(
        self, lanes: ModelLanes, work: Callable[[Key, Sequence[Question]], Sequence[Result | Exception]]
    ) -> None:
        self._lanes, self._work = lanes, work
        self._waiting: dict[Key, deque[_Asked[Question, Result]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, key: Key, question: Question, wanted: Wanted) -> Result:
        """The answer to one question, asked together with all that wait for the same key."""
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        asked = _Asked(question, wanted, answer)
        if key in self._waiting:
            self._waiting[key].append(asked)
        else:
            self._waiting[key] = deque([asked])
            task = asyncio.create_task(self._answer_all(key))
            self._tasks.add(task)  # the loop itself keeps only a weak reference
            task.add_done_callback(self._tasks.discard)
        return await answer

    async def _answer_all(self, key: Key) -> None:
        """Turn after turn until no question of the key waits."""
        waiting = self._waiting[key]
        try:
            while waiting:
                async with self._lanes.turn(key):
                    await self._answer(key, [waiting.popleft() for _ in range(min(MOST, len(waiting)))])
        except EndingError as error:
            for asked in waiting:
                _give(asked, error)
        finally:
            del self._waiting[key]
            for asked in waiting:  # where this task was cancelled; answers that were given stay
                asked.answer.cancel()

    async def _answer(self, key: Key, batch: Sequence[_Asked[Question, Result]]) -> None:
        wanted = []
        for asked in batch:
            if await asked.wanted():
                wanted.append(asked)
            else:
                _give(asked, AbandonedError("nobody waits for the answer any more"))
        if not wanted:
            return
        questions = [asked.question for asked in wanted]
        results: Sequence[Result | Exception]
        try:
            results = await self._lanes.on_thread(lambda: self._work(key, questions))
        except Exception as error:  # it belongs to those who asked
            results = [error] * len(wanted)
        for asked, result in zip(wanted, results, strict=True):
            _give(asked, result)


def _give(asked: _Asked[Question, Result], result: Result | Exception) -> None:
    if asked.answer.done():  # whoever asked was cancelled
        return
    if isinstance(result, Exception):
        asked.answer.set_exception(result)
    else:
        asked.answer.set_result(result)

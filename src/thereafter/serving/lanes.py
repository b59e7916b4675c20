"""Whose turn it is: every model has a lane, in which one piece of work runs at a time, in the order it came.

Whoever waits for a turn waits on the event loop and keeps no thread. So a model with a long queue, or one that works
for long, holds up nobody but those who ask that model: others have lanes of their own, and page files are read on
threads that no model ever gets. Work that nobody waits for any more when its turn comes is not begun. Questions that
wait for one model may share a turn (`Together`).

Everything here but the work itself runs on the event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from thereafter.serving.schema import AbandonedError, EndingError

MOST_THREADS = 16
"""Models that work at the same time; each has one thread at most."""
Wanted = Callable[[], Awaitable[bool]]
"""Whether somebody still waits for an answer."""
T = TypeVar("T")


@dataclass
class _Lane:
    """A turn that is handed on in order. Unlike with a lock, all who wait for it can be sent away at once."""

    taken: bool = False
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)
    users: int = 0
    """Those who have the turn or wait for it; a lane without any is forgotten."""

    async def take(self) -> None:
        if not self.taken:
            self.taken = True
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.exception() is None:
                self.hand_on()  # it had just been given
            raise

    def hand_on(self) -> None:
        while self.waiting:
            place = self.waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self.taken = False


class ModelLanes:
    """A queue for every model, by any key, and the threads all of them share. `server` is its name in sentences."""

    def __init__(self, most: int = MOST_THREADS, *, server: str = "server") -> None:
        self._ending = f"the {server} is ending; try again when it has been started again"
        self._threads = ThreadPoolExecutor(most, thread_name_prefix="model")
        self._lanes: dict[Hashable, _Lane] = {}
        self._awaited: set[asyncio.Future[None]] = set()
        self._running: set[Future[Any]] = set()
        self._closed = False

    @property
    def users(self) -> int:
        """How many have a turn or wait for one, in all lanes."""
        return sum(lane.users for lane in self._lanes.values())

    @property
    def busy(self) -> bool:
        """Whether a thread is still at work; that may be so for a while after `close`."""
        return any(not one.done() for one in list(self._running))

    async def run(self, key: Hashable, work: Callable[[], T], wanted: Wanted | None = None) -> T:
        """Do a piece of work on a thread when its turn in the lane has come."""
        async with self.turn(key):
            if wanted is not None and not await wanted():
                raise AbandonedError("nobody waits for the answer any more")
            return await self.on_thread(work)

    @asynccontextmanager
    async def turn(self, key: Hashable) -> AsyncIterator[None]:
        """The lane of that key, for one user at a time."""
        self._check_open()
        lane = self._lanes.setdefault(key, _Lane())
        lane.users += 1
        try:
            await lane.take()
            try:
                yield
            finally:
                lane.hand_on()
        finally:
            lane.users -= 1
            if not lane.users:
                del self._lanes[key]

    async def on_thread(self, work: Callable[[], T]) -> T:
        """Do a piece of work on a thread, for those who have the turn. `close` ends the waiting, not the work."""
        self._check_open()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        running = self._threads.submit(work)
        self._awaited.add(done)
        self._running.add(running)
        running.add_done_callback(lambda _: _wake(loop, done))
        try:
            await done
        finally:
            self._awaited.discard(done)
            self._running = {one for one in self._running if not one.done()}
        return running.result()

    def close(self) -> None:
        """Nobody gets a turn any more, and whoever waits hears so; threads finish what they are at."""
        self._closed = True
        for done in [*self._awaited, *(place for lane in self._lanes.values() for place in lane.waiting)]:
            if not done.done():
                done.set_exception(EndingError(self._ending))
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _check_open(self) -> None:
        if self._closed:
            raise EndingError(self._ending)


def _wake(loop: asyncio.AbstractEventLoop, done: asyncio.Future[None]) -> None:
    """Tell the event loop that a thread is done, unless the loop has ended meanwhile."""

    def tell() -> None:
        if not done.done():
            done.set_result(None)

    try:
        loop.call_soon_threadsafe(tell)
    except RuntimeError:
        if not loop.is_closed():
            raise


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
    """Questions that wait for one model are answered together: one turn, one thread and one look at the disk for all.

    While a model works, further questions gather; at its next turn it answers all of them, up to `MOST`. The more
    people ask at once, the less each of them costs. An answer does not depend on who else asked. `work` answers
    questions of one key, on a thread: for each a result, or the error that one gets instead.
    """

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

"""What every route needs: the studio, a way to ask its models, and a router whose errors are documented.

Routes that ask a model are coroutines: they wait for the model's lane on the event loop, and the work runs on a thread,
the making of its JSON included. All others are plain functions on the threads that page files are read on, too.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeVar

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel

from thereafter.errors import ThereafterError
from thereafter.serving.errors import AbandonedError, EndingError
from thereafter.serving.guard import went_wrong
from thereafter.serving.schema import ERRORS, FailedAnswer
from thereafter.serving.shelf import Folders
from thereafter.studio.studio import Studio

if TYPE_CHECKING:
    from thereafter.language_model import LanguageModel
    from thereafter.task_model import TaskModel

ModelT = TypeVar("ModelT")
CardT = TypeVar("CardT")
T = TypeVar("T")


def make_router() -> APIRouter:
    """A router under /api that says which errors it answers with."""
    return APIRouter(prefix="/api", responses=ERRORS)


async def _studio(request: Request) -> Studio:  # a coroutine: a plain function would take a thread
    studio: Studio = request.app.state.studio
    return studio


async def _loaded(request: Request) -> AsyncIterator[Studio]:
    studio = await _studio(request)
    studio.check_loaded()
    async with request.app.state.turns:
        yield studio


MOST_AT_ONCE = 16
"""Plain functions that have a thread at the same time. Others wait without one, so that the page and its files, which
are read on the same threads, never queue up behind them."""
TheStudio = Annotated[Studio, Depends(_studio)]
LoadedStudio = Annotated[Studio, Depends(_loaded, scope="function")]
"""The studio once models can be asked; before that the answer is 503 with a sentence."""


class Visitor:
    """Who asks: works with models for as long as somebody waits for the answer."""

    def __init__(self, studio: Studio, request: Request) -> None:
        self.studio, self._request = studio, request

    async def waits(self) -> bool:
        """Whether the connection is still open."""
        return not await self._request.is_disconnected()

    async def ask(self, name: str, work: Callable[[LanguageModel], T]) -> T:
        """What a function makes of a language model, when it is its turn."""
        return await self._ask(self.studio.shelf, name, work)

    async def ask_task(self, name: str, work: Callable[[TaskModel], T]) -> T:
        """What a function makes of a task model, when it is its turn."""
        return await self._ask(self.studio.tasks, name, work)

    async def apart(self, key: str, work: Callable[[], T]) -> T:
        """Long work that needs no model of the shelf, in a lane of its own."""
        return await self.studio.lanes.run(key, work, self.waits)

    async def _ask(self, shelf: Folders[ModelT, CardT], name: str, work: Callable[[ModelT], T]) -> T:
        def borrow() -> T:
            with shelf.borrow(name) as model:
                return work(model)

        return await self.studio.lanes.run(name, borrow, self.waits)


async def _visitor(request: Request) -> Visitor:  # a coroutine: a plain function would take a thread
    studio = await _studio(request)
    studio.check_loaded()
    return Visitor(studio, request)


TheVisitor = Annotated[Visitor, Depends(_visitor)]
"""Who asks, once models can be asked; before that the answer is 503 with a sentence."""


@dataclass(frozen=True)
class Failure:
    """Why a model could not answer."""

    model: str
    error: Exception

    def answer(self) -> FailedAnswer:
        """The sentence for the page; what is the studio's own fault goes to the terminal as a whole."""
        if isinstance(self.error, ThereafterError):
            return FailedAnswer(model=self.model, error=str(self.error))
        logging.getLogger("uvicorn.error").error("%s could not answer", self.model, exc_info=self.error)
        return FailedAnswer(model=self.model, error=went_wrong("studio"))


async def attempt(name: str, answer: Awaitable[T]) -> T | Failure:
    """The answer of one of several models, or why there is none."""
    try:
        return await answer
    except (AbandonedError, EndingError):
        raise  # nobody waits for the others either
    except Exception as error:  # it is one model's alone
        return Failure(name, error)


def settle(attempts: Sequence[T | Failure]) -> list[T | FailedAnswer]:
    """What several models answer, a sentence for each that could not; the error itself where none could."""
    failures = [one for one in attempts if isinstance(one, Failure)]
    if len(failures) == len(attempts):
        raise failures[0].error
    return [one.answer() if isinstance(one, Failure) else one for one in attempts]


def part(attempts: Sequence[T | Failure]) -> tuple[list[T], list[FailedAnswer]]:
    """As `settle`: the answers, and the sentences."""
    settled = settle(attempts)
    failed = [one for one in settled if isinstance(one, FailedAnswer)]
    return [one for one in settled if not isinstance(one, FailedAnswer)], failed


def as_json(answer: BaseModel) -> bytes:
    """An answer as it goes over the wire; made on the thread that has worked it out."""
    return answer.model_dump_json().encode()


def reply(content: bytes) -> Response:
    """JSON that is ready to be sent."""
    return Response(content, media_type="application/json")


def reply_list(parts: Iterable[bytes | FailedAnswer]) -> Response:
    """A list of answers each of which is JSON already, but those of models that could not answer."""
    return reply(b"[" + b",".join(as_json(one) if isinstance(one, FailedAnswer) else one for one in parts) + b"]")

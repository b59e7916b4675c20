"""What every route needs: the studio, a way to ask its models, and a router whose errors are documented.

Routes that ask a model are coroutines: they wait for the model's lane on the event loop, and the work runs on a thread,
the making of its JSON included. All others are plain functions on the threads that page files are read on, too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Annotated, TypeVar

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel

from thereafter.serving.schema import ERRORS
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


def as_json(answer: BaseModel) -> bytes:
    """An answer as it goes over the wire; made on the thread that has worked it out."""
    return answer.model_dump_json().encode()


def reply(content: bytes) -> Response:
    """JSON that is ready to be sent."""
    return Response(content, media_type="application/json")


def reply_list(parts: Iterable[bytes]) -> Response:
    """A list of answers each of which is JSON already."""
    return reply(b"[" + b",".join(parts) + b"]")

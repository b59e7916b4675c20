"""How a function of a panel answers the page: where it is asked, what, by whom, and what goes back as JSON.

Each function declares its address below /api by one of these, and its panel has a router of FastAPI with all of them:

- `of_language_model`, `of_task_model`: a verb of one model; its parameters are the fields of the request, or it has one
  parameter `asked`, which is the request
- `of_language_models`: the same verb of each of several models, with a sentence for every model that cannot answer
- `answers`: a coroutine that is given the request and the visitor, and asks models in a way of its own
- `of_studio`: a plain function, which asks no model
- `converses`: a coroutine of a socket, which has been accepted, and the studio

A function stays what it is, and may be called without a server. What asks a model waits for its lane on the event loop
and works on a thread, the making of its JSON included; plain functions FastAPI runs on threads. So no model ever holds
up the event loop.

Arrays go into answers as plain lists: a number that is infinite or not a number becomes None, which JSON has as null.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, SupportsFloat, TypeVar, get_type_hints

from fastapi import APIRouter, Depends, Request, Response, WebSocket, WebSocketDisconnect
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, create_model

from thereafter.base.config import Table
from thereafter.errors import OptionError, ThereafterError
from thereafter.serving.guard import went_wrong
from thereafter.serving.schema import ERRORS, AbandonedError, Answer, Asked, EndingError, FailedAnswer, ModelName
from thereafter.serving.shelf import Folders
from thereafter.studio.studio import Studio

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from thereafter.language_model import LanguageModel
    from thereafter.task_model import TaskModel

T = TypeVar("T")
ModelT = TypeVar("ModelT")
CardT = TypeVar("CardT")
FunctionT = TypeVar("FunctionT", bound=Callable[..., object])
RespondT = TypeVar("RespondT", bound=Callable[..., Awaitable[bytes]])
VerbT = TypeVar("VerbT", bound=Callable[..., Answer | bytes])
Conversation = Callable[[WebSocket, Studio], Awaitable[None]]
Models = Annotated[list[ModelName], Field(min_length=1, max_length=6)]
ROUTERS: defaultdict[str, APIRouter] = defaultdict(partial(APIRouter, prefix="/api", responses=ERRORS))
"""The addresses of each panel, by the name of its module, once that is imported."""
BYTES = {"application/octet-stream": dict[str, object]()}


class Visitor:
    """Who asks: works with models for as long as `waits` says that somebody waits for the answer."""

    def __init__(self, studio: Studio, waits: Callable[[], Awaitable[bool]]) -> None:
        self.studio, self.waits = studio, waits

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


async def studio_of(request: Request) -> Studio:  # a coroutine: a plain function would take a thread
    studio: Studio = request.app.state.studio
    return studio


async def _loaded(request: Request) -> AsyncIterator[Studio]:
    studio = await studio_of(request)
    studio.check_loaded()
    async with request.app.state.turns:
        yield studio


async def _visitor(request: Request) -> Visitor:
    async def waits() -> bool:
        return not await request.is_disconnected()

    studio = await studio_of(request)
    studio.check_loaded()
    return Visitor(studio, waits)


TheStudio = Annotated[Studio, Depends(studio_of)]
LoadedStudio = Annotated[Studio, Depends(_loaded, scope="function")]
"""The studio once models can be asked; before that the answer is 503 with a sentence."""
TheVisitor = Annotated[Visitor, Depends(_visitor)]
"""Who asks, once models can be asked; before that the answer is 503 with a sentence."""


def of_language_model(path: str, name: str = "", *, file: str = "") -> Callable[[VerbT], VerbT]:
    """A verb of the language model that the field `model` names; `name` is its own name in the API, if another.

    One that returns bytes gives the content of a `file`.
    """
    return _of_model(path, name, Visitor.ask, file)


def of_task_model(path: str, name: str = "") -> Callable[[VerbT], VerbT]:
    """As `of_language_model`, of a task model."""
    return _of_model(path, name, Visitor.ask_task)


def _of_model(
    path: str, name: str, ask: Callable[[Visitor, str, Callable[[ModelT], bytes]], Awaitable[bytes]], file: str = ""
) -> Callable[[VerbT], VerbT]:
    def declare(verb: VerbT) -> VerbT:
        hints = get_type_hints(verb)
        request = hints.get("asked") or _request(verb, model=(ModelName, ...))

        async def respond(asked: Asked, visitor: Visitor) -> bytes:
            fields = dict(asked)
            name, parameters = fields.pop("model"), {"asked": asked} if "asked" in hints else fields
            return await ask(visitor, name, lambda model: as_json(verb(model, **parameters)))

        _add(path, verb, respond, request, hints["return"], name, file)
        return verb

    return declare


def of_language_models(path: str) -> Callable[[VerbT], VerbT]:
    """A verb of each of the language models that the field `models` names, one after the other; it gets their names."""

    def declare(verb: VerbT) -> VerbT:
        async def respond(asked: Asked, visitor: Visitor) -> bytes:
            fields = dict(asked)

            def ask(name: str) -> Awaitable[bytes]:
                return visitor.ask(name, lambda lm: as_json(verb(lm, **fields, name=name)))

            return join(await attempt_each(fields.pop("models"), ask))

        answer = GenericAlias(list, (get_type_hints(verb)["return"] | FailedAnswer,))
        _add(path, verb, respond, _request(verb, models=(Models, ...)), answer)
        return verb

    return declare


def _request(verb: Callable[..., object], **models: object) -> type[Asked]:
    """The request for a verb: the `models` that answer it, and its parameters; the `name` of a model is no field."""
    hints = get_type_hints(verb, include_extras=True)
    _, *parameters = inspect.signature(verb).parameters.values()
    defaults = {each.name: ... if each.default is each.empty else each.default for each in parameters}
    fields: Table = models | {name: (hints[name], default) for name, default in defaults.items() if name != "name"}
    title = verb.__name__.title().replace("_", "")
    return create_model(f"{title}Asked", __base__=Asked, **fields)


def answers(path: str, answer: object, name: str = "") -> Callable[[RespondT], RespondT]:
    """A coroutine of a request and its visitor, which gives the JSON of an `answer`."""

    def declare(respond: RespondT) -> RespondT:
        _add(path, respond, respond, get_type_hints(respond)["asked"], answer, name)
        return respond

    return declare


def _add(
    path: str,
    function: Callable[..., object],
    respond: Callable[[Asked, Visitor], Awaitable[bytes]],
    request: type[Asked],
    answer: object,
    name: str = "",
    file: str = "",
) -> None:
    """A route for a function: `respond` gets the request that FastAPI has checked."""

    async def route(asked: Asked, visitor: TheVisitor) -> Response:
        content = await respond(asked, visitor)
        return file_response(content, file) if file else Response(content, media_type="application/json")

    route.__annotations__ = {"asked": request, "visitor": TheVisitor, "return": Response}
    ROUTERS[function.__module__].add_api_route(
        path,
        route,
        methods=["POST"],
        name=name or function.__name__,
        description=about(function),
        response_class=Response if file else JSONResponse,
        response_model=None if file else answer,
        responses={200: {"content": BYTES, "description": "The file."}} if file else None,
    )


def of_studio(method: str, path: str) -> Callable[[FunctionT], FunctionT]:
    """A plain function, which asks no model; it gets the studio by a parameter of the type `TheStudio`."""

    def declare(function: FunctionT) -> FunctionT:
        loaded = [Depends(_loaded, scope="function")]
        router, description = ROUTERS[function.__module__], about(function)
        router.add_api_route(path, function, methods=[method], description=description, dependencies=loaded)
        return function

    return declare


def converses(path: str) -> Callable[[Conversation], Conversation]:
    """A coroutine of a socket and the studio; the page may close while something is sent to it."""

    def declare(converse: Conversation) -> Conversation:
        async def connect(socket: WebSocket) -> None:
            await socket.accept()
            with suppress(WebSocketDisconnect):
                await converse(socket, socket.app.state.studio)

        ROUTERS[converse.__module__].add_api_websocket_route(path, connect)
        return converse

    return declare


def file_response(content: bytes, name: str) -> Response:
    """A file that the browser saves by that name."""
    named = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type="application/octet-stream", headers=named)


def about(function: Callable[..., object]) -> str:
    """What the API says of a function: the first paragraph of its docstring."""
    return (inspect.getdoc(function) or "").partition("\n\n")[0]


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


async def attempt_each(
    names: Iterable[str], ask: Callable[[str], Awaitable[T]], *, together: bool = False
) -> list[T | FailedAnswer]:
    """What several models answer, a sentence for each that cannot; the error itself where none can.

    They are asked one after the other, or all `together`.
    """
    if together:
        results = await asyncio.gather(*(_attempt(name, ask(name)) for name in names))
    else:
        results = [await _attempt(name, ask(name)) for name in names]
    failures = [result for result in results if isinstance(result, Failure)]
    if len(failures) == len(results):
        raise failures[0].error
    return [result.answer() if isinstance(result, Failure) else result for result in results]


async def _attempt(name: str, answer: Awaitable[T]) -> T | Failure:
    try:
        return await answer
    except (AbandonedError, EndingError):
        raise  # nobody waits for the others either
    except Exception as error:  # it is one model's alone
        return Failure(name, error)


def part(results: Iterable[T | FailedAnswer]) -> tuple[list[T], list[FailedAnswer]]:
    """The answers of the models that could, and the sentences for the others."""
    settled = list(results)
    failed = [result for result in settled if isinstance(result, FailedAnswer)]
    return [result for result in settled if not isinstance(result, FailedAnswer)], failed


def join(results: Iterable[bytes | FailedAnswer]) -> bytes:
    """One list in JSON of what several models answer; each answer is JSON already."""
    return b"[" + b",".join(as_json(each) if isinstance(each, FailedAnswer) else each for each in results) + b"]"


def wrong_task(model: TaskModel, task: str) -> OptionError:
    """The error for a model that was trained to another task."""
    return OptionError(f"this model was trained to {model.task.name}; expected one trained to {task}; pick another")


def as_json(answer: BaseModel | bytes) -> bytes:
    """An answer as it goes over the wire; made on the thread that has worked it out."""
    return answer if isinstance(answer, bytes) else answer.model_dump_json().encode()


def number(value: SupportsFloat | None) -> float | None:
    """One number; what is None stays so."""
    return float(value) if value is not None and math.isfinite(value) else None


def numbers(values_N: ArrayLike) -> list[float | None]:
    """A row of numbers, in the precision they have."""
    import numpy as np

    array = np.asarray(values_N)
    row: list[float] = array.tolist()
    if np.isfinite(array).all():
        return list(row)
    return [number(value) for value in row]


class LikelyAnswer(Answer):
    """A token that may come, and its probability."""

    text: str
    p: float | None


def likely(pairs: Iterable[tuple[str, SupportsFloat]]) -> list[LikelyAnswer]:
    """Tokens that may come, each with its probability."""
    return [LikelyAnswer(text=text, p=number(p)) for text, p in pairs]


def rows(values_RN: Iterable[ArrayLike]) -> list[list[float | None]]:
    """Several rows of numbers."""
    return [numbers(values_N) for values_N in values_RN]


def nested(values: ArrayLike) -> list[object]:
    """An array of any shape and kind, as lists of lists."""
    import numpy as np

    array = np.asarray(values)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        array = np.where(np.isfinite(array), array.astype(object), np.array(None, dtype=object))
    plain: list[object] = array.tolist()
    return plain

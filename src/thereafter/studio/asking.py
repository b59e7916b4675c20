"""How a function of a panel answers the page: what it is asked, by whom, and what goes back as JSON.

Of a function that `panels.ADDRESSES` names, one of these says how it is asked:

- `of_language_model`, `of_task_model`: a verb of one model; the fields of the request are its parameters
- `of_language_models`: the same verb of each of several models, with a sentence for every model that cannot answer
- `answers`: a coroutine that is given the request and the visitor, and asks models in a way of its own
- none of them: a plain function, which asks no model

A function stays what it is, and may be called without a server. Nothing here knows the web framework: `app.py` makes
routes of these. A model is asked when its lane is free, and works on a thread, the making of its JSON included.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from types import GenericAlias
from typing import TYPE_CHECKING, TypeVar, get_type_hints

from pydantic import BaseModel

from thereafter.errors import ThereafterError
from thereafter.serving.guard import went_wrong
from thereafter.serving.schema import AbandonedError, Answer, Asked, EndingError, FailedAnswer
from thereafter.serving.shelf import Folders
from thereafter.studio.studio import Studio

if TYPE_CHECKING:
    from thereafter.language_model import LanguageModel
    from thereafter.task_model import TaskModel

T = TypeVar("T")
ModelT = TypeVar("ModelT")
CardT = TypeVar("CardT")
AskedT = TypeVar("AskedT", bound=Asked)
VerbT = TypeVar("VerbT", bound=Callable[..., Answer])


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


@dataclass(frozen=True)
class Endpoint:
    """A coroutine that answers a request, as JSON or as the bytes of a `file`, and how the API describes it."""

    respond: Callable[..., Awaitable[bytes]]
    asked: type[Asked]
    answer: object
    name: str
    about: str
    file: str = ""
    """The name that a browser saves the answer by; "" where it is JSON."""


ENDPOINTS: dict[Callable[..., object], Endpoint] = {}
"""What has been declared, by the function that a panel has."""


def of_language_model(asked: type[Asked], name: str = "") -> Callable[[VerbT], VerbT]:
    """A verb of the language model that the field `model` names; `name` is its own name in the API, if another."""
    return _of_model(asked, name, Visitor.ask)


def of_task_model(asked: type[Asked], name: str = "") -> Callable[[VerbT], VerbT]:
    """As `of_language_model`, of a task model."""
    return _of_model(asked, name, Visitor.ask_task)


def _of_model(
    asked: type[Asked], name: str, ask: Callable[[Visitor, str, Callable[[ModelT], bytes]], Awaitable[bytes]]
) -> Callable[[VerbT], VerbT]:
    def declare(verb: VerbT) -> VerbT:
        async def respond(asked: Asked, visitor: Visitor) -> bytes:
            fields = dict(asked)
            return await ask(visitor, fields.pop("model"), lambda model: as_json(verb(model, **fields)))

        return _declared(verb, respond, asked, name)

    return declare


def of_language_models(asked: type[Asked], name: str = "") -> Callable[[VerbT], VerbT]:
    """A verb of each of the language models that the field `models` names, one after the other; it gets their names."""

    def declare(verb: VerbT) -> VerbT:
        async def respond(asked: Asked, visitor: Visitor) -> bytes:
            fields = dict(asked)

            def ask(name: str) -> Awaitable[bytes]:
                return visitor.ask(name, lambda lm: as_json(verb(lm, **fields, name=name)))

            return join(await attempt_each(fields.pop("models"), ask))

        return _declared(verb, respond, asked, name, several=True)

    return declare


def answers(
    answer: object, name: str = "", *, file: str = ""
) -> Callable[[Callable[[AskedT, Visitor], Awaitable[bytes]]], Callable[[AskedT, Visitor], Awaitable[bytes]]]:
    """A coroutine of a request and its visitor, which gives the JSON of an `answer`, or the content of a `file`."""

    def declare(
        respond: Callable[[AskedT, Visitor], Awaitable[bytes]],
    ) -> Callable[[AskedT, Visitor], Awaitable[bytes]]:
        asked = get_type_hints(respond)["asked"]
        ENDPOINTS[respond] = Endpoint(respond, asked, answer, name or respond.__name__, about(respond), file)
        return respond

    return declare


def _declared(
    verb: VerbT, respond: Callable[..., Awaitable[bytes]], asked: type[Asked], name: str, *, several: bool = False
) -> VerbT:
    answer = get_type_hints(verb)["return"]
    answer = GenericAlias(list, (answer | FailedAnswer,)) if several else answer
    ENDPOINTS[verb] = Endpoint(respond, asked, answer, name or verb.__name__, about(verb))
    return verb


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


async def attempt_each(names: Iterable[str], ask: Callable[[str], Awaitable[T]]) -> list[T | Failure]:
    """What several models answer, asked one after the other, or why one does not."""
    return [await _attempt(name, ask(name)) for name in names]


async def attempt_together(names: Iterable[str], ask: Callable[[str], Awaitable[T]]) -> list[T | Failure]:
    """As `attempt_each`, all of them asked at once."""
    return await asyncio.gather(*(_attempt(name, ask(name)) for name in names))


async def _attempt(name: str, answer: Awaitable[T]) -> T | Failure:
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


def join(attempts: Sequence[bytes | Failure]) -> bytes:
    """As `settle`, as one list in JSON; each answer is JSON already."""
    return b"[" + b",".join(as_json(one) if isinstance(one, FailedAnswer) else one for one in settle(attempts)) + b"]"


def as_json(answer: BaseModel) -> bytes:
    """An answer as it goes over the wire; made on the thread that has worked it out."""
    return answer.model_dump_json().encode()

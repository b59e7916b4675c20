"""The verb `generate`: a whole text as an answer, or a text that grows on a socket while one watches and changes it.

On the socket a page says {"do": "start", ...} and gets pieces: number 0 is what is expected after the prompt, then
one for each token. `tokens` of `start` and of {"do": "more"} are how many the page has room for; no more are written
than that, so a page that is slow, hidden or gone never makes anything pile up.

A model has its turn for a few tokens at a time: others that ask it, or write from it, get theirs in between, and before
each it is asked whether anybody still waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from fastapi import Response, WebSocket, WebSocketDisconnect
from pydantic import Field, TypeAdapter, ValidationError

from thereafter.errors import ThereafterError
from thereafter.serving.errors import AbandonedError, NotThereError
from thereafter.serving.lanes import Wanted
from thereafter.serving.schema import Answer, Asked, ModelName, Prompt
from thereafter.studio.routes.common import TheVisitor, as_json, make_router, reply
from thereafter.studio.studio import Studio

if TYPE_CHECKING:
    from thereafter.language_model import LanguageModel
    from thereafter.studio.verbs.generation import Writer

router = make_router()
T = TypeVar("T")

PACE = 100.0
"""Tokens a second at most: more than anybody can watch."""
ROOM = 64
"""Tokens that can be asked for in advance."""
_SLICE = 4  # tokens of a turn

Temperature = Annotated[float, Field(ge=0, le=5, allow_inf_nan=False)]
TopK = Annotated[int, Field(ge=1, le=10_000)]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
Room = Annotated[int, Field(ge=0, le=ROOM)]


class Drawing(Asked):
    """How tokens are drawn; a temperature of 0 takes the likeliest, no `top_k` means all words."""

    temperature: Temperature = 1.0
    top_k: TopK | None = None


class GenerateAsked(Drawing):
    """Without a seed the text is another every time."""

    model: ModelName
    prompt: Prompt = ""
    max_new_tokens: Annotated[int, Field(ge=1, le=2000)] = 100
    seed: Seed | None = None


class GenerateAnswer(Answer):
    """`text` is the prompt and what the model says after it; `tokens` were drawn."""

    text: str
    tokens: int


class StartAsked(Drawing):
    do: Literal["start"]
    model: ModelName
    prompt: Prompt = ""
    seed: Seed | None = None
    tokens: Room = 16


class SetAsked(Drawing):
    do: Literal["set"]


class MoreAsked(Asked):
    do: Literal["more"]
    tokens: Room


class TurnAsked(Asked):
    do: Literal["pause", "resume", "stop"]


_Said = StartAsked | SetAsked | MoreAsked | TurnAsked
_SAID: TypeAdapter[_Said] = TypeAdapter(Annotated[_Said, Field(discriminator="do")])


@router.post("/generate", response_model=GenerateAnswer)
async def generate(asked: GenerateAsked, visitor: TheVisitor) -> Response:
    """The prompt and what a model says after it; no more of it is written once nobody waits for it."""
    pen = _Pen(visitor.studio, asked, visitor.waits)
    writer = await pen.begin()
    said = [asked.prompt]
    while writer.tokens < asked.max_new_tokens and not writer.ended:
        count = min(4 * _SLICE, asked.max_new_tokens - writer.tokens)
        said += await pen.write(writer, partial(_steps, count=count))
    return reply(as_json(GenerateAnswer(text="".join([*said, writer.end()]), tokens=writer.tokens)))


@router.websocket("/generating")
async def generating(socket: WebSocket) -> None:
    """A text that grows for as long as the socket is open."""
    await socket.accept()
    await _Session(socket, socket.app.state.studio).run()


class _Session:
    """One socket: what the page wants, and the text that is being written.

    One task hears and only notes down, so that a pause is heard at once; another works, and alone sends.
    """

    def __init__(self, socket: WebSocket, studio: Studio) -> None:
        self._socket, self._studio = socket, studio
        self._changed = asyncio.Event()
        self._closed = False
        self._complaints: deque[str] = deque(maxlen=8)
        self._order: StartAsked | None = None
        """The text that is to be written, None once it was stopped."""
        self._drawing = Drawing()
        self._room, self._paused = 0, False
        self._written: StartAsked | None = None
        """The order that `_writer` obeys."""
        self._writer: Writer | None = None

    async def run(self) -> None:
        """Work until the page has gone."""
        hearing = asyncio.create_task(self._hear())
        try:
            with suppress(WebSocketDisconnect, RuntimeError):  # a page may close while something is sent to it
                while not self._closed:
                    self._changed.clear()
                    await self._turn()
        finally:
            hearing.cancel()

    async def _hear(self) -> None:
        with suppress(WebSocketDisconnect, RuntimeError):
            while (message := await self._socket.receive())["type"] != "websocket.disconnect":
                try:
                    self._note(_SAID.validate_json(message.get("text") or message.get("bytes") or b""))
                except ValidationError as error:
                    self._complaints.append(_sentence(error))
                self._changed.set()
        self._closed = True
        self._changed.set()

    def _note(self, said: _Said) -> None:
        if isinstance(said, StartAsked):
            self._order, self._drawing, self._room, self._paused = said, said, said.tokens, False
        elif isinstance(said, SetAsked):
            self._drawing = said
        elif isinstance(said, MoreAsked):
            self._room = min(ROOM, self._room + said.tokens)
        elif said.do == "stop":
            self._order = None
        else:
            self._paused = said.do == "pause"

    async def _turn(self) -> None:
        """The one thing there is to do now; where there is none, wait until something was said."""
        if self._complaints:
            await self._send({"error": self._complaints.popleft()})
        elif self._order is not self._written:
            await self._begin(self._order)
        elif self._writer is not None and self._room and not self._paused:
            await self._write(self._writer)
        else:
            await self._changed.wait()

    async def _begin(self, order: StartAsked | None) -> None:
        self._written, self._writer = order, None
        if order is None:
            await self._send({"end": "stopped"})
            return
        try:
            pen = self._pen(order)
            writer = await pen.begin()
            first = await pen.write(writer, lambda writer: writer.shown())
        except AbandonedError:
            return
        except ThereafterError as error:
            self._complaints.append(str(error))
            return
        if self._order is order:
            self._writer = writer
            await self._send(first)

    def _pen(self, order: StartAsked) -> _Pen:
        async def wanted() -> bool:
            return not self._closed and self._order is order

        return _Pen(self._studio, order, wanted)

    async def _write(self, writer: Writer) -> None:
        clock = asyncio.get_running_loop()
        begun, order = clock.time(), self._order
        assert order is not None
        writer.set(self._drawing.temperature, self._drawing.top_k)
        try:
            count = min(self._room, _SLICE)
            pieces = await self._pen(order).write(writer, lambda writer: writer.write(count))
        except AbandonedError:
            return
        except ThereafterError as error:
            self._writer = None
            self._complaints.append(str(error))
            return
        if self._order is not order:
            return  # stopped or begun anew meanwhile: nobody wants these any more
        self._room = max(0, self._room - len(pieces))
        for piece in pieces:
            await self._send(piece)
        if writer.ended:
            self._writer = None
            await self._send({"end": "nothing can follow what is written; try another seed text"})
        await asyncio.sleep(begun + len(pieces) / PACE - clock.time())

    async def _send(self, message: dict[str, Any]) -> None:
        await self._socket.send_json(message)


class _Pen:
    """Writes one text with a model, turn by turn, for as long as it is wanted."""

    def __init__(self, studio: Studio, asked: GenerateAsked | StartAsked, wanted: Wanted) -> None:
        self._studio, self._asked, self._wanted = studio, asked, wanted

    async def begin(self) -> Writer:
        """The text at its beginning, the prompt read."""
        self._studio.check_loaded()

        def open_writer(lm: LanguageModel) -> Writer:
            from thereafter.studio.verbs.generation import Writer

            asked = self._asked
            return Writer(lm, asked.prompt, temperature=asked.temperature, top_k=asked.top_k, seed=asked.seed)

        return await self._turn(open_writer)

    async def write(self, writer: Writer, work: Callable[[Writer], T]) -> T:
        """A few tokens more."""

        def go_on(lm: LanguageModel) -> T:
            if lm is not writer.lm:
                name = self._asked.model
                raise NotThereError(f"the model {name!r} has been trained on meanwhile; try: generate again")
            return work(writer)

        return await self._turn(go_on)

    async def _turn(self, work: Callable[[LanguageModel], T]) -> T:
        name = self._asked.model

        def borrow() -> T:
            with self._studio.shelf.borrow(name) as lm:
                return work(lm)

        return await self._studio.lanes.run(name, borrow, self._wanted)


def _steps(writer: Writer, count: int) -> list[str]:
    return [writer.step() for _ in range(count)]


def _sentence(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"]) or "the message"
    return f"{where}: {first['msg']}"

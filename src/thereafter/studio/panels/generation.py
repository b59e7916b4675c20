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
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError

from thereafter.decoding.sampling import Warping, draw, generators
from thereafter.decoding.writing import Written
from thereafter.errors import ThereafterError
from thereafter.language_model import LanguageModel
from thereafter.models.neural import NeuralModel
from thereafter.models.quiet import NeuralState
from thereafter.serving.schema import AbandonedError, Answer, Asked, ModelName, NotThereError, Prompt
from thereafter.studio.asking import LikelyAnswer, Visitor, answers, as_json, converses, likely, rows
from thereafter.studio.studio import Studio
from thereafter.text.pretokenised_words import Restorer

if TYPE_CHECKING:
    from starlette.websockets import WebSocket


MOST_UNITS = 512
"""Units of a layer that are shown: more than a strip on a screen has pixels for."""
_DIGITS = 3
_TOP = 10
T = TypeVar("T")
PACE = 100.0
"""Tokens a second at most: more than anybody can watch."""
_SLICE = 4  # tokens of a turn


class GenerateAnswer(Answer):
    """`text` is the prompt and what the model says after it; `tokens` were drawn."""

    text: str
    tokens: int


class PieceAnswer(Answer):
    """What there is to see after a token: its `number`, the `text` that is certain by it, `state` a row of h for each
    layer (no rows where the model has none), `top` the likeliest next tokens."""

    number: int
    text: str
    state: list[list[float | None]]
    top: list[LikelyAnswer]


ROOM = 64
"""Tokens that can be asked for in advance."""
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
Room = Annotated[int, Field(ge=0, le=ROOM)]


class DrawingAsked(Asked):
    """How tokens are drawn; a temperature of 0 takes the likeliest, no `top_k` means all words."""

    temperature: Annotated[float, Field(ge=0, le=5, allow_inf_nan=False)] = 1.0
    top_k: Annotated[int, Field(ge=1, le=10_000)] | None = None


class GenerateAsked(DrawingAsked):
    """Without a seed the text is another every time."""

    model: ModelName
    prompt: Prompt = ""
    max_new_tokens: Annotated[int, Field(ge=1, le=2000)] = 100
    seed: Seed | None = None


class StartAsked(DrawingAsked):
    do: Literal["start"]
    model: ModelName
    prompt: Prompt = ""
    seed: Seed | None = None
    tokens: Room = 16


class SetAsked(DrawingAsked):
    do: Literal["set"]


class MoreAsked(Asked):
    do: Literal["more"]
    tokens: Room


class TurnAsked(Asked):
    do: Literal["pause", "resume", "stop"]


_Command = StartAsked | SetAsked | MoreAsked | TurnAsked
_COMMAND: TypeAdapter[_Command] = TypeAdapter(Annotated[_Command, Field(discriminator="do")])


class GrowingText:
    """A model that goes on from a prompt, for as long as somebody asks; how it draws may change between two tokens.

    With settings that stay the same it says what `lm.generate` says with them.
    """

    def __init__(
        self,
        lm: LanguageModel,
        prompt: str,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        seed: int | None = None,
    ) -> None:
        begin = lm.begin(prompt)
        self.lm = lm
        self.tokens = 0
        """How many were drawn so far."""
        self.ended = False
        """Nothing can follow, or `end` was called."""
        self._state, self._forbidden = begin.state, begin.forbidden
        self._logp_V = np.asarray(lm.model.predict(begin.state))[0]
        self._written = Written(lm.tokenizer, last=prompt[-1:])
        whole = lm.tokenizer.name == "word"
        self._restorer = None if lm.style is None else Restorer(lm.style, prompt, whole=whole)
        self._rng = generators(seed, 1)[0]
        self.set(temperature, top_k)

    def set(self, temperature: float, top_k: int | None) -> None:
        """Draw so from the next token on."""
        self._warping = Warping(temperature=temperature, top_k=top_k)

    def step(self) -> str:
        """Draw one token and read it: the text that is certain by it, which may be none."""
        warping = self._warping
        weights_V = None if self.ended else warping.weights(self._logp_V, forbidden=self._forbidden)
        if weights_V is None:
            return self.end()
        token = int(np.argmax(weights_V)) if warping.temperature == 0 else draw(weights_V, self._rng)
        text, self._written = self._written.add(token)
        logp, self._state = self.lm.model.step(np.array([token]), self._state)
        self._logp_V = np.asarray(logp)[0]
        self.tokens += 1
        return text if self._restorer is None else self._restorer.add(text)

    def end(self) -> str:
        """The rest of the text, since no more tokens come: the bytes of a character that was not finished."""
        rest = "" if self.ended else self._written.end()
        if self._restorer is not None:
            rest = self._restorer.add(rest) + self._restorer.end()
        self.ended = True
        return rest

    def write(self, count: int) -> list[PieceAnswer]:
        """`count` tokens, a piece for each; fewer where the text ends."""
        pieces: list[PieceAnswer] = []
        while len(pieces) < count and not self.ended:
            text = self.step()
            if text or not self.ended:
                pieces.append(self.piece(text))
        return pieces

    def piece(self, text: str = "") -> PieceAnswer:
        """What there is to see now; `text` came with the token that was drawn last."""
        likeliest = self.lm.likeliest(self._logp_V, _TOP)
        top = likely((self.lm.tokenizer.piece(token), p) for token, p in likeliest)
        return PieceAnswer(number=self.tokens, text=text, state=self._state_rows(), top=top)

    def _state_rows(self) -> list[list[float | None]]:
        model = self.lm.model
        if not isinstance(model, NeuralModel) or not isinstance(self._state, NeuralState):
            return []
        carried = model.carried(self._state)
        hidden = [carried[f"{layer}.{model.fields[0]}"][0, :MOST_UNITS] for layer in model.cells]
        # in float64, where 0.1 is written as 0.1
        return rows(np.round(h_U.double().cpu().numpy(), _DIGITS) for h_U in hidden)


class _Session:
    """One socket: what the page wants, and the text that is being written.

    One task receives commands and only notes them down, so that a pause is noticed at once; another one writes and
    sends.
    """

    def __init__(self, socket: WebSocket, studio: Studio) -> None:
        self._socket, self._studio = socket, studio
        self._changed = asyncio.Event()
        self._closed = False
        self._complaints: deque[str] = deque(maxlen=8)
        self._wanted: StartAsked | None = None
        """The text that is to be written, None once it was stopped."""
        self._drawing = DrawingAsked()
        self._room, self._paused = 0, False
        self._begun: StartAsked | None = None
        """The command that `_text` was begun by."""
        self._text: GrowingText | None = None

    async def run(self) -> None:
        """Work until the page has gone."""
        hearing = asyncio.create_task(self._hear())
        try:
            with suppress(RuntimeError):  # a page may close while something is sent to it
                while not self._closed:
                    self._changed.clear()
                    await self._turn()
        finally:
            hearing.cancel()

    async def _hear(self) -> None:
        with suppress(RuntimeError):
            while (message := await self._socket.receive())["type"] != "websocket.disconnect":
                try:
                    self._note(_COMMAND.validate_json(message.get("text") or message.get("bytes") or b""))
                except ValidationError as error:
                    first = error.errors()[0]
                    where = ".".join(str(part) for part in first["loc"]) or "the message"
                    self._complaints.append(f"{where}: {first['msg']}")
                self._changed.set()
        self._closed = True
        self._changed.set()

    def _note(self, command: _Command) -> None:
        if isinstance(command, StartAsked):
            self._wanted, self._drawing, self._room, self._paused = command, command, command.tokens, False
        elif isinstance(command, SetAsked):
            self._drawing = command
        elif isinstance(command, MoreAsked):
            self._room = min(ROOM, self._room + command.tokens)
        elif command.do == "stop":
            self._wanted = None
        else:
            self._paused = command.do == "pause"

    async def _turn(self) -> None:
        """The one thing there is to do now; where there is none, wait until the page asks for something."""
        if self._complaints:
            await self._send({"error": self._complaints.popleft()})
        elif self._wanted is not self._begun:
            await self._begin(self._wanted)
        elif self._text is not None and self._room and not self._paused:
            await self._write(self._text)
        else:
            await self._changed.wait()

    async def _begin(self, command: StartAsked | None) -> None:
        self._begun, self._text = command, None
        if command is None:
            await self._send({"end": "stopped"})
            return
        try:
            visitor = self._visitor(command)
            text = await _begin(visitor, command)
            first = await _go_on(visitor, command.model, text, lambda text: text.piece())
        except AbandonedError:
            return
        except ThereafterError as error:
            self._complaints.append(str(error))
            return
        if self._wanted is command:
            self._text = text
            await self._send(first)

    def _visitor(self, command: StartAsked) -> Visitor:
        async def wanted() -> bool:
            return not self._closed and self._wanted is command

        return Visitor(self._studio, wanted)

    async def _write(self, text: GrowingText) -> None:
        clock = asyncio.get_running_loop()
        started, command = clock.time(), self._wanted
        assert command is not None
        text.set(self._drawing.temperature, self._drawing.top_k)
        try:
            count = min(self._room, _SLICE)
            visitor = self._visitor(command)
            pieces = await _go_on(visitor, command.model, text, lambda text: text.write(count))
        except AbandonedError:
            return
        except ThereafterError as error:
            self._text = None
            self._complaints.append(str(error))
            return
        if self._wanted is not command:
            return  # stopped or begun anew meanwhile: nobody wants these any more
        self._room = max(0, self._room - len(pieces))
        for piece in pieces:
            await self._send(piece)
        if text.ended:
            self._text = None
            await self._send({"end": "nothing can follow what is written; try another seed text"})
        await asyncio.sleep(started + len(pieces) / PACE - clock.time())

    async def _send(self, message: PieceAnswer | dict[str, str]) -> None:
        await self._socket.send_json(message.model_dump() if isinstance(message, PieceAnswer) else message)


async def _begin(visitor: Visitor, asked: GenerateAsked | StartAsked) -> GrowingText:
    """A text at its beginning, the prompt read."""
    visitor.studio.check_loaded()

    def begin_text(lm: LanguageModel) -> GrowingText:
        return GrowingText(lm, asked.prompt, temperature=asked.temperature, top_k=asked.top_k, seed=asked.seed)

    return await visitor.ask(asked.model, begin_text)


async def _go_on(visitor: Visitor, name: str, text: GrowingText, work: Callable[[GrowingText], T]) -> T:
    """A few tokens more, when it is the turn of the model of that name."""

    def go_on(lm: LanguageModel) -> T:
        if lm is not text.lm:
            raise NotThereError(f"the model {name!r} has been trained on meanwhile; try: generate again")
        return work(text)

    return await visitor.ask(name, go_on)


def _steps(text: GrowingText, count: int) -> list[str]:
    return [text.step() for _ in range(count)]


@answers("/generate", GenerateAnswer)
async def generate(asked: GenerateAsked, visitor: Visitor) -> bytes:
    """The prompt and what a model says after it; no more of it is written once nobody waits for it."""
    text = await _begin(visitor, asked)
    parts = [asked.prompt]
    while text.tokens < asked.max_new_tokens and not text.ended:
        count = min(4 * _SLICE, asked.max_new_tokens - text.tokens)
        parts += await _go_on(visitor, asked.model, text, partial(_steps, count=count))
    return as_json(GenerateAnswer(text="".join([*parts, text.end()]), tokens=text.tokens))


@converses("/generating")
async def generating(socket: WebSocket, studio: Studio) -> None:
    """A text that grows for as long as the socket is open."""
    await _Session(socket, studio).run()

"""Completions in flight: who gets which event of the engine, and the answer as JSON, whole or while it is generated.

The engine calls `Post.deliver` once a step, on its own thread, with the events of all requests; one call goes on to the
event loop, which hands each event to the request it belongs to. Every call takes the interpreter and a core away from
the model for a moment, so steps go on together, those of a 25th of a second at a time: as often as a film has pictures.
A first token and a last one never wait.

A request takes its events when its client reads: those of log probabilities on a thread, since labels of alternatives
are many. What it has not taken yet is limited (`MOST_UNREAD`); beyond that its rows pause in the engine.

A stream is made of server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html): each is a line
`data: JSON` and an empty line; the last is `data: [DONE]`. Tokens that came while the one before was being sent go out
together. What goes wrong after the first event is an event with an `error`, and no [DONE] follows.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from time import monotonic

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from thereafter.base.version import __version__
from thereafter.errors import ThereafterError
from thereafter.language_model import LanguageModel
from thereafter.serving.engine import Engine
from thereafter.serving.engine_prompts import Events, RowEvent, ScoredTokens, TextRequest, TextRow
from thereafter.serving.schema import AbandonedError, EndingError
from thereafter.serving.server.protocol import WENT_WRONG, ChoiceAnswer, UsageAnswer, in_time, refusal, status_of
from thereafter.serving.server.texts import (
    ChoicePart,
    ChoiceWriter,
    ReadPrompt,
    TokenEntry,
    Wish,
    log_probs_of,
    prompt_entries,
)

Sink = Callable[[RowEvent], None]
TOGETHER = 0.04
"""Seconds in which the events of several steps are passed on as one."""
MOST_UNREAD = 4_096
"""Log probabilities of a row that may wait for their request, its alternatives included; without any: tokens."""
_MANY_EVENTS = 200  # events that a thread turns into text


class Post:
    """The rows of one engine and who waits for them; all but `deliver` runs on the event loop."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._loop = asyncio.get_running_loop()
        self._sinks: dict[TextRow, Sink] = {}
        self._gathered: Events = []  # these two are the engine's thread's alone
        self._passed_on = 0.0

    def submit(self, request: TextRequest, sink: Sink) -> TextRow:
        """Have a row generated, whose events go to `sink`."""
        row = self.engine.submit(request, self.deliver)
        self._sinks[row] = sink
        return row

    def cancel(self, row: TextRow) -> None:
        """Nobody waits for this row any more; nothing happens where it has ended."""
        if self._sinks.pop(row, None) is not None:
            self.engine.cancel(row)

    def deliver(self, events: Events) -> None:
        """Pass events on to the event loop, at once or with those of the next steps."""
        self._gathered += events
        urgent = any(event.end or row.written == 1 or row.must_pause for row, event in events)
        if urgent or monotonic() >= self._passed_on + TOGETHER:
            gathered, self._gathered, self._passed_on = self._gathered, [], monotonic()
            self._loop.call_soon_threadsafe(self._arrive, gathered)

    def _arrive(self, events: Events) -> None:
        for row, event in events:
            sink = self._sinks.pop(row, None) if event.end else self._sinks.get(row)
            if sink is not None:
                sink(event)


class CompletionJob:
    """A request in flight: `n` rows for every prompt, in the order of their choices."""

    def __init__(self, post: Post, lm: LanguageModel, prompts: Sequence[ReadPrompt], wish: Wish) -> None:
        self.prompts, self.wish = prompts, wish
        self.writers = [ChoiceWriter(lm, prompt, wish) for prompt in prompts for _ in range(wish.n)]
        self._post, self._lm = post, lm
        self._rows: list[TextRow] = []
        self._arrived: list[tuple[int, RowEvent]] = []
        self._changed = asyncio.Event()
        self._failure: Exception | None = None
        if wish.max_tokens:
            try:
                self._submit()
            except Exception:
                self.cancel()
                raise

    @property
    def done(self) -> bool:
        return all(writer.finished for writer in self.writers)

    @property
    def abandoned(self) -> bool:
        return isinstance(self._failure, AbandonedError)

    @property
    def completion_tokens(self) -> int:
        return sum(writer.tokens for writer in self.writers)

    async def read_prompts(self) -> None:
        """Where prompts are to be repeated, put them before their choices, with log p of their tokens."""
        if not self.wish.echo:
            return
        scored = None
        if self.wish.top is not None:
            scored = await self._score(self.wish.top)
        for number, prompt in enumerate(self.prompts):
            entries: list[TokenEntry] = []
            if scored is not None:
                top = self.wish.top or 0
                entries = await run_in_threadpool(prompt_entries, self._lm, prompt, scored[number], top)
            for writer in self.writers[number * self.wish.n : (number + 1) * self.wish.n]:
                writer.begin_with(prompt.text, entries)

    async def wait(self) -> None:
        """Until all choices are finished."""
        while True:
            await self._take()
            if self.done:
                return
            await self._change()

    async def parts(self) -> list[tuple[int, ChoicePart]]:
        """What is new, by choice, once there is something; nothing at the end."""
        while True:
            await self._take()
            parts = [(index, part) for index, writer in enumerate(self.writers) if not (part := writer.look()).empty]
            if parts or self.done:
                return parts
            await self._change()

    def abandon(self) -> None:
        """Whoever asked has gone."""
        self._fail(AbandonedError("nobody waits for the answer any more"))
        self.cancel()

    def cancel(self) -> None:
        """Take its rows out of the engine; nothing happens to those that have ended."""
        for row in self._rows:
            self._post.cancel(row)

    def _submit(self) -> None:
        unknown, wish, top = self._lm.tokenizer.unknown_id, self.wish, self.wish.top or 0
        forbidden = () if unknown is None else (unknown,)
        rows = ((prompt.ids, seed) for prompt in self.prompts for seed in wish.seeds())
        for index, (ids, seed) in enumerate(rows):
            unread = MOST_UNREAD // (1 + top)
            request = TextRequest(ids, wish.max_tokens, wish.warping, seed, top, forbidden, most_unread=unread)
            self._rows.append(self._post.submit(request, self._sink(index)))

    async def _score(self, top: int) -> list[ScoredTokens]:
        """log p of all prompts, unless the request fails before."""
        future = asyncio.wrap_future(self._post.engine.score([prompt.ids for prompt in self.prompts], top))
        future.add_done_callback(lambda _: self._changed.set())
        try:
            while not future.done():
                await self._change()
            return future.result()
        finally:
            future.cancel()

    def _sink(self, index: int) -> Sink:
        def arrive(event: RowEvent) -> None:
            if event.end == "ending":
                self._fail(EndingError("the server is ending; try again when it has been started again"))
            elif event.error is not None:
                self._fail(event.error)
            else:
                self._arrived.append((index, event))
                self._changed.set()

        return arrive

    async def _take(self) -> None:
        """Write what has arrived into its choices; rows that paused meanwhile go on."""
        if self.abandoned or not self._arrived:
            return
        arrived, self._arrived = self._arrived, []
        if self.wish.top is not None or len(arrived) > _MANY_EVENTS:
            await run_in_threadpool(self._write, arrived)
        else:
            self._write(arrived)
        self._post.engine.acknowledge(Counter(self._rows[index] for index, event in arrived if not event.end))
        for index in {index for index, _ in arrived}:
            if self.writers[index].finished:
                self._post.cancel(self._rows[index])

    def _write(self, events: list[tuple[int, RowEvent]]) -> None:
        for index, event in events:
            self.writers[index].take(event)

    def _fail(self, error: Exception) -> None:
        self._failure = self._failure or error
        self._changed.set()

    async def _change(self) -> None:
        """Until something is new; raises only when what came before a failure has been looked at."""
        if self._failure is not None:
            raise self._failure
        await self._changed.wait()
        self._changed.clear()


FINGERPRINT = f"thereafter-{__version__}"
_MANY = 500  # log probabilities, whose JSON takes so long that a thread makes it
_DONE = b"data: [DONE]\n\n"
_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]


def usage_of(job: CompletionJob) -> UsageAnswer:
    """Tokens read and written; a prompt counts once, however many texts follow it."""
    read = sum(prompt.size for prompt in job.prompts)
    return UsageAnswer(
        prompt_tokens=read, completion_tokens=job.completion_tokens, total_tokens=read + job.completion_tokens
    )


class Envelope:
    """What all parts of an answer have in common."""

    def __init__(self, model: str) -> None:
        self.id, self.created, self.model = f"cmpl-{secrets.token_hex(12)}", int(time.time()), model

    def whole(self, job: CompletionJob) -> bytes:
        """The answer of a job that is done. Each choice is a call of its own: nobody else runs during one."""
        choices = [_choice_json(index, writer.look(), job.wish.top) for index, writer in enumerate(job.writers)]
        return self._facts() + b",".join(choices) + b'],"usage":' + usage_of(job).model_dump_json().encode() + b"}"

    def frame(self, *, with_usage: bool) -> tuple[bytes, bytes]:
        """What stands before and after the choices of an event. It is written once: events are many and small."""
        return b"data: " + self._facts(), b'],"usage":null}\n\n' if with_usage else b"]}\n\n"

    def _facts(self) -> bytes:
        facts = {
            "id": self.id,
            "object": "text_completion",
            "created": self.created,
            "model": self.model,
            "system_fingerprint": FINGERPRINT,
        }
        return json.dumps(facts, separators=(",", ":"))[:-1].encode() + b',"choices":['


def _choice_json(index: int, part: ChoicePart, top: int | None) -> bytes:
    """A choice as JSON, without the detour over a model where there is nothing but text."""
    if top is not None:
        logprobs = log_probs_of(part.entries, top)
        answer = ChoiceAnswer(text=part.text, index=index, logprobs=logprobs, finish_reason=part.finish)
        return answer.model_dump_json().encode()
    finish = "null" if part.finish is None else f'"{part.finish}"'
    return f'{{"text":{json.dumps(part.text)},"index":{index},"logprobs":null,"finish_reason":{finish}}}'.encode()


@asynccontextmanager
async def watched(receive: Receive, job: CompletionJob, seconds: float) -> AsyncIterator[None]:
    """A job for as long as somebody waits for it, and no longer than that many seconds; then its rows are free."""

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        job.abandon()

    watching = asyncio.create_task(watch())
    try:
        async with in_time(seconds):
            yield
    finally:
        watching.cancel()
        job.cancel()


class EventStream(Response):
    """The parts of a job as they come; `ended` is called with the job when nothing more will be sent."""

    def __init__(
        self,
        job: CompletionJob,
        envelope: Envelope,
        *,
        with_usage: bool,
        seconds: float,
        ended: Callable[[CompletionJob], None],
    ) -> None:
        super().__init__(media_type="text/event-stream")
        self._job, self._envelope, self._with_usage = job, envelope, with_usage
        self._seconds, self._ended = seconds, ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def write(body: bytes, *, more: bool = True) -> None:
            await send({"type": "http.response.body", "body": body, "more_body": more})

        async def refuse(status: int, sentence: str) -> None:
            await write(b"data: " + json.dumps(refusal(status, sentence)).encode() + b"\n\n", more=False)

        try:
            async with watched(receive, self._job, self._seconds):
                await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
                await self._job.read_prompts()
                before, after = self._envelope.frame(with_usage=self._with_usage)
                while parts := await self._job.parts():
                    if sum(len(part.entries) for _, part in parts) * (1 + (self._job.wish.top or 0)) > _MANY:
                        await write(await run_in_threadpool(self._events, parts, before, after))
                    else:
                        await write(self._events(parts, before, after))
                usage = b""
                if self._with_usage:
                    usage = before + b'],"usage":' + usage_of(self._job).model_dump_json().encode() + b"}\n\n"
                await write(usage + _DONE, more=False)
        except AbandonedError:
            pass
        except ThereafterError as error:
            await refuse(status_of(error), str(error))
        except Exception:
            await refuse(500, WENT_WRONG)
            raise
        finally:
            self._ended(self._job)

    def _events(self, parts: list[tuple[int, ChoicePart]], before: bytes, after: bytes) -> bytes:
        """An event for each choice that has something new."""
        top = self._job.wish.top
        return b"".join(before + _choice_json(index, part, top) + after for index, part in parts)

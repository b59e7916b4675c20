"""Rows in flight, seen from the event loop: who gets which event, and a request as the rows it asked for.

The engine calls `Post.deliver` once a step, on its own thread, with the events of all requests; one call goes on to the
event loop, which hands each event to the request it belongs to. Every call takes the interpreter and a core away from
the model for a moment, so steps go on together, those of a 25th of a second at a time: as often as a film has pictures.
A first token and a last one never wait.

A request takes its events when its client reads: those of log probabilities on a thread, since labels of alternatives
are many. What it has not taken yet is limited (`MOST_UNREAD`); beyond that its rows pause in the engine.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from time import monotonic

from starlette.concurrency import run_in_threadpool

from thereafter.language_model import LanguageModel
from thereafter.serving.engine import Engine
from thereafter.serving.engine_prompts import Events, RowEvent, ScoredTokens, TextRequest, TextRow
from thereafter.serving.errors import AbandonedError, EndingError
from thereafter.serving.server.choices import ChoicePart, ChoiceWriter, TokenEntry, prompt_entries
from thereafter.serving.server.prompts import ReadPrompt, Wish

Sink = Callable[[RowEvent], None]
TOGETHER = 0.04
"""Seconds in which the events of several steps are passed on as one."""
MOST_UNREAD = 4_096
"""Log probabilities of a row that may wait for their request, its alternatives included; without any: tokens."""
_MANY = 200  # events that a thread turns into text


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
        unknown = self._lm.tokenizer.unknown_id
        index = 0
        for prompt in self.prompts:
            for seed in self.wish.seeds():
                request = TextRequest(
                    prompt=prompt.ids,
                    max_tokens=self.wish.max_tokens,
                    warping=self.wish.warping,
                    seed=seed,
                    top=self.wish.top or 0,
                    forbidden=() if unknown is None else (unknown,),
                    most_unread=MOST_UNREAD // (1 + (self.wish.top or 0)),
                )
                self._rows.append(self._post.submit(request, self._sink(index)))
                index += 1

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
        if self.wish.top is not None or len(arrived) > _MANY:
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

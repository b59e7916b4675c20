"""A completion as JSON: whole, or as server-sent events while it is generated.

https://html.spec.whatwg.org/multipage/server-sent-events.html: an event is a line `data: JSON` and an empty line; the
last is `data: [DONE]`. Tokens that came while the one before was being sent go out together. What goes wrong after the
first event is an event with an `error`, and no [DONE] follows.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from thereafter.base.version import __version__
from thereafter.errors import ThereafterError
from thereafter.serving.errors import AbandonedError
from thereafter.serving.server.choices import ChoicePart, log_probs_of
from thereafter.serving.server.jobs import CompletionJob
from thereafter.serving.server.refusals import WENT_WRONG, in_time, refusal, status_of
from thereafter.serving.server.wire import ChoiceAnswer, UsageAnswer

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
                await write((self._usage(before) if self._with_usage else b"") + _DONE, more=False)
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

    def _usage(self, before: bytes) -> bytes:
        return before + b'],"usage":' + usage_of(self._job).model_dump_json().encode() + b"}\n\n"

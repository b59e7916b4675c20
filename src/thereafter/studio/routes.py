"""Addresses of the studio that concern the studio itself; they are here from the start.

Which models there are and one of them as a page to take away, ready models and trainings, how far the start is, and
what changes by itself.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Response, WebSocket, WebSocketDisconnect
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from thereafter.errors import OptionError
from thereafter.ready.shipped import NAMES
from thereafter.serving.schema import ERRORS, TEXT_LIMIT, Answer, Asked, ModelName
from thereafter.serving.shelf import ModelAnswer
from thereafter.studio.asking import BYTES, LoadedStudio, TheStudio, TheVisitor, file_response
from thereafter.studio.commands import Corpus, Kind, Tokens, TrainingNumbers, numbers_of
from thereafter.studio.jobs import CurveAnswer, JobAnswer
from thereafter.studio.studio import ExportAnswer, MakingAnswer, StatusAnswer, Studio

MOST_AT_ONCE = 16
"""Plain functions that have a thread at the same time. Others wait without one, so that the page and its files, which
are read on the same threads, never queue up behind them."""
_EVERY = 0.3  # seconds between two looks at what changes by itself

ROUTER = APIRouter(prefix="/api", responses=ERRORS)


@ROUTER.get("/status")
async def status(studio: TheStudio) -> StatusAnswer:
    """How far the studio has got with starting."""
    return studio.stage.answer()


@ROUTER.get("/models")
def models(studio: TheStudio) -> list[ModelAnswer]:
    """Every model that can be picked: the ready ones, then the runs of the user's folder."""
    studio.check_loaded()
    return studio.shelf.cards()


class ExportAsked(Asked):
    model: ModelName


@ROUTER.get("/export/progress")
async def exporting(studio: TheStudio) -> ExportAnswer:
    """Which model is being exported as a page now, and how far that is."""
    return studio.exporting.answer()


@ROUTER.post(
    "/export", response_class=Response, responses={200: {"content": BYTES, "description": "The page as a file."}}
)
async def export(asked: ExportAsked, visitor: TheVisitor) -> Response:
    """A model as one page that works without a network, after its check. One at a time; others wait for their turn."""
    studio = visitor.studio
    content = await visitor.apart("export", lambda: studio.exporting.page(asked.model, studio.shelf.copy))
    return file_response(content, "model.html")


class ReadyModelAnswer(Answer):
    """`learns` is how much it is trained on, `score` what the shipped one reaches on
    what no training has seen; both in words.

    `minutes` is about what its training takes on one core of a processor of today.
    """

    name: str
    learns: str
    score: str
    shipped: bool
    minutes: float


class ReadyAnswer(Answer):
    models: list[ReadyModelAnswer]
    making: MakingAnswer


class AnewAsked(Asked):
    name: Literal[NAMES]  # type: ignore[valid-type]  # the names of a table


@ROUTER.get("/ready")
def ready(studio: LoadedStudio) -> ReadyAnswer:
    """The ready models, and how far a training of one is."""
    return _ready(studio)


@ROUTER.post("/ready/anew")
def anew(asked: AnewAsked, studio: LoadedStudio) -> ReadyAnswer:
    """Train a ready model anew, in a process of its own; it takes its place when it has ended."""
    if studio.stage.making:
        raise OptionError("the ready models are still being made; try again when that has ended")
    studio.making.begin_anew(asked.name)
    return _ready(studio)


def _ready(studio: Studio) -> ReadyAnswer:
    from thereafter.ready import models, shipped, tasks

    rows = []
    for one in (*models.READY, *tasks.READY_TASKS):
        is_shipped = shipped.is_shipped(one)
        score = shipped.in_words(shipped.cards()[one.name]["scores"]) if is_shipped else ""
        rows.append(ReadyModelAnswer.of(one, score=score, shipped=is_shipped))
    return ReadyAnswer(models=rows, making=studio.making.answer())


JobName = Annotated[
    str,
    Path(pattern=r"^[^/\\\x00]{1,200}$", description="A training of the list, by its name, which is that of its run."),
]


class TrainAsked(TrainingNumbers):
    """A text or the name of a corpus, one of the two. What is left out is chosen by the size of the text.

    `order` is for n-grams alone, `hidden`, `layers`, `minutes` and `epochs` for all others; what a kind of model does
    not have is not looked at.
    """

    model: Kind = "lstm"
    text: Annotated[str, Field(max_length=TEXT_LIMIT)] | None = None
    source: Corpus | None = None
    name: Annotated[str, Field(max_length=60)] = ""
    tokens: Tokens | None = None


@ROUTER.get("/jobs")
def jobs(studio: LoadedStudio) -> list[JobAnswer]:
    """All trainings: those of this studio, runs of the folder that were left unfinished, and what runs elsewhere."""
    return studio.jobs.all()


@ROUTER.post("/train")
def train(asked: TrainAsked, studio: LoadedStudio) -> JobAnswer:
    """Begin a training in a process of its own."""
    options = asked.model_dump(include=set(numbers_of(asked.model)), exclude_none=True)
    return studio.jobs.begin(
        asked.name, asked.model, text=asked.text, source=asked.source, tokens=asked.tokens, options=options
    )


@ROUTER.post("/jobs/{name}/pause")
def pause(name: JobName, studio: LoadedStudio) -> JobAnswer:
    """Pause a training: its state is saved."""
    return studio.jobs.pause(name)


@ROUTER.post("/jobs/{name}/resume")
def resume(name: JobName, studio: LoadedStudio) -> JobAnswer:
    """Go on with a training that was paused, stopped or left unfinished."""
    return studio.jobs.resume(name)


@ROUTER.post("/jobs/{name}/stop")
def stop(name: JobName, studio: LoadedStudio) -> JobAnswer:
    """Stop a training for good; the best weights so far stay."""
    return studio.jobs.stop(name)


@ROUTER.get("/jobs/{name}/curve")
def curve(name: JobName, studio: LoadedStudio) -> CurveAnswer:
    """The losses of a training so far."""
    return studio.jobs.curve(name)


@ROUTER.websocket("/events")
async def events(socket: WebSocket) -> None:
    """The snapshot of the studio at once, and again whenever it has changed."""
    studio: Studio = socket.app.state.studio
    await socket.accept()
    gone = asyncio.create_task(_until_closed(socket))
    last = None
    with suppress(WebSocketDisconnect, RuntimeError):  # a page may close while something is sent to it
        while not gone.done():
            now = await run_in_threadpool(studio.snapshot)
            if now != last:
                await socket.send_json(now.model_dump())
                last = now
            await asyncio.wait([gone], timeout=_EVERY)
    gone.cancel()


async def _until_closed(socket: WebSocket) -> None:
    """Pages say nothing here; whatever comes is taken and left alone."""
    with suppress(RuntimeError):
        while (await socket.receive())["type"] != "websocket.disconnect":
            pass

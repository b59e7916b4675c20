"""The web application: guard, page, charts, and the addresses that concern the studio itself, here from the start.

Which models there are and one of them as a page to take away, ready models and trainings, how far the start is, and
what changes by itself. Everything is served from this machine's disk.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal

from fastapi import APIRouter, FastAPI, Request, WebSocket, WebSocketDisconnect
from fastapi import Path as PathField
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.types import Lifespan, Receive, Scope, Send

from thereafter import __version__
from thereafter.base.config import Table
from thereafter.base.kinds import KINDS
from thereafter.base.packages import installed
from thereafter.errors import BusyError, MissingPackageError, OptionError, ThereafterError
from thereafter.ready.shipped import NAMES
from thereafter.serving.guard import AccessGuard
from thereafter.serving.schema import (
    ERRORS,
    TEXT_LIMIT,
    Answer,
    Asked,
    EndingError,
    ModelName,
    NotThereError,
    StartingError,
)
from thereafter.serving.shelf import ModelAnswer
from thereafter.studio import panels
from thereafter.studio.asking import BYTES, ROUTERS, LoadedStudio, TheStudio, TheVisitor, file_response
from thereafter.studio.jobs import CurveAnswer, JobAnswer
from thereafter.studio.panels import PANELS
from thereafter.studio.studio import ExportAnswer, MakingAnswer, StatusAnswer, Studio
from thereafter.studio.worker import Corpus, Kind, Tokens, TrainingNumbers, numbers_of

PAGE = Path(__file__).parent / "page"
LARGER_BODIES = {"/api/train": 10_000_000, "/api/tasks/caption": 2_800_000}
"""Bytes of a body by path, where that is more than elsewhere: a text to train on, a picture in base64."""
_STATUS = {NotThereError: 404, BusyError: 409, StartingError: 503, EndingError: 503}
_ABOUT = "The verbs of the studio. Each is a plain function of the library; errors are sentences."


MOST_AT_ONCE = 16
"""Plain functions that have a thread at the same time. Others wait without one, so that the page and its files, which
are read on the same threads, never queue up behind them."""
_EVERY = 0.3  # seconds between two looks at what changes by itself


def make_app(studio: Studio, *, token: str | None = None) -> FastAPI:
    """The application over a studio; `token` is demanded of everybody where it is given."""

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        studio.start()
        try:
            yield
        finally:
            await run_in_threadpool(studio.close)  # open sockets hear of it meanwhile

    app = _Application(studio, life)
    app.state.turns = asyncio.Semaphore(MOST_AT_ONCE)
    app.add_middleware(AccessGuard, token=token, larger=LARGER_BODIES, server="studio")
    app.include_router(ROUTER)
    app.add_exception_handler(ThereafterError, _sentence)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _plain)

    @app.get("/", include_in_schema=False)
    def page() -> FileResponse:
        return FileResponse(PAGE / "index.html", headers={"Cache-Control": "no-cache"})

    @app.get("/plotly.js", include_in_schema=False)
    def charts() -> FileResponse:
        return FileResponse(_plotly(), media_type="text/javascript", headers={"Cache-Control": "max-age=86400"})

    @app.get("/kinds.js", include_in_schema=False)
    def kinds() -> Response:
        """The kinds of model as a module of the page: what it says of them stands in `base/kinds.py` alone."""
        shown = ("name", "title", "colour", "on_dark", "sizes", "neural", "recurrent", "gated")
        rows = [{name: getattr(kind, name) for name in shown} for kind in KINDS.values()]
        module = f"// The kinds of model, oldest first.\nexport const KINDS = {json.dumps(rows, indent=1)};\n"
        return Response(module, media_type="text/javascript", headers={"Cache-Control": "no-cache"})

    @app.get("/openapi.json", include_in_schema=False)
    def description() -> JSONResponse:  # on a thread: all panels are imported
        return JSONResponse(app.openapi())

    app.mount("/page", _Fresh(directory=PAGE), name="page")
    return app


class _Application(FastAPI):
    """Adds the addresses of a panel when one of them is first asked for: till then nothing of it is imported."""

    def __init__(self, studio: Studio, lifespan: Lifespan[FastAPI]) -> None:
        super().__init__(
            title="thereafter studio",
            version=__version__,
            description=_ABOUT,
            lifespan=lifespan,
            docs_url=None,  # these two pages would be fetched from elsewhere
            redoc_url=None,
            openapi_url=None,  # see `description` in `make_app`
        )
        self.state.studio = self._studio = studio
        self._later = set(PANELS)
        self._lock = threading.Lock()
        self._not_found, self.router.default = self.router.default, self._add_and_answer

    def openapi(self) -> Table:
        """The description of all addresses, for which all panels are imported."""
        for panel in PANELS:
            self._add(panel)
        return super().openapi()

    async def _add_and_answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What is asked of an address that is not there: it may be one of a panel that has not been imported."""
        homes = {begin: panel for panel, begins in PANELS.items() for begin in begins}
        fitting = [begin for begin in homes if scope["path"].startswith(f"/api{begin}")]
        panel = homes[max(fitting, key=len)] if fitting else None
        if panel not in self._later:
            await self._not_found(scope, receive, send)
            return
        if scope["type"] == "http":
            self._studio.check_loaded()
        await run_in_threadpool(self._add, panel)
        await self.router(scope, receive, send)

    def _add(self, panel: str) -> None:
        """Import a panel and add its addresses, if that was not done yet."""
        with self._lock:
            if panel in self._later:
                name = f"{panels.__name__}.{panel}"
                import_module(name)
                self.include_router(ROUTERS[name])
                self._later.remove(panel)


class _Fresh(StaticFiles):
    """Files that a browser asks for again each time, so that an update is seen at once."""

    def file_response(
        self, full_path: str | os.PathLike[str], stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        answer = super().file_response(full_path, stat_result, scope, status_code)
        answer.headers["Cache-Control"] = "no-cache"
        return answer


def _plotly() -> Path:
    """plotly.js as the installed plotly package carries it: no network is needed."""
    if not installed("plotly"):
        raise MissingPackageError("the charts need the package 'plotly'; try: pip install plotly")
    import plotly

    return Path(plotly.__file__).parent / "package_data" / "plotly.min.js"


def _sentence(request: Request, error: Exception) -> JSONResponse:
    status = next((number for kind, number in _STATUS.items() if isinstance(error, kind)), 400)
    return JSONResponse({"error": str(error)}, status)


def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part != "body") or "the request"
    return JSONResponse({"error": f"{where[:80]}: {first['msg']}"}, 422)


def _plain(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    sentences = {404: "there is nothing at this address", 405: "this address is asked in another way"}
    sentence = sentences.get(error.status_code, str(error.detail))
    return JSONResponse({"error": sentence}, error.status_code, headers=error.headers)


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
    PathField(pattern=r"^[^/\\\x00]{1,200}$", description="A training of the list, by the name of its run."),
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

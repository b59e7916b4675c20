"""The web application over the runs of a server: guard, figures, routes, and the addresses under /v1.

These are completions, the list of models, and why there is no chat.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from thereafter import __version__
from thereafter.errors import ThereafterError
from thereafter.serving.lanes import ModelLanes
from thereafter.serving.schema import AbandonedError
from thereafter.serving.server import metrics, protocol, verbs
from thereafter.serving.server.jobs import CompletionJob, Envelope, EventStream, Post, watched
from thereafter.serving.server.metrics import Metrics
from thereafter.serving.server.models import ServedModel, ServedModels
from thereafter.serving.server.protocol import (
    INTRICATE_BODIES,
    LARGER_BODIES,
    CompletionRequest,
    ServedModelAnswer,
    ServedModelsAnswer,
    TextCompletionAnswer,
    refusal,
)
from thereafter.serving.server.texts import is_long, read_prompts, wish_of

SECONDS = 600.0
"""The longest that one request may take."""
_ABOUT = (
    "Runs over HTTP: the completions protocol of OpenAI under /v1, and the library's other verbs. Errors have the "
    "shape of OpenAI's; their message says what was got, what was expected and what to try."
)


def make_app(models: ServedModels, *, token: str | None = None, seconds: float = SECONDS) -> FastAPI:
    """The application; `token` is demanded of everybody where it is given, `seconds` is the longest answer."""

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        try:
            yield
        finally:
            lanes.close()
            await run_in_threadpool(models.close)

    app = FastAPI(
        title="thereafter serve",
        version=__version__,
        description=_ABOUT,
        lifespan=life,
        responses=protocol.RESPONSES,
        docs_url=None,  # these two pages would be fetched from elsewhere
        redoc_url=None,
    )
    lanes = ModelLanes(server="server")
    routers = (ROUTER, verbs.ROUTER, verbs.TOKENS, metrics.ROUTER)
    paths = [route.path for router in routers for route in router.routes if isinstance(route, APIRoute)]
    app.state.models, app.state.metrics, app.state.lanes = models, Metrics([*paths, "/openapi.json"]), lanes
    app.state.posts, app.state.seconds = {}, seconds
    app.add_middleware(
        protocol.CompletionsGuard,
        token=token,
        larger={**LARGER_BODIES, **verbs.LARGER_BODIES},
        intricate=INTRICATE_BODIES,
    )
    app.add_middleware(Counting, metrics=app.state.metrics)  # outside of the guard: what it refuses counts too
    for router in routers:
        app.include_router(router)
    app.add_exception_handler(ThereafterError, protocol.sentence)
    app.add_exception_handler(RequestValidationError, protocol.invalid)
    app.add_exception_handler(HTTPException, protocol.plain)
    return app


class Counting:
    """Counts every request with its status and its seconds; a stream is counted at its end."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.monotonic(), 500

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            path = "/v1/models/{name}" if scope["path"].startswith("/v1/models/") else scope["path"]
            self._metrics.request(path, status, time.monotonic() - begun)


ROUTER = APIRouter(prefix="/v1", tags=["OpenAI"])
OWNER = "thereafter"
_NO_CHAT = (
    "no run here is a chat model: a language model continues a text and knows neither roles nor a template that would "
    "turn messages into one; try /v1/completions with the text as its prompt"
)


@ROUTER.post(
    "/completions",
    response_model=TextCompletionAnswer,
    responses={200: {"content": {"text/event-stream": {}}}},  # events have no schema: each is text
)
async def complete(asked: CompletionRequest, request: Request) -> Response:
    """Continue prompts: texts, token ids, or lists of either. Streamed as server-sent events where `stream` is true."""
    state = request.app.state
    metrics: Metrics = state.metrics
    served: ServedModel = state.models.get(asked.model)
    lm = served.language_model_for("/v1/completions")
    wish = wish_of(asked)
    if is_long(asked):
        prompts = await run_in_threadpool(read_prompts, asked, wish, lm)
    else:
        prompts = read_prompts(asked, wish, lm)
    job = CompletionJob(_post(request, served), lm, prompts, wish)
    envelope = Envelope(served.name)

    def count(job: CompletionJob) -> None:
        metrics.tokens(job.completion_tokens)
        if job.abandoned:
            metrics.abandoned()

    if asked.stream:
        with_usage = bool(asked.stream_options and asked.stream_options.include_usage)
        return EventStream(job, envelope, with_usage=with_usage, seconds=state.seconds, ended=count)
    try:
        async with watched(request.receive, job, state.seconds):
            await job.read_prompts()
            await job.wait()
    except AbandonedError:
        return Response(status_code=499)  # nobody reads it
    finally:
        count(job)
    content = envelope.whole(job) if wish.top is None else await run_in_threadpool(envelope.whole, job)
    return Response(content, media_type="application/json")


@ROUTER.get("/models")
async def models(request: Request) -> ServedModelsAnswer:
    """The runs that are served."""
    served: ServedModels = request.app.state.models
    return ServedModelsAnswer(data=[_card(model) for model in served])


@ROUTER.get("/models/{name}")
async def model(name: str, request: Request) -> ServedModelAnswer:
    """One run."""
    served: ServedModels = request.app.state.models
    return _card(served.get(name))


@ROUTER.post("/chat/completions", status_code=404)
async def chat(request: Request) -> Response:
    """Refused: the message says why, and what to ask instead."""
    return JSONResponse(refusal(404, _NO_CHAT, "model", "not_a_chat_model"), 404)


def _card(model: ServedModel) -> ServedModelAnswer:
    return ServedModelAnswer(id=model.name, created=model.created, owned_by=OWNER)


def _post(request: Request, served: ServedModel) -> Post:
    """The rows of a run's engine in flight; made on the event loop when first needed."""
    posts: dict[str, Post] = request.app.state.posts
    if served.name not in posts:
        assert served.engine is not None
        posts[served.name] = Post(served.engine)
    return posts[served.name]

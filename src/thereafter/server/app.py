"""The web application over the runs of a server: guard, figures, routes."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from thereafter import __version__
from thereafter.errors import ThereafterError
from thereafter.server import completions, metrics, refusals, tokens, verbs
from thereafter.server.metrics import Metrics
from thereafter.server.models import ServedModels
from thereafter.server.wire import INTRICATE_BODIES, LARGER_BODIES
from thereafter.serving.lanes import ModelLanes

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
        responses=refusals.RESPONSES,
        docs_url=None,  # these two pages would be fetched from elsewhere
        redoc_url=None,
    )
    lanes = ModelLanes(server="server")
    app.state.models, app.state.metrics, app.state.lanes = models, Metrics(), lanes
    app.state.posts, app.state.seconds = {}, seconds
    app.add_middleware(
        refusals.CompletionsGuard,
        token=token,
        larger={**LARGER_BODIES, **verbs.LARGER_BODIES},
        intricate=INTRICATE_BODIES,
    )
    app.add_middleware(Counting, metrics=app.state.metrics)  # outside of the guard: what it refuses counts too
    for router in (completions.ROUTER, verbs.ROUTER, tokens.ROUTER, metrics.ROUTER):
        app.include_router(router)
    app.add_exception_handler(ThereafterError, refusals.sentence)
    app.add_exception_handler(RequestValidationError, refusals.invalid)
    app.add_exception_handler(HTTPException, refusals.plain)
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

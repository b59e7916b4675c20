"""The web application: guard, routes, the page and its charts. Everything is served from this machine's disk."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.types import Lifespan, Receive, Scope, Send

from thereafter import __version__
from thereafter.base.kinds import KINDS
from thereafter.base.packages import installed
from thereafter.errors import BusyError, MissingPackageError, ThereafterError
from thereafter.serving.guard import AccessGuard
from thereafter.serving.schema import EndingError, NotThereError, StartingError
from thereafter.studio import panels
from thereafter.studio.asking import ROUTERS
from thereafter.studio.panels import PANELS
from thereafter.studio.routes import MOST_AT_ONCE, ROUTER
from thereafter.studio.studio import Studio

PAGE = Path(__file__).parent / "page"
LARGER_BODIES = {"/api/train": 10_000_000, "/api/tasks/caption": 2_800_000}
"""Bytes of a body by path, where that is more than elsewhere: a text to train on, a picture in base64."""
_STATUS = {NotThereError: 404, BusyError: 409, StartingError: 503, EndingError: 503}
_ABOUT = "The verbs of the studio. Each is a plain function of the library; errors are sentences."


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

    def openapi(self) -> dict[str, Any]:
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

"""What every route needs: the studio, and a router whose errors are documented."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Request

from thereafter.studio.schema import ERRORS
from thereafter.studio.studio import Studio


def make_router() -> APIRouter:
    """A router under /api that says which errors it answers with."""
    return APIRouter(prefix="/api", responses=ERRORS)


def _studio(request: Request) -> Studio:
    found: Studio = request.app.state.studio
    return found


async def _loaded(request: Request) -> AsyncIterator[Studio]:
    found = _studio(request)
    found.check_loaded()
    async with request.app.state.turns:
        yield found


MOST_AT_ONCE = 16
"""Requests to models that have a thread at the same time. Others wait without one, so that the page and its files,
which are read on threads too, never queue up behind them."""
TheStudio = Annotated[Studio, Depends(_studio)]
LoadedStudio = Annotated[Studio, Depends(_loaded, scope="function")]
"""The studio once models can be asked; before that the answer is 503 with a sentence."""

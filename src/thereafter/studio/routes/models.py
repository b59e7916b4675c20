"""Which models there are, and how far the studio has got with starting."""

from __future__ import annotations

from thereafter.serving.schema import Answer
from thereafter.serving.shelf import ModelAnswer
from thereafter.studio.routes.common import TheStudio, make_router

router = make_router()


class StatusAnswer(Answer):
    """`making` is the ready model being trained, "" when all are there; `share` of them is done, 0 to 1."""

    loaded: bool
    making: str
    share: float
    note: str


@router.get("/status")
async def status(studio: TheStudio) -> StatusAnswer:
    """How far the studio has got with starting."""
    return StatusAnswer(**studio.stage.facts())


@router.get("/models")
def models(studio: TheStudio) -> list[ModelAnswer]:
    """Every model that can be picked: the ready ones, then the runs of the user's folder."""
    studio.check_loaded()
    return studio.shelf.cards()

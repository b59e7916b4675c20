"""Which models there are, and how far the studio has got with starting."""

from __future__ import annotations

from thereafter.serving.shelf import ModelAnswer
from thereafter.studio.answers.training import StatusAnswer
from thereafter.studio.routes.common import TheStudio, make_router

router = make_router()


@router.get("/status")
async def status(studio: TheStudio) -> StatusAnswer:
    """How far the studio has got with starting."""
    return studio.stage.answer()


@router.get("/models")
def models(studio: TheStudio) -> list[ModelAnswer]:
    """Every model that can be picked: the ready ones, then the runs of the user's folder."""
    studio.check_loaded()
    return studio.shelf.cards()

"""Which models there are, one of them as a page to take away, and how far the studio has got with starting."""

from __future__ import annotations

from fastapi import Response

from thereafter.serving.schema import Asked, ModelName
from thereafter.serving.shelf import ModelAnswer
from thereafter.studio.answers.training import ExportAnswer, StatusAnswer
from thereafter.studio.routes.common import TheStudio, TheVisitor, make_router

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


class ExportAsked(Asked):
    model: ModelName


@router.get("/export/progress")
async def exporting(studio: TheStudio) -> ExportAnswer:
    """Which model is being exported as a page now, and how far that is."""
    return studio.exporting.answer()


@router.post(
    "/export",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}, "description": "The page as a file."}},
)
async def export(asked: ExportAsked, visitor: TheVisitor) -> Response:
    """A model as one page that works without a network, after its check. One at a time; others wait for their turn."""
    studio = visitor.studio
    content = await visitor.apart("export", lambda: studio.exporting.page(asked.model, studio.shelf.copy))
    named = {"Content-Disposition": 'attachment; filename="model.html"'}
    return Response(content, media_type="application/octet-stream", headers=named)

"""The panel Drawing: a new picture, or one that is drawn again, stroke by stroke."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import Response
from pydantic import Field

from thereafter.serving.schema import Asked, ModelName
from thereafter.studio.answers.drawing import DrawingAnswer
from thereafter.studio.routes.common import TheVisitor, as_json, make_router, reply
from thereafter.studio.routes.glimpsing import PictureAsked, open_picture

if TYPE_CHECKING:
    from thereafter.task_model import TaskModel

router = make_router()


class NewDrawingAsked(Asked):
    """`seed`: which new picture; the same one gives the same picture."""

    model: ModelName
    seed: Annotated[int, Field(ge=0, le=999_999)] = 0


@router.post("/tasks/draw/new", response_model=DrawingAnswer)
async def draw_new(asked: NewDrawingAsked, visitor: TheVisitor) -> Response:
    """A new picture from the prior: the canvas after every stroke, and the window it was written through."""

    def work(model: TaskModel) -> bytes:
        from thereafter.studio.verbs import drawing as verbs

        return as_json(verbs.draw_new(model, asked.seed))

    return reply(await visitor.ask_task(asked.model, work))


@router.post("/tasks/draw", response_model=DrawingAnswer)
async def draw_again(asked: PictureAsked, visitor: TheVisitor) -> Response:
    """A picture as a network draws it: canvases, windows, and the nats of every stroke."""

    def work(model: TaskModel) -> bytes:
        from thereafter.studio.verbs import drawing as verbs

        opened = open_picture(asked, model, verbs.drawer_of(model)[1], 0)
        return as_json(verbs.draw_again(model, opened))

    return reply(await visitor.ask_task(asked.model, work))

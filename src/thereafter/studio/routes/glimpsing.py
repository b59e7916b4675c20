"""The panel Glimpses: where a network looked at a picture, what it saw, and what it believed after each glimpse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import Response
from pydantic import Field

from thereafter.serving.schema import Asked, ModelName
from thereafter.studio.answers.glimpsing import GlimpsedAnswer
from thereafter.studio.routes.captioning import LONGEST, Number
from thereafter.studio.routes.common import TheVisitor, as_json, make_router, reply

if TYPE_CHECKING:
    from thereafter.studio.verbs.digit_pictures import OpenedDigit
    from thereafter.task_model import TaskModel
    from thereafter.vision.pictures.codec import PictureCodec

router = make_router()


class PictureAsked(Asked):
    """`source`: a "made" picture or one "held-out" by the run, both by `number`; a "drawn" digit, which `number` puts
    somewhere, `ink` being 28 rows of 28 pixels, a hexadecimal digit each; or the visitor's "own" file `picture` in
    base64."""

    model: ModelName
    source: Literal["made", "held-out", "drawn", "own"] = "made"
    number: Number = 0
    ink: Annotated[str, Field(pattern="^(|[0-9a-f]{784})$")] = ""
    picture: Annotated[str, Field(max_length=LONGEST)] = ""


@router.post("/tasks/glimpse", response_model=GlimpsedAnswer)
async def glimpse(asked: PictureAsked, visitor: TheVisitor) -> Response:
    """A picture, the places a network looked at, what it saw there, and what it believed after each glimpse."""

    def work(model: TaskModel) -> bytes:
        from thereafter.studio.verbs import glimpsing as verbs

        opened = open_picture(asked, model, verbs.glimpse_codec(model), verbs.PIECES)
        return as_json(verbs.glimpse(model, opened))

    return reply(await visitor.ask_task(asked.model, work))


def open_picture(asked: PictureAsked, model: TaskModel, codec: PictureCodec, pieces: int) -> OpenedDigit:
    """The picture that is asked for; a made one has so many pieces of other digits."""
    from thereafter.studio.verbs import digit_pictures as opening

    if asked.source == "own":
        return opening.open_digit_file(asked.picture)
    if asked.source == "drawn":
        return opening.open_digit_drawn(asked.ink, asked.number, codec)
    if asked.source == "held-out":
        return opening.open_digit_held_out(model, asked.number)
    return opening.open_digit_made(asked.number, codec, pieces)

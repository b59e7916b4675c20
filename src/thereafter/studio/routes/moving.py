"""The panel Moving digits: what is believed of a clip after every frame, and the frames that come next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import Query, Response
from pydantic import Field

from thereafter.serving.schema import Asked, ModelName
from thereafter.studio.answers.moving import DigitAnswer, ForeseenAnswer, WatchedAnswer
from thereafter.studio.routes.common import LoadedStudio, TheVisitor, as_json, make_router, reply

if TYPE_CHECKING:
    from thereafter.studio.verbs.clips import OpenedClip
    from thereafter.task_model import TaskModel
    from thereafter.vision.clips.clip import ClipCodec

router = make_router()


class ClipAsked(Asked):
    """`source`: a "made" clip of written digits or one "held-out" by the run, both by `number`; or a "drawn" digit.

    `ink`: 28 rows of 28 pixels, a hexadecimal digit each, 0 to f; `direction` is where it begins to go, in sixteenths
    of a turn counter-clockwise from the right; `speed` in pixels a frame.
    """

    model: ModelName
    source: Literal["made", "held-out", "drawn"] = "made"
    number: Annotated[int, Field(ge=0, le=1_000_000, description="Which clip of its source.")] = 0
    ink: Annotated[str, Field(pattern="^(|[0-9a-f]{784})$")] = ""
    direction: Annotated[int, Field(ge=0, le=15)] = 0
    speed: Annotated[float, Field(ge=1, le=6)] = 3.0


@router.get("/tasks/video/digit")
def digit(studio: LoadedStudio, number: Annotated[int, Query(ge=0, le=1_999)] = 7) -> DigitAnswer:
    """A written digit to begin a drawing with: the last figure of the number."""
    from thereafter.studio.verbs.clips import written_digit

    return written_digit(number)


@router.post("/tasks/video", response_model=WatchedAnswer)
async def watch(asked: ClipAsked, visitor: TheVisitor) -> Response:
    """A clip, and what a model believes of each column of labels after every frame."""

    def work(model: TaskModel) -> bytes:
        from thereafter.studio.verbs import moving as verbs

        codec = verbs.codec_of(model, "video")
        return as_json(verbs.watch(model, _open(asked, model, codec, verbs.FRAMES)))

    return reply(await visitor.ask_task(asked.model, work))


@router.post("/tasks/next-frames", response_model=ForeseenAnswer)
async def foresee(asked: ClipAsked, visitor: TheVisitor) -> Response:
    """The last frames of a clip as a model expects them from those before, beside what came."""

    def work(model: TaskModel) -> bytes:
        from thereafter.studio.verbs import moving as verbs

        codec = verbs.codec_of(model, "next-frames")
        return as_json(verbs.foresee(model, _open(asked, model, codec, codec.read + codec.ahead)))

    return reply(await visitor.ask_task(asked.model, work))


def _open(asked: ClipAsked, model: TaskModel, codec: ClipCodec, frames: int) -> OpenedClip:
    from thereafter.studio.verbs import clips as opening

    if asked.source == "drawn":
        return opening.open_drawn(asked.ink, asked.direction, asked.speed, codec, frames)
    if asked.source == "held-out":
        return opening.open_held_out(model, asked.number)
    return opening.open_made(asked.number, codec, frames, opening.digits_of(model))

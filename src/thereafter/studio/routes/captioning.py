"""The Captions panel: made pictures, and a caption of one of them, of a held-out one, or of a file that was sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import Query, Response
from pydantic import Field

from thereafter.serving.schema import Asked, ModelName
from thereafter.studio.answers.captioning import CaptionedAnswer, MadePicturesAnswer
from thereafter.studio.routes.common import LoadedStudio, TheVisitor, as_json, make_router, reply

if TYPE_CHECKING:
    from thereafter.studio.verbs.pictures import OpenedPicture
    from thereafter.task_model import TaskModel

router = make_router()
LONGEST = 2_700_000
"""Characters of a file in base64: 2 MB, which `verbs/pictures.py` looks at."""
SHELF = 8
"""Made pictures that are shown at once."""
LAST_MADE = 9_999
Number = Annotated[int, Field(ge=0, le=1_000_000, description="Which picture of its source.")]


class CaptionAsked(Asked):
    """`source`: "made" pictures, those "held-out" by the run, or the file `picture` in base64; `number` counts the
    first two. `beam` 1 takes the likeliest word at every step."""

    model: ModelName
    source: Literal["made", "held-out", "own"] = "made"
    number: Number = 0
    picture: Annotated[str, Field(max_length=LONGEST)] = ""
    beam: Annotated[int, Field(ge=1, le=10)] = 1


@router.get("/tasks/caption/pictures")
def pictures(studio: LoadedStudio, first: Annotated[int, Query(ge=0, le=LAST_MADE)] = 0) -> MadePicturesAnswer:
    """Eight made pictures from a number on, and what each shows."""
    from thereafter.studio.verbs.pictures import made_pictures

    return made_pictures(first, SHELF)


@router.post("/tasks/caption", response_model=CaptionedAnswer)
async def caption(asked: CaptionAsked, visitor: TheVisitor) -> Response:
    """A caption word by word: probabilities, where the network looked, and captions that are right."""

    def work(model: TaskModel) -> bytes:
        from thereafter.studio.verbs import captioning as verbs

        return as_json(verbs.caption(model, _open(asked, model), asked.beam))

    return reply(await visitor.ask_task(asked.model, work))


def _open(asked: CaptionAsked, model: TaskModel) -> OpenedPicture:
    from thereafter.studio.verbs import captioning as verbs
    from thereafter.studio.verbs import pictures as opening

    verbs.check(model)
    if asked.source == "own":
        return opening.open_own(asked.picture)
    if asked.source == "held-out":
        return opening.open_held_out(model, asked.number)
    return opening.open_made(asked.number)

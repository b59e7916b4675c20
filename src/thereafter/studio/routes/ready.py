"""The ready models: what each learned from, what it scores, and its training anew on this machine."""

from __future__ import annotations

from typing import Literal

from thereafter.errors import OptionError
from thereafter.ready.shipped import NAMES
from thereafter.serving.schema import Asked
from thereafter.studio.answers.training import ReadyAnswer, ReadyModelAnswer
from thereafter.studio.routes.common import LoadedStudio, make_router
from thereafter.studio.studio import Studio

router = make_router()


class AnewAsked(Asked):
    name: Literal[NAMES]  # type: ignore[valid-type]  # the names of a table


@router.get("/ready")
def ready(studio: LoadedStudio) -> ReadyAnswer:
    """The ready models, and how far a training of one is."""
    return _ready(studio)


@router.post("/ready/anew")
def anew(asked: AnewAsked, studio: LoadedStudio) -> ReadyAnswer:
    """Train a ready model anew, in a process of its own; it takes its place when it has ended."""
    if studio.stage.making:
        raise OptionError("the ready models are still being made; try again when that has ended")
    studio.making.begin_anew(asked.name)
    return _ready(studio)


def _ready(studio: Studio) -> ReadyAnswer:
    from thereafter.ready import models, scores, shipped, tasks
    from thereafter.ready.shipped import minutes

    rows = []
    for one in (*models.READY, *tasks.READY_TASKS):
        is_shipped = shipped.is_shipped(one)
        rows.append(
            ReadyModelAnswer(
                name=one.name,
                learns=one.learns,
                score=scores.in_words(shipped.cards()[one.name]["scores"]) if is_shipped else "",
                shipped=is_shipped,
                minutes=minutes(one.name),
            )
        )
    return ReadyAnswer(models=rows, making=studio.making.answer())

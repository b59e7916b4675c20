"""The panel Catch: a game as a network plays it, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import Response
from pydantic import Field

from thereafter.serving.schema import Asked, ModelName
from thereafter.studio.answers.acting import GameAnswer
from thereafter.studio.routes.common import TheVisitor, as_json, make_router, reply

if TYPE_CHECKING:
    from thereafter.task_model import TaskModel

router = make_router()


class GameAsked(Asked):
    """Which game to play."""

    model: ModelName
    number: Annotated[int, Field(ge=0, le=1_000_000, description="Of the episode.")] = 0


@router.post("/tasks/act", response_model=GameAnswer)
async def play(asked: GameAsked, visitor: TheVisitor) -> Response:
    """A game of catch: where the network looked, what it saw there, and what it did."""

    def work(model: TaskModel) -> bytes:
        from thereafter.studio.verbs import acting as verbs

        return as_json(verbs.play(model, asked.number))

    return reply(await visitor.ask_task(asked.model, work))

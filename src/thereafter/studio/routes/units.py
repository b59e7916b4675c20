"""Units of a recurrent model: ranked by how they follow a property of its text, and what one does over a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import Response
from pydantic import Field

from thereafter.serving.schema import Asked, ModelName, Prompt
from thereafter.studio.answers.units import PropertyAnswer, RankingAnswer, ShownAnswer
from thereafter.studio.routes.common import LoadedStudio, TheVisitor, as_json, make_router, reply

if TYPE_CHECKING:
    from thereafter.language_model import LanguageModel
    from thereafter.models.neural import NeuralModel
    from thereafter.text.tokenizers.base import Tokenizer

router = make_router()

PropertyName = Literal[
    "quotes",
    "comment",
    "quotes-or-comment",
    "speech",
    "line-position",
    "indentation",
    "brackets",
    "keyword",
    "boundary",
]
UnitName = Annotated[str, Field(pattern=r"^[a-z0-9_]{1,30}\.[a-z]{1,10}\[[0-9]{1,6}\]$", examples=["l0.c[17]"])]


class RankedAsked(Asked):
    model: ModelName
    property: PropertyName
    top: Annotated[int, Field(ge=1, le=50)] = 10


class ShownAsked(Asked):
    """No `unit` is the first there is; no `text` is a sample of the model's own, in which the property changes."""

    model: ModelName
    unit: UnitName | None = None
    text: Prompt | None = None
    property: PropertyName | None = None


@router.get("/units/properties")
def properties(studio: LoadedStudio) -> list[PropertyAnswer]:
    """What units can be ranked by."""
    from thereafter.studio.verbs import units as verbs

    return verbs.properties()


@router.post("/units/ranked", response_model=RankingAnswer)
async def ranked(asked: RankedAsked, visitor: TheVisitor) -> Response:
    """The units that follow a property best, over a text of the model's own."""

    def copy(lm: LanguageModel) -> tuple[NeuralModel, Tokenizer, str, str]:
        from thereafter.studio.verbs.units import own_text, separate

        return separate(lm), lm.tokenizer, *own_text(lm)

    model, tokenizer, text, source = await visitor.ask(asked.model, copy)

    def work() -> bytes:
        from thereafter.studio.verbs.units import rank_units

        return as_json(rank_units(model, tokenizer, text, asked.property, asked.top, source=source))

    return reply(await visitor.apart(f"units of {asked.model}", work))  # takes seconds: the model is free meanwhile


@router.post("/units/shown", response_model=ShownAnswer)
async def shown(asked: ShownAsked, visitor: TheVisitor) -> Response:
    """What a unit does over a text, token by token."""

    def work(lm: LanguageModel) -> bytes:
        from thereafter.studio.verbs.units import show_unit

        return as_json(show_unit(lm, unit=asked.unit, text=asked.text, property=asked.property))

    return reply(await visitor.ask(asked.model, work))

"""Units of a recurrent model: ranked by how they follow a property of its text, and what one does over a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import Response
from pydantic import Field

from thereafter.serving.schema import Answer, Asked, ModelName, Prompt
from thereafter.studio.routes.common import LoadedStudio, TheVisitor, as_json, make_router, reply

if TYPE_CHECKING:
    from thereafter.language_model import LanguageModel

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


class PropertyAnswer(Answer):
    """A property of a text: one that holds or does not (`yes_no`), or a number."""

    name: str
    meaning: str
    yes_no: bool


class RankedAsked(Asked):
    model: ModelName
    property: PropertyName
    top: Annotated[int, Field(ge=1, le=50)] = 10


class RankedUnitAnswer(Answer):
    """`chosen` and `held_out`: the figure on the half of the text the unit was chosen on, and on the other."""

    unit: str
    chosen: float | None
    held_out: float | None
    direction: int


class RankingAnswer(Answer):
    """Figures are AUCs where the property holds or does not, else correlations; `control` is what luck reaches."""

    yes_no: bool
    control: float | None
    tokens: int
    source: str
    ranked: list[RankedUnitAnswer]


class ShownAsked(Asked):
    """No `unit` is the first there is; no `text` is a sample of the model's own, in which the property changes."""

    model: ModelName
    unit: UnitName | None = None
    text: Prompt | None = None
    property: PropertyName | None = None


class ShownAnswer(Answer):
    """`values[t]` is the unit's state after `tokens[t]`, `shades[t]` the same from -1 to 1, `truth[t]` the property."""

    source: str
    unit: str
    fields: dict[str, int]
    tokens: list[str]
    values: list[float | None]
    shades: list[float | None]
    truth: list[float | None] | None
    cut: bool


@router.get("/units/properties")
def properties(studio: LoadedStudio) -> list[PropertyAnswer]:
    """What units can be ranked by."""
    from thereafter.studio.verbs.units import properties

    return [PropertyAnswer(**facts) for facts in properties()]


@router.post("/units/ranked", response_model=RankingAnswer)
async def ranked(asked: RankedAsked, visitor: TheVisitor) -> Response:
    """The units that follow a property best, over a text of the model's own."""

    def copy(lm: LanguageModel) -> tuple[Any, ...]:
        from thereafter.studio.verbs.units import own_text, separate

        return separate(lm), lm.tokenizer, *own_text(lm)

    model, tokenizer, text, source = await visitor.ask(asked.model, copy)

    def work() -> bytes:
        from thereafter.studio.verbs.units import ranked

        return as_json(RankingAnswer(source=source, **ranked(model, tokenizer, text, asked.property, asked.top)))

    return reply(await visitor.apart(f"units of {asked.model}", work))  # takes seconds: the model is free meanwhile


@router.post("/units/shown", response_model=ShownAnswer)
async def shown(asked: ShownAsked, visitor: TheVisitor) -> Response:
    """What a unit does over a text, token by token."""

    def work(lm: LanguageModel) -> bytes:
        from thereafter.studio.verbs.units import shown

        return as_json(ShownAnswer(**shown(lm, unit=asked.unit, text=asked.text, property=asked.property)))

    return reply(await visitor.ask(asked.model, work))

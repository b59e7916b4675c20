"""Which models there are, and how far the studio has got with starting."""

from __future__ import annotations

from thereafter.studio.routes.common import TheStudio, make_router
from thereafter.studio.schema import Answer

router = make_router()


class StatusAnswer(Answer):
    """`making` is the ready model being trained, "" when all are there; `share` of them is done, 0 to 1."""

    loaded: bool
    making: str
    share: float
    note: str


class ModelAnswer(Answer):
    """A model of the list. `units` are those known to carry something, by property: {"number": "l0.c[17]"}."""

    name: str
    label: str
    kind: str
    tokens: str
    source: str
    layers: int | None
    hidden: int | None
    units: dict[str, str]


@router.get("/status")
async def status(studio: TheStudio) -> StatusAnswer:
    """How far the studio has got with starting."""
    return StatusAnswer(**studio.stage.facts())


@router.get("/models")
def models(studio: TheStudio) -> list[ModelAnswer]:
    """Every model that can be picked: the ready ones, then the runs of the user's folder."""
    studio.check_loaded()
    return [
        ModelAnswer(
            name=card.name,
            label=card.label,
            kind=card.kind,
            tokens=card.tokens,
            source=card.source,
            layers=card.layers,
            hidden=card.hidden,
            units=card.units,
        )
        for card in studio.shelf.cards()
    ]

"""Answers about single units of a recurrent model."""

from __future__ import annotations

from thereafter.serving.schema import Answer


class PropertyAnswer(Answer):
    """A property of a text: one that holds or does not (`yes_no`), or a number."""

    name: str
    meaning: str
    yes_no: bool


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

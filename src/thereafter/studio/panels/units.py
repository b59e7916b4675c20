"""Units of a recurrent model: which follow a property of the text, and what one of them does over a text.

Shapes: T tokens, N characters.
"""

from __future__ import annotations

from copy import deepcopy
from functools import lru_cache
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from thereafter.data import corpora
from thereafter.errors import OptionError, UnknownNameError
from thereafter.figures.units import scale
from thereafter.inspection.properties import PROPERTIES, Property, named, token_ends
from thereafter.inspection.sentence_reader import PARTS, stream_states, with_units
from thereafter.inspection.units import search
from thereafter.language_model import LanguageModel
from thereafter.models.neural import NeuralModel
from thereafter.serving.schema import Answer, Asked, ModelName, Prompt
from thereafter.studio.asking import Visitor, answers, as_json, number, numbers, of_language_model, of_studio
from thereafter.text.sources import Source
from thereafter.text.tokenizers.base import Tokenizer
from thereafter.training.finding import find_texts
from thereafter.training.settings import TextSettings

LIMIT = 30_000
"""Tokens a search reads: enough for a ranking, and a few seconds."""
SHOWN = 1_500
"""Tokens that are shown in colours."""
_WORD = 6  # characters a token has at most, on an average over prose or code
_SAMPLE = 1_200  # characters of the sample of a model's own text


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


@of_studio("GET", "/units/properties")
def properties() -> list[PropertyAnswer]:
    """What units can be ranked by."""
    return [PropertyAnswer.of(one, yes_no=one.of("a").dtype == np.bool_) for one in PROPERTIES.values()]


def separate(lm: LanguageModel) -> NeuralModel:
    """A copy of the model that can be read with for seconds while others ask the model itself."""
    return deepcopy(with_units(lm.model))


def rank_units(
    model: NeuralModel, tokenizer: Tokenizer, text: str, property: str, top: int, *, source: str = ""
) -> RankingAnswer:
    """The `top` units that follow a property of a text best: chosen on its first half, measured on its second.

    `source` is the name of the text.
    """
    ranking = search(model, tokenizer, text, [named(property)], top=top, limit=LIMIT)
    units, directions = ranking["unit"][0].tolist(), ranking["direction"][0].tolist()
    chosen, held_out = numbers(ranking["chosen"][0]), numbers(ranking["held_out"][0])
    rows = zip(units, chosen, held_out, directions, strict=True)
    return RankingAnswer(
        yes_no=bool(ranking["yes_no"][0]),
        control=number(ranking["control"][0]),
        tokens=int(ranking.about["tokens"]),
        source=source,
        ranked=[RankedUnitAnswer(unit=u, chosen=c, held_out=h, direction=d) for u, c, h, d in rows],
    )


@of_language_model("/units/shown", "shown")
def show_unit(
    lm: LanguageModel, *, unit: UnitName | None = None, text: Prompt | None = None, property: PropertyName | None = None
) -> ShownAnswer:
    """What a unit does over a text, token by token.

    By default it is the first unit, else one by its name ("l0.c[17]"), and the text a sample of the model's own. Tokens
    are shown as they stand in the text. Shades go from the 5th to the 95th percentile of the values.
    """
    with_units(lm.model)
    follows = None if property is None else named(property)
    source = "the text given"
    if text is None:
        text, source = own_text(lm)
        text = sample(text, follows or PROPERTIES["quotes-or-comment"])
    about = lm.config["text"]
    text = Source.of_text(text, lower=about["lower"], letters_only=about["letters_only"]).text()
    ids, ends = token_ends(text, lm.tokenizer)
    if not len(ids):
        raise OptionError("the text is empty; expected at least one token; try a sentence, or the model's own text")
    cut = len(ids) > SHOWN
    ids, ends = ids[:SHOWN], ends[:SHOWN]
    pieces = list(stream_states(lm.model, ids, rows=1))  # one row is the text as a trace reads it
    fields = {field: np.concatenate([piece.fields[field] for piece in pieces]) for field in pieces[0].fields}
    name, at = _unit(unit, fields)
    values_T = fields[name][:, at]
    begins = [0, *(ends[:-1] + 1).tolist()]
    return ShownAnswer(
        source=source,
        unit=f"{name}[{at}]",
        fields={field: array.shape[1] for field, array in fields.items()},
        tokens=[text[begin : end + 1] for begin, end in zip(begins, ends.tolist(), strict=True)],
        values=numbers(values_T),
        shades=numbers(np.round(scale(values_T), 3)),
        truth=None if follows is None else numbers(follows.of(text)[ends].astype(np.float64)),
        cut=cut,
    )


def own_text(lm: LanguageModel) -> tuple[str, str]:
    """The beginning of a text of the model's own, held out where there is such a part, and its name.

    It is as long as a search may read. A corpus that is not on this machine is not downloaded for a picture.
    """
    source, about = lm.config["source"], lm.config["text"]
    characters = LIMIT * (1 if lm.tokenizer.name in ("char", "byte") else _WORD)
    settings = TextSettings.of_config(about, about.get("encoding"))
    options = (settings, characters)
    own = source.get("part_files") or {}
    files = source.get("valid_files") or own.get("test") or own.get("valid") or source.get("files")
    name = str(source.get("valid_source") or source["name"])
    if not files and name.partition(":")[0] in corpora.names():
        return _corpus(name, *options)
    return _beginning(files or name, *options)


@lru_cache(maxsize=8)
def _corpus(name: str, settings: TextSettings, characters: int) -> tuple[str, str]:
    """A corpus does not change, and some are built from many files each time they are looked for."""
    corpora.locate(name.partition(":")[0], download=False)
    return _beginning(name, settings, characters)


def _beginning(source: str | list[str], settings: TextSettings, characters: int) -> tuple[str, str]:
    texts = find_texts(source, None, settings)
    part = texts.parts[next((name for name in PARTS if name in texts.parts), next(iter(texts.parts)))]
    read = ""
    for chunk in part.chunks():
        read += chunk
        if len(read) >= characters:
            break
    return read[:characters], part.name.replace("\\", "/").rpartition("/")[2]


def sample(text: str, follows: Property) -> str:
    """A stretch of a text, from the beginning of a line, in which a property changes much: typical, not the wildest.

    A stretch that looks another by itself, since it begins inside a string, is passed over.
    """
    truth_N = follows.of(text)
    begins = sorted({text.rfind("\n", 0, at) + 1 for at in range(0, max(1, len(text) - _SAMPLE), _SAMPLE // 2)})
    by_spread = sorted(begins, key=lambda at: float(np.std(truth_N[at : at + _SAMPLE].astype(np.float64))))
    for begin in reversed(by_spread[: int(0.9 * len(by_spread)) + 1]):
        stretch = text[begin : begin + _SAMPLE]
        if np.array_equal(follows.of(stretch), truth_N[begin : begin + _SAMPLE]):
            return stretch
    return text[:_SAMPLE]


def _unit(unit: str | None, fields: dict[str, NDArray[np.float32]]) -> tuple[str, int]:
    """A unit's field and number; without a name the first there is."""
    if unit is None:
        return next(iter(fields)), 0
    name, _, rest = unit.partition("[")
    if name not in fields:
        raise UnknownNameError("field of units", name, list(fields))
    at = int(rest.removesuffix("]"))
    size = fields[name].shape[1]
    if at >= size:
        raise OptionError(f"{name} has no unit {at}; expected 0 to {size - 1}; try {name}[0]")
    return name, at


@answers("/units/ranked", RankingAnswer)
async def ranked(asked: RankedAsked, visitor: Visitor) -> bytes:
    """The units that follow a property best, over a text of the model's own."""

    def copy(lm: LanguageModel) -> tuple[NeuralModel, Tokenizer, str, str]:
        return separate(lm), lm.tokenizer, *own_text(lm)

    model, tokenizer, text, source = await visitor.ask(asked.model, copy)

    def work() -> bytes:
        return as_json(rank_units(model, tokenizer, text, asked.property, asked.top, source=source))

    return await visitor.apart(f"units of {asked.model}", work)  # takes seconds: the model is free meanwhile

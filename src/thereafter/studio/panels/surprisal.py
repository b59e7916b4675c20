"""The verb `surprisal`: what each word of a text cost several models, and what they expected instead."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import numpy as np
from pydantic import Field

from thereafter.evaluation.text_reading import TextReading
from thereafter.inspection.surprisal import Surprisals, tabulate
from thereafter.language_model import LanguageModel
from thereafter.serving.schema import Answer, Asked, FailedAnswer, ModelName
from thereafter.studio.asking import Visitor, answers, as_json, attempt_together, part

LONGEST = 5_000
"""Characters of a text: each token costs a whole prediction."""


class AlternativeAnswer(Answer):
    """A token that was expected, and how much."""

    text: str
    p: float


class WordSurprisalAnswer(Answer):
    """A word under one model. `bits` is null where its probability was 0.

    `rank`, `entropy` (bits), `context` (tokens the model saw) and `alternatives` are those of the prediction where the
    word begins. `unknown`: how many of its tokens the model has never met.
    """

    bits: float | None
    spelling_bits: float
    unknown: int
    tokens: list[str]
    rank: int
    entropy: float
    context: int
    alternatives: list[AlternativeAnswer]


class ModelSurprisalAnswer(Answer):
    """One model: its sums, and a row for each word; null for a line end that it does not read."""

    model: str
    bits: float | None
    spelling_bits: float
    tokens: int
    unknown: int
    words: list[WordSurprisalAnswer | None]


class SurprisalAnswer(Answer):
    """`words` as they are written, a line end as a newline; every model has a row for each of them."""

    words: list[str]
    models: list[ModelSurprisalAnswer]
    failed: list[FailedAnswer] = Field(default_factory=list)


class SurprisalAsked(Asked):
    models: Annotated[list[ModelName], Field(min_length=1, max_length=2)]
    text: Annotated[str, Field(min_length=1, max_length=LONGEST, examples=["the teachers near the farmer are old ."])]
    top: Annotated[int, Field(ge=0, le=10)] = 3


def read(lm: LanguageModel, text: str, top: int, *, name: str = "") -> TextReading:
    """A text as a model reads it, its predictions included; `name` is what the answer calls the model."""
    reading = lm.surprisal(text=text, detail=True, top=top).readings[0]
    return replace(reading, model=name or reading.model)


def surprisal(readings: Sequence[TextReading]) -> SurprisalAnswer:
    """Readings of one text side by side, word for word."""
    table = tabulate(readings, "word")
    return SurprisalAnswer(words=table.texts, models=[_of_model(table, number) for number in range(len(readings))])


def _of_model(table: Surprisals, number: int) -> ModelSurprisalAnswer:
    reading = table.readings[number]
    total = reading.nats / math.log(2)
    return ModelSurprisalAnswer(
        model=reading.model,
        bits=total if math.isfinite(total) else None,
        spelling_bits=reading.spelling_nats / math.log(2),
        tokens=len(reading.costs.ids),
        unknown=int(np.count_nonzero(reading.costs.unknown_T)),
        words=_words(table, number),
    )


def _words(table: Surprisals, number: int) -> list[WordSurprisalAnswer | None]:
    reading, units = table.readings[number], table.units[number]
    predicted = reading.predicted
    if predicted is None:
        return []
    pieces, piece = reading.pieces(), reading.tokenizer.piece
    bits, spelling, unknown = table.bits(number), table.spelling_bits(number), table.unknown(number)
    words: list[WordSurprisalAnswer | None] = []
    for word, step in enumerate(reading.decisive(units).tolist()):
        begin, end = units.first_U1[word : word + 2].tolist()
        if begin == end:
            words.append(None)
            continue
        likeliest = zip(predicted.top_TK[step].tolist(), predicted.p_TK[step].tolist(), strict=True)
        words.append(
            WordSurprisalAnswer(
                bits=float(bits[word]) if np.isfinite(bits[word]) else None,
                spelling_bits=float(spelling[word]),
                unknown=int(unknown[word]),
                tokens=pieces[begin:end],
                rank=int(predicted.rank_T[step]),
                entropy=float(predicted.entropy_T[step]),
                context=int(predicted.context_T[step]),
                alternatives=[AlternativeAnswer(text=piece(token), p=p) for token, p in likeliest],
            )
        )
    return words


@answers(SurprisalAnswer, "surprisal")
async def compared(asked: SurprisalAsked, visitor: Visitor) -> bytes:
    """Surprisal of every word of a text under one model or two: bits, rank, entropy, alternatives."""

    async def ask(name: str) -> TextReading:
        return await visitor.ask(name, lambda lm: read(lm, asked.text, asked.top, name=name))

    readings, failed = part(await attempt_together(asked.models, ask))
    return await asyncio.to_thread(lambda: as_json(surprisal(readings).model_copy(update={"failed": failed})))

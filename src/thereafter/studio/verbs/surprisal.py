"""The verb `surprisal`: what each word of a text cost several models, and what they expected instead."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from thereafter.evaluation.text_reading import TextReading
from thereafter.inspection.surprisal import Surprisals, tabulate
from thereafter.language_model import LanguageModel
from thereafter.studio.answers.surprisal import (
    AlternativeAnswer,
    ModelSurprisalAnswer,
    SurprisalAnswer,
    WordSurprisalAnswer,
)


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

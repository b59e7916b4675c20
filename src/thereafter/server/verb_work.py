"""The verbs beside completion as plain functions of a model: each answers what the library says."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import SupportsFloat

from thereafter.errors import FormatError, OptionError, ThereafterError
from thereafter.language_model import LanguageModel
from thereafter.series.reading import read_series
from thereafter.server.verb_wire import (
    MOST_CHARACTERS,
    MOST_NUMBERS,
    ForecastsAnswer,
    ForecastStepAnswer,
    LabelsAnswer,
    NextTokenAnswer,
    NextTokensAnswer,
    ScoresAnswer,
    SeriesForecastAnswer,
    TableAsked,
    TagsAnswer,
    TextLabelAnswer,
    TextScoreAnswer,
    TokenScoreAnswer,
    TranslateAsked,
    TranslationsAnswer,
    WordTagAnswer,
)
from thereafter.task_model import TaskModel
from thereafter.tasks.explaining import LabelExplained, TagsExplained
from thereafter.tasks.forecast_ahead import forecaster_of
from thereafter.tasks.forecast_answers import LEVELS, Forecast, spelled_times

_FIGURES = 6  # of a step: its mean, its median and the ends of two bands


def score(lm: LanguageModel, texts: Sequence[str], name: str, *, each: bool = False) -> ScoresAnswer:
    """log p of texts: the figures of `LanguageModel.score`, and those of `surprisal` by token where `each`."""
    check_length(texts)
    return ScoresAnswer(model=name, results=[_score(lm, text, each) for text in texts])


def _score(lm: LanguageModel, text: str, each: bool) -> TextScoreAnswer:
    figures = lm.score(text=text)
    return TextScoreAnswer(
        log_prob=finite(-figures.nats),
        perplexity=finite(figures.perplexity),
        bits_per_byte=finite(figures.bits_per_byte) if figures.bytes else None,
        tokens=figures.tokens,
        unknown=figures.unknown,
        bytes=figures.bytes,
        each=_tokens(lm, text) if each else None,
    )


def _tokens(lm: LanguageModel, text: str) -> list[TokenScoreAnswer]:
    reading = lm.surprisal(text=text, by="token").readings[0]
    nats = reading.costs.nats_T.tolist()
    return [
        TokenScoreAnswer(text=piece, log_prob=finite(-cost)) for piece, cost in zip(reading.pieces(), nats, strict=True)
    ]


def next_tokens(lm: LanguageModel, prompts: Sequence[str], k: int, name: str) -> NextTokensAnswer:
    """The k likeliest continuations of each prompt: `LanguageModel.next_tokens`."""
    check_length(prompts)
    results = [
        [NextTokenAnswer(token=one.token, text=one.text, p=one.p) for one in lm.next_tokens(prompt, k)]
        for prompt in prompts
    ]
    return NextTokensAnswer(model=name, results=results)


def tag(model: TaskModel, texts: Sequence[str], name: str) -> TagsAnswer:
    """The tag of every word of sentences."""
    check_length(texts)
    return TagsAnswer(model=name, results=[_tagged(one) for one in model.explain(list(texts))])


def _tagged(one: TagsExplained) -> list[WordTagAnswer]:
    rows = zip(one.words, one.tags, one.likeliest, one.known, strict=True)
    return [
        WordTagAnswer(word=word, tag=tag, p=finite(dict(best).get(tag, math.nan)), known=known)
        for word, tag, best, known in rows
    ]


def classify(model: TaskModel, texts: Sequence[str], name: str) -> LabelsAnswer:
    """The label of texts, with the probability of all labels."""
    check_length(texts)
    explained: list[LabelExplained] = model.explain(list(texts))
    results = [
        TextLabelAnswer(label=one.label, probabilities={label: finite(p) for label, p in one.probabilities.items()})
        for one in explained
    ]
    return LabelsAnswer(model=name, results=results)


def translate(model: TaskModel, asked: TranslateAsked, name: str) -> TranslationsAnswer:
    """Translations by a greedy or a beam search."""
    check_length(asked.texts)
    results = model.predict(list(asked.texts), beam=asked.beam, length_penalty=asked.length_penalty)
    return TranslationsAnswer(model=name, results=results)


def forecast(model: TaskModel, asked: TableAsked, name: str) -> ForecastsAnswer:
    """What comes after the last value of every series of a table."""
    if not asked.table.strip():
        raise OptionError("the table is empty; expected rows of times and numbers, such as: 2024-01-01,3.5")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        path.write_text(asked.table, encoding="utf-8")
        try:
            check_numbers(model, asked, path)
            table = model.forecast(path, horizon=asked.horizon, samples=asked.samples, seed=asked.seed)
        except ThereafterError as error:
            raise FormatError(str(error).replace(str(path), "the table")) from error
    results = [_steps(one, target) for one in table for target in range(len(one.targets))]
    return ForecastsAnswer(model=name, note=table.note, results=results)


def _steps(one: Forecast, target: int) -> SeriesForecastAnswer:
    bands = {round(100 * coverage): one.band(coverage) for coverage in (0.8, 0.95)}
    median = LEVELS.index(0.5)
    steps = [
        ForecastStepAnswer(
            time=time,
            mean=finite(one.mean_HD[step, target]),
            median=finite(one.quantiles_HDQ[step, target, median]),
            low_80=finite(bands[80][0][step, target]),
            high_80=finite(bands[80][1][step, target]),
            low_95=finite(bands[95][0][step, target]),
            high_95=finite(bands[95][1][step, target]),
            samples=[finite(path_HD[step, target]) for path_HD in one.paths_SHD],
        )
        for step, time in enumerate(spelled_times(one.times_H))
    ]
    return SeriesForecastAnswer(series=one.series, target=one.targets[target], steps=steps)


def check_numbers(model: TaskModel, asked: TableAsked, path: Path) -> None:
    """Refuse a forecast that is longer than anybody reads. The table is read for it where it has that many rows."""
    _, scales = forecaster_of(model.net, model.codecs)
    horizon = asked.horizon or scales.frame.horizon
    each = scales.targets * horizon * (_FIGURES + asked.samples)
    if len(asked.table.splitlines()) * each <= MOST_NUMBERS:
        return
    series = len(read_series([path], scales.columns, calendar=scales.calendar))
    if series * each > MOST_NUMBERS:
        raise OptionError(
            f"{series:,} series, {horizon:,} steps ahead with {asked.samples} samples, are {series * each:,} numbers; "
            f"expected at most {MOST_NUMBERS:,}; try a smaller horizon, fewer samples or several requests"
        )


def check_length(texts: Sequence[str]) -> None:
    """Refuse more than somebody should wait for."""
    given = sum(map(len, texts))
    if given > MOST_CHARACTERS:
        raise OptionError(
            f"the texts have {given:,} characters together; expected at most {MOST_CHARACTERS:,}; try several requests"
        )


def finite(value: SupportsFloat) -> float | None:
    """A number as JSON has it."""
    plain = float(value)
    return plain if math.isfinite(plain) else None

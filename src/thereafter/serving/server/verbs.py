"""The verbs beside completion: /score, /next, /tag, /classify, /translate, /forecast, and texts as token ids.

A verb is a plain function of a model that says what the library says. A request holds one text or a list of texts;
`results` has one entry for each, in their order. A number that is infinite or not a number is null. Its address checks
a request, waits for the run's turn on the event loop and works on a thread, the making of its JSON included. Models may
be asked by several threads, so a verb does not wait for the completions of its model. What nobody waits for any more
when its turn comes is not begun; what takes too long is refused, though its thread goes on.

Texts as token ids and back stand at the addresses that vLLM has for it. lm-evaluation-harness asks them where it is
given no tokenizer (`local-completions` with a remote one), so that every run can be measured by it. Its prefix before a
text without a context is the start mark: `/tokenize` of `<s>` alone is that mark, which a prompt of ids may begin with.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, SupportsFloat, get_type_hints

from fastapi import APIRouter, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from thereafter.errors import FormatError, OptionError, ThereafterError
from thereafter.language_model import LanguageModel
from thereafter.series.forecasting.answers import LEVELS, Forecast, spelled_times
from thereafter.series.forecasting.asking import forecaster_of
from thereafter.series.reading import read_series
from thereafter.serving.lanes import ModelLanes
from thereafter.serving.schema import Answer, Asked
from thereafter.serving.server import protocol
from thereafter.serving.server.models import ServedModel, ServedModels
from thereafter.serving.server.protocol import in_time
from thereafter.serving.server.texts import START, read_ids
from thereafter.task_model import TaskModel
from thereafter.tasks.answers import LabelExplained, TagsExplained

LARGER_BODIES = {"/forecast": 1_500_000}
"""Bytes of a body by path, where that is more than elsewhere: a table in JSON, whose line ends are escaped."""
_FIGURES = 6  # of a step: its mean, its median and the ends of two bands
MOST_TEXTS = 64
MOST_CHARACTERS = 100_000
"""Characters of all texts of a request together."""
MOST_TABLE = 500_000
"""Characters of a table of numbers."""
MOST_NUMBERS = 1_000_000
"""Numbers of a forecast: all series, targets and steps, with the samples."""
Text = Annotated[str, Field(max_length=MOST_CHARACTERS)]
OneText = Annotated[Text, Field(examples=["the teachers near the farmer are old ."])]
Texts = Annotated[list[Text], Field(min_length=1, max_length=MOST_TEXTS)]


class ModelAsked(Asked):
    model: protocol.RunName = None


class TextsAsked(ModelAsked):
    """One text, or several."""

    text: OneText | Texts


class ScoreAsked(TextsAsked):
    tokens: Annotated[bool, Field(description="Whether to list log p of every token.")] = False


class NextTokenAsked(ModelAsked):
    prompt: OneText | Texts = ""
    k: Annotated[int, Field(ge=1, le=100, description="How many tokens are listed.")] = 5


class TranslateAsked(TextsAsked):
    beam: Annotated[int, Field(ge=1, le=16, description="Hypotheses of the search; 1 is greedy.")] = 1
    length_penalty: Annotated[float, Field(ge=0.0, le=10.0)] = 1.0


class TableAsked(ModelAsked):
    """A table of numbers as text, with the columns of the run's own table."""

    table: Annotated[str, Field(max_length=MOST_TABLE, examples=["time,value\n2024-01-01,3.5\n2024-01-02,4.25\n"])]
    horizon: Annotated[int | None, Field(ge=1, le=1_000, description="Steps ahead; by default the run's own.")] = None
    samples: Annotated[int, Field(ge=0, le=20, description="Futures that are drawn for each series.")] = 0
    seed: Annotated[int, Field(ge=0, lt=1 << 32)] = 0


class TokenScoreAnswer(Answer):
    text: str
    log_prob: float | None


class TextScoreAnswer(Answer):
    """`log_prob`: the sum over all tokens, line ends included. `bits_per_byte` counts the spelling of unknown words."""

    log_prob: float | None
    perplexity: float | None
    bits_per_byte: float | None
    tokens: int
    unknown: int
    bytes: int
    each: list[TokenScoreAnswer] | None = None


class ScoresAnswer(Answer):
    model: str
    results: list[TextScoreAnswer]


class NextTokenAnswer(Answer):
    """`text` is what the token adds to the prompt."""

    token: int
    text: str
    p: float


class NextTokensAnswer(Answer):
    """For each prompt its likeliest continuations."""

    model: str
    results: list[list[NextTokenAnswer]]


class WordTagAnswer(Answer):
    """`known`: whether training met the word; of others only the letters are read."""

    word: str
    tag: str
    p: float | None
    known: bool


class TagsAnswer(Answer):
    """For each sentence its words with their tags."""

    model: str
    results: list[list[WordTagAnswer]]


class TextLabelAnswer(Answer):
    """A label, and the probability of all labels, the likeliest first."""

    label: str
    probabilities: dict[str, float | None]


class LabelsAnswer(Answer):
    model: str
    results: list[TextLabelAnswer]


class TranslationsAnswer(Answer):
    model: str
    results: list[str]


class ForecastStepAnswer(Answer):
    """One step ahead of one target: `low` and `high` are ends of the bands of 80 % and 95 %."""

    time: str
    mean: float | None
    median: float | None
    low_80: float | None
    high_80: float | None
    low_95: float | None
    high_95: float | None
    samples: list[float | None]


class SeriesForecastAnswer(Answer):
    series: str
    target: str
    steps: list[ForecastStepAnswer]


class ForecastsAnswer(Answer):
    """A forecast for every series and target of the table."""

    model: str
    note: str
    results: list[SeriesForecastAnswer]


class TokenizeRequest(Asked):
    """`add_special_tokens`: put the start mark first."""

    model: protocol.RunName = None
    prompt: Annotated[str, Field(max_length=protocol.MOST_CHARACTERS)]
    add_special_tokens: bool = False


class TokenizeAnswer(Answer):
    count: int
    max_model_len: int | None
    tokens: list[int]


class DetokenizeRequest(Asked):
    model: protocol.RunName = None
    tokens: protocol.TokenIds


class DetokenizeAnswer(Answer):
    prompt: str


class TokenizerAnswer(Answer):
    """`bos_token` is read before every text; none ends one."""

    tokenizer_class: str
    vocab_size: int
    bos_token: str
    eos_token: str | None
    chat_template: str | None


def score(lm: LanguageModel, asked: ScoreAsked, name: str) -> ScoresAnswer:
    """The log probability of texts under a language model, with perplexity and bits per byte."""
    return ScoresAnswer(model=name, results=[_score(lm, text, asked.tokens) for text in read_texts(asked.text)])


def _score(lm: LanguageModel, text: str, each: bool) -> TextScoreAnswer:
    figures, tokens = lm.score(text=text), None
    if each:
        reading = lm.surprisal(text=text, by="token").readings[0]
        costs = zip(reading.pieces(), reading.costs.nats_T.tolist(), strict=True)
        tokens = [TokenScoreAnswer(text=piece, log_prob=finite(-nats)) for piece, nats in costs]
    return TextScoreAnswer.of(
        figures,
        log_prob=finite(-figures.nats),
        perplexity=finite(figures.perplexity),
        bits_per_byte=finite(figures.bits_per_byte) if figures.bytes else None,
        each=tokens,
    )


def next_tokens(lm: LanguageModel, asked: NextTokenAsked, name: str) -> NextTokensAnswer:
    """The likeliest tokens after each of several prompts, with their probabilities."""
    prompts = read_texts(asked.prompt)
    results = [[NextTokenAnswer.of(token) for token in lm.next_tokens(prompt, asked.k)] for prompt in prompts]
    return NextTokensAnswer(model=name, results=results)


def tag(model: TaskModel, asked: TextsAsked, name: str) -> TagsAnswer:
    """A tag for every word of sentences."""
    return TagsAnswer(model=name, results=[_tagged(sentence) for sentence in model.explain(read_texts(asked.text))])


def _tagged(one: TagsExplained) -> list[WordTagAnswer]:
    rows = zip(one.words, one.tags, one.likeliest, one.known, strict=True)
    return [
        WordTagAnswer(word=word, tag=tag, p=finite(dict(best).get(tag, math.nan)), known=known)
        for word, tag, best, known in rows
    ]


def classify(model: TaskModel, asked: TextsAsked, name: str) -> LabelsAnswer:
    """The label of texts, with the probability of all labels."""
    explained: list[LabelExplained] = model.explain(read_texts(asked.text))
    results = [
        TextLabelAnswer.of(one, probabilities={label: finite(p) for label, p in one.probabilities.items()})
        for one in explained
    ]
    return LabelsAnswer(model=name, results=results)


def translate(model: TaskModel, asked: TranslateAsked, name: str) -> TranslationsAnswer:
    """Translations of texts, greedy or by a beam search."""
    results = model.predict(read_texts(asked.text), beam=asked.beam, length_penalty=asked.length_penalty)
    return TranslationsAnswer(model=name, results=results)


def forecast(model: TaskModel, asked: TableAsked, name: str) -> ForecastsAnswer:
    """What comes after the last row of every series of a table, with bands."""
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


def read_texts(asked: str | list[str]) -> list[str]:
    """One text or several as a list; OptionError where they are more than somebody should wait for."""
    texts = [asked] if isinstance(asked, str) else asked
    size = sum(map(len, texts))
    if size > MOST_CHARACTERS:
        raise OptionError(
            f"the texts have {size:,} characters together; expected at most {MOST_CHARACTERS:,}; try several requests"
        )
    return texts


def finite(value: SupportsFloat) -> float | None:
    """A number as JSON has it."""
    plain = float(value)
    return plain if math.isfinite(plain) else None


ROUTER = APIRouter(tags=["verbs"])
TOKENS = APIRouter(tags=["tokens"])


def served_model(request: Request, name: str | None) -> ServedModel:
    """The run that a request names."""
    models: ServedModels = request.app.state.models
    return models.get(name)


def _add_route(path: str, verb: Callable[..., Answer]) -> None:
    """The address of a verb, whose request, answer and description are those of the function."""
    of_model, of_request, _, of_answer = get_type_hints(verb).values()

    async def ask(asked: ModelAsked, request: Request) -> Response:
        served = served_model(request, asked.model)
        model = served.language_model_for(path) if of_model is LanguageModel else served.task_for(path)
        lanes: ModelLanes = request.app.state.lanes

        async def waits() -> bool:
            return not await request.is_disconnected()

        def work() -> bytes:
            return verb(model, asked, served.name).model_dump_json().encode()

        async with in_time(request.app.state.seconds):
            return Response(await lanes.run(served.name, work, waits), media_type="application/json")

    ask.__doc__ = verb.__doc__
    ask.__annotations__ = {"asked": of_request, "request": Request, "return": Response}
    ROUTER.post(path, response_model=of_answer, name=verb.__name__)(ask)


VERBS: dict[str, Callable[..., Answer]] = {"/score": score, "/next": next_tokens, "/tag": tag}
VERBS |= {"/classify": classify, "/translate": translate, "/forecast": forecast}
for _path, _verb in VERBS.items():
    _add_route(_path, _verb)


@TOKENS.post("/tokenize")
async def tokenize(asked: TokenizeRequest, request: Request) -> TokenizeAnswer:
    """The token ids of a text, as the run's model reads it."""
    lm = served_model(request, asked.model).language_model_for("/tokenize")
    start = [lm.tokenizer.start_id]
    if asked.prompt == START:
        ids = start
    else:
        encoded = await run_in_threadpool(lm.encode, asked.prompt)
        ids = (start if asked.add_special_tokens else []) + encoded.tolist()
    return TokenizeAnswer(count=len(ids), max_model_len=None, tokens=ids)


@TOKENS.post("/detokenize")
async def detokenize(asked: DetokenizeRequest, request: Request) -> DetokenizeAnswer:
    """The text of token ids."""
    lm = served_model(request, asked.model).language_model_for("/detokenize")
    prompt = await run_in_threadpool(read_ids, asked.tokens, lm)
    return DetokenizeAnswer(prompt=prompt.text)


@TOKENS.get("/tokenizer_info")
async def tokenizer_info(
    request: Request, model: Annotated[str | None, Field(max_length=200)] = None
) -> TokenizerAnswer:
    """Facts of a run's tokenizer."""
    tokenizer = served_model(request, model).language_model_for("/tokenizer_info").tokenizer
    return TokenizerAnswer(
        tokenizer_class=tokenizer.name, vocab_size=tokenizer.size, bos_token=START, eos_token=None, chat_template=None
    )

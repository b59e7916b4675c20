"""What the verbs beside completion are asked and what they answer, as JSON.

A request holds one text or a list of texts; `results` has one entry for each, in their order. A number that is infinite
or not a number is null.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from thereafter.serving.schema import Answer, Asked

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
RunName = Annotated[
    str | None,
    Field(
        max_length=200,
        description="The name of a run, as /v1/models lists it; may be left out where the server has one run.",
    ),
]


class ModelAsked(Asked):
    model: RunName = None


class TextsAsked(ModelAsked):
    """One text, or several."""

    text: OneText | Texts

    @property
    def texts(self) -> list[str]:
        return [self.text] if isinstance(self.text, str) else self.text


class ScoreAsked(TextsAsked):
    tokens: Annotated[bool, Field(description="Whether to list log p of every token.")] = False


class NextTokenAsked(ModelAsked):
    prompt: OneText | Texts = ""
    k: Annotated[int, Field(ge=1, le=100, description="How many tokens are listed.")] = 5

    @property
    def texts(self) -> list[str]:
        return [self.prompt] if isinstance(self.prompt, str) else self.prompt


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

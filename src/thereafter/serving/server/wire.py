"""The completions protocol of OpenAI as JSON: what a request may hold, what goes back.

https://platform.openai.com/docs/api-reference/completions. Fields that no model here can honour are known by name, so
that they are refused with what to try (`prompts.check`); `top_k`, `min_p` and `repetition_penalty` are this library's.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from thereafter.serving.schema import Answer, Asked

MOST_CHARACTERS = 1_000_000
"""Characters of all prompts of a request together."""
MOST_PROMPT_TOKENS = 100_000
"""Tokens of all prompts of a request together, sent as ids or as texts: of letters that is the lower limit."""
MOST_CHOICES = 128
"""Texts that one request may ask for: prompts times `n`."""
MOST_NEW_TOKENS = 32_768
MOST_ALTERNATIVES = 20
MOST_LOG_PROBS = 1_000_000
"""Log probabilities of the texts that one request asks for: texts times tokens times (1 + `logprobs`)."""
MOST_FIELDS = 64
LARGER_BODIES = {"/v1/completions": 4_000_000, "/tokenize": 4_000_000, "/detokenize": 1_000_000}
"""Bytes of a body by path, where that is more than elsewhere."""
INTRICATE_BODIES = {"/v1/completions": 120_000, "/detokenize": 120_000}
"""Marks of JSON by path: token ids have a comma each."""

Text = Annotated[str, Field(max_length=MOST_CHARACTERS)]
TokenId = Annotated[int, Field(ge=0, lt=1 << 31)]
TokenIds = Annotated[list[TokenId], Field(fail_fast=True, max_length=MOST_PROMPT_TOKENS)]
RunName = Annotated[str | None, Field(max_length=200, description="A run, as /v1/models lists it. One run needs none.")]
_FORMS = "expected a text, a list of texts, a list of token ids, or a list of such lists"


def _form(given: object) -> str | None:
    """Which of the four forms of a prompt this is, by its first item."""
    if isinstance(given, str):
        return "text"
    if not isinstance(given, list):
        return None
    first = given[0] if given else 0
    return "texts" if isinstance(first, str) else "lists of ids" if isinstance(first, list) else "ids"


Prompts = Annotated[
    Annotated[Text, Tag("text")]
    | Annotated[list[Text], Field(fail_fast=True, max_length=MOST_CHOICES), Tag("texts")]
    | Annotated[TokenIds, Tag("ids")]
    | Annotated[list[TokenIds], Field(fail_fast=True, max_length=MOST_CHOICES), Tag("lists of ids")],
    Discriminator(_form, custom_error_type="prompt", custom_error_message=_FORMS),
]
Penalty = Annotated[float | None, Field(ge=-2, le=2)]
Stop = Annotated[str, Field(min_length=1, max_length=1_000)]
Stops = Annotated[
    Annotated[list[Stop], Field(fail_fast=True, max_length=16)] | None,
    BeforeValidator(
        lambda given: [given] if isinstance(given, str) else given, json_schema_input_type=str | list[Stop] | None
    ),
]


class StreamOptions(Asked):
    """`include_usage`: a last event has the counts of all tokens."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class CompletionRequest(Asked):
    """A request as OpenAI has it; null is the same as leaving a field out."""

    model: RunName = None
    prompt: Prompts | None = Field(None, examples=["the teacher near the"])
    max_tokens: Annotated[int | None, Field(ge=0, le=MOST_NEW_TOKENS, examples=[16])] = None
    temperature: Annotated[float | None, Field(ge=0, le=2)] = None
    top_p: Annotated[float | None, Field(gt=0, le=1)] = None
    n: Annotated[int | None, Field(ge=1, le=MOST_CHOICES, examples=[1])] = None
    echo: bool | None = None
    logprobs: Annotated[int | None, Field(ge=0, le=MOST_ALTERNATIVES)] = None
    stop: Stops = None
    seed: Annotated[int | None, Field(ge=0, lt=1 << 63)] = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: Annotated[str | None, Field(max_length=1_000)] = None
    best_of: Annotated[int | None, Field(ge=1, le=MOST_CHOICES, examples=[None])] = None
    suffix: Annotated[str | None, Field(max_length=1_000, examples=[None])] = None
    logit_bias: dict[str, float] | None = Field(None, examples=[None])
    presence_penalty: Penalty = Field(None, examples=[0])
    frequency_penalty: Penalty = Field(None, examples=[0])
    top_k: Annotated[int | None, Field(ge=1, lt=1 << 31)] = None
    min_p: Annotated[float | None, Field(ge=0, le=1)] = None
    repetition_penalty: Annotated[float | None, Field(gt=0, le=100)] = None

    @model_validator(mode="before")
    @classmethod
    def _few_fields(cls, given: object) -> object:
        """Thousands of unknown fields would be as many errors."""
        if isinstance(given, dict) and len(given) > MOST_FIELDS:
            raise ValueError(f"{len(given)} fields were sent; expected those of the completions protocol")
        return given

    @model_validator(mode="after")
    def _streamed(self) -> Self:
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options came without stream; expected both; try stream=true")
        return self


class TokenLogProbs(Answer):
    """What is known of every token of a text: itself, log p, the likeliest in its place, and where it begins."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None] | None
    text_offset: list[int]


class ChoiceAnswer(Answer):
    text: str
    index: int
    logprobs: TokenLogProbs | None
    finish_reason: Literal["stop", "length"] | None


class UsageAnswer(Answer):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class TextCompletionAnswer(Answer):
    """A completion, and each event of one that is streamed."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChoiceAnswer]
    usage: UsageAnswer | None = None


class ServedModelAnswer(Answer):
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str


class ServedModelsAnswer(Answer):
    object: Literal["list"] = "list"
    data: list[ServedModelAnswer]


class ErrorFacts(Answer):
    """`message`: what was got, what was expected, what to try. `param`: the field that is wrong, where one is."""

    message: str
    type: str
    param: str | None
    code: str | None


class RefusalAnswer(Answer):
    error: ErrorFacts

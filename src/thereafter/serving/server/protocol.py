"""The completions protocol of OpenAI as JSON: what a request may hold, what goes back, and errors by status.

https://platform.openai.com/docs/api-reference/completions. Fields that no model here can honour are known by name, so
that they are refused with what to try (`texts.check`); `top_k`, `min_p` and `repetition_penalty` are this library's.

Errors are `{"error": {"message", "type", "param", "code"}}`. The client package turns a status into a class: 400
BadRequestError, 401 AuthenticationError, 404 NotFoundError, 429 RateLimitError, 5xx InternalServerError; it asks again
after 408, 429 and 5xx.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Literal, Self

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator
from starlette.exceptions import HTTPException

from thereafter.errors import BusyError, OptionError, ThereafterError
from thereafter.serving.guard import AccessGuard, went_wrong
from thereafter.serving.schema import ERRORS, AbandonedError, Answer, Asked, EndingError, NotThereError, StartingError

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


_STATUS: dict[type[Exception], int] = {
    NotThereError: 404,
    BusyError: 429,
    StartingError: 503,
    EndingError: 503,
    AbandonedError: 499,
}
_CODES = {401: "invalid_api_key", 404: "not_found", 408: "timeout", 413: "too_large", 429: "rate_limit_exceeded"}
_RETRY, _ONCE = {"Retry-After": "1"}, {"x-should-retry": "false"}
_SHOWN = 80  # characters of what was got
WENT_WRONG = went_wrong("server")


class FieldError(OptionError):
    """A field of a request that has no meaning here; `param` is its name."""

    def __init__(self, param: str, sentence: str) -> None:
        super().__init__(sentence)
        self.param = param


class RunOutError(ThereafterError):
    """A request took longer than the server lets any."""


@asynccontextmanager
async def in_time(seconds: float) -> AsyncIterator[None]:
    """What may take that many seconds and no longer."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise RunOutError(
            f"the answer took longer than {seconds:g} seconds; try asking for less, or thereafter serve --timeout"
        ) from error


RESPONSES: dict[int | str, dict[str, object]] = {
    400: {"model": RefusalAnswer, "description": "A field is wrong; the message says what to try."},
    401: {"model": RefusalAnswer, "description": "The token is missing or wrong."},
    403: {"model": RefusalAnswer, "description": "Asked by another page, or under another name."},
    404: {"model": RefusalAnswer, "description": "There is no such run, or it holds something else."},
    **{status: {**ERRORS[status], "model": RefusalAnswer} for status in (408, 413)},
    422: {"model": RefusalAnswer, "description": "The body has too many values or levels."},
    429: {"model": RefusalAnswer, "description": "The queue is full, or too many wrong tokens came."},
    503: {"model": RefusalAnswer, "description": "The server is ending or has no room, or the answer took too long."},
}
"""What every address may answer beside its own."""


class CompletionsGuard(AccessGuard):
    """The guard, in the words of those who send a token as their API key."""

    no_token = 401, "expected it as the API key (Authorization: Bearer TOKEN); try the token the server printed"

    def error_of(self, status: int, sentence: str) -> dict[str, object]:
        return refusal(status, sentence)


def refusal(status: int, sentence: str, param: str | None = None, code: str | None = None) -> dict[str, object]:
    """An error as the JSON that goes out."""
    code = code or _CODES.get(status)
    kind = "server_error" if status >= 500 else "invalid_request_error"
    facts = ErrorFacts(message=_sendable(sentence), type=kind, param=param and _sendable(param), code=code)
    return RefusalAnswer(error=facts).model_dump()


def status_of(error: ThereafterError) -> int:
    """The status that an error is answered with."""
    if isinstance(error, RunOutError):
        return 503
    return next((number for kind, number in _STATUS.items() if isinstance(error, kind)), 400)


def sentence(request: Request, error: Exception) -> JSONResponse:
    """What the library says of a request."""
    assert isinstance(error, ThereafterError)
    status = status_of(error)
    headers = _ONCE if isinstance(error, RunOutError) else _RETRY if status in (429, 503) else None
    param = error.param if isinstance(error, FieldError) else "model" if status == 404 else None
    code = "model_not_found" if status == 404 else None
    return JSONResponse(refusal(status, str(error), param, code), status, headers)


def invalid(request: Request, error: Exception) -> JSONResponse:
    """The first thing that is wrong with the fields of a request."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = [str(part) for part in first["loc"] if part != "body"]
    if first["type"] == "json_invalid":
        return JSONResponse(
            refusal(400, f'the body is no JSON: {first["ctx"]["error"]}; expected an object; try {{"prompt": ...}}'),
            400,
        )
    if not place and isinstance(first.get("input"), bytes):
        sentence = "the body came without the type application/json; try -H 'Content-Type: application/json'"
        return JSONResponse(refusal(400, sentence), 400)
    where = ".".join(place)[:_SHOWN] or "the request"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        message = "there is no such field; try leaving it out"
    elif "input" in first and first["type"] not in ("value_error", "missing"):
        shown = repr(first["input"])[: _SHOWN + 1]
        message = f"{message}; got {shown if len(shown) <= _SHOWN else shown[:_SHOWN] + '...'}"
    return JSONResponse(refusal(400, f"{where}: {message}", place[0][:_SHOWN] if place else None), 400)


def plain(request: Request, error: Exception) -> JSONResponse:
    """An address or a method that is not there."""
    assert isinstance(error, HTTPException)
    sentences = {
        404: "there is nothing at this address; try /v1/completions, /v1/models or /openapi.json",
        405: "this address is asked in another way; /openapi.json says in which",
    }
    text = sentences.get(error.status_code, str(error.detail))
    return JSONResponse(refusal(error.status_code, text), error.status_code, headers=error.headers)


def _sendable(text: str) -> str:
    """Halves of surrogate pairs are valid JSON and no text."""
    return text.encode("utf-8", "replace").decode()

"""Errors in the shape of OpenAI: `{"error": {"message", "type", "param", "code"}}`, by status.

The client package turns a status into a class: 400 BadRequestError, 401 AuthenticationError, 404 NotFoundError,
429 RateLimitError, 5xx InternalServerError; it asks again after 408, 429 and 5xx.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from thereafter.errors import BusyError, OptionError, ThereafterError
from thereafter.serving.errors import AbandonedError, EndingError, NotThereError, StartingError
from thereafter.serving.guard import AccessGuard, went_wrong
from thereafter.serving.schema import ERRORS
from thereafter.serving.server.wire import ErrorFacts, RefusalAnswer

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

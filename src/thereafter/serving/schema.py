"""Shapes of what goes over the wire that several routes share, and what can go wrong for a visitor of a server, beyond
the errors of the library. Whatever is not named here is refused.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from thereafter.errors import BusyError, ThereafterError

PROMPT_LIMIT = 20_000
"""Characters of a text that is read while somebody waits."""
TEXT_LIMIT = 8_000_000
"""Characters of a text to train on."""


class Asked(BaseModel):
    """A request: no field is guessed, none is converted. A whole number may be written 7.0, as JSON has it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _whole_numbers(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        return {name: int(one) if isinstance(one, float) and one.is_integer() else one for name, one in given.items()}


class Answer(BaseModel):
    """An answer: what a function returns, and the shape of its JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def of(cls, source: object, **more: object) -> Self:
        """An answer with the values that `source` has under the names of its fields, and with `more`."""
        return cls(**{name: getattr(source, name) for name in cls.model_fields if name not in more}, **more)


class ErrorAnswer(Answer):
    """One sentence: what was got, what was expected, what to try."""

    error: str


class FailedAnswer(ErrorAnswer):
    """A model that could not answer, where others of the same request could."""

    model: str


ModelName = Annotated[
    str,
    Field(
        pattern=r"^(ready|runs):[^/\\\x00]{1,200}$",
        description="A model of the list: ready:NAME, or runs:NAME for a run in the runs folder.",
        examples=["ready:lstm"],
    ),
]
Prompt = Annotated[str, Field(max_length=PROMPT_LIMIT, examples=["the teacher near the"])]

ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorAnswer, "description": "The request cannot be answered: a sentence says why."},
    403: {"model": ErrorAnswer, "description": "Asked by another page, under another name, or without the token."},
    404: {"model": ErrorAnswer, "description": "There is no such model, training or comparison."},
    408: {"model": ErrorAnswer, "description": "The body did not come to its end in time."},
    409: {"model": ErrorAnswer, "description": "A training that runs elsewhere; the sentence says who has it."},
    413: {"model": ErrorAnswer, "description": "The body is larger than what is taken."},
    422: {"model": ErrorAnswer, "description": "A field is missing, unknown or out of its range."},
    429: {"model": ErrorAnswer, "description": "Too many wrong tokens came from this address."},
    503: {"model": ErrorAnswer, "description": "The studio is still starting, or is ending."},
}
"""What every route may answer beside its own."""


class NotThereError(ThereafterError):
    """A model, a training or a comparison that is not there, or no longer."""


class StartingError(ThereafterError):
    """Asked before what is needed has been loaded."""


class EndingError(ThereafterError):
    """Asked while the server ends."""


class FullError(BusyError):
    """Asked while as many wait as may; a little later there may be room."""


class AbandonedError(ThereafterError):
    """Whoever asked has gone before the work began; nobody reads this."""

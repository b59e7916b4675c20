"""A line of a memory task, and the places in it where memory shows."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AnswerPlace:
    """Before word `at` of the line, `answer` must be likelier than each of `others`."""

    at: int
    answer: str
    others: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """What must be remembered over n steps; answered where it is answered at every place.

    >>> Question(3, (AnswerPlace(4, "a", ("b", "c", "d")),)).chance
    0.25
    """

    n: int
    places: tuple[AnswerPlace, ...]

    @property
    def chance(self) -> float:
        """How often somebody who holds all forms for equally likely is right."""
        return math.prod(1 / (1 + len(place.others)) for place in self.places)


@dataclass(frozen=True, slots=True)
class Line:
    """Words and the questions about them."""

    words: tuple[str, ...]
    questions: tuple[Question, ...]

    @property
    def text(self) -> str:
        return " ".join(self.words)

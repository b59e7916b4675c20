"""What a task can show beside an answer: the evidence for it, and the steps that led to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from thereafter.base.config import Table

Fields = dict[str, tuple[tuple[str, ...], NDArray[np.generic]]]
"""Arrays by name, each with the names of its axes."""


class Explained(Protocol):
    """One answer, explained: lines to read, and plain JSON values."""

    def __str__(self) -> str: ...

    def as_dict(self) -> Table:
        """The same as plain JSON values."""


@dataclass(frozen=True)
class Shown:
    """What a trace says of an example: the words that are its steps, the forms that `fields` number, the answer."""

    tokens: list[str]
    vocabulary: list[str]
    fields: Fields
    about: Table = field(default_factory=dict)

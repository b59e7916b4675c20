"""What a task must know how to do, and the table of tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from thereafter.models.task_net import TaskNet
from thereafter.registry import Registry
from thereafter.text.sources import Source, Texts

TASKS = Registry(
    "task",
    {
        "tag": "thereafter.tasks.tagging:TAGGING",
        "classify": "thereafter.tasks.classifying:CLASSIFYING",
        "fill": "thereafter.tasks.filling:FILLING",
        "translate": "thereafter.tasks.translating:TRANSLATING",
    },
)

Lexicons = Mapping[str, Any]
"""Forms by what they are: each a `Lexicon`, or what else a task numbers them by (`wording.Wording`)."""


class Numbered(Protocol):
    """What all lexicons have."""

    def __len__(self) -> int: ...

    def to_json(self) -> dict[str, Any]:
        """What it is read back from."""


class Measured(Protocol):
    """How good answers are: a line to read, and numbers by name."""

    def __str__(self) -> str: ...

    def as_dict(self) -> dict[str, Any]:
        """The figures as plain JSON values."""


class Task(Protocol):
    """One row of the table of tasks. An example is whatever `read` gives; an answer whatever `answers` does."""

    name: str
    kind: str
    """What a named corpus must hold: "tagged", "labelled", "pairs" or "text"."""
    settings: type[Any]
    """A dataclass with the settings of its network."""
    defaults: Mapping[str, Any]
    """What training takes where the user says nothing: fields of `TrainingSettings`."""
    asked: Mapping[str, Any]
    """What may be said when answers are asked for, with what is taken otherwise: keywords of `answers`."""

    def told(self, settings: Any) -> Task:
        """The task as these settings want it."""

    def part(self, texts: Texts, part: str) -> Source | None:
        """A part that is more than one text of a corpus; None where the text of that name is meant."""

    def read(self, files: Sequence[Path]) -> list[Any]:
        """The examples of a file, or of the files that make one part."""

    def lexicons(self, examples: Sequence[Any]) -> Mapping[str, Numbered]:
        """All forms worth a number."""

    def check(self, examples: Sequence[Any], lexicons: Lexicons, name: str) -> None:
        """Refuse examples that cannot be learned from or measured on, such as those with a label never trained on."""

    def build(self, settings: Any, lexicons: Lexicons) -> TaskNet:
        """The network, its weights drawn afresh."""

    def lengths(self, examples: Sequence[Any], lexicons: Lexicons) -> NDArray[np.int64]:
        """The places each example takes in a batch."""

    def targets(self, examples: Sequence[Any], lexicons: Lexicons) -> int:
        """How many things are to be told of these examples: what a loss is divided by."""

    def batch(self, examples: Sequence[Any], lexicons: Lexicons) -> Any:
        """Examples as tensors, with `__len__` and `to(device)`."""

    def answers(self, net: Any, batch: Any, lexicons: Lexicons, **options: Any) -> list[Any]:
        """What the network says of every example of a batch; options are those of `asked`."""

    def example(self, given: Any) -> Any:
        """An example without its answer, from what a user hands to `predict`."""

    def measure(self, examples: Sequence[Any], answers: Sequence[Any], lexicons: Lexicons) -> Measured:
        """How good answers are."""


class PlainTask:
    """What most tasks have: parts of a corpus by their names, nothing to be told before reading or when asked."""

    asked: Mapping[str, Any] = {}

    def told(self, settings: Any) -> Self:
        return self

    def part(self, texts: Texts, part: str) -> Source | None:
        return None

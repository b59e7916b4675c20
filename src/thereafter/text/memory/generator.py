"""A seeded stream of lines, and the corpora made of it."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType

from thereafter.errors import OptionError
from thereafter.text.agreement.dice import Dice
from thereafter.text.memory.line import Line
from thereafter.text.memory.tasks import MemoryTask

DEFAULT_SEED = 1
DEFAULT_LINES = MappingProxyType({"train": 8_000, "valid": 500, "test": 1_000})


def lines(
    task: MemoryTask,
    count: int,
    seed: int = DEFAULT_SEED,
    part: str = "train",
    *,
    shortest: int | None = None,
    longest: int | None = None,
) -> Iterator[Line]:
    """`count` lines, n drawn evenly from `shortest` to `longest`, by default those of the task.

    The parts are different draws. Short lines are few, so the same one may well be in two parts: what is asked is not
    whether a line was seen before, but over how many steps something is kept.
    """
    spans = task.spans(shortest, longest)
    if not spans:
        raise OptionError(
            f"n from {shortest} to {longest} was asked for; {task.name} has n from {task.shortest} to {task.longest}"
        )
    dice = Dice(f"{task.name} {part} {seed}")
    return (task.line(dice, dice.pick(spans)) for _ in range(count))


def text_of(
    task: MemoryTask,
    part: str = "train",
    *,
    count: int | None = None,
    seed: int = DEFAULT_SEED,
    shortest: int | None = None,
    longest: int | None = None,
) -> str:
    """A part of the corpus as text, a line each."""
    size = DEFAULT_LINES[part] if count is None else count
    return "".join(f"{line.text}\n" for line in lines(task, size, seed, part, shortest=shortest, longest=longest))

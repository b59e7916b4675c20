"""What can be written: the table, and the contract of a target and of the program that runs its file.

Shapes: B rows, T steps, V words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol, runtime_checkable

from thereafter.base.kinds import Registry
from thereafter.errors import ExportError
from thereafter.export.plan import Plan
from thereafter.models.base import Floats, Ids

TARGETS = Registry(
    "target",
    {
        "arpa": "thereafter.export.arpa:TARGET",
        "c": "thereafter.export.c.target:TARGET",
        "html": "thereafter.export.html.target:TARGET",
        "onnx": "thereafter.export.onnx.model:TARGET",
        "torch": "thereafter.export.torch_program:TARGET",
        "transformers": "thereafter.export.gpt2:TARGET",
    },
)

FLOAT32 = 1e-4
FLOAT16 = 1e-3
"""The largest difference of a log p that a file may have, by the type of its weights."""


@dataclass(frozen=True)
class WrittenFiles:
    """The files of an export, the main one first, and what there is to say of them: the size of the state, ..."""

    paths: tuple[Path, ...]
    facts: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Opening:
    """The text that a page opens on, and where it is from, in words."""

    prompt: str = ""
    source: str = ""


class Runner(Protocol):
    """A written file as a program runs it; the state of its rows is kept inside."""

    name: ClassVar[str]
    """Who runs the file here: the outside program, or an interpreter of ours where that is missing."""

    def start(self, rows: int) -> Floats:
        """Begin anew: the fresh state reads `<s>`. log p of every first token, [B, V]."""

    def step(self, token_B: Ids) -> Floats:
        """Read one token a row, line ends as the file itself reads them; log p of every token after it, [B, V]."""

    def close(self) -> None:
        """End the program."""


@runtime_checkable
class SequenceRunner(Runner, Protocol):
    """One whose files read whole sequences too, with a state of their own that `start` makes fresh."""

    def whole(self, tokens_BT: Ids) -> Floats:
        """Read T tokens a row, the first of a text being `<s>`; log p after each of them, [B, T, V]."""


@runtime_checkable
class EncodingRunner(Runner, Protocol):
    """One whose files may turn texts into tokens by themselves."""

    def encode(self, texts: Sequence[str]) -> list[list[int]] | None:
        """The tokens of each text; None where the file has no encoder."""


class Target(Protocol):
    """A form that models are written in."""

    ending: ClassVar[str]
    """How a file's name ends, ".c"; "" where it is a folder."""
    program: ClassVar[str]
    """Who the file is for and should run it in the check, "ONNX Runtime"; `Runner.name` says who did."""
    tolerance: ClassVar[float]
    """The largest difference of a log p that may be left; of int8 weights bits per byte decide."""

    def refuses(self, plan: Plan, int8: bool) -> str | None:
        """Why this plan has no such form, in a sentence that says what to try; None where it has one."""

    def write(self, plan: Plan, path: Path, *, int8: bool) -> WrittenFiles:
        """Write the file `path`, and others beside it where it needs any; the folder is a temporary one."""

    def runner(self, plan: Plan, written: WrittenFiles) -> Runner | None:
        """The file, run by the program, else by an interpreter of ours; None where there is neither."""


@runtime_checkable
class OpeningTarget(Target, Protocol):
    """One whose file opens on a text that it shows."""

    def opening_on(self, opening: Opening) -> Target:
        """The same target with that text."""


def target_of(name: str) -> Target:
    """The target of a name; UnknownNameError names the nearest, ExportError says that one is not built."""
    try:
        target: Target = TARGETS.load(name)
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("thereafter."):
            raise
        others = ", ".join(other for other in TARGETS if other != name)
        raise ExportError(f"the target {name!r} is not built in this version; try {others}") from error
    return target

"""Where the examples of a task are: the parts of a named corpus, files given by name, or one file that is cut."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from thereafter import progress
from thereafter.errors import EmptyCorpusError, SourceError
from thereafter.tasks.task import AnyTask
from thereafter.text.sources import AnySource, Source, Texts, resolve

HELD_OUT = 0.1
"""Of the examples, where no others are given to validate on: the last ones."""


@dataclass(frozen=True)
class Part:
    """Examples with the name and the files they came from."""

    name: str
    files: tuple[Path, ...]
    examples: list[object]
    fingerprint: str


def find(task: AnyTask, source: AnySource, part: str) -> Part:
    """A part of a source: of a corpus the one asked for, else all of it."""
    found = _source(task, source, part)
    examples = task.read(found.files)
    if not examples:
        raise EmptyCorpusError(f"{found.name} holds no examples; expected at least one")
    return Part(found.name, found.files, examples, found.fingerprint())


def train_and_valid(task: AnyTask, source: AnySource, valid: AnySource | None) -> tuple[Part, Part, list[str]]:
    """What is learned from and what is validated on, and what is to be said of the choice."""
    train = find(task, source, "train")
    if valid is not None:
        held = find(task, valid, "valid")
        return train, held, [f"validation on {held.name}", *_validated_on_training(train, held)]
    if has(task, source, "valid"):
        return train, find(task, source, "valid"), []
    cut = len(train.examples) - max(1, round(HELD_OUT * len(train.examples)))
    if cut < 1:
        raise EmptyCorpusError(
            f"{train.name} has {len(train.examples)} example to train and validate on; expected at least 2"
        )
    held = Part(f"{train.name} (last {len(train.examples) - cut:,})", train.files, train.examples[cut:], "")
    kept = Part(train.name, train.files, train.examples[:cut], train.fingerprint)
    return kept, held, [f"the last {len(held.examples):,} examples of {train.name} validate"]


def _validated_on_training(train: Part, valid: Part) -> list[str]:
    """A warning where both are the same examples, whatever their files are called."""
    if train.examples != valid.examples:
        return []
    warning = (
        f"{progress.WARNING}the validation examples ({valid.name}) are the training examples ({train.name}): the "
        "weights that are kept are those that know them by heart; try other examples (valid=, --valid), or leave it out"
    )
    return [warning]


def has(task: AnyTask, source: AnySource, part: str) -> bool:
    """Whether a source has a part of that name, as a corpus does."""
    texts = _resolved(task, source)
    return part in texts.parts or task.part(texts, part) is not None


def _source(task: AnyTask, source: AnySource, part: str) -> Source:
    texts = _resolved(task, source)
    if texts.kind not in ("text", task.kind):
        raise SourceError(f"{texts.name} holds {texts.kind} lines; the task {task.name!r} takes {task.kind} ones")
    found = task.part(texts, part) or texts.parts.get(part) or texts.parts.get("text") or texts.parts.get(task.kind)
    if found is None and len(texts.parts) == 1:
        found = next(iter(texts.parts.values()))
    if found is None:
        raise SourceError(f"{texts.name} has no part {part!r}; it has {', '.join(texts.parts)}")
    if not found.files:
        raise SourceError(f"{found.name} is no file; expected one with {task.kind} lines")
    return found


def _resolved(task: AnyTask, source: AnySource) -> Texts:
    """What a source leads to; of pairs it may be two files with a comma between them."""
    if task.kind == "pairs" and isinstance(source, str) and source.count(",") == 1 and not Path(source).exists():
        return resolve(source.split(","))
    return resolve(source)

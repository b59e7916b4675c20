"""Where the examples of a task are: the parts of a named corpus, files given by name, or one file that is cut.

A run says in its configuration where its examples are, and they are found again by that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.data import corpora
from thereafter.data.corpora import locate_source, require_own
from thereafter.data.files import AnySource, Files, Parts
from thereafter.data.finding import own_parts
from thereafter.errors import EmptyCorpusError, SourceError
from thereafter.series.frames import IN_MEMORY
from thereafter.tasks import TASKS
from thereafter.tasks.task import AnyTask, Dividing, Locating, Preparing, aspect, name_for

HELD_OUT = 0.1
"""Of the examples, where no others are given to validate on: the last ones."""
_READING = b"None False False\n"
"""What `Source.fingerprint` puts before the content of plain text: so hashes in older run folders still match."""


@dataclass(frozen=True)
class Part:
    """Examples with the name and the files they came from."""

    name: str
    files: tuple[Path, ...]
    examples: Sequence[object]
    fingerprint: str


def task_for(name: str, source: AnySource) -> AnyTask:
    """The task of that name, or the one that takes this source in its place, which is printed.

    One name may stand for several: `classify` takes texts, and series of numbers too.
    """
    task: AnyTask = TASKS.load(name)
    chosen = name_for(task, source)
    if chosen == task.name:
        return task
    progress.note(f"the source holds {TASKS.load(chosen).kind}: the task {chosen!r} is taken for {name!r}")
    other: AnyTask = TASKS.load(chosen)
    return other


def find(task: AnyTask, source: AnySource, part: str) -> Part:
    """A part of a source: of a corpus the one asked for, else all of it."""
    given = located(task, source)
    files = files_of(task, given, part)
    examples = _read(task, files)
    if isinstance(task, Dividing):
        examples = task.part_of(examples, _portion(given, part), files.split)
    return Part(files.name, files.files, examples, files.content_hash(_READING))


def _read(task: AnyTask, files: Files) -> Sequence[object]:
    examples = task.read(files.files)
    if not examples:
        raise EmptyCorpusError(f"{files.name} holds no examples; expected at least one")
    return examples


def train_and_valid(task: AnyTask, source: AnySource, valid: AnySource | None) -> tuple[Part, Part, list[str]]:
    """The training examples and the validation examples, with notes on how they were chosen."""
    divided = _divided(task, source, valid)
    if divided is not None:
        return divided
    source = located(task, source)
    train, notes = find(task, source, "train"), list(source.notes)
    if valid is not None:
        validation = find(task, valid, "valid")
        notes += [f"validation on {validation.name}", *_validated_on_training(train, validation)]
        return train, validation, notes
    if has(task, source, "valid"):
        return train, find(task, source, "valid"), notes
    if len(train.examples) < 2:
        raise EmptyCorpusError(
            f"{train.name} has {len(train.examples)} example to train and validate on; expected at least 2"
        )
    learned, heldout, how = aspect(task, Preparing).hold_out(train.examples, HELD_OUT)
    validation = Part(f"{train.name} (last {len(heldout):,})", train.files, heldout, "")
    last, are = ("example", "is") if len(heldout) == 1 else (f"{len(heldout):,} examples", "are")
    note = f"the last {last} of {train.name}{how} {are} held out for validation"
    return replace(train, examples=learned), validation, [*notes, note]


def joined(task: AnyTask, source: AnySource) -> Parts:
    """A source of files that are one, whatever part their names say they are."""
    return require_own(located(task, source, parts=False))


def _divided(task: AnyTask, source: AnySource, valid: AnySource | None) -> tuple[Part, Part, list[str]] | None:
    """The parts of one file, read once; or all of it, where another one validates. None where a task divides none."""
    if not isinstance(task, Dividing):
        return None
    given = located(task, source)
    files = files_of(task, given, "train")
    if valid is None and _portion(given, "train") == "train":
        task.check_split(files.split)
    examples, fingerprint = _read(task, files), files.content_hash(_READING)
    notes = [*given.notes, *task.notes(examples, files.split)]
    if valid is None and _portion(given, "train") == "train":
        train, validation = (
            Part(files.name, files.files, task.part_of(examples, part, files.split), fingerprint)
            for part in ("train", "valid")
        )
        return train, validation, notes
    train = Part(files.name, files.files, task.part_of(examples, "all", files.split), fingerprint)
    other = files_of(task, given if valid is None else valid, "valid")
    checked = task.part_of(_read(task, other), "all", other.split)
    validation = Part(other.name, other.files, checked, other.content_hash(_READING))
    return train, validation, [*notes, f"validation on {validation.name}", *_validated_on_training(train, validation)]


def _portion(given: Parts, part: str) -> str:
    """How much of the files of a part a task that divides its files takes: all of them, where they are of one part."""
    if part == "test" and part in given.parts:
        return "whole"
    return "all" if "valid" in given.parts and part in ("train", "valid") else part


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
    given = located(task, source)
    if isinstance(task, Dividing):
        return task.has_part(given, part)
    return part in given.parts or aspect(task, Locating).part(given, part) is not None


def files_of(task: AnyTask, source: AnySource, part: str) -> Files:
    """The files of a part of a source; "all" of them."""
    given = located(task, source)
    if given.kind not in ("text", task.kind):
        raise SourceError(f"{given.name} holds {given.kind} lines; the task {task.name!r} takes {task.kind} ones")
    if part == "all" and given.part_files is not None:
        given = locate_source(given, task.file_kind, parts=False)
    own, shared = aspect(task, Locating).part(given, part), given.parts.get("shared")
    files = own or given.parts.get(part) or given.parts.get("text") or given.parts.get(task.kind)
    if files is not None and own is None and shared is not None:
        files = replace(files, files=(*files.files, *shared.files))
    if files is None and len(given.parts) == 1:
        files = next(iter(given.parts.values()))
    if files is None:
        raise SourceError(f"{given.name} has no part {part!r}; it has {', '.join(given.parts)}")
    if not files.files:
        raise SourceError(f"{files.name} is no file; expected one with {task.kind} lines")
    return files


def located(task: AnyTask, source: AnySource, *, parts: bool = True) -> Parts:
    """A source as the files of its parts; a stream is read for it, and is a source no more.

    Of pairs it may be two files with a comma between them.
    """
    if task.kind == "pairs" and isinstance(source, str) and source.count(",") == 1 and not Path(source).exists():
        return locate_source(source.split(","), task.file_kind)
    return locate_source(source, task.file_kind, parts=parts)


def describe_examples(
    source: AnySource, parts: Parts, train: Part, valid_source: AnySource | None, valid: Part
) -> Table:
    """What the configuration says of the examples, so that they can be found again."""
    about: Table = {"name": name_of(source), "files": _full_names(source, train), "sha256": train.fingerprint}
    about |= parts.named_files() | {"valid_sha256": valid.fingerprint}
    if valid_source is not None:
        about |= {"valid_name": name_of(valid_source), "valid_files": _full_names(valid_source, valid)}
    return about


def name_of(source: AnySource) -> str:
    """What a source is called."""
    return source.name if isinstance(source, Files | Parts) else str(source)


def _full_names(source: AnySource, part: Part) -> list[str] | None:
    """The files of a source by their full names; a corpus is found again by its own."""
    if isinstance(source, str) and source.partition(":")[0] in corpora.names():
        return None
    return [str(path.absolute()) for path in part.files]


def learned_from(task: AnyTask, config: Table, whose: str) -> tuple[Part, Part]:
    """The examples that a run is trained and validated on, found again."""
    source = config["source"]
    for name, paths in ((source["name"], source.get("files")), (source.get("valid_name"), source.get("valid_files"))):
        if name in IN_MEMORY and not all(Path(path).exists() for path in paths or ()):
            raise SourceError(
                f"{whose} learned from {name}, which is gone with the process that had it; try writing the table to a "
                "file (.csv) and training on that, with another --out"
            )
    valid_source = list(source["valid_files"]) if source.get("valid_files") else source.get("valid_name")
    train, valid, _ = train_and_valid(task, source_of(config), valid_source)
    for part, key in ((train, "sha256"), (valid, "valid_sha256")):
        if part.fingerprint != source.get(key, part.fingerprint):  # older runs do not say what they validated on
            raise SourceError(
                f"{part.name} has changed since {whose} began (its sha256 is another); try putting that back, or "
                "training anew with another --out"
            )
    return train, valid


def source_of(config: Table) -> AnySource:
    """What a run learned from, as it was given: a corpus by its name, else files."""
    source = config["source"]
    if source.get("part_files"):
        files = {part: [Path(str(file)) for file in own] for part, own in source["part_files"].items()}
        return own_parts(str(source["name"]), files)
    return list(source["files"]) if source.get("files") else str(source["name"])

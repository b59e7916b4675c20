"""The corpus as files: plain text for models, and beside each part a `.jsonl` with the dependency of every line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from thereafter.base import progress
from thereafter.errors import FormatError, OptionError, SourceError, StorageError, UnknownNameError
from thereafter.text.agreement.generator import DEFAULT_SEED, DEFAULT_SENTENCES, LONGEST, deal
from thereafter.text.agreement.parts import PARTS, Part
from thereafter.text.agreement.sentence import Sentence, from_record

_REPORT_EVERY = 500


def write_corpus(
    folder: Path,
    *,
    seed: int = DEFAULT_SEED,
    sizes: Mapping[str, int] = DEFAULT_SENTENCES,
    pairs: Iterable[str] = ("agreement",),
    max_distance: int = LONGEST,
    min_distance: int = 0,
    name: str = "agreement",
) -> dict[str, Path]:
    """Write `NAME.train.txt`, `.valid.txt` and `.test.txt`, each with its `.jsonl`; the text files by part.

    Files are written aside and moved into place once all are complete, so a reader never meets half a corpus.
    """
    for part, size in sizes.items():
        if part not in PARTS:
            raise UnknownNameError("part of the agreement corpus", str(part), PARTS)
        if not isinstance(size, int) or size < 0:
            raise OptionError(f"the size of part {part!r} is {size!r}; expected a number of sentences, 0 or more")
    stream = deal(seed, pairs, max_distance, min_distance)
    texts = {str(part): folder / f"{name}.{part}.txt" for part in PARTS if part in sizes}
    aside = {
        end: end.with_name(f".{end.name}.{os.getpid()}.{os.urandom(4).hex()}")
        for text in texts.values()
        for end in (_records_beside(text), text)
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write_parts(
            stream,
            dict(sizes),
            {part: (aside[text], aside[_records_beside(text)]) for part, text in texts.items()},
            f"{name} corpus",
        )
        for end, start in aside.items():
            os.replace(start, end)
    except OSError as fault:
        raise StorageError(
            f"the corpus {name} could not be written to {folder}: {fault.strerror or fault}; "
            "check that it is a folder you may write to and that the disk is not full"
        ) from fault
    finally:
        for start in aside.values():
            with suppress(OSError):  # a folder that cannot be used was reported above
                start.unlink(missing_ok=True)
    return texts


def read_sentences(path: Path) -> Iterator[Sentence]:
    """The sentences of a `.jsonl` file that `write_corpus` wrote, one after the other."""
    try:
        with open(path, encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    record = json.loads(line)
                except ValueError as fault:
                    raise FormatError(
                        f"line {number} of {path} is not JSON ({fault}); write the corpus again"
                    ) from fault
                yield from_record(record)
    except OSError as fault:
        raise SourceError(
            f"{path} could not be read: {fault.strerror or fault}; write_corpus makes such files, one for each part"
        ) from fault


def _records_beside(text: Path) -> Path:
    return text.with_suffix(".jsonl")


def _write_parts(
    stream: Iterator[tuple[Part, Sentence]], wanted: dict[str, int], places: dict[str, tuple[Path, Path]], label: str
) -> None:
    """Deal the stream out to the files of its parts (text, records) until each has what it wants."""
    with (
        ExitStack() as files,
        progress.task(label, total=sum(wanted.values()), unit="sentences") as advance,
    ):
        pens = {
            part: tuple(files.enter_context(open(path, "w", encoding="utf-8", newline="\n")) for path in paths)
            for part, paths in places.items()
        }
        written = 0
        missing = sum(wanted.values())
        while missing:
            part, sentence = next(stream)
            if not wanted.get(part):
                continue
            plain, known = pens[part]
            plain.write(sentence.text + "\n")
            known.write(json.dumps(sentence.record(), ensure_ascii=False) + "\n")
            wanted[part] -= 1
            missing -= 1
            written += 1
            if written == _REPORT_EVERY or not missing:
                advance(written)
                written = 0

"""Pairs of sentences, one the answer to the other: translations, summaries, questions and answers.

Tab-separated (`Go.<TAB>Va !`; further columns and blank lines are ignored), or two files of which line i is the pair of
line i. White space around a sentence is removed.

A pair with an empty side is useless for training, and leaving it out silently would change a BLEU score. So it is an
error that names the line, unless `skip_empty` asks to leave such pairs out; a note then says how many.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from thereafter.base import progress
from thereafter.errors import EmptyCorpusError, FormatError, OptionError
from thereafter.text.reading import place, read_lines
from thereafter.text.tables import columns

Path = str | os.PathLike[str]


@dataclass(frozen=True)
class SentencePair:
    """A source sentence and its target; `line` is its line in the file.

    >>> SentencePair("Go.", "Va !").target
    'Va !'
    """

    source: str
    target: str
    line: int = field(default=0, compare=False)


def read_pairs(
    path: Path, *, source: int = 1, target: int = 2, skip_empty: bool = False, encoding: str | None = None
) -> list[SentencePair]:
    """The pairs of a tab-separated file; `source` and `target` are columns, counted from 1."""
    if min(source, target) < 1 or source == target:
        raise OptionError(
            f"source is column {source} and target column {target}; expected two different columns, counted from 1"
        )
    return _check_pairs(_rows(path, source - 1, target - 1, encoding), os.fspath(path), skip_empty)


def read_two(
    source: Path, target: Path, *, skip_empty: bool = False, encoding: str | None = None
) -> list[SentencePair]:
    """The pairs of two files, line by line; both have the same number of lines."""
    sources, targets = (list(read_lines(path, encoding=encoding)) for path in (source, target))
    names = f"{os.fspath(source)} and {os.fspath(target)}"
    if len(sources) != len(targets):
        short, lines = (source, len(sources)) if len(sources) < len(targets) else (target, len(targets))
        raise FormatError(
            f"{os.fspath(source)} has {len(sources):,} lines and {os.fspath(target)} {len(targets):,}, expected as "
            f"many in both, line by line; {os.fspath(short)} ends after line {lines}: is it cut short?"
        )
    both = zip(sources, targets, strict=True)
    rows = (SentencePair(one.strip(), other.strip(), line) for line, (one, other) in enumerate(both, start=1))
    return _check_pairs(rows, names, skip_empty)


def has_tabs(path: Path) -> bool:
    """Whether the first line of a file has two columns."""
    return any("\t" in line for line in islice(filter(str.strip, read_lines(path)), 1))


def _rows(path: Path, source: int, target: int, encoding: str | None) -> Iterator[SentencePair]:
    needed = max(source, target) + 1
    for number, line in enumerate(read_lines(path, encoding=encoding), start=1):
        if not line.strip():
            continue
        cells = line.split("\t")
        if len(cells) < needed:
            raise FormatError(
                f"{place(path, number)} has {columns(len(cells))}, expected at least {needed}: a sentence, a tab and "
                "its pair"
            )
        yield SentencePair(cells[source].strip(), cells[target].strip(), number)


def _check_pairs(rows: Iterator[SentencePair], name: str, skip_empty: bool) -> list[SentencePair]:
    pairs: list[SentencePair] = []
    skipped = 0
    for pair in rows:
        if pair.source and pair.target:
            pairs.append(pair)
        elif skip_empty:
            skipped += 1
        else:
            side = "source" if not pair.source else "target"
            raise FormatError(
                f"{place(name, pair.line)} has an empty {side}, expected words on both sides; correct it, or leave "
                "such pairs out with skip_empty=True"
            )
    if not pairs:
        left_out = f" ({skipped:,} with an empty side were left out)" if skipped else ""
        raise EmptyCorpusError(f"{name} holds no pairs of sentences{left_out}; expected at least one")
    if skipped:
        progress.note(f"{name}: {skipped:,} of {len(pairs) + skipped:,} pairs have an empty side and were left out")
    return pairs

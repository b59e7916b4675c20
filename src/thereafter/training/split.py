"""Text that training does not see: the valid part of a corpus, another source, or the end of the text itself.

A single text keeps its last 5 % of lines for validation; `split="90/10"` cuts by characters instead. Slices are read in
pieces like any other text, so a text may be larger than memory.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import EmptyCorpusError, OptionError
from thereafter.text.reading import code_points
from thereafter.text.sources import Source, Texts

HELD_OUT = 0.05
_LEAST = 200  # characters that a text of one line must have to be cut inside the line


@dataclass(frozen=True)
class SourceSlice(Source):
    """The characters `begin` to `end` of another source, as that one reads them."""

    begin: int = 0
    end: int = 0

    @classmethod
    def of(cls, source: Source, name: str, begin: int, end: int) -> SourceSlice:
        """A stretch of a source under its own name."""
        whole = {field.name: getattr(source, field.name) for field in fields(Source)}
        return cls(**whole | {"name": name}, begin=begin, end=end)

    def whole(self) -> Source:
        """The source it was cut from."""
        return Source(**{field.name: getattr(self, field.name) for field in fields(Source)})

    @property
    def size(self) -> int:
        """The characters; a progress bar needs no more than that."""
        return self.end - self.begin

    def _normalised(self, advance: Callable[[float], None]) -> Iterator[str]:
        """The stretch, in pieces."""
        at = 0
        for chunk in super()._normalised(advance):
            piece = chunk[max(0, self.begin - at) : max(0, self.end - at)]
            at += len(chunk)
            if piece:
                yield piece
            if at >= self.end:
                return

    def fingerprint(self) -> str:
        """sha256 of the whole, and of where the cut is."""
        return hashlib.sha256(f"{super().fingerprint()} {self.begin} {self.end}".encode()).hexdigest()


def split_texts(texts: Texts, split: str | None, *, hold_out: bool) -> tuple[Texts, list[str]]:
    """Texts with a training and a validation part, and a note on how they were split.

    A corpus that has both keeps them. `split` cuts a single text by characters; without it the last 5 % of lines are
    held out if `hold_out` says so.
    """
    if "valid" in texts.parts:
        if split is not None:
            as_one = "" if texts.corpus is not None else ", or read all files as one: parts=False (--parts no)"
            got = f"{texts.name} has a valid part of its own (got split={split!r})"
            raise OptionError(f"{got}; leave split out{as_one}")
        return texts, []
    key = "train" if "train" in texts.parts else "text"
    if key not in texts.parts or not (hold_out or split):
        return texts, []
    whole = texts.parts[key]
    if split is not None:
        shares = _shares(split)
        length = sum(len(chunk) for chunk in whole.chunks())
        bounds = [round(length * sum(shares[:k]) / 100) for k in range(len(shares) + 1)]
        note = f"split {split} by characters: {bounds[1]:,} for training, {bounds[2] - bounds[1]:,} for validation"
    else:
        bounds, note = _last_lines(whole)
    names = ("train", "valid", "test")[: len(bounds) - 1]
    cut = {
        name: SourceSlice.of(whole, f"{whole.name} ({name})", begin, end)
        for name, begin, end in zip(names, bounds[:-1], bounds[1:], strict=True)
    }
    return replace(
        texts, parts={**cut, **{name: part for name, part in texts.parts.items() if name not in ("text", key)}}
    ), [note]


def _shares(split: str) -> list[float]:
    """ "90/10" as numbers; two for training and validation, a third for testing."""
    try:
        shares = [float(part) for part in str(split).split("/")]
    except ValueError:
        shares = []
    if len(shares) not in (2, 3) or min(shares) <= 0 or abs(sum(shares) - 100) > 1e-6:
        raise OptionError(
            f"split is {split!r}; expected shares above 0 that add up to 100; try 90/10, or 90/5/5 to keep a test part"
        )
    return shares


def _last_lines(source: Source) -> tuple[list[int], str]:
    """Where the last 5 % of lines begin, and the end, in characters."""
    lines = length = 0
    last = "\n"
    line_ends: deque[NDArray[np.int64]] = deque()  # where lines end, of the last chunks: the cut is at one of them
    before = 0  # lines that end before those
    for chunk in source.chunks():
        line_ends.append(np.flatnonzero(code_points(chunk) == ord("\n")).astype(np.int64) + (length + 1))
        lines, length, last = lines + len(line_ends[-1]), length + len(chunk), chunk[-1]
        while before + len(line_ends[0]) < lines - _held_out_lines(lines):
            before += len(line_ends.popleft())
    lines += last != "\n"
    if lines < 2 and length < _LEAST:
        raise EmptyCorpusError(
            f"{source.name} has {length:,} characters in {lines} line{'s' * (lines != 1)}: too little to hold out some "
            "for validation; try a longer text, another to validate on (valid=, --valid), or model='ngram'"
        )
    if lines < 2:
        begin = round(length * (1 - HELD_OUT))
        return [0, begin, length], f"one long line: its last {length - begin:,} characters are held out for validation"
    last_lines = _held_out_lines(lines)
    begin = int(np.concatenate(line_ends)[lines - last_lines - before - 1])
    return [0, begin, length], f"the last {last_lines:,} of {lines:,} lines are held out for validation"


def _held_out_lines(lines: int) -> int:
    return max(1, round(lines * HELD_OUT))

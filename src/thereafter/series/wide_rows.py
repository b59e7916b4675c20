"""A row a series: a label and the values of one channel, as the UCR archive writes its sets.

Values are separated by tabs, commas, semicolons or spaces. Rows may have different lengths; missing values at the end
of a row are its end (the archive pads short series so), others are NaN.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import FormatError
from thereafter.series.cells import is_missing, number_of, numbers_of
from thereafter.text.encodings import guess_encoding
from thereafter.text.lines import place, read_lines

LEAST = 3
"""Values a row: fewer may be columns of a table."""
_SAMPLE = 50  # rows by which the form is recognised


@dataclass(frozen=True)
class WideRow:
    """A row: its line in the file, the label before the values (empty where there is none), the values [T]."""

    line: int
    label: str
    values_T: NDArray[np.float64]


def looks_wide(path: Path) -> bool:
    """Whether a file has a label and numbers in every row, and no names above them.

    Labels repeat, or are words; a first column of numbers that differ from row to row is a time.
    """
    rows = [cells for _, cells in islice(_rows(path), _SAMPLE)]
    sound = [len(cells) > LEAST and all(map(_is_number, cells[1:])) for cells in rows]
    if not rows or not sound[0] or 2 * sum(sound) < len(sound):  # which row is damaged is said when it is read
        return False
    labels = [cells[0] for cells in rows if not is_missing(cells[0])]
    if not all(map(_is_number, labels)):
        return True
    return len(set(labels)) <= max(2, len(labels) // 2) and all(map(_is_whole, labels))


def looks_bare(path: Path) -> bool:
    """Whether a file has several numbers in its rows, and nothing else: values without labels."""
    rows = [cells for _, cells in islice(_rows(path), _SAMPLE)]
    return any(len(cells) > 1 for cells in rows) and all(_is_number(cell) for cells in rows for cell in cells)


def read_wide(path: Path, labels: Collection[str] | None = None) -> Iterator[WideRow]:
    """The rows of a file. With `labels`, those of a run, a row may begin without one: then all of it is values."""
    with_labels = labels is None or all(_label(cells[0]) in labels for _, cells in islice(_rows(path), _SAMPLE))
    for line, cells in _rows(path):
        label = _label(cells[0]) if with_labels else ""
        values = cells[1:] if with_labels else cells
        if with_labels and is_missing(label):
            raise FormatError(f"{place(path, line)} begins with {cells[0]!r}; expected the label of the series")
        values_T, wrong = numbers_of(values)
        if wrong >= 0:
            raise FormatError(
                f"{place(path, line)} has {values[wrong].strip()[:40]!r} as value {wrong + 1}; expected a number, or "
                "NaN where it is missing"
            )
        seen = np.flatnonzero(~np.isnan(values_T))
        if not len(seen):
            raise FormatError(f"{place(path, line)} has a series without values; expected at least one number")
        yield WideRow(line, label, values_T[: seen[-1] + 1])


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The cells of every row that is not empty, with its line."""
    separator: str | None = ""
    for number, line in enumerate(read_lines(path, encoding=guess_encoding(path)), start=1):
        if not line.strip():
            continue
        if separator == "":
            separator = next((one for one in "\t;," if one in line), None)
        cells = line.split() if separator is None else line.split(separator)
        yield number, [cell.strip().strip('"') for cell in cells]


def _is_number(cell: str) -> bool:
    return number_of(cell) is not None


def _is_whole(cell: str) -> bool:
    number = number_of(cell)
    return number is not None and np.isfinite(number) and number == int(number)


def _label(cell: str) -> str:
    """A label as it is written; 1.0000000e+00, as older sets have it, is 1."""
    text = cell.strip()
    if any(sign in text for sign in ".eE") and _is_whole(text):
        return str(int(float(text)))
    return text

"""Tables of labels beside pictures: .csv or .tsv with the columns image and label."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from thereafter.errors import FormatError
from thereafter.images.caption_files import PICTURE_COLUMNS
from thereafter.text.labelled import LABEL_NAMES
from thereafter.text.lines import place
from thereafter.text.tables import TextTable, read_table, require_characters

LABEL_TABLES = (".csv", ".tsv")


def is_label_table(path: Path) -> bool:
    """Whether a table has labels: columns that are called so, or two without names."""
    return _columns_of(_read(path)) is not None


def read_label_table(path: Path) -> Iterator[tuple[str, str, str]]:
    """The name of a picture, its label, and the place where it stands."""
    table = _read(path)
    columns = _columns_of(table)
    if columns is None:
        raise FormatError(
            f"the columns of {os.fspath(path)} do not say which are pictures and labels ({table.describe_columns()}); "
            "expected image and label"
        )
    for row in table.rows:
        name, label = (str(row.cells[column]).strip() for column in columns)
        if not name or not label:
            raise FormatError(f"{place(path, row.line)} lacks a name or a label; expected both")
        yield name, require_characters(label, place(path, row.line)), place(path, row.line)


def _read(path: Path) -> TextTable:
    return read_table(path, has_header=lambda rows: _names_pictures(rows[0].cells))


def _names_pictures(cells: Sequence[object]) -> bool:
    return any(str(cell).strip().lower() in PICTURE_COLUMNS for cell in cells)


def _columns_of(table: TextTable) -> tuple[int, int] | None:
    if table.names is not None:
        return _columns(table.names)
    return (0, 1) if table.width == 2 else None


def _columns(names: list[str]) -> tuple[int, int] | None:
    small = [name.strip().lower() for name in names]
    pictures = [small.index(known) for known in PICTURE_COLUMNS if known in small]
    labels = [small.index(known) for known in LABEL_NAMES if known in small]
    return (pictures[0], labels[0]) if pictures and labels else None

"""Files that captions stand in, and files of names.

Flickr8k     `name.jpg#0<TAB>caption`, a line a caption
tables       .csv, .tsv or .txt with the columns image (file, picture, name) and caption (text), or these two in order
jsonl        an object a caption, or a picture: {"image": "a.jpg", "captions": ["...", "..."]}
names        one a line: only these pictures are meant
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from thereafter.errors import EmptyCorpusError, FormatError
from thereafter.images.decoding import PICTURE_ENDINGS
from thereafter.text.lines import place, read_lines
from thereafter.text.tables import TableRow, TextTable, format_of, read_table, require_characters

CAPTION_ENDINGS = (".txt", ".tsv", ".csv", ".jsonl", ".ndjson")
PICTURE_COLUMNS = ("image", "picture", "file", "filename", "file_name", "image_name", "image_id", "name", "id", "photo")
CAPTION_COLUMNS = ("caption", "captions", "text", "sentence", "comment", "description", "raw")
_NUMBER = re.compile(r"#\d+$")
_LOOKED_AT = 50  # lines, to tell names from captions


def read_names(path: Path) -> list[str] | None:
    """The names in a file that has one a line; None if it has captions."""
    if path.name.lower().removesuffix(".gz").endswith((".jsonl", ".ndjson")):
        return None
    first = [line for line in islice(read_lines(path), _LOOKED_AT) if line.strip()]
    if not first:
        raise EmptyCorpusError(f"{path} is empty; expected captions, or the names of pictures, one a line")
    is_table = path.name.lower().removesuffix(".gz").endswith(".csv") and "," in first[0]
    if is_table or any("\t" in line for line in first):
        return None
    if _columns_of(first[0].split(",")) or not all(_is_name(line) for line in first):
        return None
    return [line.strip() for line in read_lines(path) if line.strip()]


def read_captions(path: Path) -> Iterator[tuple[str, str]]:
    """The name of a picture and a caption, in the order of the file."""
    kind = format_of(path, None)
    table = read_table(path, format=kind, has_header=lambda rows: bool(_columns_of(rows[0].cells)))
    if not table.rows:
        raise EmptyCorpusError(f"{path} holds no captions; expected at least one")
    picture, caption = _columns(table, path)
    for row in table.rows:
        name = row.cells[picture]
        if not isinstance(name, str | int) or not str(name).strip():
            raise FormatError(f"{place(path, row.line)} names no picture; expected the name of its file")
        yield from ((_NUMBER.sub("", str(name).strip()), one) for one in _captions(path, row, caption))


def _captions(path: Path, row: TableRow, column: int) -> Iterator[str]:
    given = row.cells[column]
    for one in given if isinstance(given, list) else [given]:
        if not isinstance(one, str) or not one.strip():
            raise FormatError(f"{place(path, row.line)} has no caption for {row.cells[0]!r}; expected some words")
        yield require_characters(" ".join(one.split()), place(path, row.line))


def _columns(table: TextTable, path: Path) -> tuple[int, int]:
    if table.names is not None:
        columns = _columns_of(table.names)
        if columns is not None:
            return columns
    elif table.width == 2:
        return 0, 1
    raise FormatError(
        f"the columns of {os.fspath(path)} do not say which are pictures and captions ({table.describe_columns()}); "
        "expected image and caption, or `name.jpg#0<TAB>caption`"
    )


def _columns_of(names: Sequence[object]) -> tuple[int, int] | None:
    """The columns of pictures and of captions in a row of names; None if these are no names of columns."""
    small = [str(name).strip().lower().lstrip("\ufeff") for name in names]
    pictures = [small.index(known) for known in PICTURE_COLUMNS if known in small]
    captions = [small.index(known) for known in CAPTION_COLUMNS if known in small]
    return (pictures[0], captions[0]) if pictures and captions and pictures[0] != captions[0] else None


def _is_name(line: str) -> bool:
    """Whether a line is the name of a file: it ends like one, or is one word."""
    return line.strip().lower().endswith(PICTURE_ENDINGS) or len(line.split()) == 1

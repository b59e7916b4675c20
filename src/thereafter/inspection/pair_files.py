"""Files of minimal pairs.

A pair file has either two sentences a line with a tab between them, the good one first, or a JSON object a line with
`sentence_good` and `sentence_bad`, as BLiMP's; `field`, `linguistics_term` and `UID` are groups to count by. A `.csv`
has two columns, or columns that its first line names, as a `.tsv` may have; all of them are kept.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path

from thereafter.data.finding import FileKind, find_files
from thereafter.errors import EmptyCorpusError, FormatError, SourceError
from thereafter.text.reading import read_chunks
from thereafter.text.tables import require_characters

GROUPS = ("field", "linguistics_term", "UID")
PAIR_FILES = FileKind("pair files", ((".jsonl",), (".tsv", ".txt"), (".csv",)))
HEADERS = (("good", "bad"), ("sentence_good", "sentence_bad"))
"""What the columns of a table of pairs are called."""
PairFiles = str | PathLike[str] | Sequence[str | PathLike[str]]
"""A path, a folder, a glob such as 'blimp/*.jsonl', or several of them."""


@dataclass(frozen=True)
class Pair:
    """Two sentences, the good one first, and the groups the pair belongs to; `file` and `line` say where it stands.

    `columns` has what else the file says of it, by name.
    """

    good: str
    bad: str
    groups: dict[str, str] = field(default_factory=dict)
    file: str = field(default="", compare=False)
    line: int = field(default=0, compare=False)
    columns: dict[str, object] = field(default_factory=dict, compare=False)


def read_pair_files(files: PairFiles, *, encoding: str | None = None) -> list[Pair]:
    """The pairs of all these files, one file after the other, each once. Of several files each is a group too."""
    given = [files] if isinstance(files, str | PathLike) else list(files)
    paths: dict[Path, None] = {}
    for one in given:
        here = find_files(one, PAIR_FILES)
        if not here:
            raise SourceError(
                f"{os.fspath(one)!r} is neither a file nor a glob that matches one; expected a file with two sentences "
                "a line and a tab between them, a .csv with two columns, or BLiMP's jsonl; try 'blimp/*.jsonl', in "
                "quotes"
            )
        paths.update(dict.fromkeys(here))
    if not paths:
        raise SourceError("the list of pair files is empty; expected at least one")
    pairs = [pair for path in paths for pair in read_pairs(path, encoding=encoding)]
    if len(paths) == 1:
        return pairs
    return [replace(pair, groups={"file": pair.file} | pair.groups) for pair in pairs]


def read_pairs(path: str | PathLike[str], *, encoding: str | None = None) -> list[Pair]:
    """The pairs of a file; empty lines are passed over, any other line without a pair is an error that names it."""
    text = "".join(read_chunks(path, encoding=encoding))
    name = Path(path).name
    first = text.lstrip().split("\n", 1)[0].lower().split("\t")
    is_sheet = name.lower().removesuffix(".gz").endswith(".csv") or (len(first) > 2 and _header_in(first) is not None)
    read = _of_sheet(text, str(Path(path))) if is_sheet else _of_lines(text, str(Path(path)))
    pairs = [replace(pair, file=name, line=number) for number, pair in read]
    if not pairs:
        raise EmptyCorpusError(f"{Path(path)} has no pairs; expected two sentences a line with a tab between them")
    return pairs


def _of_lines(text: str, file: str) -> Iterator[tuple[int, Pair]]:
    """The pairs of lines with tabs or JSON, with the numbers of their lines."""
    is_first = True
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        names = tuple(part.strip().lower() for part in line.split("\t"))
        if not (is_first and names in HEADERS):
            where = f"line {number} of {file}"
            yield number, _of_json(line, where) if line.lstrip().startswith("{") else _of_tabs(line, where)
        is_first = False


def _of_sheet(text: str, file: str) -> Iterator[tuple[int, Pair]]:
    """The pairs of a table as spreadsheets write it, with commas or semicolons between its cells."""
    begin = text.lstrip().split("\n", 1)[0]
    commas, semicolons = (len(next(csv.reader([begin], delimiter=mark), [])) for mark in ",;")
    separator = "\t" if "\t" in begin else ";" if semicolons >= 2 and commas != 2 else ","
    lines, plain = io.StringIO(text, newline=""), separator == "\t"  # as everywhere, cells of tsv are not quoted
    rows = csv.reader(lines, delimiter=separator, quoting=csv.QUOTE_NONE if plain else csv.QUOTE_MINIMAL)
    good, bad, others, words = 0, 1, dict[str, int](), list[str]()
    width, is_first = 2, True
    try:
        for row in rows:
            cells = [" ".join(cell.split()) for cell in row]
            if not any(cells):
                continue
            names = [cell.lower() for cell in cells]
            header = _header_in(names) if is_first else None
            if header is None and len(cells) == width and any(" " in cell for cell in cells) and words:
                listed = ", ".join(words)
                raise FormatError(f"{file} has the columns {listed}; expected the names good and bad among them")
            words = cells if is_first and header is None and " " not in "".join(cells) else []
            is_first = False
            if header is not None:
                good, bad, width = names.index(header[0]), names.index(header[1]), len(cells)
                others = {name: place for place, name in enumerate(cells) if place not in (good, bad) and name}
                continue
            where = f"line {rows.line_num} of {file}"
            if len(cells) != width:
                raise FormatError(
                    f"{where} has {len(cells)} column{'' if len(cells) == 1 else 's'} ({', '.join(cells)[:80]}); "
                    "expected two sentences, or a first line with the columns good and bad among its names; for "
                    "sentences in rows try: thereafter surprisal RUN FILE:COLUMN --by condition"
                )
            columns: dict[str, object] = {name: cells[place] for name, place in others.items()}
            yield rows.line_num, _checked(Pair(cells[good], cells[bad], _groups(columns), columns=columns), where)
    except csv.Error as error:
        raise FormatError(f"line {rows.line_num} of {file} is no CSV ({error}); expected two columns") from None


def _of_tabs(line: str, where: str) -> Pair:
    parts = [part.strip() for part in line.split("\t")]
    if len(parts) != 2:
        got = "no tab" if len(parts) == 1 else f"{len(parts)} parts between tabs"
        raise FormatError(
            f"{where} has {got}; expected two sentences with one tab between them, or a .csv with two columns, or a "
            "JSON object with sentence_good and sentence_bad"
        )
    return _checked(Pair(parts[0], parts[1]), where)


def _of_json(line: str, where: str) -> Pair:
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{where} begins like JSON and is not ({error}); expected one whole object a line") from None
    sentences = [given.get(name) for name in ("sentence_good", "sentence_bad")]
    if not all(isinstance(sentence, str) for sentence in sentences):
        raise FormatError(
            f"{where} lacks sentence_good or sentence_bad as text; it has {', '.join(given) or 'nothing'}"
        )
    columns = {name: value for name, value in given.items() if name not in ("sentence_good", "sentence_bad")}
    good, bad = (require_characters(sentence.strip(), where) for sentence in sentences)
    return _checked(Pair(good, bad, _groups(columns), columns=columns), where)


def _header_in(names: Sequence[str]) -> tuple[str, str] | None:
    """The two names of sentences among those of columns, in lower case."""
    return next((both for both in HEADERS if set(both) <= {name.strip() for name in names}), None)


def _groups(columns: Mapping[str, object]) -> dict[str, str]:
    return {name: str(columns[name]) for name in GROUPS if columns.get(name)}


def _checked(pair: Pair, where: str) -> Pair:
    if not pair.good or not pair.bad:
        raise FormatError(f"{where} has an empty sentence; expected two sentences")
    return pair

"""Series of numbers with a label each, for a classifier, in three forms that are told apart by their content:

long     a table with names above its columns: series, perhaps time, one or several channels, and the label, which is
         the same in all rows of a series (`long_rows.py`)
wide     a row a series: its label and the values of one channel, as the UCR archive writes its sets, separated by
         tabs, commas, semicolons or spaces; missing values at the end of a row are its end (the archive pads short
         series so)
files    one file a series: a row a step, a column a channel, with or without names above them and a column of times;
         its label is the name of its folder, or a table `labels.csv` (or .tsv) beside the files has a row
         (file, label) for each

Series may have different lengths, and missing values, which are NaN.
Shapes: T steps, C channels.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from thereafter.base import progress
from thereafter.data.finding import FileKind
from thereafter.errors import EmptyCorpusError, FormatError, SourceError, ThereafterError, nearest
from thereafter.series import labelled_series
from thereafter.series.columns import block_numbers, is_missing, number_of, numbers_of, table_blocks, table_layout
from thereafter.series.labelled_series import LabelColumns, LabelledSeries
from thereafter.text.labelled import LABEL_NAMES
from thereafter.text.reading import guess_encoding, place, read_lines
from thereafter.text.tables import format_of, stream_rows

LABEL_LISTS = ("labels.csv", "labels.tsv")
_FILE_NAMES = ("file", "filename", "file_name", "path", "name", "series")


def is_labels_file(path: Path) -> bool:
    """Whether a file says the labels of those beside it."""
    return path.name.lower().removesuffix(".gz") in LABEL_LISTS


def files_have_labels(files: Sequence[Path]) -> bool:
    """Whether files lie in folders of at least two names, one for each label."""
    return len({path.absolute().parent.name for path in files}) > 1


def read_files(files: Sequence[Path], columns: LabelColumns) -> list[LabelledSeries]:
    """A series for each file, with its label."""
    lists = [path for path in files if is_labels_file(path)]
    data = [path for path in files if not is_labels_file(path)]
    labels = _listed_labels(lists, data) if lists else {path: path.absolute().parent.name for path in data}
    series = []
    with progress.task("reading series", total=len(data)) as advance:
        for path in data:
            one = read_file(path, columns)
            series.append(LabelledSeries(one.values_TC, labels[path], one.name, one.channels))
            advance(1)
    return series


def read_file(path: Path, columns: LabelColumns) -> LabelledSeries:
    """The series of one file, without a label."""
    layout = table_layout(path)
    time, channels = labelled_series.plain_columns(layout, columns)
    blocks = table_blocks(layout, counted=time < 0)
    values_TC = np.concatenate([block_numbers(layout, block, channels) for block in blocks])
    if np.isnan(values_TC).all():
        raise FormatError(f"{os.fspath(path)} has no values; expected at least one number")
    names = tuple(layout.names[at] for at in channels)
    return LabelledSeries(values_TC, "", _stem(path.name), names if layout.has_header or len(names) > 1 else ("value",))


def _listed_labels(lists: Sequence[Path], data: Sequence[Path]) -> dict[Path, str]:
    """The label of every file, from the tables beside them."""
    labels: dict[Path, str] = {}
    for table in lists:
        below = [path for path in data if table.absolute().parent in path.absolute().parents]
        known = {_key(str(path.absolute().relative_to(table.absolute().parent))): path for path in below}
        for name, label, line in _label_rows(table):
            path = known.get(_key(name))
            if path is None and (table.parent / name).is_file():
                continue  # of another part
            if path is None:
                raise SourceError(
                    f"{place(table, line)} names the file {name!r}, which is not there; expected a file beside it; "
                    f"{nearest(name, list(known))}"
                )
            if not label:
                raise FormatError(f"{place(table, line)} has no label for {name!r}; expected one")
            labels[path] = label
    for path in data:
        if path not in labels:
            raise SourceError(
                f"{os.fspath(path)} has no row in {os.fspath(lists[0])}; expected a label for every file; try adding "
                "it, or taking the file out"
            )
    return labels


def _label_rows(path: Path) -> Iterator[tuple[str, str, int]]:
    """File, label and line of every row; columns by their usual names, else the first two."""
    file_at, label_at = 0, 1
    for number, row in enumerate(stream_rows(path, format_of(path, None), None)):
        cells = [str(cell).strip() for cell in row.cells]
        if len(cells) < 2:
            raise FormatError(f"{os.fspath(path)} has 1 column; expected two, the file and its label")
        if number == 0:
            names = [cell.lower() for cell in cells]
            files = [names.index(name) for name in _FILE_NAMES if name in names]
            labels = [names.index(name) for name in LABEL_NAMES if name in names]
            if files and labels:
                file_at, label_at = files[0], labels[0]
                continue
        yield cells[file_at], cells[label_at], row.line


def _key(name: str) -> str:
    """A file by its name without its ending, with / between folders."""
    path = Path(name.replace("\\", "/"))
    return (path.parent / _stem(path.name)).as_posix()


def _stem(name: str) -> str:
    plain = name.removesuffix(".gz")
    return plain.rpartition(".")[0] if plain.lower().endswith((".csv", ".tsv", ".txt", ".dat")) else plain


SERIES_FILES = FileKind("tables of numbers", ((".csv", ".tsv"), (".txt", ".dat")), bare=True, lists=LABEL_LISTS)
"""The series of a folder."""
NO_COLUMNS = LabelColumns()


def holds_series(files: Sequence[Path]) -> bool:
    """Whether files hold labelled series of numbers, by their content; what cannot be read holds none."""
    try:
        return bool(form_of(files))
    except (ThereafterError, OSError):
        return False


def form_of(files: Sequence[Path], columns: LabelColumns = NO_COLUMNS) -> str:
    """The form of labelled series: long, wide or files; FormatError where it is none of them."""
    data = [path for path in files if not is_labels_file(path)]
    if not data:
        raise EmptyCorpusError("there are no files of series; expected tables of numbers (.csv, .tsv)")
    first = data[0]
    if len(data) < len(files):
        return "files"
    if looks_wide(first):
        return "wide"
    layout = table_layout(first)
    if files_have_labels(data):
        try:
            labelled_series.plain_columns(layout, columns)
            return "files"
        except FormatError:
            pass  # a table with labels of its own
    if labelled_series.wide_columns(layout, columns, LEAST) is not None:
        return "wide table"
    try:
        labelled_series.long_columns(layout, columns)
    except FormatError as refused:
        raise FormatError(
            f"{refused}; series with labels are a table (series, time, value, label), one row per series with the "
            "label first, or a folder for each label"
        ) from None
    return "long"


def read_labelled_series(files: Sequence[Path], columns: LabelColumns = NO_COLUMNS) -> list[LabelledSeries]:
    """All series of these files with their labels."""
    form = form_of(files, columns)
    if form == "files":
        series = read_files(files, columns)
    else:
        series = []
        with progress.task("reading series", total=len(files)) as advance:
            for path in files:
                series += list(read_wide(path)) if form == "wide" else _read_table(path, columns, form)
                advance(1)
    return _checked(series, files)


def read_questions(
    files: Sequence[Path], columns: LabelColumns, channels: Sequence[str], labels: Collection[str]
) -> list[LabelledSeries]:
    """Series whose labels are asked for, in any of the forms; labels that stand there are passed over.

    `channels` and `labels` are those of the run: rows of numbers without names are values of its one channel, or its
    channels step by step.
    """
    series: list[LabelledSeries] = []
    for path in files:
        if not is_labels_file(path):
            series += _questions_of(path, columns, channels, labels)
    if not series:
        raise EmptyCorpusError("there are no series to classify; expected at least one")
    return [one.asked() for one in _checked(series, files)]


def _questions_of(
    path: Path, columns: LabelColumns, channels: Sequence[str], labels: Collection[str]
) -> list[LabelledSeries]:
    if len(channels) == 1 and (looks_wide(path) or looks_bare(path)):
        return list(read_wide(path, labels))
    layout = table_layout(path)
    if not layout.has_header:
        return [read_file(path, columns)]
    if labelled_series.wide_columns(layout, columns, LEAST) is not None:
        return _read_table(path, columns, "wide table")
    try:
        labelled_series.long_columns(layout, columns, labelled=False)
    except FormatError:
        if not set(channels) <= set(layout.names):
            raise
        return [read_file(path, LabelColumns(time=columns.time, channels=tuple(channels)))]
    return labelled_series.read_long(layout, labelled_series.long_columns(layout, columns, labelled=False))


def _read_table(path: Path, columns: LabelColumns, form: str) -> list[LabelledSeries]:
    layout = table_layout(path)
    wide = labelled_series.wide_columns(layout, columns, LEAST) if form == "wide table" else None
    if wide is None:
        return labelled_series.read_long(layout, labelled_series.long_columns(layout, columns))
    return [one.flat() for one in labelled_series.read_long(layout, wide, every_row=True)]


def _checked(series: list[LabelledSeries], files: Sequence[Path]) -> list[LabelledSeries]:
    """Refuse infinities, and series that have not the channels of the first."""
    where = os.fspath(files[0]) if len(files) == 1 else f"{len(files)} files"
    for one in series:
        at = place(where, one.line) if one.line else f"the series {one.name!r} of {where}"
        if np.isinf(one.values_TC).any():
            raise FormatError(f"{at} has an infinite value; expected numbers, or NaN where a value is missing")
        if one.channels != series[0].channels:
            raise FormatError(
                f"{at} has the channels {', '.join(one.channels)}, and the first series has "
                f"{', '.join(series[0].channels)}; expected the same in all; try naming them (channels=a,b)"
            )
    return series


LEAST = 3
"""Values a row: fewer may be columns of a table."""
_SAMPLE = 50  # rows by which the form is recognised


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


def read_wide(path: Path, labels: Collection[str] | None = None) -> Iterator[LabelledSeries]:
    """The rows of a file, named by their number.

    With `labels`, those of a run, a row may begin without one: then all of it is values.
    """
    with_labels = labels is None or all(_label(cells[0]) in labels for _, cells in islice(_rows(path), _SAMPLE))
    for number, (line, cells) in enumerate(_rows(path), start=1):
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
        yield LabelledSeries(values_T[: seen[-1] + 1, None], label, str(number), line=line)


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

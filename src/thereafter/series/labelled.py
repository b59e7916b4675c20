"""Series of numbers with a label each, for a classifier, in three forms that are told apart by their content:

long     a table with names above its columns: series, perhaps time, one or several channels, and the label, which is
         the same in all rows of a series (`long_rows.py`)
wide     a row a series: its label and the values of one channel, as the UCR archive has them (`wide_rows.py`)
files    one file a series; its label is the name of its folder, or stands in a `labels.csv` beside it
         (`labelled_files.py`)

Series may have different lengths, and missing values, which are NaN.
Shapes: T steps, C channels.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import numpy as np

from thereafter import progress
from thereafter.data.finding import FileKind
from thereafter.errors import EmptyCorpusError, FormatError, ThereafterError
from thereafter.series.columns import table_layout
from thereafter.series.label_columns import LabelColumns, LongColumns, long_columns, plain_columns, wide_columns
from thereafter.series.labelled_files import LABEL_LISTS, files_have_labels, is_labels_file, read_file, read_files
from thereafter.series.labelled_series import LabelledSeries
from thereafter.series.long_rows import read_long
from thereafter.series.wide_rows import LEAST, looks_bare, looks_wide, read_wide
from thereafter.text.lines import place

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
            plain_columns(layout, columns)
            return "files"
        except FormatError:
            pass  # a table with labels of its own
    if wide_columns(layout, columns, LEAST) is not None:
        return "wide table"
    try:
        long_columns(layout, columns)
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
                series += _wide(path) if form == "wide" else _read_table(path, columns, form)
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


def require_known_series_labels(series: Iterable[LabelledSeries], known: Collection[str], name: str) -> None:
    """FormatError for the first label that is not among those of the training data."""
    for one in series:
        if one.label not in known:
            raise FormatError(
                f"the series {one.name!r} of {name} has the label {one.label!r}, which the training data never has; "
                f"expected one of {', '.join(sorted(known))}"
            )


def _questions_of(
    path: Path, columns: LabelColumns, channels: Sequence[str], labels: Collection[str]
) -> list[LabelledSeries]:
    if len(channels) == 1 and (looks_wide(path) or looks_bare(path)):
        return _wide(path, labels)
    layout = table_layout(path)
    if not layout.has_header:
        return [read_file(path, columns)]
    if wide_columns(layout, columns, LEAST) is not None:
        return _read_table(path, columns, "wide table")
    try:
        long_columns(layout, columns, labelled=False)
    except FormatError:
        if not set(channels) <= set(layout.names):
            raise
        return [read_file(path, LabelColumns(time=columns.time, channels=tuple(channels)))]
    return read_long(layout, long_columns(layout, columns, labelled=False))


def _read_table(path: Path, columns: LabelColumns, form: str) -> list[LabelledSeries]:
    layout = table_layout(path)
    wide = wide_columns(layout, columns, LEAST) if form == "wide table" else None
    if wide is None:
        return read_long(layout, long_columns(layout, columns))
    label, values = wide
    return [one.flat() for one in read_long(layout, LongColumns(label, label, -1, values), every_row=True)]


def _wide(path: Path, labels: Collection[str] | None = None) -> list[LabelledSeries]:
    return [
        LabelledSeries(row.values_T[:, None], row.label, str(number), ("value",), row.line)
        for number, row in enumerate(read_wide(path, labels), start=1)
    ]


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

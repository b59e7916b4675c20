"""One file a series: a row a step, a column a channel, with or without names above them and a column of times.

The label of a file is the name of its folder; or a table `labels.csv` (or .tsv) beside the files says it, with a row
(file, label) for each.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from thereafter import progress
from thereafter.errors import FormatError, SourceError, nearest
from thereafter.series.columns import table_blocks, table_layout
from thereafter.series.label_columns import LabelColumns, plain_columns
from thereafter.series.labelled_series import LabelledSeries
from thereafter.series.long_rows import block_numbers
from thereafter.text.labelled import LABEL_NAMES
from thereafter.text.lines import place
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
    time, channels = plain_columns(layout, columns)
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

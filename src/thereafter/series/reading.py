"""Series read from tables: CSV by commas, semicolons or tabs, plain or gzip, one row a time or long form.

Columns are gathered as arrays, block by block. Rows of a file become series: each series in order of time, on a grid
without gaps. The grid follows from how far apart times are; rows that are missing get their place on it.

Shapes: N rows of all series together, S series, D targets, C columns of numbers, F files.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.errors import FormatError, SourceError
from thereafter.series import columns as sheet
from thereafter.series.columns import CellBlock, ChosenColumns, TableLayout, both_ways, list_names
from thereafter.series.table import ColumnChoice, SeriesTable, calendar_features, calendar_names
from thereafter.series.times import DAY, EXAMPLES, Spacing, StampReader, StampReading, Times, UnevenStep, spacing_of
from thereafter.text.reading import place


def read_series(paths: Sequence[Path], columns: ColumnChoice | None = None, *, calendar: bool = False) -> SeriesTable:
    """The series of one or several tables; columns that are not named are chosen, and the notes say which.

    `calendar` adds the place in the day, week and year to the covariates that are known ahead.
    """
    if not paths:
        raise SourceError("there is no file to read; expected the path of a table of times and numbers")
    gathered, layout, chosen = gather_rows([Path(path) for path in paths], columns or ColumnChoice())
    arrangement = arrange(gathered, layout, chosen)
    bounds = np.concatenate([[0], np.cumsum(arrangement.length_S)]).astype(np.int64)
    number_NC = gathered.number_NC
    if bounds[-1] != len(number_NC) or not (np.diff(arrangement.row_N) == 1).all():
        number_NC = np.full((int(bounds[-1]), gathered.number_NC.shape[1]), np.nan)  # NaN in rows that are missing
        number_NC[arrangement.grid_rows(bounds)] = gathered.number_NC[arrangement.row_N]
    times = _times(arrangement, bounds, counted=not gathered.readings or gathered.form == "count")
    frequency = arrangement.spacing.frequency
    targets, past, known = (_names(layout, group) for group in (chosen.targets, chosen.past, chosen.known))
    values, past_NP, known_NK = np.split(number_NC, [len(targets), len(targets) + len(past)], axis=1)
    if calendar:
        known_NK = np.concatenate([known_NK, calendar_features(times, frequency)], axis=1)
        known = (*known, *calendar_names(frequency))
    column = chosen.series if chosen.series is not None else chosen.perhaps_series
    names_series = chosen.series is not None or (len(paths) == 1 and len(arrangement.names) > 1)
    table = SeriesTable(
        source=os.fspath(paths[0]) if len(paths) == 1 else f"{len(paths)} files",
        names=arrangement.names,
        bounds_S1=bounds,
        times_N=times,
        values_ND=values,
        targets=targets,
        frequency=frequency,
        past_NP=past_NP,
        past=past,
        known_NK=known_NK,
        known=known,
        series_column=layout.names[column] if column is not None and names_series else "",
        notes=tuple(_notes(gathered, layout, chosen, arrangement, times, calendar=calendar)),
    )
    for at, name in enumerate(table.targets):
        if np.isnan(table.values_ND[:, at]).all():
            raise FormatError(
                f"the column {name!r} of {table.source} has no value at all; expected numbers to forecast; try "
                "another --target"
            )
    return table


def _names(layout: TableLayout, columns: Sequence[int]) -> tuple[str, ...]:
    return tuple(layout.names[column] for column in columns)


def _times(arrangement: Arrangement, bounds: NDArray[np.int64], *, counted: bool) -> Times:
    """The times of the grid: those of the file, and the computed ones of missing rows."""
    time = arrangement.time_N
    if bounds[-1] != len(time):
        frequency = arrangement.spacing.frequency
        grid = np.zeros(int(bounds[-1]), np.int64)
        for series, begin in enumerate(bounds[:-1]):
            rows = int(bounds[series + 1] - begin)
            if not rows:
                continue
            first = time[arrangement.bounds_S1[series]]
            start = np.int64(first) if counted else np.datetime64(int(first), "s")
            grid[begin] = first
            grid[begin + 1 : begin + rows] = frequency.after(start, rows - 1).astype(np.int64)
        grid[arrangement.grid_rows(bounds)] = time
        time = grid
    return time if counted else time.astype("datetime64[s]")


def _notes(
    gathered: GatheredRows,
    layout: TableLayout,
    chosen: ChosenColumns,
    arrangement: Arrangement,
    times: Times,
    *,
    calendar: bool,
) -> list[str]:
    """How the table was read, in sentences."""
    notes = []
    if chosen.time is None:
        notes.append("no time column: the rows are counted")
    else:
        zone = next(iter(gathered.zones), "")
        zoned = f", in the zone {zone}" if zone else ""
        first, last = times.min(), times.max()
        every = f"a row every {arrangement.spacing.label.removeprefix('1 ')}"
        if gathered.form == "count":
            step = arrangement.spacing.frequency.step
            every = "counted" if step == 1 else f"in steps of {step:,}"
        notes.append(f"time is {layout.names[chosen.time]!r}: {_shown(first)} to {_shown(last)}{zoned}, {every}")
    notes += arrangement.notes
    targets = list_names(_names(layout, chosen.targets))
    series = f", {len(arrangement.names):,} series" if len(arrangement.names) > 1 else ""
    notes.append(f"target is {targets}: {gathered.rows:,} rows{series}")
    if layout.decimal_comma:
        notes.append("numbers have a decimal comma")
    gaps = len(times) - gathered.rows
    if gaps:
        notes.append(f"{gaps:,} rows are missing in the table; they are masked, never filled")
    missing = np.isnan(gathered.number_NC).sum(axis=0)
    names = _names(layout, (*chosen.targets, *chosen.past, *chosen.known))
    holes = [f"{count:,} in {name!r}" for name, count in zip(names, missing.tolist(), strict=True) if count]
    if holes:
        notes.append(f"missing values, masked: {', '.join(holes)}")
    if calendar and not calendar_names(arrangement.spacing.frequency):
        notes.append(f"a row every {arrangement.spacing.frequency} has no calendar features")
    if chosen.unused:
        notes.append(f"not used: {list_names(chosen.unused)}")
    return notes


def _shown(time: object) -> str:
    """A time without a clock that stands at midnight."""
    return str(time).replace("T", " ").removesuffix(" 00:00:00")


@dataclass(frozen=True)
class Arrangement:
    """Row `row_N[n]` of the files is row n of the series, the rows bounds_S1[s] to bounds_S1[s + 1] of series s."""

    names: tuple[str, ...]
    row_N: NDArray[np.int64]
    bounds_S1: NDArray[np.int64]
    time_N: NDArray[np.int64]
    spacing: Spacing
    notes: tuple[str, ...] = ()

    @property
    def length_S(self) -> NDArray[np.int64]:
        """The rows of each series on the grid, with those that are missing in the files."""
        filled = np.diff(self.bounds_S1) > 0
        lengths = np.zeros(len(filled), np.int64)
        lengths[filled] = self.spacing.place_N[self.bounds_S1[1:][filled] - 1] + 1
        return lengths

    def grid_rows(self, bounds: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row of the grid of each row of the files; series begin at `bounds`."""
        return np.repeat(bounds[:-1], np.diff(self.bounds_S1)) + self.spacing.place_N


def arrange(gathered: GatheredRows, layout: TableLayout, columns: ChosenColumns) -> Arrangement:
    """The series of the rows; FormatError where times are mixed, ambiguous, unsorted, repeated or uneven."""
    _check_zones(gathered, layout, columns)
    if not gathered.readings:
        codes, names = _groups(gathered, by_label=columns.series is not None)
        row, bounds = _by_series(codes, len(names))
        time = np.arange(len(row)) - np.repeat(bounds[:-1], np.diff(bounds))
        spacing = spacing_of(time, bounds, counted=True)
        if isinstance(spacing, UnevenStep):
            raise AssertionError("counted rows are one apart")
        return Arrangement(names, row, bounds, time, spacing)
    good: list[Arrangement] = []
    errors: list[FormatError] = []
    for reading in gathered.readings:
        try:
            good.append(_arrange_by(reading, gathered, layout, columns))
        except FormatError as error:
            errors.append(error)
    if len(good) > 1 and (good[0].time_N == good[1].time_N).all():  # 01/01/2016, 01/01/2017
        return replace(good[0], notes=())
    good = [one for one in good if one.length_S.sum() == min(other.length_S.sum() for other in good)]
    if len(good) > 1:
        raise _ambiguous(gathered, layout, columns)
    if not good:
        raise errors[0]
    return good[0]


def _arrange_by(
    reading: StampReading, gathered: GatheredRows, layout: TableLayout, columns: ChosenColumns
) -> Arrangement:
    """The series by one reading of the times; FormatError where it does not make any."""
    name = "" if columns.time is None else layout.names[columns.time]
    if reading.bad >= 0:
        raise FormatError(
            f"{gathered.place(reading.bad)} has a date in the column {name!r} that no calendar has, whether the day or "
            "the month comes first; expected all dates in one order; try dates such as 2016-07-01"
        )
    notes = [f"in {name!r} the {reading.way.replace(' first', '')} comes first"] if reading.way else []
    counted = gathered.form == "count"
    names, row, bounds, fall = _in_order(reading.time_N, gathered, by_label=columns.series is not None)
    if fall is not None and columns.perhaps_series is not None and gathered.code_N is not None:
        others, row_by_label, bounds_by_label, fall_by_label = _in_order(reading.time_N, gathered, by_label=True)
        if fall_by_label is None and 2 * len(others) <= gathered.rows:
            notes.append(
                f"times repeat: the column {layout.names[columns.perhaps_series]!r} names the series "
                f"({len(others):,} of them)"
            )
            names, row, bounds, fall = others, row_by_label, bounds_by_label, None
    times = reading.time_N[row]
    if fall is not None:
        series = int(np.searchsorted(bounds, fall, side="right")) - 1
        repeated = bool((times[bounds[series] : fall] == times[fall]).any())
        raise _order_error(int(row[fall]), names[series], repeated, gathered, layout, columns)
    spacing = spacing_of(times, bounds, counted=counted)
    if isinstance(spacing, UnevenStep):
        raise _uneven_error(spacing, gathered.place(int(row[spacing.row])), counted=counted)
    return Arrangement(names, row, bounds, times, spacing, tuple(notes))


def _in_order(
    time_N: NDArray[np.int64], gathered: GatheredRows, *, by_label: bool
) -> tuple[tuple[str, ...], NDArray[np.int64], NDArray[np.int64], int | None]:
    """The names of the series, their rows, where each begins, and the first place at which times do not rise."""
    codes, names = _groups(gathered, by_label=by_label)
    row, bounds = _by_series(codes, len(names))
    falls = np.flatnonzero(np.diff(time_N[row]) <= 0) + 1
    falls = falls[~np.isin(falls, bounds)]
    return names, row, bounds, int(falls[0]) if len(falls) else None


def _groups(gathered: GatheredRows, *, by_label: bool) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The number of each row's series, by the column that names it or by its file, and the names."""
    if by_label and gathered.code_N is not None:
        return gathered.code_N, gathered.labels
    counts = np.diff(gathered.begin_F1)
    names: tuple[str, ...] = (gathered.name,)
    if len(counts) > 1:
        stems = [Path(path.name.removesuffix(".gz")).stem for path in gathered.paths]
        names = tuple(stems) if len(set(stems)) == len(stems) else tuple(map(str, gathered.paths))
    return np.repeat(np.arange(len(counts)), counts), names


def _by_series(code_N: NDArray[np.int64], series: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows series by series, in the order of the file, and where each series begins."""
    counts = np.bincount(code_N, minlength=series)
    row = np.arange(len(code_N)) if (np.diff(code_N) >= 0).all() else np.argsort(code_N, kind="stable")
    return row, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _check_zones(gathered: GatheredRows, layout: TableLayout, columns: ChosenColumns) -> None:
    if len(gathered.zones) < 2:
        return
    (zone, row), (other, other_row), *_ = sorted(gathered.zones.items(), key=lambda one: one[1])
    raise FormatError(
        f"the times of {layout.names[columns.time or 0]!r} are in several time zones: {gathered.place(row)} has "
        f"{zone or 'none'} and {gathered.place(other_row)} has {other or 'none'}; expected the same in every row; try "
        "writing all of them in UTC"
    )


def _ambiguous(gathered: GatheredRows, layout: TableLayout, columns: ChosenColumns) -> FormatError:
    column = columns.time or 0
    return FormatError(
        f"the dates of {layout.names[column]!r}, such as {layout.sample[column][0].strip()!r}, may have the day or the "
        f"month first: both make a regular series ({gathered.place(0)}); expected dates that leave no doubt; try "
        "writing them as 2016-07-01"
    )


def _order_error(
    row: int, series: str, repeated: bool, gathered: GatheredRows, layout: TableLayout, columns: ChosenColumns
) -> FormatError:
    """What to say of a row whose time does not come after that of the row before in its series."""
    where = gathered.place(row)
    of_series = "" if columns.series is None else f" of the series {series[:40]!r}"
    if repeated:
        others = [name for k, name in enumerate(layout.names) if _may_name_series(layout, columns, k)]
        way = "try leaving out one of the rows"
        if columns.series is None and others:
            way += f", or {both_ways('series', others[0])} if that column names several series"
        return FormatError(f"{where} has a time{of_series} that an earlier row has; expected each time once; {way}")
    way = "try sorting the table by time"
    if columns.perhaps_series is not None:
        name = layout.names[columns.perhaps_series]
        way += f", or {both_ways('series', name)} if that column names several series"
    return FormatError(f"{where} has a time{of_series} before that of the row above it; expected rising times; {way}")


def _may_name_series(layout: TableLayout, columns: ChosenColumns, column: int) -> bool:
    """Whether a column has the same few values again and again, and is nothing else."""
    cells = layout.sample[column]
    taken = {columns.time, *columns.targets, *columns.past, *columns.known}
    return column not in taken and 1 < len(set(cells)) <= max(2, len(cells) // 2)


def _uneven_error(step: UnevenStep, where: str, *, counted: bool) -> FormatError:
    got, usual = (f"{step.step:,}", f"{step.usual:,}") if counted else (_span(step.step), _span(step.usual))
    return FormatError(
        f"{where} comes {got} after the row before it, and most rows are {usual} apart; expected times at equal "
        "distances, with some rows missing at most; try resampling the table (pandas: "
        "df.resample('1h').mean()), or --time row (time='row'), which counts the rows"
    )


def _span(seconds: int) -> str:
    """A length of time in its largest whole unit."""
    for name, length in (("day", DAY), ("hour", 3600), ("minute", 60)):
        if seconds % length == 0:
            return f"{seconds // length:,} {name}{'' if seconds == length else 's'}"
    return f"{seconds:,} second{'' if seconds == 1 else 's'}"


_MOST_SERIES = 200_000


@dataclass(frozen=True)
class GatheredRows:
    """The rows of all files in the order in which they stand there. `readings`: the times in each possible way; empty
    where rows have none. `code_N`: the series of each row, by its place in `labels`; None without such a column.
    `name`: that of a single series, its targets: the same whatever its file is called."""

    name: str
    paths: tuple[Path, ...]
    begin_F1: NDArray[np.int64]
    line_N: NDArray[np.int64]
    readings: tuple[StampReading, ...]
    form: str
    zones: dict[str, int]
    code_N: NDArray[np.int64] | None
    labels: tuple[str, ...]
    number_NC: NDArray[np.float64]

    @property
    def rows(self) -> int:
        return len(self.line_N)

    def place(self, row: int) -> str:
        """The line of a row, in words."""
        file = int(np.searchsorted(self.begin_F1, row, side="right")) - 1
        return place(self.paths[file], int(self.line_N[row]))


def gather_rows(paths: Sequence[Path], choice: ColumnChoice) -> tuple[GatheredRows, TableLayout, ChosenColumns]:
    """Read the columns that were named or chosen; the layout and the choice are those of the first file."""
    named = (choice.time, choice.series, *choice.target, *choice.past, *choice.known)
    words = [name for name in named if name and not name.lstrip("-").isdecimal()]
    layout = sheet.table_layout(paths[0], words)
    columns = sheet.choose_columns(layout, choice)
    stamps = StampReader("" if columns.time is None else columns.form)
    codes: dict[str, int] = {}
    has_codes = columns.series is not None or columns.perhaps_series is not None
    begins, lines, numbers, code_blocks = [0], [], [], []
    with progress.task("reading the table", total=sum(map(os.path.getsize, paths)), unit="bytes") as advance:
        for number, path in enumerate(paths):
            here, chosen = layout, columns
            if number:
                here = sheet.table_layout(path, words)
                chosen = _same_columns(here, layout, columns)
            counted = chosen.time is None and chosen.series is None
            for block in sheet.table_blocks(here, advance, counted=counted):
                if chosen.time is not None:
                    _add_times(here, chosen.time, stamps, block)
                if has_codes:
                    code_blocks.append(_codes(here, chosen, block, codes))
                    has_codes = len(codes) <= _MOST_SERIES
                numbers.append(sheet.block_numbers(here, block, (*chosen.targets, *chosen.past, *chosen.known)))
                lines.append(block.line_N)
            begins.append(sum(map(len, lines)))
    gathered = GatheredRows(
        ", ".join(_names(layout, columns.targets)),
        tuple(paths),
        np.array(begins, np.int64),
        np.concatenate(lines),
        () if columns.time is None else tuple(stamps.readings()),
        stamps.form,
        stamps.zones,
        np.concatenate(code_blocks) if has_codes else None,
        tuple(codes) if has_codes else (),
        np.concatenate(numbers),
    )
    return gathered, layout, columns


def _same_columns(here: TableLayout, first: TableLayout, columns: ChosenColumns) -> ChosenColumns:
    """The columns of another file that have the names of those in the first."""

    def at(column: int) -> int:
        if here.has_header != first.has_header or (not here.has_header and here.width != first.width):
            raise FormatError(
                f"{os.fspath(here.path)} is not laid out as {os.fspath(first.path)}: only one of them has names, or "
                "they have different numbers of columns; expected the same columns in all files"
            )
        if first.names[column] not in here.names:
            raise FormatError(
                f"{os.fspath(here.path)} has no column {first.names[column]!r} as {os.fspath(first.path)} has; "
                f"expected the same columns in all files; it has {', '.join(here.names)}"
            )
        return here.names.index(first.names[column])

    def perhaps(column: int | None) -> int | None:
        return None if column is None else at(column)

    return replace(
        columns,
        time=perhaps(columns.time),
        series=perhaps(columns.series),
        perhaps_series=perhaps(columns.perhaps_series),
        targets=tuple(map(at, columns.targets)),
        past=tuple(map(at, columns.past)),
        known=tuple(map(at, columns.known)),
    )


def _add_times(layout: TableLayout, column: int, stamps: StampReader, block: CellBlock) -> None:
    cells = block.columns[column]
    bad = stamps.add(cells)
    if bad < 0:
        return
    where, cell = place(layout.path, int(block.line_N[bad])), cells[bad].strip()
    got = "no time" if sheet.is_missing(cell) else f"the time {cell[:40]!r}"
    raise FormatError(
        f"{where} has {got} in the column {layout.names[column]!r}; expected a time stamp as in the other rows "
        f"({layout.sample[column][0].strip()[:40]!r}), such as {EXAMPLES}; try mending or leaving out that row"
    )


def _codes(layout: TableLayout, columns: ChosenColumns, block: CellBlock, codes: dict[str, int]) -> NDArray[np.int64]:
    """The number of each row's series, by the names that were met so far (`codes`)."""
    column = columns.perhaps_series if columns.series is None else columns.series
    cells = [cell.strip() for cell in block.columns[column or 0]]
    if columns.series is not None and "" in cells:
        raise FormatError(
            f"{place(layout.path, int(block.line_N[cells.index('')]))} has an empty cell in the column "
            f"{layout.names[columns.series]!r}; expected the name of a series in every row; try filling it in"
        )
    code_N = np.array([codes.setdefault(cell, len(codes)) for cell in cells], np.int64)
    if columns.series is not None and len(codes) > _MOST_SERIES:
        raise FormatError(
            f"the column {layout.names[columns.series]!r} of {os.fspath(layout.path)} names more than {_MOST_SERIES:,} "
            "series; expected fewer; is it the right column?"
        )
    return code_N

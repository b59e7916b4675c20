"""Series read from tables: CSV by commas, semicolons or tabs, plain or gzip, one row a time or long form.

Shapes: N rows of all series together, D targets, C columns of numbers.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import FormatError, SourceError
from thereafter.series.arranging import Arrangement, arrange
from thereafter.series.calendar_features import calendar_features, calendar_names
from thereafter.series.choosing import ChosenColumns, list_names
from thereafter.series.columns import TableLayout
from thereafter.series.gathering import GatheredRows, gather_rows
from thereafter.series.table import ColumnChoice, SeriesTable, Times


def read_series(paths: Sequence[Path], columns: ColumnChoice | None = None, *, calendar: bool = False) -> SeriesTable:
    """The series of one or several tables; columns that are not named are chosen, and the notes say which.

    `calendar` adds the place in the day, week and year to the covariates that are known ahead.
    """
    if not paths:
        raise SourceError("there is no file to read; expected the path of a table of times and numbers")
    gathered, layout, chosen = gather_rows([Path(path) for path in paths], columns or ColumnChoice())
    arrangement = arrange(gathered, layout, chosen)
    length_S, place_N = _grid(arrangement)
    bounds = np.concatenate([[0], np.cumsum(length_S)]).astype(np.int64)
    number_NC = _on_grid(gathered.number_NC, arrangement, bounds, place_N)
    times = _times(arrangement, bounds, place_N, counted=not gathered.readings or gathered.form == "count")
    frequency = arrangement.spacing.frequency
    targets, past, known = (_names(layout, group) for group in (chosen.targets, chosen.past, chosen.known))
    values, past_NP, known_NK = np.split(number_NC, [len(targets), len(targets) + len(past)], axis=1)
    if calendar:
        known_NK = np.concatenate([known_NK, calendar_features(times, frequency)], axis=1)
        known = (*known, *calendar_names(frequency))
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
        series_column=_series_column(layout, chosen, arrangement, len(paths)),
        notes=tuple(_notes(gathered, layout, chosen, arrangement, times, calendar=calendar)),
    )
    _check_content(table)
    return table


def _series_column(layout: TableLayout, chosen: ChosenColumns, arrangement: Arrangement, files: int) -> str:
    """The column that names the series, asked for or recognised."""
    column = chosen.series if chosen.series is not None else chosen.perhaps_series
    used = chosen.series is not None or (files == 1 and len(arrangement.names) > 1)
    return layout.names[column] if column is not None and used else ""


def _names(layout: TableLayout, columns: Sequence[int]) -> tuple[str, ...]:
    return tuple(layout.names[column] for column in columns)


def _grid(arrangement: Arrangement) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows of each series with those that are missing, and the place of each row in its series."""
    place = arrangement.spacing.place_N
    ends = arrangement.bounds_S1[1:]
    filled = np.diff(arrangement.bounds_S1) > 0
    lengths = np.zeros(len(filled), np.int64)
    lengths[filled] = place[ends[filled] - 1] + 1
    return lengths, place


def _targets_on_grid(
    arrangement: Arrangement, bounds: NDArray[np.int64], place: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The row of the grid of each row of the file."""
    return np.repeat(bounds[:-1], np.diff(arrangement.bounds_S1)) + place


def _on_grid(
    number_NC: NDArray[np.float64], arrangement: Arrangement, bounds: NDArray[np.int64], place: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The numbers series by series, NaN in rows that are missing."""
    if bounds[-1] == len(number_NC) and (np.diff(arrangement.row_N) == 1).all():
        return number_NC
    grid = np.full((int(bounds[-1]), number_NC.shape[1]), np.nan)
    grid[_targets_on_grid(arrangement, bounds, place)] = number_NC[arrangement.row_N]
    return grid


def _times(arrangement: Arrangement, bounds: NDArray[np.int64], place: NDArray[np.int64], *, counted: bool) -> Times:
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
        grid[_targets_on_grid(arrangement, bounds, place)] = time
        time = grid
    return time if counted else time.astype("datetime64[s]")


def _check_content(table: SeriesTable) -> None:
    for column, name in enumerate(table.targets):
        if np.isnan(table.values_ND[:, column]).all():
            raise FormatError(
                f"the column {name!r} of {table.source} has no value at all; expected numbers to forecast; try "
                "another --target"
            )


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

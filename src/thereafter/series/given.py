"""Series for `predict`: as a user hands one over (an array, a list of numbers, a line of text), and tables made longer.

Rows after the last one have no values, and of the covariates what the calendar knows.

Shapes: T steps, C channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Real

import numpy as np

from thereafter.errors import OptionError
from thereafter.series.calendar_features import calendar_features, calendar_names
from thereafter.series.columns import numbers_of
from thereafter.series.labelled_series import LabelledSeries
from thereafter.series.table import SeriesTable
from thereafter.series.windows import observed_ends

_EXAMPLE = "a numpy array [steps] or [steps, channels], a list of numbers, or text such as '0.1 0.2 0.3'"


def is_number(value: object) -> bool:
    """Whether a value is one number of a series; None is a missing one."""
    return value is None or (isinstance(value, Real) and not isinstance(value, bool))


def series_of(given: object) -> LabelledSeries:
    """A series without a label. In text, numbers have spaces or commas between them, and steps of several channels ;.

    >>> series_of("1 2 3").values_TC.shape, series_of("1 2; 3 4; 5 6").values_TC.shape
    ((3, 1), (3, 2))
    """
    if isinstance(given, LabelledSeries):
        return given.asked()
    if isinstance(given, str):
        rows = [row.replace(",", " ").split() for row in given.split(";") if row.strip()]
        cells = [cell for row in rows for cell in row]
        numbers, wrong = numbers_of(cells)
        if not rows:
            raise OptionError(f"the series {given!r} to classify has no numbers; expected {_EXAMPLE}")
        if wrong >= 0:
            raise OptionError(f"the series to classify has {cells[wrong][:40]!r}; expected {_EXAMPLE}")
        if len(set(map(len, rows))) > 1:
            raise OptionError("the steps of the series to classify have different numbers of channels; expected one")
        return _checked(numbers.reshape(len(rows), -1) if len(rows) > 1 else numbers[:, None])
    try:
        values = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise OptionError(f"a series to classify is {type(given).__name__}; expected {_EXAMPLE}") from None
    return _checked(values)


def with_channels(one: LabelledSeries, names: Sequence[str]) -> LabelledSeries:
    """The series with its channels in this order; those without names of their own are taken as they come."""
    if one.channels == tuple(names):
        return one
    count = len(one.channels)
    if count == len(names) and (count == 1 or all(name.isdecimal() for name in one.channels)):
        return replace(one, channels=tuple(names))
    if set(names) <= set(one.channels):
        places = [one.channels.index(name) for name in names]
        return replace(one, values_TC=one.values_TC[:, places], channels=tuple(names))
    series = f"the series {one.name!r}" if one.name else "the series"
    raise OptionError(
        f"{series} has {_channels(one.channels)}; expected {_channels(names)}, as the training series had; try a numpy "
        "array [steps, channels], or text with ; between the steps"
    )


def _channels(names: Sequence[str]) -> str:
    return f"the {'channel' if len(names) == 1 else 'channels'} {', '.join(names)}"


def _checked(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> LabelledSeries:
    values_TC = values[:, None] if values.ndim == 1 else values
    if values_TC.ndim != 2 or not values_TC.size:
        raise OptionError(
            f"a series to classify has the shape {list(values.shape)}; expected [steps] or [steps, channels], with at "
            "least one step; try list(array) for several series"
        )
    if np.isnan(values_TC).all():
        raise OptionError(
            f"the series to classify has {values_TC.size:,} missing values and no number; expected {_EXAMPLE}"
        )
    if np.isinf(values_TC).any():
        raise OptionError("the series to classify has an infinite value; expected numbers, or NaN where one is missing")
    names = ("value",) if values_TC.shape[1] == 1 else tuple(str(k + 1) for k in range(values_TC.shape[1]))
    return LabelledSeries(values_TC, channels=names)


def extend_table(table: SeriesTable, rows: int, *, calendar: bool) -> SeriesTable:
    """The table with so many rows after the last value of every series; `calendar`: its features are known there."""
    more_S = np.maximum(0, rows - (np.diff(table.bounds_S1) - observed_ends(table)))
    more_S[np.diff(table.bounds_S1) == 0] = 0
    if not more_S.any():
        return table
    added = len(calendar_names(table.frequency)) if calendar else 0
    stamps, values, past, known = [], [], [], []
    for at, more in enumerate(more_S.tolist()):
        part = slice(int(table.bounds_S1[at]), int(table.bounds_S1[at + 1]))
        after = table.frequency.after(table.times_N[part][-1], more) if more else table.times_N[:0]
        columns = np.full((more, len(table.known)), np.nan)
        if added:
            columns[:, len(table.known) - added :] = calendar_features(after, table.frequency)
        stamps += [table.times_N[part].astype(np.int64), after.astype(np.int64)]
        values += [table.values_ND[part], np.full((more, len(table.targets)), np.nan)]
        past += [table.past_NP[part], np.full((more, len(table.past)), np.nan)]
        known += [table.known_NK[part], columns]
    times_N = np.concatenate(stamps)
    return replace(
        table,
        bounds_S1=np.concatenate(([0], np.cumsum(np.diff(table.bounds_S1) + more_S))).astype(np.int64),
        times_N=times_N.astype("datetime64[s]") if np.issubdtype(table.times_N.dtype, np.datetime64) else times_N,
        values_ND=np.concatenate(values),
        past_NP=np.concatenate(past),
        known_NK=np.concatenate(known),
    )

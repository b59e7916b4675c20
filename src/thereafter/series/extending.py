"""Series with rows for the time after their last one: no values, and of the covariates what the calendar knows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from thereafter.series.calendar_features import calendar_features, calendar_names
from thereafter.series.table import SeriesTable
from thereafter.series.windows import observed_ends


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

"""Windows of a table as a task needs them: in batches, thinned out, without those that training saw.

Shapes: W windows, S series, T rows, D targets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from thereafter import progress
from thereafter.errors import EmptyCorpusError, OptionError
from thereafter.models.forecasting.batch import WindowBatch
from thereafter.models.forecasting.forecaster import WindowFacts
from thereafter.models.forecasting.settings import COUNTS
from thereafter.series.frequency import Frequency
from thereafter.series.scales import SeriesScales, rows_hash
from thereafter.series.table import SeriesTable
from thereafter.series.windows import WHOLE, Window, WindowFrame, Windows, cut_windows, observed_ends
from thereafter.tasks.forecast_batches import make_batch

_BATCH = 512  # windows that are laid out together where nothing is trained


def facts_of(scales: SeriesScales) -> WindowFacts:
    """What a network is built for."""
    frame = scales.frame
    return WindowFacts(
        scales.targets, scales.covariates, scales.known, frame.lookback, frame.horizon, frame.season, scales.gaps
    )


def batches_of(windows: Windows, scales: SeriesScales, device: torch.device) -> Iterator[WindowBatch]:
    """All windows in batches, in order."""
    for begin in range(0, len(windows), _BATCH):
        yield make_batch(list(windows[begin : begin + _BATCH]), scales).to(device)


def thinned(windows: Windows, most: int) -> Windows:
    """At most so many of the windows, evenly chosen."""
    if len(windows) <= most:
        return windows
    keep_W = np.zeros(len(windows), np.bool_)
    keep_W[np.linspace(0, len(windows) - 1, most).round().astype(np.int64)] = True
    return windows.chosen(keep_W)


def end_of(table: SeriesTable, series: int) -> Window:
    """The window whose forecast begins after the last value of a series."""
    return Window(table, series, int(observed_ends(table)[series]))


def table_of_numbers(given: object) -> SeriesTable:
    """One series without times, from a text of numbers, a list or an array [T] or [T, D]."""
    try:
        numbers = [float(part) for part in given.replace(",", " ").split()] if isinstance(given, str) else given
        values = np.array(numbers, np.float64)
    except (TypeError, ValueError) as error:
        shown = repr(given)
        raise OptionError(
            f"a series is {shown if len(shown) < 60 else shown[:57] + '...'}; expected numbers, such as '1.5 2 2.5'; a "
            "table is given by its path to forecast (--last)"
        ) from error
    values_TD = values[:, None] if values.ndim == 1 else values
    if values_TD.ndim != 2 or not len(values_TD) or np.isinf(values_TD).any():
        raise OptionError(f"a series is an array of shape {values.shape}; expected finite numbers, [T] or [T, D]")
    rows, empty = len(values_TD), np.empty((len(values_TD), 0))
    names = ("value",) if values_TD.shape[1] == 1 else tuple(f"x{at + 1}" for at in range(values_TD.shape[1]))
    bounds = np.array([0, rows], np.int64)
    return SeriesTable(
        "numbers", ("value",), bounds, np.arange(rows), values_TD, names, Frequency(), empty, (), empty, ()
    )


def all_windows(examples: Sequence[Window]) -> Windows:
    """Examples as the windows of their table."""
    if isinstance(examples, Windows):
        return examples
    if not examples:
        raise EmptyCorpusError("there are no windows to forecast; expected at least one")
    table = examples[0].table
    base = cut_windows(table, WindowFrame(1, 1), "all", WHOLE)
    series = np.array([one.series for one in examples], np.int32)
    return replace(base, series_W=series, origin_W=np.array([one.origin for one in examples], np.int64))


def unseen_windows(windows: Windows, scales: SeriesScales) -> NDArray[np.bool_]:
    """Which windows begin after all that training and validation saw."""
    table = windows.table
    begins_W = table.bounds_S1[windows.series_W] + windows.origin_W
    if not np.issubdtype(table.times_N.dtype, np.datetime64):
        ends_S = np.array([_rows_seen(table, at, scales) for at in range(len(table))], np.int64)
        same = rows_hash(table, ends_S) == scales.rows_hash
        return windows.origin_W >= ends_S[windows.series_W] if same else np.ones(len(windows), np.bool_)
    single = next(iter(scales.scales.values())) if len(scales.scales) == len(table) == 1 else None
    known = [scales.scales.get(name, single) for name in table.names]
    until_S = np.array([one.until if one is not None else "0001-01-01" for one in known], "datetime64[s]")
    unseen_W: NDArray[np.bool_] = table.times_N[begins_W] > until_S[windows.series_W]
    return unseen_W


def _rows_seen(table: SeriesTable, at: int, scales: SeriesScales) -> int:
    """The rows of a counted series up to the last that training or validation saw."""
    until = scales.scale_of(table, at).until
    counted = until.removeprefix("-").isdigit()
    return int(np.searchsorted(table.times(at), int(until), "right")) if counted else 0


def check_counts(windows: Windows) -> None:
    """OptionError where a target is no count."""
    values_ND = windows.table.values_ND
    wrong = values_ND[~np.isnan(values_ND) & ((values_ND < 0) | (values_ND != np.round(values_ND)))]
    if len(wrong):
        raise OptionError(
            f"the head {COUNTS!r} is for counts, and the target has the value {wrong[0]:g}; expected 0, 1, 2, ...; "
            "try head='gaussian' or 'student-t'"
        )


def tell_short(scales: SeriesScales, windows: Sequence[Window]) -> None:
    """Say where a forecast reads far fewer rows than the run was trained to read: its bands then promise too much."""
    short = [one for one in windows if 2 * one.origin < scales.frame.lookback]
    if short:
        which = "" if len(windows) == 1 else f"{len(short):,} of {len(windows):,} series, such as "
        progress.note(
            f"{which}{short[0].table.names[short[0].series]!r} has {short[0].origin:,} rows; the run reads "
            f"{scales.frame.lookback:,} before a forecast: do not trust this one and its bands; try more rows"
        )

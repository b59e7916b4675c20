"""Windows of a table as a task needs them: thinned out, without those that training saw, as scaled tensors in batches.

Where the settings leave them open, the season and how far a window reaches back are chosen from the table.

Shapes: W windows, B of them in a batch, S series, T rows, L rows that are read, H rows to forecast, D targets, C
covariates, K of them known ahead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.errors import EmptyCorpusError, OptionError
from thereafter.series.batches import WindowBatch, join_batches
from thereafter.series.forecasters.forecaster import WindowFacts
from thereafter.series.forecasters.settings import COUNTS, ForecastSettings
from thereafter.series.scales import SeriesScales, rows_until
from thereafter.series.table import ColumnChoice, SeriesTable
from thereafter.series.times import Frequency
from thereafter.series.windows import WHOLE, Window, WindowFrame, Windows, cut_windows, observed_ends, split_ends

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
    if np.isnan(values_TD).all(0).any():
        which = "a series" if values_TD.shape[1] == 1 else "a column of a series"
        raise OptionError(
            f"{which} has {len(values_TD):,} missing values and no number; expected at least one number to go on from; "
            "try the last rows that have values"
        )
    rows, empty = len(values_TD), np.empty((len(values_TD), 0))
    names = ("value",) if values_TD.shape[1] == 1 else tuple(f"x{at + 1}" for at in range(values_TD.shape[1]))
    bounds = np.array([0, rows], np.int64)
    return SeriesTable(
        "numbers",
        ("value",),
        bounds,
        np.arange(rows),
        values_TD,
        names,
        Frequency(),
        empty,
        (),
        empty,
        (),
        ends_now=True,
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


def unseen_windows(windows: Windows, scales: SeriesScales, split: str = "") -> Windows:
    """The windows of a table that forecast no row which training or validation saw.

    In the table of the training they begin after those rows, and end where its `split` ends the test.
    """
    table, frame = windows.table, windows.frame
    seen_S2 = _rows_seen(table, scales)
    ends_S = observed_ends(table)
    for at in np.flatnonzero((seen_S2[:, 0] == 0) & (seen_S2[:, 1] > 0)).tolist():
        with suppress(OptionError):  # more rows in the split than in the table: these are its last ones
            ends_S[at] = split_ends(int(ends_S[at]), split, frame.horizon)[2]
    after_S = np.where(seen_S2[:, 0] == 0, seen_S2[:, 1], 0)
    windows = cut_windows(table, frame, "all", WHOLE, after_S)
    begin_W, end_W = seen_S2[windows.series_W].T
    first_W, last_W = windows.origin_W, windows.origin_W + frame.horizon
    return windows.chosen(((first_W >= end_W) | (last_W <= begin_W)) & (last_W <= ends_S[windows.series_W]))


def unseen_rows(table: SeriesTable, scales: SeriesScales) -> int:
    """The most rows that a series has after those that training or validation saw."""
    return int((observed_ends(table) - _rows_seen(table, scales)[:, 1]).max(initial=0))


def _rows_seen(table: SeriesTable, scales: SeriesScales) -> NDArray[np.int64]:
    """The first row of each series that training or validation saw, and the row after the last, [S, 2]; 0 and 0 of a
    series that they did not see."""
    timed = np.issubdtype(table.times_N.dtype, np.datetime64)
    seen_S2 = np.zeros((len(table), 2), np.int64)
    for at in range(len(table)):
        recognised = scales.recognise(table, at)
        if recognised is None or not (timed or recognised.certain):  # rows without times are the same by content alone
            continue
        first = recognised.scale.sample_times[:1]
        if first and timed:
            seen_S2[at, 0] = np.searchsorted(table.times(at).astype(np.int64), first[0])
        seen_S2[at, 1] = rows_until(table, at, recognised.scale)
    return seen_S2


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


def make_batch(windows: Sequence[Window], scales: SeriesScales, horizon: int | None = None) -> WindowBatch:
    """Windows as tensors; `horizon` is that of the run where none is given."""
    table = windows[0].table
    if any(window.table is not table for window in windows):
        return join_batches([make_batch([window], scales, horizon) for window in windows])
    if table.known_NK.shape[1] != scales.known or table.past_NP.shape[1] != scales.covariates - scales.known:
        raise OptionError(
            f"{table.source} has {table.known_NK.shape[1]} covariates known ahead, a row every {table.frequency}; the "
            f"run was trained on {scales.known}, a row every {scales.frequency}; try a table like that"
        )
    series_B = np.array([window.series for window in windows])
    origin_B = table.bounds_S1[series_B] + np.array([window.origin for window in windows])
    lookback, steps = scales.frame.lookback, horizon or scales.frame.horizon
    begin_B, end_B = table.bounds_S1[series_B], table.bounds_S1[series_B + 1]
    past_BL = origin_B[:, None] + np.arange(-lookback, 0)
    ahead_BH = origin_B[:, None] + np.arange(steps)
    aligned = scales.of_table(table)[series_B]
    mean_BX, deviation_BX = aligned[:, 0], aligned[:, 1]
    inside_BL, inside_BH = past_BL >= begin_B[:, None], ahead_BH < end_B[:, None]
    targets, known = scales.targets, scales.known
    past, seen = _take(table.values_ND, past_BL, inside_BL, mean_BX[:, :targets], deviation_BX[:, :targets])
    future, future_seen = _take(table.values_ND, ahead_BH, inside_BH, mean_BX[:, :targets], deviation_BX[:, :targets])
    middle, end = targets + known, targets + scales.covariates
    inputs_known, _ = _take(
        table.known_NK, past_BL, inside_BL, mean_BX[:, targets:middle], deviation_BX[:, targets:middle]
    )
    inputs_past, _ = _take(table.past_NP, past_BL, inside_BL, mean_BX[:, middle:end], deviation_BX[:, middle:end])
    ahead, _ = _take(table.known_NK, ahead_BH, inside_BH, mean_BX[:, targets:middle], deviation_BX[:, targets:middle])
    inputs = np.concatenate((inputs_known, inputs_past), 2)
    tensors = [torch.from_numpy(array) for array in (past, seen, inputs, ahead, future, future_seen)]
    return WindowBatch(tensors[0], tensors[1], tensors[2], tensors[3], tensors[4], tensors[5], tuple(windows))


def check_known(table: SeriesTable, series: int, origin: int, horizon: int) -> None:
    """OptionError where the covariates that are known ahead do not reach as far as the forecast."""
    if not table.known:
        return
    rows = table.known_NK[table.bounds_S1[series] + origin : table.bounds_S1[series + 1]][:horizon]
    names: tuple[str, ...] = table.known
    if np.isnan(table.values(series)[origin:]).all():  # a gap amid rows that came is masked
        missing = np.isnan(rows)
        names = tuple(name for at, name in enumerate(names) if missing[:, at].any()) or names
        rows = rows[: int(missing.any(1).argmax())] if missing.any() else rows
    if len(rows) < horizon:
        raise OptionError(
            f"the forecast needs {', '.join(names)} for each of {horizon:,} steps; got {len(rows):,} rows with it "
            "after the last value; try rows with their times and these columns, and an empty target"
        )


def _take(
    rows_NX: NDArray[np.float64],
    at_BT: NDArray[np.int64],
    inside_BT: NDArray[np.bool_],
    mean_BX: NDArray[np.float64],
    deviation_BX: NDArray[np.float64],
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Rows at these places, scaled, and which of them are there; those that are not are 0."""
    if not rows_NX.shape[1]:
        return np.zeros((*at_BT.shape, 0), np.float32), np.zeros((*at_BT.shape, 0), np.bool_)
    values_BTX = rows_NX[at_BT.clip(0, len(rows_NX) - 1)]
    seen_BTX = ~np.isnan(values_BTX) & inside_BT[..., None]
    scaled_BTX = (values_BTX - mean_BX[:, None]) / deviation_BX[:, None]
    return np.where(seen_BTX, scaled_BTX, 0.0).astype(np.float32), seen_BTX


_DAY, _WEEK = 86_400, 7 * 86_400
_SEASONS = 14  # that a window reaches back
_ROWS = 32  # that it reaches back at least, where there is no season


@dataclass(frozen=True)
class ChosenFrame:
    """A frame, and the sentences that say how it was chosen."""

    frame: WindowFrame
    notes: tuple[str, ...]


def columns_of(settings: ForecastSettings) -> ColumnChoice:
    """The columns that the settings name."""

    def names(text: str) -> tuple[str, ...]:
        return tuple(name.strip() for name in text.split(",") if name.strip())

    return ColumnChoice(
        settings.time, names(settings.target), settings.series, names(settings.past), names(settings.known)
    )


def natural_season(frequency: Frequency) -> int:
    """Rows of a day for what is measured by the hour or oftener, of a week for days, of a year for weeks, months.

    >>> natural_season(Frequency("min", 15)), natural_season(Frequency("D")), natural_season(Frequency("M", 3))
    (96, 7, 4)
    """
    seconds = frequency.seconds
    if frequency.unit == "B":
        return 5
    if frequency.unit == "M":
        return max(1, 12 // frequency.step)
    if seconds is None:
        return 1
    if seconds < _DAY:
        return _DAY // seconds if _DAY % seconds == 0 else 1
    if seconds == _DAY:
        return 7
    return 52 if seconds == _WEEK else 1


def choose_frame(settings: ForecastSettings, table: SeriesTable, split: str) -> ChosenFrame:
    """The season by the frequency, the lookback by season, horizon and the rows there are."""
    horizon, notes = settings.horizon, []
    rows = int(observed_ends(table).max(initial=0))
    learned = split_ends(rows, split, horizon)[0] if rows else 0
    if learned < horizon + 1:
        raise EmptyCorpusError(
            f"the longest series of {table.source} has {rows:,} rows, {learned:,} of them to train on; expected more "
            f"than the horizon of {horizon:,}; try a smaller horizon (--horizon)"
        )
    season = settings.season
    if not season:
        season = natural_season(table.frequency)
        season = season if learned >= 2 * season else 1
        if season > 1:
            notes.append(f"a season is {season} rows of {table.frequency}")
    most = learned - horizon
    if season > most and not settings.season:
        season = 1
        notes = []
    lookback = max(settings.lookback, settings.order) if settings.lookback or settings.order else 0
    if lookback > most:
        raise OptionError(
            f"lookback is {lookback:,}, and training has {learned:,} rows, {horizon:,} of which are to be forecast; "
            f"expected {most:,} at most"
        )
    if not lookback:
        wanted = max(_SEASONS * season, 2 * horizon) if season > 1 else max(2 * horizon, _ROWS)
        lookback = max(1, min(wanted, most * 2 // 3))
        lookback = max(season, lookback - lookback % season)
        notes.append(f"a forecast reads the {lookback:,} rows before it")
    if settings.model == "seasonal-naive" and lookback < season:
        raise OptionError(
            f"lookback is {lookback:,} and a season {season:,} rows, which 'seasonal-naive' repeats; expected "
            f"{season:,} or more; try leaving it out, or another season"
        )
    return ChosenFrame(WindowFrame(lookback, horizon, season, settings.stride), tuple(notes))

"""The scale of every series as it was in the training rows, and all that is needed to read such a table again.

A series is recognised by its rows: some of those that training saw are stored and compared with the rows at the same
times. Where there are none to compare, a single series is the run's own if its values are near those of the training.

Shapes: S series, D targets, C covariates, R stored rows.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thereafter.base import config as toml
from thereafter.base.config import Table
from thereafter.errors import FormatError, OptionError
from thereafter.series import table as tables
from thereafter.series.table import ColumnChoice, SeriesTable, WindowFrame, Windows
from thereafter.series.times import Floats, Frequency, Integers, Times

_LARGEST = 1e150  # of a value: its square is a number, and so is the sum of many
_MOST_COVARIATES = 10_000
_SAMPLE, _MOST_STORED = 60, 4_096  # rows that are stored of a series; values of all series together
_DECIDING = 16  # the first rows that both have decide whether two series are the same
_SAME = 0.75  # of them are close to each other in the same series: some may have been mended
_CLOSE = 0.2  # mean errors of the seasonal naive forecast between a value and the same one, rounded
_NEAR = 3.0  # deviations from the mean or from the last value within which a series may be the run's own
_DAMAGED = "the series of this run are damaged; expected the names and scales of its columns; try training again"


@dataclass(frozen=True)
class SeriesScale:
    """A series in its training rows: mean and deviation of each target, and of each covariate (the known ones first).

    `naive_absolute`, `naive_squared`: the mean error of the seasonal naive forecast of one step, which MASE and RMSSE
    divide by. `until`: the last time that training or validation saw, as text or as the number of a row.
    `sample_times`, `sample_values`: some of the rows that they saw, by which the series is recognised: times in seconds
    since 1970 or the numbers of rows, and the targets row by row. Older runs have none.
    """

    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    covariate_mean: tuple[float, ...]
    covariate_deviation: tuple[float, ...]
    naive_absolute: tuple[float, ...]
    naive_squared: tuple[float, ...]
    until: str
    sample_times: tuple[int, ...] = field(default=(), compare=False)
    sample_values: tuple[float, ...] = field(default=(), compare=False)


class Recognised(NamedTuple):
    """A series of the training in another table; `certain` where its rows were compared, and not only its level."""

    scale: SeriesScale
    certain: bool


@dataclass(frozen=True)
class _ScaledTable:
    """What is computed once for a table."""

    table: SeriesTable
    recognised: tuple[Recognised | None, ...]
    scales: tuple[SeriesScale, ...]
    aligned: Floats


@dataclass(frozen=True)
class SeriesScales:
    """See `data.codecs.Codec`: z = (y - mean) / deviation, by series; counts are left as they are.

    `columns` are those of the training table, `frame` how its windows were cut; `rows_hash` is that of the rows that
    were seen, by which a table without times is known again.
    """

    codec: ClassVar[str] = "series"
    size: ClassVar[int] = 0
    columns: ColumnChoice
    calendar: bool
    known: int
    covariates: int
    frequency: Frequency
    frame: WindowFrame
    gaps: bool
    counts: bool
    rows_hash: str
    scales: dict[str, SeriesScale]
    _latest: dict[int, _ScaledTable] = field(default_factory=dict, repr=False, compare=False)

    @property
    def targets(self) -> int:
        return len(self.columns.target)

    @classmethod
    def fit(cls, windows: Windows, columns: ColumnChoice, *, calendar: bool = False, counts: bool = False) -> Self:
        """From the rows of the training part alone."""
        table, frame = windows.table, windows.frame
        largest = float(np.nanmax(np.abs(table.values_ND), initial=0.0))
        if largest > _LARGEST:
            raise OptionError(
                f"the values of {table.source} are as large as {largest:.3g}, and their squares would be infinite; "
                f"expected {_LARGEST:g} at most; try another unit"
            )
        scales, short, gaps = {}, {}, False
        first_rows = []
        for at, (name, (learned, seen, _)) in enumerate(zip(table.names, windows.ends_S3.tolist(), strict=True)):
            values_TD, times_T = table.values(at)[:seen], table.times(at)
            scale = _scale_of(table, at, values_TD[:learned], times_T[: max(1, seen)], frame.season)
            times, values = _sample_of(values_TD, times_T, len(table.names))
            scales[name] = replace(scale, sample_times=times, sample_values=values)
            first_rows.append(values_TD)
            gaps |= bool(np.isnan(values_TD[:learned]).any())
            if _counted(values_TD[:learned]) < 2:
                short[name] = values_TD
        others = [scale for name, scale in scales.items() if name not in short]
        for name, values_TD in short.items():
            scales[name] = _pooled(scales[name], values_TD, others)
        known, seen_hash = table.known_NK.shape[1], rows_hash(first_rows)
        covariates = known + table.past_NP.shape[1]
        return cls(columns, calendar, known, covariates, table.frequency, frame, gaps, counts, seen_hash, scales)

    def of_table(self, table: SeriesTable) -> Floats:
        """Mean and deviation of targets and covariates for each series of a table, [S, 2, D + C].

        A series that training did not see is scaled by its own rows: the first ones, those of one window, or all of
        them where the table `ends_now`.
        """
        return self._scaled(table).aligned

    def scale_of(self, table: SeriesTable, at: int) -> SeriesScale:
        """The scale of a series; of one that training did not see its own, as in `of_table`."""
        return self._scaled(table).scales[at]

    def recognise(self, table: SeriesTable, at: int) -> Recognised | None:
        """The series of the training that a series of a table is; None for one that training did not see."""
        return self._scaled(table).recognised[at]

    def _scaled(self, table: SeriesTable) -> _ScaledTable:
        latest = self._latest.get(id(table))
        if latest is not None and latest.table is table:
            return latest
        recognised = self._recognise_all(table)
        scales = [self._own_scale(table, at) if one is None else one.scale for at, one in enumerate(recognised)]
        rows = []
        for scale in scales:
            mean, deviation = scale.mean, scale.deviation
            if self.counts:
                mean, deviation = (0.0,) * len(mean), (1.0,) * len(deviation)
            rows.append([[*mean, *scale.covariate_mean], [*deviation, *scale.covariate_deviation]])
        aligned = np.array(rows, np.float64).reshape(len(table), 2, -1)
        latest = _ScaledTable(table, tuple(recognised), tuple(scales), aligned)
        self._latest.clear()
        self._latest[id(table)] = latest
        return latest

    def _own_scale(self, table: SeriesTable, at: int) -> SeriesScale:
        """The scale of a series that training did not see, by rows none of which is forecast."""
        values_TD = table.values(at)[: self._first_rows(table, at)]
        scale = _scale_of(table, at, values_TD, table.times(at)[:1], self.frame.season)
        if _counted(values_TD) < 2:
            scale = _pooled(scale, values_TD, list(self.scales.values()))
        if self.calendar:  # the same for all series, and a few rows are not all of a year
            first, last = len(self.columns.known), self.known
            mean, deviation = list(scale.covariate_mean), list(scale.covariate_deviation)
            mean[first:last] = _middle([one.covariate_mean[first:last] for one in self.scales.values()])
            deviation[first:last] = _middle([one.covariate_deviation[first:last] for one in self.scales.values()])
            scale = replace(scale, covariate_mean=tuple(mean), covariate_deviation=tuple(deviation))
        return scale

    def _first_rows(self, table: SeriesTable, at: int) -> int:
        """How many rows of a series are read before the first of its forecasts."""
        return table.length(at) if table.ends_now else max(1, min(self.frame.lookback, table.length(at) // 2))

    def _recognise_all(self, table: SeriesTable) -> list[Recognised | None]:
        if table.values_ND.shape[1] != self.targets:
            return [None] * len(table)
        compare = np.issubdtype(table.times_N.dtype, np.datetime64) == (self.frequency.unit != "row")
        named = [self.scales.get(name) for name in table.names]
        scales = list(self.scales.values()) if len(self.scales) == len(table) == 1 else [one for one in named if one]
        if compare and len(scales) == len(table):
            ends = [rows_until(table, at, scale) for at, scale in enumerate(scales)]
            if rows_hash(table.values(at)[:end] for at, end in enumerate(ends)) == self.rows_hash:
                return [Recognised(scale, True) for scale in scales]
        return [self._recognise(table, at, compare=compare) for at in range(len(table))]

    def _recognise(self, table: SeriesTable, at: int, *, compare: bool) -> Recognised | None:
        named = self.scales.get(table.names[at])
        alone = len(table) == 1 and not table.series_column  # such a series is called after its column
        several = [] if named is None else [named]
        if alone and named is None:
            several = list(self.scales.values())
        same = [_has_rows_of(scale, table, at) if compare else None for scale in several]
        if True in same:
            return Recognised(several[same.index(True)], True)
        if len(several) != 1 or same[0] is False:
            return None
        if named is not None and (self.columns.series or len(self.scales) > 1):
            return Recognised(named, False)
        values_TD = table.values(at)
        end = self._first_rows(table, at)
        near = _is_near(several[0], values_TD[max(0, end - self.frame.lookback) : end])
        return Recognised(several[0], False) if alone and near else None

    def encode(self, values: Sequence[float] | Floats) -> NDArray[np.float32]:
        """Values of the first series, scaled."""
        scale = next(iter(self.scales.values()))
        return ((np.asarray(values, np.float64) - scale.mean[0]) / scale.deviation[0]).astype(np.float32)

    def decode(self, numbers: NDArray[np.generic]) -> list[float]:
        scale = next(iter(self.scales.values()))
        values: list[float] = (np.asarray(numbers, np.float64) * scale.deviation[0] + scale.mean[0]).tolist()
        return values

    def to_json(self) -> Table:
        return {name: value for name, value in asdict(replace(self, _latest={})).items() if name != "_latest"}

    @classmethod
    def from_json(cls, stored: Table) -> Self:
        try:
            columns = toml.build(ColumnChoice, stored["columns"], "columns")
            scales = {str(name): toml.build(SeriesScale, one, "scale") for name, one in stored["scales"].items()}
            made = cls(
                columns,
                bool(stored["calendar"]),
                int(stored["known"]),
                int(stored["covariates"]),
                toml.build(Frequency, stored["frequency"], "frequency"),
                toml.build(WindowFrame, stored["frame"], "frame"),
                bool(stored["gaps"]),
                bool(stored["counts"]),
                str(stored["rows_hash"]),
                scales,
            )
            sound = all(_sound(scale, made.targets, made.covariates) for scale in scales.values())
            for scale in scales.values():
                np.int64(scale.until or 0) if made.frequency.unit == "row" else np.datetime64(scale.until, "s")
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, OptionError) as error:
            raise FormatError(_DAMAGED) from error
        if not scales or not sound or not 0 <= made.known <= made.covariates <= _MOST_COVARIATES:
            raise FormatError(_DAMAGED)
        return made


def rows_hash(first_rows: Iterable[Floats]) -> str:
    """What the first rows of each series, [T, D], are known by."""
    digest = hashlib.sha256()
    for values_TD in first_rows:
        digest.update(np.ascontiguousarray(values_TD).tobytes())
    return digest.hexdigest()


def rows_until(table: SeriesTable, at: int, scale: SeriesScale) -> int:
    """The rows of a series up to the last that training or validation saw."""
    times, until = table.times(at), scale.until
    if np.issubdtype(times.dtype, np.datetime64):
        return int(np.searchsorted(times, np.datetime64(until, "s"), "right"))
    return int(np.searchsorted(times, int(until), "right")) if until else 0


def _sample_of(values_TD: Floats, times: Times, series: int) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """The first, the last and some rows between them of those that were seen: their times, and their targets."""
    seen, targets = values_TD.shape
    third = min(_SAMPLE, _MOST_STORED // (series * targets)) // 3
    if not third or not seen:
        return (), ()
    between = np.linspace(0, seen - 1, third).round().astype(np.int64)
    rows = np.unique(np.concatenate([np.arange(min(third, seen)), between, np.arange(max(0, seen - third), seen)]))
    return tuple(times[rows].astype(np.int64).tolist()), tuple(values_TD[rows].ravel().tolist())


def _has_rows_of(scale: SeriesScale, table: SeriesTable, at: int) -> bool | None:
    """Whether a series has the stored rows at their times; None where that cannot be told.

    Values that most stored rows have, such as 0, say nothing where both have them. Rows without times may have been
    counted from another one: where they differ, nothing is told.
    """
    times_T, deviation_D = table.times(at).astype(np.int64), np.array(scale.deviation)
    stored_R = np.array(scale.sample_times, np.int64)
    place_R = np.searchsorted(times_T, stored_R)
    shared_R = place_R < len(times_T)
    shared_R[shared_R] = times_T[place_R[shared_R]] == stored_R[shared_R]
    stored_RD = np.array(scale.sample_values).reshape(-1, len(deviation_D))
    usual_D = np.array([_usual(column) for column in stored_RD.T])
    close_D = np.maximum(1e-4 * deviation_D, _CLOSE * np.nan_to_num(np.array(scale.naive_absolute)))
    ours_RD, theirs_RD = stored_RD[shared_R], table.values(at)[place_R[shared_R]]
    seen_RD = ~np.isnan(ours_RD) & ~np.isnan(theirs_RD)
    far_RD = seen_RD & ~(np.abs(ours_RD - theirs_RD) <= close_D)
    telling_R = (seen_RD & (far_RD | ~(np.abs(ours_RD - usual_D) <= close_D))).any(1)
    far_R = far_RD.any(1)[telling_R][:_DECIDING]
    if not len(far_R):
        return None
    same = 1 - far_R.mean() >= _SAME
    return bool(same) or (None if table.times_N.dtype.kind != "M" else False)


def _usual(column_R: Floats) -> float:
    """The value that more than a quarter of a column has; NaN if none."""
    values, counts = np.unique(column_R[~np.isnan(column_R)], return_counts=True)
    return float(values[counts.argmax()]) if counts.max(initial=0) * 4 > len(column_R) else math.nan


def _is_near(scale: SeriesScale, values_TD: Floats) -> bool:
    """Whether values are as near to the mean, or to the last stored value, as those of the series may be."""
    for at, (mean, deviation) in enumerate(zip(scale.mean, scale.deviation, strict=True)):
        stored_R = np.array(scale.sample_values[at :: len(scale.mean)])
        last = stored_R[~np.isnan(stored_R)][-1:].tolist()
        column_T = values_TD[:, at]
        column_T = column_T[~np.isnan(column_T)]
        off = [np.sqrt(np.square((column_T - middle) / deviation).mean()) for middle in (mean, *last) if len(column_T)]
        if off and not min(off) <= _NEAR:
            return False
    return True


def _sound(scale: SeriesScale, targets: int, covariates: int) -> bool:
    numbers = (*scale.mean, *scale.deviation, *scale.covariate_mean, *scale.covariate_deviation)
    return (
        {len(scale.mean), len(scale.deviation), len(scale.naive_absolute), len(scale.naive_squared)} == {targets}
        and len(scale.covariate_mean) == len(scale.covariate_deviation) == covariates
        and len(scale.sample_values) == targets * len(scale.sample_times)
        and all(abs(time) < 2**62 for time in scale.sample_times)
        and not any(map(math.isinf, scale.sample_values))
        and all(map(math.isfinite, numbers))
        and all(deviation > 0 for deviation in (*scale.deviation, *scale.covariate_deviation))
    )


def _scale_of(table: SeriesTable, at: int, values_TD: Floats, seen_T: Times, season: int) -> SeriesScale:
    begin, learned = int(table.bounds_S1[at]), len(values_TD)
    covariates = (table.known_NK[begin : begin + learned], table.past_NP[begin : begin + learned])
    mean, deviation = _moments(values_TD)
    covariate_mean, covariate_deviation = _moments(np.concatenate(covariates, 1))
    absolute, squared = _naive_errors(values_TD, season)
    until = str(seen_T[-1]) if len(seen_T) else ""
    return SeriesScale(mean, deviation, covariate_mean, covariate_deviation, absolute, squared, until)


def _counted(values_TD: Floats) -> int:
    """Rows with a value."""
    return int((~np.isnan(values_TD)).any(1).sum())


def _pooled(scale: SeriesScale, values_TD: Floats, others: Sequence[SeriesScale]) -> SeriesScale:
    """The scale of a series too short to have one of its own: the level of its values, the deviation of the others."""
    if not others:
        return scale
    mean, _ = _moments(values_TD)
    return replace(
        scale,
        mean=mean,
        deviation=_middle([one.deviation for one in others]),
        naive_absolute=_middle([one.naive_absolute for one in others]),
        naive_squared=_middle([one.naive_squared for one in others]),
    )


def _middle(several: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    """The median over series of each of their numbers."""
    return tuple(float(value) for value in np.nanmedian(np.array(several), axis=0))


def _moments(values_TD: Floats) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation of each column, gaps left out; a column without values has 0 and 1, a constant one 1."""
    means, deviations = [], []
    for column_T in values_TD.T:
        seen_T = column_T[~np.isnan(column_T)]
        deviation = float(seen_T.std()) if len(seen_T) else 0.0
        means.append(float(seen_T.mean()) if len(seen_T) else 0.0)
        deviations.append(deviation if deviation > 1e-12 * max(1.0, abs(means[-1])) else 1.0)
    return tuple(means), tuple(deviations)


def _naive_errors(values_TD: Floats, season: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The mean absolute and squared difference of values one season apart; NaN where there is none."""
    lag = season if len(values_TD) > season else 1
    difference_TD = values_TD[lag:] - values_TD[:-lag] if len(values_TD) > lag else values_TD[:0]
    absolute, squared = [], []
    for column_T in difference_TD.T:
        seen_T = column_T[~np.isnan(column_T)]
        absolute.append(float(np.abs(seen_T).mean()) if len(seen_T) else math.nan)
        squared.append(float(np.square(seen_T).mean()) if len(seen_T) else math.nan)
    return tuple(absolute), tuple(squared)


def unseen_windows(windows: Windows, scales: SeriesScales, split: str = "") -> Windows:
    """The windows of a table that forecast no row which training or validation saw.

    In the table of the training they begin after those rows, and end where its `split` ends the test.
    """
    table, frame = windows.table, windows.frame
    seen_S2 = _rows_seen(table, scales)
    ends_S = tables.observed_ends(table)
    for at in np.flatnonzero((seen_S2[:, 0] == 0) & (seen_S2[:, 1] > 0)).tolist():
        with suppress(OptionError):  # more rows in the split than in the table: these are its last ones
            ends_S[at] = tables.split_ends(int(ends_S[at]), split, frame.horizon)[2]
    after_S = np.where(seen_S2[:, 0] == 0, seen_S2[:, 1], 0)
    windows = tables.cut_windows(table, frame, "all", tables.WHOLE, after_S)
    begin_W, end_W = seen_S2[windows.series_W].T
    first_W, last_W = windows.origin_W, windows.origin_W + frame.horizon
    return windows.chosen(((first_W >= end_W) | (last_W <= begin_W)) & (last_W <= ends_S[windows.series_W]))


def unseen_rows(table: SeriesTable, scales: SeriesScales) -> int:
    """The most rows that a series has after those that training or validation saw."""
    return int((tables.observed_ends(table) - _rows_seen(table, scales)[:, 1]).max(initial=0))


def _rows_seen(table: SeriesTable, scales: SeriesScales) -> Integers:
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

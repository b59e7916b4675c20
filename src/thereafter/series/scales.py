"""The scale of every series as it was in the training rows, and all that is needed to read such a table again.

Shapes: S series, D targets, C covariates.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from thereafter import config as toml
from thereafter.config import Table
from thereafter.errors import FormatError, OptionError
from thereafter.series.frequency import Frequency
from thereafter.series.table import ColumnChoice, SeriesTable
from thereafter.series.windows import WindowFrame, Windows

_LARGEST = 1e150  # of a value: its square is a number, and so is the sum of many
_MOST_COVARIATES = 10_000
_DAMAGED = "the series of this run are damaged; expected the names and scales of its columns; try training again"


@dataclass(frozen=True)
class SeriesScale:
    """A series in its training rows: mean and deviation of each target, and of each covariate (the known ones first).

    `naive_absolute`, `naive_squared`: the mean error of the seasonal naive forecast of one step, which MASE and RMSSE
    divide by. `until`: the last time that training or validation saw, as text or as the number of a row.
    """

    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    covariate_mean: tuple[float, ...]
    covariate_deviation: tuple[float, ...]
    naive_absolute: tuple[float, ...]
    naive_squared: tuple[float, ...]
    until: str


@dataclass(frozen=True)
class SeriesScales:
    """See `data.codecs.Codec`: z = (y - mean) / deviation, by series; counts are left as they are.

    `columns` are those of the training table, `frame` how its windows were cut; `rows_hash` is that of the rows that
    were seen, by which a table without times is known again.
    """

    codec: ClassVar[str] = "series"
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
    _aligned: dict[int, tuple[SeriesTable, NDArray[np.float64]]] = field(
        default_factory=dict, repr=False, compare=False
    )

    @property
    def size(self) -> int:
        return 0

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
        scales = {
            name: _scale_of(table, at, int(windows.ends_S3[at, 0]), int(windows.ends_S3[at, 1]), frame.season)
            for at, name in enumerate(table.names)
        }
        short = [at for at, end in enumerate(windows.ends_S3[:, 0]) if _counted(table.values(at)[:end]) < 2]
        others = [scales[name] for at, name in enumerate(table.names) if at not in set(short)]
        for at in short:
            scales[table.names[at]] = _pooled(
                scales[table.names[at]], table.values(at)[: windows.ends_S3[at, 1]], others
            )
        gaps = any(np.isnan(windows.learned_rows(at)).any() for at in range(len(table)))
        covariates = table.known_NK.shape[1] + table.past_NP.shape[1]
        return cls(
            columns,
            calendar,
            table.known_NK.shape[1],
            covariates,
            table.frequency,
            frame,
            bool(gaps),
            counts,
            rows_hash(table, windows.ends_S3[:, 1]),
            scales,
        )

    def of_table(self, table: SeriesTable) -> NDArray[np.float64]:
        """Mean and deviation of targets and covariates for each series of a table, [S, 2, D + C].

        A series that training did not see is scaled by its own first rows, those of one window.
        """
        kept = self._aligned.get(id(table))
        if kept is not None and kept[0] is table:
            return kept[1]
        rows = []
        for at in range(len(table)):
            scale = self.scale_of(table, at)
            mean, deviation = scale.mean, scale.deviation
            if self.counts:
                mean, deviation = (0.0,) * len(mean), (1.0,) * len(deviation)
            rows.append([[*mean, *scale.covariate_mean], [*deviation, *scale.covariate_deviation]])
        aligned = np.array(rows, np.float64).reshape(len(table), 2, -1)
        self._aligned.clear()
        self._aligned[id(table)] = (table, aligned)
        return aligned

    def scale_of(self, table: SeriesTable, at: int) -> SeriesScale:
        """The scale of a series; of one that training did not see that of its first rows, none of which is forecast."""
        scale = self.scales.get(table.names[at])
        if scale is None and len(self.scales) == len(table.names) == 1:
            scale = next(iter(self.scales.values()))  # one series is one series, whatever its file is called
        if scale is None:
            end = max(1, min(self.frame.lookback, table.length(at) // 2))
            scale = _scale_of(table, at, end, 0, self.frame.season)
            if _counted(table.values(at)[:end]) < 2:
                scale = _pooled(scale, table.values(at)[:end], list(self.scales.values()))
        return scale

    def encode(self, values: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float32]:
        """Values of the first series, scaled."""
        scale = next(iter(self.scales.values()))
        return ((np.asarray(values, np.float64) - scale.mean[0]) / scale.deviation[0]).astype(np.float32)

    def decode(self, numbers: NDArray[np.generic]) -> list[float]:
        scale = next(iter(self.scales.values()))
        values: list[float] = (np.asarray(numbers, np.float64) * scale.deviation[0] + scale.mean[0]).tolist()
        return values

    def to_json(self) -> Table:
        return {name: value for name, value in asdict(self).items() if name != "_aligned"}

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
        except (KeyError, TypeError, ValueError, AttributeError, OptionError) as error:
            raise FormatError(_DAMAGED) from error
        if not scales or not sound or not 0 <= made.known <= made.covariates <= _MOST_COVARIATES:
            raise FormatError(_DAMAGED)
        return made


def rows_hash(table: SeriesTable, ends_S: NDArray[np.int64]) -> str:
    """What the first rows of each series are known by."""
    digest = hashlib.sha256()
    for at, end in enumerate(ends_S.tolist()):
        digest.update(np.ascontiguousarray(table.values(at)[:end]).tobytes())
    return digest.hexdigest()


def _sound(scale: SeriesScale, targets: int, covariates: int) -> bool:
    sizes = {len(scale.mean), len(scale.deviation), len(scale.naive_absolute), len(scale.naive_squared)} == {targets}
    sizes = sizes and len(scale.covariate_mean) == len(scale.covariate_deviation) == covariates
    sizes = sizes and all(one > 0 for one in scale.covariate_deviation)
    numbers = (*scale.mean, *scale.deviation, *scale.covariate_mean, *scale.covariate_deviation)
    return sizes and all(math.isfinite(number) for number in numbers) and all(one > 0 for one in scale.deviation)


def _scale_of(table: SeriesTable, at: int, learned: int, seen: int, season: int) -> SeriesScale:
    values_TD = table.values(at)[:learned]
    begin = int(table.bounds_S1[at])
    covariates = (table.known_NK[begin : begin + learned], table.past_NP[begin : begin + learned])
    mean, deviation = _moments(values_TD)
    covariate_mean, covariate_deviation = _moments(np.concatenate(covariates, 1))
    absolute, squared = _naive_errors(values_TD, season)
    times = table.times(at)
    until = str(times[max(0, min(seen, len(times)) - 1)]) if len(times) else ""
    return SeriesScale(mean, deviation, covariate_mean, covariate_deviation, absolute, squared, until)


def _counted(values_TD: NDArray[np.float64]) -> int:
    """Rows with a value."""
    return int((~np.isnan(values_TD)).any(1).sum())


def _pooled(scale: SeriesScale, values_TD: NDArray[np.float64], others: Sequence[SeriesScale]) -> SeriesScale:
    """The scale of a series too short to have one of its own: the level of its values, the deviation of the others."""
    if not others:
        return scale
    mean, _ = _moments(values_TD)

    def middle(several: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
        return tuple(float(value) for value in np.nanmedian(np.array(several), axis=0))

    return replace(
        scale,
        mean=mean,
        deviation=middle([one.deviation for one in others]),
        naive_absolute=middle([one.naive_absolute for one in others]),
        naive_squared=middle([one.naive_squared for one in others]),
    )


def _moments(values_TD: NDArray[np.float64]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation of each column, gaps left out; a column without values has 0 and 1, a constant one 1."""
    means, deviations = [], []
    for column_T in values_TD.T:
        seen_T = column_T[~np.isnan(column_T)]
        deviation = float(seen_T.std()) if len(seen_T) else 0.0
        means.append(float(seen_T.mean()) if len(seen_T) else 0.0)
        deviations.append(deviation if deviation > 1e-12 * max(1.0, abs(means[-1])) else 1.0)
    return tuple(means), tuple(deviations)


def _naive_errors(values_TD: NDArray[np.float64], season: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The mean absolute and squared difference of values one season apart; NaN where there is none."""
    lag = season if len(values_TD) > season else 1
    difference_TD = values_TD[lag:] - values_TD[:-lag] if len(values_TD) > lag else values_TD[:0]
    absolute, squared = [], []
    for column_T in difference_TD.T:
        seen_T = column_T[~np.isnan(column_T)]
        absolute.append(float(np.abs(seen_T).mean()) if len(seen_T) else math.nan)
        squared.append(float(np.square(seen_T).mean()) if len(seen_T) else math.nan)
    return tuple(absolute), tuple(squared)

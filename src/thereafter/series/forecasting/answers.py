"""Forecasts as their users read them: in the units of the data, with times and bands.

`forecasts_of` makes them of windows; `PointTable` says how surprising each point of a series was.
Shapes: B windows, H steps, D targets, Q levels, C bands, S samples, N points.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from thereafter.base.tabular import Row, Tabular
from thereafter.errors import OptionError, UnknownNameError
from thereafter.inspection.measurement import DrawnFigure, draw
from thereafter.series.batches import WindowBatch, check_known, make_batch
from thereafter.series.forecasters.network import Forecaster
from thereafter.series.number_heads import BANDS, ENDS
from thereafter.series.scales import SeriesScales
from thereafter.series.table import Window
from thereafter.series.times import Floats, Integers, Times

LEVELS = (0.025, 0.05, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.95, 0.975)
"""The shares below which a forecast gives values."""
SHOWN = (0.8, 0.95)
"""The bands in a table."""


@dataclass(frozen=True, eq=False)
class Forecast(Tabular):
    """The next values of one series.

    `quantiles_HDQ`: the values below which the shares `LEVELS` of the forecast lie. `low_HDC`, `high_HDC`: bands of
    the coverages `calibration.BANDS`, widened as the validation set says. `paths_SHD`: sampled futures, if asked for.
    """

    series: str
    targets: tuple[str, ...]
    times_H: Times
    mean_HD: Floats
    quantiles_HDQ: Floats
    low_HDC: Floats
    high_HDC: Floats
    paths_SHD: Floats = field(default_factory=lambda: np.empty((0, 0, 0)), repr=False)

    def __len__(self) -> int:
        return len(self.mean_HD)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Forecast):
            return NotImplemented
        return all(np.array_equal(one, vars(other)[name]) for name, one in vars(self).items())

    def band(self, coverage: float) -> tuple[Floats, Floats]:
        """The calibrated band of one of `BANDS`, low and high, [H, D] each."""
        if coverage not in BANDS:
            raise OptionError(f"there is no band of {coverage!r}; expected one of {', '.join(map(str, BANDS))}")
        at = BANDS.index(coverage)
        return self.low_HDC[..., at], self.high_HDC[..., at]

    def to_rows(self) -> list[Row]:
        """A row for every step and target."""
        rows: list[Row] = []
        median = LEVELS.index(0.5)
        times = spelled_times(self.times_H)
        for step in range(len(self)):
            for at, target in enumerate(self.targets):
                row: Row = {"series": self.series, "time": times[step], "step": step + 1, "target": target}
                row |= {"mean": float(self.mean_HD[step, at]), "median": float(self.quantiles_HDQ[step, at, median])}
                for coverage in SHOWN:
                    low_HD, high_HD = self.band(coverage)
                    name = round(100 * coverage)
                    row |= {f"low_{name}": float(low_HD[step, at]), f"high_{name}": float(high_HD[step, at])}
                row |= {
                    f"sample_{number}": float(path_HD[step, at])
                    for number, path_HD in enumerate(self.paths_SHD, start=1)
                }
                rows.append(row)
        return rows

    def __str__(self) -> str:
        low_HD, high_HD = self.band(SHOWN[0])
        times = spelled_times(self.times_H)
        lines = []
        for step in range(len(self)):
            values = [
                f"{f'{target} ' if len(self.targets) > 1 else ''}{shown_number(self.mean_HD[step, at])} "
                f"({shown_number(low_HD[step, at])} to {shown_number(high_HD[step, at])})"
                for at, target in enumerate(self.targets)
            ]
            lines.append(f"{times[step]}  {'  '.join(values)}")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class ForecastTable(Tabular):
    """The forecasts of all series of a table. `note` says what they are of, in a sentence."""

    forecasts: tuple[Forecast, ...]
    history: tuple[tuple[Times, Floats], ...] = field(default=(), repr=False)
    """The rows before each forecast, for a figure: times and values [T, D]."""
    note: str = ""

    def __len__(self) -> int:
        return len(self.forecasts)

    def figure(self) -> DrawnFigure:
        """The forecasts as fan charts: see `figures.forecast_fan`."""
        return draw("forecasts", self, None)

    def __getitem__(self, series: str) -> Forecast:
        """The forecast of one series, by its name."""
        for one in self.forecasts:
            if one.series == series:
                return one
        raise UnknownNameError("series", series, [one.series for one in self.forecasts])

    def __iter__(self) -> Iterator[Forecast]:
        return iter(self.forecasts)

    def to_rows(self) -> list[Row]:
        """A row for every series, step and target."""
        return [row for one in self.forecasts for row in one.to_rows()]

    def __str__(self) -> str:
        named = len(self.forecasts) > 1
        return "\n".join(f"{one.series}\n{one}" if named else str(one) for one in self.forecasts)


def shown_number(value: float) -> str:
    """A number to read: 4 digits, or all digits before the point.

    >>> shown_number(13089.6), shown_number(0.012345)
    ('13,090', '0.01235')
    """
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e12 else f"{value:.4g}"


def spelled_times(times: Times) -> list[str]:
    """Times as text: days without an hour where all are at midnight, no seconds where there are none.

    >>> spelled_times(np.array(["2024-01-31T00:00:00", "2024-02-29T00:00:00"], "datetime64[s]"))
    ['2024-01-31', '2024-02-29']
    """
    if not np.issubdtype(times.dtype, np.datetime64):
        return [str(time) for time in times.tolist()]
    seconds = times.astype("datetime64[s]")
    for unit in ("D", "m"):
        coarse = seconds.astype(f"datetime64[{unit}]")
        if (coarse == seconds).all():
            seconds = coarse
            break
    return [text.replace("T", " ") for text in np.datetime_as_string(seconds).tolist()]


MOST_STEPS, MOST_SAMPLES = 100_000, 10_000
_ENDS = [LEVELS.index(level) for level in ENDS]


def forecasts_of(
    net: Forecaster, batch: WindowBatch, scales: SeriesScales, options: Mapping[str, object]
) -> list[Forecast]:
    """The forecast of each window; options are those of `Forecasting.asked`."""
    given = options.get("horizon")
    horizon = scales.frame.horizon if given is None else whole("horizon", given, 1, MOST_STEPS)
    samples = whole("samples", options.get("samples", 0), 0, MOST_SAMPLES)
    seed = whole("seed", options.get("seed", 0), 0, 2**63 - 1)
    steps = net.whole_pieces(horizon)
    if steps != batch.horizon:
        batch = make_batch(batch.windows, scales, steps).to(net.device)
    for window in batch.windows:
        check_known(window.table, window.series, window.origin, steps)
    generator = torch.Generator(device=net.device).manual_seed(seed)
    with net.quietly():
        expected = net.forecast(batch, torch.tensor(LEVELS), generator)
        paths_SBHD = (
            net.paths(batch, samples, generator)
            if samples
            else expected.mean_BHD.new_empty(0, *expected.mean_BHD.shape)
        )
        low_BHDC, high_BHDC = net.calibration.bands(expected.quantiles_BHDQ[..., _ENDS], expected.spread_BD)
    paths_SBHD = paths_SBHD[:, :, :horizon]
    arrays = [
        one[:, :horizon].double().cpu().numpy()
        for one in (expected.mean_BHD, expected.quantiles_BHDQ, low_BHDC, high_BHDC)
    ]
    paths = paths_SBHD.double().cpu().numpy()
    forecasts = []
    for at, window in enumerate(batch.windows):
        table = window.table
        mean_D, deviation_D = scales.of_table(table)[window.series, :, : scales.targets]
        mean_HD = arrays[0][at] * deviation_D + mean_D
        quantiles, low, high = (one[at] * deviation_D[:, None] + mean_D[:, None] for one in arrays[1:])
        times_H, name = times_ahead(window, horizon), table.names[window.series]
        paths_SHD = paths[:, at] * deviation_D + mean_D
        forecasts.append(Forecast(name, table.targets, times_H, mean_HD, quantiles, low, high, paths_SHD))
    return forecasts


def times_ahead(window: Window, horizon: int) -> Times:
    """The times that are forecast: those of the table, and those that follow it."""
    times_T = window.table.times(window.series)
    there = times_T[window.origin : window.origin + horizon]
    if len(there) == horizon:
        return there
    after = window.table.frequency.after(times_T[-1], horizon - len(there))
    if np.issubdtype(times_T.dtype, np.datetime64):
        return np.concatenate((there, after)).astype("datetime64[s]")
    return np.concatenate((there, after)).astype(np.int64)


def step_names(batch: WindowBatch, steps: int) -> list[str]:
    """The steps in which the window of a batch is read, by the time at which each begins."""
    window = batch.windows[0]
    lookback = batch.past_BLD.shape[1]
    times = window.table.times(window.series)[max(0, window.origin - lookback) : window.origin]
    names = [""] * (lookback - len(times)) + spelled_times(times)
    return names[:: max(1, lookback // steps)]


def whole(name: str, value: object, least: int, most: int) -> int:
    """The value of an option that is a number of rows or samples; OptionError for anything else."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise OptionError(f"{name} is {value!r}; expected a whole number, {least} to {most:,}")
    return value


@dataclass(frozen=True, eq=False)
class PointTable(Tabular):
    """The points of all series, in their order: what came, what was expected one step ahead, and -log p in nats.

    Shapes: N points, a row each; of several targets each is a point. `nats_N` is in the units of the data: the density
    of a value, so it may be negative. `low_N`, `high_N`: the calibrated 95 % band. `unusual_N`: farther from the median
    than twice that band reaches.
    """

    series_N: NDArray[np.int32]
    times_N: Times
    target_N: NDArray[np.int32]
    value_N: Floats
    expected_N: Floats
    low_N: Floats
    high_N: Floats
    nats_N: Floats
    unusual_N: NDArray[np.bool_]
    names: tuple[str, ...]
    targets: tuple[str, ...]
    left_out: int = field(default=0)
    """Values before the first whole window of their series."""

    def figure(self) -> DrawnFigure:
        """The series with their unusual points: see `figures.unusual_points`."""
        return draw("points", self, None)

    def __len__(self) -> int:
        return len(self.value_N)

    def to_rows(self) -> list[Row]:
        """A row a point, in the order of series and time."""
        return list(self._rows(np.arange(len(self))))

    def most_unusual(self, count: int = 10) -> list[Row]:
        """The points with the largest -log p, the largest first."""
        return list(self._rows(np.argsort(-self.nats_N, kind="stable")[:count]))

    @property
    def nats(self) -> float:
        """The mean over all points."""
        return float(self.nats_N.mean())

    @property
    def covered(self) -> float:
        """The share of the points within the band."""
        return float(((self.value_N >= self.low_N) & (self.value_N <= self.high_N)).mean())

    def _rows(self, at_R: Integers) -> Iterator[Row]:
        times, several = spelled_times(self.times_N), len(self.targets) > 1
        for at in at_R.tolist():
            row: Row = {"series": self.names[self.series_N[at]], "time": times[at]}
            if several:
                row["target"] = self.targets[self.target_N[at]]
            row |= {"value": float(self.value_N[at]), "expected": float(self.expected_N[at])}
            row |= {"low": float(self.low_N[at]), "high": float(self.high_N[at])}
            yield row | {"nats": float(self.nats_N[at]), "unusual": bool(self.unusual_N[at])}

    def __str__(self) -> str:
        before = f"; {self.left_out:,} values before the first whole window are left out" if self.left_out else ""
        band = f"the 95 % band one step ahead covers {100 * self.covered:.1f} %"
        unusual = f"unusual: {int(self.unusual_N.sum()):,}"
        lines = [f"{len(self):,} points, {self.nats:.4g} nats each in the units of the data; {band}; {unusual}{before}"]
        named = len(self.names) > 1
        for row in self.most_unusual():
            numbers = {key: shown_number(value) for key, value in row.items() if isinstance(value, float)}
            who = "  ".join(str(row[key]) for key in ("series", "target") if key in row and (named or key == "target"))
            lines.append(
                f"{row['time']}  {who + '  ' if who else ''}{numbers['value']}, expected {numbers['expected']} "
                f"({numbers['low']} to {numbers['high']}), {row['nats']:.4g} nats"
                + (", unusual" if row["unusual"] else "")
            )
        return "\n".join(lines)

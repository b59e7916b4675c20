"""Forecasts as their users read them: in the units of the data, with times and bands.

Shapes: H steps, D targets, Q levels, C bands, S samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from thereafter.base.tabular import Row, Tabular
from thereafter.errors import OptionError, UnknownNameError
from thereafter.inspection.drawing import DrawnFigure, draw
from thereafter.series.forecasters.forecaster import BANDS
from thereafter.series.times import Times

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
    mean_HD: NDArray[np.float64]
    quantiles_HDQ: NDArray[np.float64]
    low_HDC: NDArray[np.float64]
    high_HDC: NDArray[np.float64]
    paths_SHD: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0, 0)), repr=False)

    def __len__(self) -> int:
        return len(self.mean_HD)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Forecast):
            return NotImplemented
        return all(np.array_equal(one, vars(other)[name]) for name, one in vars(self).items())

    def band(self, coverage: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The calibrated band of one of `BANDS`, low and high, [H, D] each."""
        if coverage not in BANDS:
            raise OptionError(f"there is no band of {coverage!r}; expected one of {', '.join(map(str, BANDS))}")
        at = BANDS.index(coverage)
        return self.low_HDC[..., at], self.high_HDC[..., at]

    def plain_band(self, coverage: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The same as the network gives it."""
        low, high = (LEVELS.index(round((1 + sign * coverage) / 2, 6)) for sign in (-1, 1))
        return self.quantiles_HDQ[..., low], self.quantiles_HDQ[..., high]

    def rows(self) -> list[Row]:
        """A row for every step and target."""
        return list(self._rows())

    def to_rows(self) -> list[Row]:
        return self.rows()

    def _rows(self) -> Iterator[Row]:
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
                yield row

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
    history: tuple[tuple[Times, NDArray[np.float64]], ...] = field(default=(), repr=False)
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
        return [row for one in self.forecasts for row in one.rows()]

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

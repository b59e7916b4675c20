"""Backtests: forecasts of a trained run from rolling origins, beside what came and a simple forecast.

At every origin the run reads the rows before it and forecasts the steps after it; it is not trained again. The simple
forecast is the seasonal naive one, or the last value where there is no season.

Shapes: W windows (an origin of a series each), H steps, D targets, J origins in time, K rows of a table of errors,
R resamples, S statistics.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.base.tabular import PlainTable, Row, Tabular, text_table
from thereafter.data.files import AnySource
from thereafter.errors import EmptyCorpusError, UnknownNameError
from thereafter.evaluation.bootstrap import LEAST, interval, resample_sums
from thereafter.inspection.measurement import DrawnFigure, draw
from thereafter.series.forecasting.answers import MOST_STEPS, Forecast, shown_number, spelled_times, times_ahead, whole
from thereafter.series.forecasting.asking import ask_table, tell_short
from thereafter.series.forecasting.score import BAND, actual_values
from thereafter.series.forecasting.task import MOST_SCORED
from thereafter.series.scales import unseen_rows, unseen_windows
from thereafter.series.table import WHOLE, Windows, cut_windows, extend_table
from thereafter.series.times import Floats, Times
from thereafter.tasks import answering
from thereafter.tasks.fitting import Fitted
from thereafter.tasks.task import Codecs

BY = ("step", "series", "all")
_SHOWN = 8  # steps and series in the text; `errors` has all
_COLUMNS = ("values", "mae", "mae_low", "mae_high", "rmse", "baseline_mae", "gain", "gain_low", "gain_high", "covered")


@dataclass(frozen=True, eq=False)
class Backtest(Tabular):
    """Forecasts from rolling origins, in the units of the data; NaN where nothing came. Bands are calibrated ones.

    `errors` gives figures by step or by series, with 95 % intervals; `to_rows` gives every value that was forecast.
    """

    windows: Windows
    every: int
    actual_WHD: Floats
    mean_WHD: Floats
    low_WHD: Floats
    high_WHD: Floats
    baseline_WHD: Floats
    baseline: str
    """Which simple forecast `baseline_WHD` is, in words."""

    def __len__(self) -> int:
        return len(self.windows)

    def to_rows(self) -> list[Row]:
        """A row for every origin, step and target; `origin` is the time of the last row that was read."""
        columns = (self.actual_WHD, self.mean_WHD, self.low_WHD, self.high_WHD, self.baseline_WHD)
        names = ("value", "forecast", f"low_{100 * BAND:.0f}", f"high_{100 * BAND:.0f}", "baseline")
        rows: list[Row] = []
        for at, (window, origin) in enumerate(zip(self.windows, spelled_times(_origins(self.windows)), strict=True)):
            series, times = window.table.names[window.series], times_ahead(window, self.mean_WHD.shape[1])
            for step, time in enumerate(spelled_times(times)):
                for place, target in enumerate(window.table.targets):
                    row: Row = {"series": series, "origin": origin, "time": time, "step": step + 1, "target": target}
                    rows.append(
                        row | {name: _some(one[at, step, place]) for name, one in zip(names, columns, strict=True)}
                    )
        return rows

    def errors(self, by: str = "step", *, series: str = "") -> PlainTable:
        """MAE and RMSE of the forecasts, MAE of the simple forecast, the gain over it, and the share of values
        in the band: by "step", by "series", or of "all". `series`: of this one alone.

        Intervals are from a bootstrap over blocks of origins (`evaluation/bootstrap.py`), a horizon long, since
        forecasts that overlap err together; all series at once. None where there are too few origins.
        """
        series_W = self.windows.series_W
        places = {self.windows.table.names[at]: at for at in np.unique(series_W).tolist()}
        if by not in BY:
            raise UnknownNameError("grouping of errors", by, BY)
        if series and series not in places:
            raise UnknownNameError("series", series, places)
        chosen = {series: places[series]} if series else places
        if by == "series":
            return PlainTable(tuple({"series": name} | self._figures(series_W == at)[0] for name, at in chosen.items()))
        figures = self._figures(np.isin(series_W, list(chosen.values())), by_step=by == "step")
        return PlainTable(tuple(({"step": at} if by == "step" else {}) | row for at, row in enumerate(figures, 1)))

    def figure(self) -> DrawnFigure:
        """The error by step, of all series and of each, beside that of the simple forecast."""
        return draw("backtest", self, None)

    def note(self) -> str:
        """What was forecast, and how, in two sentences."""
        windows, times_W = self.windows, _origins(self.windows)
        first, last = spelled_times(times_W[[times_W.argmin(), times_W.argmax()]])
        count, horizon, names = len(np.unique(times_W)), len(self.mean_WHD[0]), windows.table.names
        absent = [name for at, name in enumerate(names) if at not in windows.series_W]
        series = f", {len(names) - len(absent):,} series" if len(names) > 1 else ""
        if absent:
            more = f" and {len(absent) - _SHOWN:,} more" if len(absent) > _SHOWN else ""
            series += f" (left out, without {horizon:,} new rows: {', '.join(absent[:_SHOWN])}{more})"
        every = f", every {self.every:,} rows" if self.every > 1 else ""
        intervals = f"95 % intervals by bootstrap over blocks of {self._block:,} origins"
        if count < self._least:
            intervals = f"no intervals: they need {self._least:,} origins or more"
        return (
            f"{count:,} origins from {first} to {last}{every}, {horizon:,} steps each{series}; the run is not trained "
            f"again\nErrors in the unit of {', '.join(windows.table.targets)}; {intervals}"
        )

    def __str__(self) -> str:
        steps, series = self.errors().rows, self.errors("series").rows
        places = sorted({round(at) for at in np.linspace(0, len(steps) - 1, min(len(steps), _SHOWN)).tolist()})
        tables = [[*(steps[at] for at in places), {"step": "all"} | self.errors("all").rows[0]]]
        if len(series) > 1:
            tables.append([*series[:_SHOWN]])
        parts = [text_table([self._shown(row) for row in rows]) for rows in tables]
        rest = f"\n{len(series) - _SHOWN:,} more series" if len(series) > _SHOWN else ""
        return "\n\n".join([self.note(), *parts]) + rest

    def _shown(self, row: Row) -> Row:
        """A row of errors as its reader wants it."""

        def number(name: str) -> str:
            value, low, high = (row.get(f"{name}{end}") for end in ("", "_low", "_high"))
            text = shown_number(value) if isinstance(value, float) else ""
            if not isinstance(low, float) or not isinstance(high, float):
                return text
            return f"{text} ({shown_number(low)} to {shown_number(high)})"

        (key, name), *_ = row.items()
        shown: Row = {key: name, "MAE": number("mae"), "RMSE": number("rmse")}
        shown |= {f"MAE of {self.baseline}": number("baseline_mae"), "better by": number("gain")}
        covered = row["covered"]
        return shown | {
            f"in the {100 * BAND:.0f} % band": f"{100 * covered:.1f} %" if isinstance(covered, float) else ""
        }

    @property
    def _block(self) -> int:
        """Origins that are drawn together: those whose forecasts overlap."""
        return -(-len(self.mean_WHD[0]) // self.every)

    @property
    def _least(self) -> int:
        """Origins that an interval needs."""
        return max(LEAST, 2 * self._block)

    def _figures(self, chosen_W: NDArray[np.bool_], *, by_step: bool = False) -> list[Row]:
        """The errors of some windows, of all steps together or by step."""
        actual_WHD = self.actual_WHD[chosen_W]
        error_WHD, simple_WHD = (np.abs(actual_WHD - one[chosen_W]) for one in (self.mean_WHD, self.baseline_WHD))
        inside_WHD = (actual_WHD >= self.low_WHD[chosen_W]) & (actual_WHD <= self.high_WHD[chosen_W])
        there_WHD = ~np.isnan(actual_WHD)
        parts = (error_WHD, simple_WHD, there_WHD, error_WHD**2, inside_WHD)
        axes = 2 if by_step else (1, 2)
        sums = [np.sum(part, axis=axes, where=there_WHD, dtype=np.float64).reshape(len(part), -1) for part in parts]
        times_J, place_W = np.unique(_origins(self.windows)[chosen_W], return_inverse=True)
        statistics_JS = np.zeros((len(times_J), sum(part.shape[1] for part in sums)))
        np.add.at(statistics_JS, place_W, np.concatenate(sums, axis=1))
        with np.errstate(invalid="ignore", divide="ignore"):
            error_K, simple_K, count_K, square_K, inside_K = np.split(statistics_JS.sum(0), len(parts))
            figures = {"mae": error_K / count_K, "rmse": np.sqrt(square_K / count_K), "covered": inside_K / count_K}
            figures |= {"baseline_mae": simple_K / count_K, "gain": (simple_K - error_K) / count_K}
            if len(times_J) >= self._least:
                sums_RS = resample_sums(statistics_JS[:, : 3 * len(count_K)], block=self._block)
                error_RK, simple_RK, count_RK = np.split(sums_RS, 3, axis=1)
                for name, loss_RK in (("mae", error_RK), ("gain", simple_RK - error_RK)):
                    ends = zip(*map(interval, (loss_RK / count_RK).T), strict=True)
                    figures |= {f"{name}_{end}": np.array(one) for end, one in zip(("low", "high"), ends, strict=True)}
        rows: list[Row] = []
        for at, count in enumerate(count_K.tolist()):
            row: Row = {name: _some(figures[name][at]) if name in figures else None for name in _COLUMNS}
            rows.append(row | {"values": int(count)})
        return rows


def backtest_table(fitted: Fitted, source: AnySource, *, horizon: int | None = None, every: int = 1) -> Backtest:
    """Forecast from every `every`-th row of a table that neither training nor validation saw; see `Backtest`."""
    asked = ask_table(fitted, source)
    steps = asked.scales.frame.horizon if horizon is None else whole("horizon", horizon, 1, MOST_STEPS)
    every = whole("every", every, 1, MOST_STEPS)
    scales = replace(asked.scales, frame=replace(asked.scales.frame, horizon=steps))
    table = asked.table
    if scales.known:
        table = extend_table(table, asked.net.whole_pieces(steps), calendar=scales.calendar)
    windows = unseen_windows(cut_windows(table, scales.frame, "all", WHOLE), scales, asked.task.chosen.split)
    if not len(windows):
        raise EmptyCorpusError(
            f"{asked.name} has {unseen_rows(table, scales):,} rows that the run neither learned from nor validated on; "
            f"expected at least {steps:,}, for one forecast; try newer rows, a smaller horizon (--horizon), or a run "
            "with a test part (train ... --split 70/10/20)"
        )
    _, place_W = np.unique(_origins(windows), return_inverse=True)  # series are forecast at the same times
    count = int(np.count_nonzero(place_W % every == 0))
    if count > MOST_SCORED:
        every *= -(-count // MOST_SCORED)
        progress.tell(f"{count:,} forecasts are too many; origins are {every:,} rows apart")
    windows = windows.chosen(place_W % every == 0)
    tell_short(scales, [windows[at] for at in np.unique(windows.series_W, return_index=True)[1].tolist()])
    forecasts = _forecasts(fitted, windows, steps)
    bands = [one.band(BAND) for one in forecasts]
    kind, simple = ("seasonal-naive", "seasonal naive") if scales.frame.is_seasonal else ("naive", "last value")
    codecs: Codecs = {"series": scales}
    net = fitted.task.build(replace(asked.task.chosen, model=kind), codecs)
    return Backtest(
        windows,
        every,
        actual_values(windows, steps),
        np.stack([one.mean_HD for one in forecasts]),
        np.stack([low for low, _ in bands]),
        np.stack([high for _, high in bands]),
        np.stack([one.mean_HD for one in _forecasts(replace(fitted, net=net, codecs=codecs), windows, steps)]),
        simple,
    )


def _forecasts(fitted: Fitted, windows: Windows, steps: int) -> list[Forecast]:
    return [one for one in answering.answers(fitted, windows, horizon=steps) if isinstance(one, Forecast)]


def _origins(windows: Windows) -> Times:
    """The time of the last row that each window reads."""
    times: Times = windows.table.times_N[windows.table.bounds_S1[windows.series_W] + windows.origin_W - 1]
    return times


def _some(number: float) -> float | None:
    return None if np.isnan(number) else float(number)

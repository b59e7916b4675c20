"""What a trained forecaster is asked about a whole table: what comes next, what surprises it, and how far it sees.

Beyond the steps that it gives at once a forecaster reads its own predictions. The first chapter of the books on
sequence models draws this of a noisy sine: one step ahead looks perfect, 64 steps ahead does not (`steps_ahead`).

A backtest is forecasts of a trained run from rolling origins, beside what came and a simple forecast. At every origin
the run reads the rows before it and forecasts the steps after it; it is not trained again. The simple forecast is the
seasonal naive one, or the last value where there is no season.

Shapes: B windows, D targets, N points; A numbers of steps k, R rows or resamples, H steps. Of backtests W windows (an
origin of a series each), J origins in time, K rows of a table of errors, S statistics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.base.tabular import PlainTable, Row, Tabular, text_table
from thereafter.data.files import AnySource
from thereafter.errors import EmptyCorpusError, OptionError, UnknownNameError
from thereafter.evaluation.bootstrap import LEAST, interval, resample_sums
from thereafter.inspection.measurement import Arrays, DrawnFigure, Measurement, draw
from thereafter.series.batches import make_batch
from thereafter.series.forecasters.network import Forecaster
from thereafter.series.forecasting.answers import (
    MOST_STEPS,
    Forecast,
    ForecastTable,
    PointTable,
    shown_number,
    spelled_times,
    times_ahead,
    whole,
)
from thereafter.series.forecasting.score import BAND, actual_values
from thereafter.series.forecasting.task import MOST_SCORED, Forecasting
from thereafter.series.number_heads import BANDS, ENDS
from thereafter.series.scales import SeriesScales, unseen_rows, unseen_windows
from thereafter.series.table import WHOLE, SeriesTable, Window, Windows, cut_windows, extend_table, observed_ends
from thereafter.series.times import Floats, Frequency, Times
from thereafter.tasks import answering, finding
from thereafter.tasks.fitting import Fitted
from thereafter.tasks.task import Codecs

COVERAGE = 0.95
"""Of the band that a point is held against."""
FAR = 2.0
"""A point is unusual where it lies this many times as far from the median as the end of the band does."""
_BATCH = 512  # windows at a time
_SHOWN, _LEAST_SHOWN = 4, 48  # horizons, and rows, of history beside a forecast


@dataclass(frozen=True)
class AskedTable:
    """A trained forecaster with what it keeps of its table, and the table it is asked about."""

    task: Forecasting
    net: Forecaster
    scales: SeriesScales
    table: SeriesTable
    name: str


def forecast_table(
    fitted: Fitted, source: AnySource, *, horizon: int | None = None, samples: int = 0, seed: int = 0
) -> ForecastTable:
    """The forecast of every series of a table, from after its last value."""
    asked = ask_table(fitted, source)
    steps = asked.scales.frame.horizon if horizon is None else whole("horizon", horizon, 1, MOST_STEPS)
    table = asked.table
    if asked.scales.known:
        table = extend_table(table, asked.net.whole_pieces(steps), calendar=asked.scales.calendar)
    table = replace(table, ends_now=True)
    ends_S = observed_ends(table).tolist()
    windows = [Window(table, at, end) for at, end in enumerate(ends_S) if end]
    for empty in (table.names[at] for at, end in enumerate(ends_S) if not end):
        progress.tell(f"{progress.WARNING}the series {empty!r} of {asked.name} has no value; it is left out")
    tell_short(asked.scales, windows)
    if len(asked.scales.scales) == len(table) == 1 and asked.scales.recognise(table, 0) is None:
        progress.note(
            f"{asked.name} is another series than the one that the run was trained on, by its rows or by its level; it "
            "is scaled by its own rows"
        )
    answers = answering.answers(fitted, windows, horizon=steps, samples=samples, seed=seed)
    forecasts = tuple(one for one in answers if isinstance(one, Forecast))
    shown = max(_LEAST_SHOWN, 2 * asked.scales.frame.season, _SHOWN * steps)
    history = []
    for window in windows:
        rows = slice(max(0, window.origin - shown), window.origin)
        history.append((table.times(window.series)[rows], table.values(window.series)[rows]))
    return ForecastTable(forecasts, tuple(history), _note(windows, steps))


def surprising_points(fitted: Fitted, source: AnySource) -> PointTable:
    """-log p of every value of a table one step ahead, given the rows before it; see `PointTable`."""
    asked = ask_table(fitted, source)
    if asked.scales.known:
        rows = asked.net.whole_pieces(1)
        asked = replace(asked, table=extend_table(asked.table, rows, calendar=asked.scales.calendar))
    table, frame = asked.table, asked.scales.frame
    windows = cut_windows(table, replace(frame, horizon=1, stride=1), "all", WHOLE)
    if not len(windows):
        raise EmptyCorpusError(f"{asked.name} has one row in a series; expected at least two")
    pieces = []
    with progress.task("measuring", total=len(windows)) as advance, asked.net.quietly():
        for begin in range(0, len(windows), _BATCH):
            part = windows[begin : begin + _BATCH]
            pieces.append(_points(asked, part))
            advance(len(part))
    columns = [np.concatenate(several) for several in zip(*pieces, strict=True)]
    return _table(asked, windows, columns)


def ask_table(fitted: Fitted, source: AnySource) -> AskedTable:
    """The table of a source, read by the columns of the run."""
    task, net, scales = fitted.task, fitted.net, fitted.codecs.get("series")
    if not isinstance(task, Forecasting) or not isinstance(net, Forecaster) or not isinstance(scales, SeriesScales):
        raise OptionError(
            f"the run holds the task {fitted.task.name!r}, which forecasts nothing; expected a run of the task "
            "'forecast'; try predict"
        )
    files = finding.files_of(fitted.task, source, "all")
    table = task.read_table(files.files, scales.columns, calendar=scales.calendar)
    if (table.frequency.unit == "row") != (scales.frequency.unit == "row") or (
        table.rows > len(table) and str(table.frequency) != str(scales.frequency)
    ):
        progress.tell(
            f"{progress.WARNING}{files.name} has a row every {table.frequency}; the run was trained on a row every "
            f"{scales.frequency}"
        )
    if (table.rows == len(table) and not scales.calendar) or _goes_on_as(table, scales.frequency):
        table = replace(table, frequency=scales.frequency)  # one row has no frequency of its own
    return AskedTable(task, net, scales, table, files.name)


def _goes_on_as(table: SeriesTable, frequency: Frequency) -> bool:
    """Whether the days of months of a table may be those of the run: a few last days may be last work days, too."""
    if str(table.frequency) != str(frequency) or not (frequency.month_end or frequency.work_days or frequency.day):
        return False
    return bool(
        (frequency.days_of(table.times_N.astype("datetime64[M]")) == table.times_N.astype("datetime64[D]")).all()
    )


def _note(windows: list[Window], horizon: int) -> str:
    lasts = {spelled_times(one.table.times(one.series)[one.origin - 1 : one.origin])[0] for one in windows}
    after = f"after {lasts.pop()}" if len(lasts) == 1 else "after the last value of each"
    series = "" if len(windows) == 1 else f" of {len(windows):,} series"
    frequency = windows[0].table.frequency
    every = "" if frequency.unit == "row" else f", a row every {str(frequency).removeprefix('1 ')}"
    return f"{horizon:,} steps{series} {after}{every}"


def _points(asked: AskedTable, windows: Windows) -> list[Floats]:
    """Value, expected, low, median, high, nats of the next row of each window, [B, D] each, in units of the data."""
    net, scales = asked.net, asked.scales
    # a network that reads what is known of all steps ahead is asked for all of them
    steps = min(net.reach, scales.frame.horizon) if scales.known else 1
    batch = make_batch(list(windows), scales, steps).to(net.device)
    expected = net.expect(batch)
    nats_BD = -expected.log_prob(batch.answers()[0])[:, 0]
    quantiles_B1DQ = expected.quantiles(torch.tensor(ENDS))[:, :1]
    low_B1DC, high_B1DC = net.calibration.bands(quantiles_B1DQ, batch.spread())
    at, median_BD = BANDS.index(COVERAGE), quantiles_B1DQ[:, 0, :, ENDS.index(0.5)]
    scaled = (expected.mean()[:, 0], low_B1DC[:, 0, :, at], median_BD, high_B1DC[:, 0, :, at])
    mean_BD, deviation_BD = scales.of_table(asked.table)[windows.series_W, :, : scales.targets].transpose(1, 0, 2)
    rows_B = asked.table.bounds_S1[windows.series_W] + windows.origin_W
    numbers = [one.double().cpu().numpy() * deviation_BD + mean_BD for one in scaled]
    nats = nats_BD.double().cpu().numpy() + np.log(deviation_BD)
    return [asked.table.values_ND[rows_B], *numbers, nats]


def _table(asked: AskedTable, windows: Windows, columns: list[Floats]) -> PointTable:
    """The points that were seen; missing values have no surprise."""
    table = asked.table
    value_ND, expected, low, median, high, nats = columns
    row_N, target_N = np.nonzero(~np.isnan(value_ND))
    value_N, expected_N, low_N, median_N, high_N, nats_N = (
        one[row_N, target_N] for one in (value_ND, expected, low, median, high, nats)
    )
    far_N = np.where(value_N >= median_N, high_N - median_N, median_N - low_N)
    unusual_N = np.abs(value_N - median_N) > FAR * far_N
    series_N, column_N = windows.series_W[row_N], target_N.astype(np.int32)
    times_N = table.times_N[table.bounds_S1[series_N] + windows.origin_W[row_N]]
    names, targets = table.names, table.targets
    left_out = int(np.count_nonzero(~np.isnan(table.values_ND))) - len(value_N)
    return PointTable(
        series_N, times_N, column_N, value_N, expected_N, low_N, high_N, nats_N, unusual_N, names, targets, left_out
    )


KIND = "steps-ahead"
STEPS = (1, 4, 16, 64)
"""The books' numbers of steps."""
MOST = 1024
"""Steps ahead that can be asked for."""


def steps_ahead(
    net: Forecaster,
    scales: SeriesScales,
    windows: Sequence[object],
    steps: Sequence[int] = STEPS,
    *,
    series: str = "",
    target: int = 0,
    about: Table | None = None,
) -> Measurement:
    """Every row of a part, as forecast k steps ahead, for every k of `steps`; of one series and one target.

    The row t is forecast k steps ahead from the rows up to t - k. `windows` say which part: of each window the first
    row to be forecast. Errors are over the rows that every k reaches, so that they can be compared; beside them the
    error of the value k steps before, which is what the last value forecasts.
    """
    steps_A = _checked(steps)
    if not isinstance(windows, Windows):
        raise OptionError(f"the windows are a {type(windows).__name__}; expected those of a table of series")
    table, farthest, at = windows.table, steps_A[-1], number_of(windows.table, series)
    origin_W = windows.origin_W[windows.series_W == at]
    if not len(origin_W):
        raise OptionError(f"the part has no row of the series {table.names[at]!r} to forecast; try another part")
    begin, end = int(origin_W.min()), int(origin_W.max()) + windows.frame.horizon
    if end - begin < farthest:
        raise OptionError(
            f"the part has {end - begin:,} rows, and {farthest:,} steps ahead are asked for; expected at most "
            f"{end - begin:,} steps"
        )
    ahead_RH = _forecasts(net, scales, table, at, target, range(begin, end), farthest)
    predicted_AR = np.full((len(steps_A), end - begin), np.nan)
    for place, k in enumerate(steps_A):
        predicted_AR[place, k - 1 :] = ahead_RH[: end - begin - k + 1, k - 1]
    values_T = table.values(at)[:end, target]
    arrays: Arrays = {
        "ahead": np.array(steps_A, np.int64),
        "time": np.array(spelled_times(table.times(at)[begin:end])),
        "actual": values_T[begin:],
        "predicted": predicted_AR,
        **_errors(predicted_AR, values_T, begin, steps_A),
    }
    axes: dict[str, tuple[str, ...]] = dict.fromkeys(("time", "actual"), ("row",))
    axes |= {"predicted": ("ahead", "row")} | dict.fromkeys(("ahead", "rmse", "mae", "last_value_rmse"), ("ahead",))
    facts: Table = {"model": "a forecaster", "text": table.source, "series": table.names[at]}
    facts |= {"target": table.targets[target], "row": str(table.frequency), "lookback": scales.frame.lookback}
    facts |= {"rows": end - begin, "compared_rows": end - begin - farthest + 1}
    return Measurement(KIND, arrays, axes, facts | (about or {}))


def forecaster_of(net: object, codecs: Mapping[str, object]) -> tuple[Forecaster, SeriesScales]:
    """The network and the scales of a trained forecaster; OptionError where the model is of another task."""
    scales = codecs.get("series")
    if not isinstance(net, Forecaster) or not isinstance(scales, SeriesScales):
        raise OptionError("the model forecasts no series; expected one that was trained with task='forecast'")
    return net, scales


def number_of(table: SeriesTable, series: str) -> int:
    """The place of a series in its table, by name; the first without a name."""
    if not series:
        return 0
    if series not in table.names:
        raise UnknownNameError("series", series, table.names)
    return table.names.index(series)


def _checked(steps: Sequence[int]) -> list[int]:
    steps_A = sorted(set(steps))
    if not steps_A or steps_A[0] < 1 or steps_A[-1] > MOST:
        raise OptionError(f"the steps ahead are {list(steps)}; expected whole numbers from 1 to {MOST:,}, such as 1,16")
    return steps_A


def _forecasts(
    net: Forecaster, scales: SeriesScales, table: SeriesTable, series: int, target: int, origins: range, steps: int
) -> Floats:
    """The forecast from every origin, in the units of the data, [R, H]."""
    mean_D, deviation_D = scales.of_table(table)[series, :, : scales.targets]
    pieces = []
    with net.quietly(), progress.task("forecasting", total=len(origins), unit="rows") as advance:
        for begin in range(0, len(origins), _BATCH):
            windows = [Window(table, series, origin) for origin in origins[begin : begin + _BATCH]]
            path_BHD = net.mean_path(make_batch(windows, scales, steps).to(net.device))
            scaled_BH = path_BHD[..., target].double().cpu().numpy()
            pieces.append(scaled_BH * deviation_D[target] + mean_D[target])
            advance(len(windows))
    return np.concatenate(pieces)


def _errors(predicted_AR: Floats, values_T: Floats, begin: int, steps: Sequence[int]) -> Arrays:
    """Errors by k over the rows that every k reaches and that have a value."""
    rows_C = np.arange(begin + steps[-1] - 1, len(values_T))
    actual_C = values_T[rows_C]
    seen_C = ~np.isnan(actual_C)
    last_AC = np.stack([values_T[np.maximum(rows_C - k, 0)] for k in steps])
    wrong_AC = predicted_AR[:, steps[-1] - 1 :] - actual_C
    last_wrong_AC = last_AC - actual_C
    return {
        "rmse": _mean(np.square(wrong_AC), seen_C) ** 0.5,
        "mae": _mean(np.abs(wrong_AC), seen_C),
        "last_value_rmse": _mean(np.square(last_wrong_AC), seen_C & ~np.isnan(last_AC).any(0)) ** 0.5,
    }


def _mean(wrong_AC: Floats, seen_C: NDArray[np.bool_]) -> Floats:
    if not seen_C.any():
        return np.full(len(wrong_AC), np.nan)
    means_A: Floats = wrong_AC[:, seen_C].mean(axis=1)
    return means_A


def tell_short(scales: SeriesScales, windows: Sequence[Window]) -> None:
    """Say where a forecast reads far fewer rows than the run was trained to read: its bands then promise too much."""
    short = [one for one in windows if 2 * one.origin < scales.frame.lookback]
    if short:
        which = "" if len(windows) == 1 else f"{len(short):,} of {len(windows):,} series, such as "
        progress.note(
            f"{which}{short[0].table.names[short[0].series]!r} has {short[0].origin:,} rows; the run reads "
            f"{scales.frame.lookback:,} before a forecast: do not trust this one and its bands; try more rows"
        )


BY = ("step", "series", "all")
_STEPS_SHOWN = 8  # steps and series in the text; `errors` has all
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
            more = f" and {len(absent) - _STEPS_SHOWN:,} more" if len(absent) > _STEPS_SHOWN else ""
            series += f" (left out, without {horizon:,} new rows: {', '.join(absent[:_STEPS_SHOWN])}{more})"
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
        places = sorted({round(at) for at in np.linspace(0, len(steps) - 1, min(len(steps), _STEPS_SHOWN)).tolist()})
        tables = [[*(steps[at] for at in places), {"step": "all"} | self.errors("all").rows[0]]]
        if len(series) > 1:
            tables.append([*series[:_STEPS_SHOWN]])
        parts = [text_table([self._shown(row) for row in rows]) for rows in tables]
        rest = f"\n{len(series) - _STEPS_SHOWN:,} more series" if len(series) > _STEPS_SHOWN else ""
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
    forecasts = _forecasts_from(fitted, windows, steps)
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
        np.stack([one.mean_HD for one in _forecasts_from(replace(fitted, net=net, codecs=codecs), windows, steps)]),
        simple,
    )


def _forecasts_from(fitted: Fitted, windows: Windows, steps: int) -> list[Forecast]:
    return [one for one in answering.answers(fitted, windows, horizon=steps) if isinstance(one, Forecast)]


def _origins(windows: Windows) -> Times:
    """The time of the last row that each window reads."""
    times: Times = windows.table.times_N[windows.table.bounds_S1[windows.series_W] + windows.origin_W - 1]
    return times


def _some(number: float) -> float | None:
    return None if np.isnan(number) else float(number)

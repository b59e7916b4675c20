"""What a trained forecaster is asked about a whole table: what comes next, what surprises it, and how far it sees.

Beyond the steps that it gives at once a forecaster reads its own predictions. The first chapter of the books on
sequence models draws this of a noisy sine: one step ahead looks perfect, 64 steps ahead does not (`steps_ahead`).

Shapes: B windows, D targets, N points; A numbers of steps k, R rows, H steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.data.files import AnySource
from thereafter.errors import EmptyCorpusError, OptionError, UnknownNameError
from thereafter.inspection.measurement import Arrays, Measurement
from thereafter.series.batches import make_batch
from thereafter.series.forecasters.network import Forecaster
from thereafter.series.forecasting.answers import MOST_STEPS, Forecast, ForecastTable, PointTable, spelled_times, whole
from thereafter.series.forecasting.task import Forecasting
from thereafter.series.number_heads import BANDS, ENDS
from thereafter.series.scales import SeriesScales
from thereafter.series.table import WHOLE, SeriesTable, Window, Windows, cut_windows, extend_table, observed_ends
from thereafter.series.times import Floats, Frequency
from thereafter.tasks import answering, finding
from thereafter.tasks.fitting import Fitted

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

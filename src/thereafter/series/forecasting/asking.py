"""What a trained forecaster is asked about a whole table: what comes next, and what surprises it.

Shapes: B windows, D targets, N points.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.data.files import AnySource
from thereafter.errors import EmptyCorpusError, OptionError
from thereafter.series.forecasters.forecaster import BANDS, ENDS, Forecaster
from thereafter.series.forecasting.answers import (
    COVERAGE,
    FAR,
    MOST_STEPS,
    Forecast,
    ForecastTable,
    PointTable,
    spelled_times,
    whole,
    whole_pieces,
)
from thereafter.series.forecasting.task import Forecasting
from thereafter.series.forecasting.windows import make_batch, tell_short
from thereafter.series.scales import SeriesScales
from thereafter.series.table import SeriesTable
from thereafter.series.times import Frequency, Times
from thereafter.series.windows import WHOLE, Window, Windows, cut_windows, extend_table, observed_ends
from thereafter.tasks import answering, finding
from thereafter.tasks.fitting import Fitted

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
        rows = whole_pieces(asked.net, asked.scales, steps)
        table = extend_table(table, rows, calendar=asked.scales.calendar)
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
    return ForecastTable(forecasts, tuple(_history(window, shown) for window in windows), _note(windows, steps))


def surprising_points(fitted: Fitted, source: AnySource) -> PointTable:
    """-log p of every value of a table one step ahead, given the rows before it; see `PointTable`."""
    asked = ask_table(fitted, source)
    if asked.scales.known:
        rows = whole_pieces(asked.net, asked.scales, 1)
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


def _history(window: Window, rows: int) -> tuple[Times, NDArray[np.float64]]:
    part = slice(max(0, window.origin - rows), window.origin)
    return window.table.times(window.series)[part], window.table.values(window.series)[part]


def _note(windows: list[Window], horizon: int) -> str:
    lasts = {spelled_times(one.table.times(one.series)[one.origin - 1 : one.origin])[0] for one in windows}
    after = f"after {lasts.pop()}" if len(lasts) == 1 else "after the last value of each"
    series = "" if len(windows) == 1 else f" of {len(windows):,} series"
    frequency = windows[0].table.frequency
    every = "" if frequency.unit == "row" else f", a row every {str(frequency).removeprefix('1 ')}"
    return f"{horizon:,} steps{series} {after}{every}"


def _points(asked: AskedTable, windows: Windows) -> list[NDArray[np.float64]]:
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


def _table(asked: AskedTable, windows: Windows, columns: list[NDArray[np.float64]]) -> PointTable:
    """The points that were seen; missing values have no surprise."""
    table = asked.table
    value_ND, expected, low, median, high, nats = columns
    row_N, target_N = np.nonzero(~np.isnan(value_ND))
    value_N, expected_N, low_N, median_N, high_N, nats_N = (
        one[row_N, target_N] for one in (value_ND, expected, low, median, high, nats)
    )
    far_N = np.where(value_N >= median_N, high_N - median_N, median_N - low_N)
    series_N = windows.series_W[row_N]
    return PointTable(
        series_N,
        table.times_N[table.bounds_S1[series_N] + windows.origin_W[row_N]],
        target_N.astype(np.int32),
        value_N,
        expected_N,
        low_N,
        high_N,
        nats_N,
        np.abs(value_N - median_N) > FAR * far_N,
        table.names,
        table.targets,
        int(np.count_nonzero(~np.isnan(table.values_ND))) - len(value_N),
    )

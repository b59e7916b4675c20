"""The verbs of the Forecast panel: what each forecaster expects of a series, k steps ahead, and gates over a window.

Forecasters without a network are fitted on the spot, to the first seven tenths of the rows, and kept; networks are
models of the list. A forecast begins in the last fifth of the rows, which nothing was fitted to, or after the end.
Shapes: H steps, A numbers of steps, R rows, T steps of a window.

Series of numbers for the Forecast panel: built-in ones by name, and tables that were pasted or opened.
"""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Literal, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from thereafter.data import corpora
from thereafter.errors import FormatError, OptionError, ThereafterError
from thereafter.inspection.dynamics import gates_of
from thereafter.inspection.measurement import Measurement
from thereafter.ready.tasks import READY_TASKS, ReadyForecaster
from thereafter.series.forecasters.settings import ForecastSettings
from thereafter.series.forecasting.answers import Forecast, spelled_times, times_ahead
from thereafter.series.forecasting.asking import forecaster_of, steps_ahead
from thereafter.series.forecasting.task import FORECASTING, natural_season
from thereafter.series.reading import read_series
from thereafter.series.scales import SeriesScales
from thereafter.series.table import ColumnChoice, SeriesTable, Window, cut_windows, observed_ends, split_ends
from thereafter.serving.schema import Answer, Asked, FailedAnswer, ModelName
from thereafter.studio.asking import Visitor, answers, as_json, attempt_each, number, numbers, of_studio, part
from thereafter.task_model import TaskModel
from thereafter.tasks import TASKS, fitting
from thereafter.tasks.finding import Part
from thereafter.tasks.task import AnyTask


class OfferedSeriesAnswer(Answer):
    """A series by name; `seasonal` where its rows have a season. `networks`: ready models that were trained on it."""

    name: str
    title: str
    seasonal: bool
    networks: list[str]


class OfferedAnswer(Answer):
    """`solved`: forecasters that are fitted on the spot, the simplest first."""

    series: list[OfferedSeriesAnswer]
    solved: list[str]


OWN = "own"
"""A table of the visitor's."""
SOLVED = ("naive", "seasonal-naive", "drift", "ar", "linear")
"""Forecasters that are fitted on the spot."""
MOST_ROWS = 4_000
"""Rows of a series that are used: the last ones."""
LEAST_ROWS = 30
_TITLES = {
    "noisy-sine": "noisy sine (generated)",
    "seasonal": "hourly load with two seasons (generated)",
    "mackey-glass": "Mackey-Glass, chaotic (generated)",
    "ett": "electricity transformer, oil temperature (ETTh1)",
}
_SEASONAL = ("seasonal", "ett")
_TARGETS = {"ett": "OT"}
SeriesName = Literal["noisy-sine", "seasonal", "mackey-glass", "ett", "own"]
_KEPT = 16  # series that are kept in memory


@dataclass(frozen=True)
class OpenedSeries:
    """One series of a table, its last rows; `key` is another for another content, and what it is known by."""

    key: str
    table: SeriesTable = field(compare=False)
    notes: tuple[str, ...] = field(compare=False)


@of_studio("GET", "/tasks/forecast/series")
def offered_series() -> OfferedAnswer:
    """The series by name that are on this machine, and the forecasters that are fitted on the spot."""
    forecasters = [one for one in READY_TASKS if isinstance(one, ReadyForecaster)]
    rows = [
        OfferedSeriesAnswer(
            name=name,
            title=title,
            seasonal=name in _SEASONAL,
            networks=[f"ready:{one.name}" for one in forecasters if one.series == name],
        )
        for name, title in _TITLES.items()
        if _is_here(name)
    ]
    return OfferedAnswer(series=rows, solved=list(SOLVED))


def open_series(name: str, text: str = "", target: str = "") -> OpenedSeries:
    """A built-in series by name, or the table `text`; of several series in it the first."""
    if name == OWN:
        return _read_text(text, target)
    if not _is_here(name):
        raise OptionError(f"the series {name!r} is not on this machine; pick another one of the list")
    return _read_named(name, target or _TARGETS.get(name, ""))


def _is_here(name: str) -> bool:
    return corpora.card(name).builtin or corpora.status(name).startswith(("found", "in the cache"))


@lru_cache(maxsize=_KEPT)
def _read_named(name: str, target: str) -> OpenedSeries:
    card = corpora.card(name)
    parts = corpora.locate(name, download=False).parts
    return _opened(f"{name} {target}", parts[card.default_part or "text"], target, name)


@lru_cache(maxsize=_KEPT)
def _read_text(text: str, target: str) -> OpenedSeries:
    if not text.strip():
        raise OptionError("the table is empty; expected rows of times and numbers, such as: 2024-01-01,3.5")
    digest = hashlib.sha256(f"{target}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        path.write_text(text, encoding="utf-8")
        try:
            return _opened(digest, path, target, "the table")
        except ThereafterError as error:
            raise FormatError(_for_the_page(str(error), path)) from error


def _for_the_page(sentence: str, path: Path) -> str:
    """A visitor knows the table, not where it was put, and a field of the page, not an option of the shell.

    >>> _for_the_page("a.csv has the columns x, y; expected one; try --target x", Path("a.csv"))
    'the table has the columns x, y; expected one; try the field “Column to forecast”'
    """
    fault, _, remedy = sentence.replace(str(path), "the table").rpartition("; try ")
    if not fault or "--" not in remedy:
        return f"{fault}; try {remedy}" if fault else remedy
    if "--target" in remedy:
        return f"{fault}; try the field “Column to forecast”"
    return f"{fault}; try a table with one column of times, or with none"


def _opened(key: str, path: Path, target: str, source: str) -> OpenedSeries:
    table = read_series([path], ColumnChoice(target=(target,) if target else ()))
    notes = [note for note in table.notes if not note.startswith("not used")]
    if len(table) > 1:
        notes.append(f"of {len(table):,} series the first is shown: {table.names[0]}")
    end = int(observed_ends(table)[0])
    begin = max(0, end - MOST_ROWS)
    if end - begin < LEAST_ROWS:
        raise OptionError(f"the series has {end - begin} rows; expected at least {LEAST_ROWS}; try a longer table")
    if begin:
        notes.append(f"of {end:,} rows the last {end - begin:,} are used")
    empty = np.empty((end - begin, 0))
    first = replace(
        table,
        source=source,
        names=table.names[:1],
        bounds_S1=np.array([0, end - begin], np.int64),
        times_N=table.times(0)[begin:end],
        values_ND=table.values(0)[begin:end, :1],
        targets=table.targets[:1],
        past_NP=empty,
        past=(),
        known_NK=empty,
        known=(),
    )
    return OpenedSeries(key, first, tuple(notes))


SPLIT = "70/10/20"
MOST_HORIZON, MOST_AHEAD = 96, 64
COVERAGES = (0.5, 0.8, 0.95)
_HISTORY = 2  # rows before the forecast for each of its steps
_LEAST_HISTORY = 72
_SHOWN_ROWS = 300  # of the rows that are forecast k steps ahead
_LAYER = "l0"
_measured: WeakKeyDictionary[TaskModel, dict[str, Measurement]] = WeakKeyDictionary()
T = TypeVar("T")


class BandAnswer(Answer):
    """The band of a coverage, calibrated on rows that were not learned from."""

    coverage: float
    low: list[float | None]
    high: list[float | None]


class ExpectedAnswer(Answer):
    """What one forecaster expects. `rmse` is over the steps that have come, null where none has."""

    model: str
    mean: list[float | None]
    bands: list[BandAnswer]
    rmse: float | None


class ForecastAnswer(Answer):
    """`times` and `values` are the rows before the forecast and then those that it is of; null where none has come.

    The first `before` are history. `rows` are all that the series has here, `learned` those that forecasters were
    fitted to and `most_back` how many rows before the end a forecast may begin; `back` is where this one begins.
    """

    target: str
    frequency: str
    season: int
    rows: int
    learned: int
    back: int
    most_back: int
    notes: list[str]
    times: list[str]
    values: list[float | None]
    before: int
    forecasts: list[ExpectedAnswer]
    failed: list[FailedAnswer]


class AheadModelAnswer(Answer):
    """`predicted`: each row as it was forecast k steps before; `rmse` by the number of steps."""

    model: str
    predicted: list[float | None]
    rmse: list[float | None]


class AheadAnswer(Answer):
    """`steps` are 1, 2, ... up to the most; `last_value` is the error of the value so many steps before."""

    target: str
    k: int
    steps: list[int]
    compared: int
    times: list[str]
    actual: list[float | None]
    last_value: list[float | None]
    models: list[AheadModelAnswer]
    failed: list[FailedAnswer]


class WindowGateAnswer(Answer):
    """The mean of a gate over the units of the first layer after each step."""

    name: str
    values: list[float | None]


class WindowGatesAnswer(Answer):
    """`values` are what was read in each step, its mean where a step has several rows; `size` is the mean size of the
    state `state`."""

    times: list[str]
    values: list[float | None]
    rows: int
    units: int
    gates: list[WindowGateAnswer]
    state: str
    size: list[float | None]


LONGEST = 500_000
"""Characters of a table."""
ForecasterName = Annotated[
    str,
    Field(
        pattern=r"^(naive|seasonal-naive|drift|ar|linear|(ready|runs):[^/\\\x00]{1,200})$",
        description="A forecaster that is fitted on the spot, or a task model of the list.",
        examples=["ar", "ready:season-gru"],
    ),
]
Forecasters = Annotated[list[ForecasterName], Field(min_length=1, max_length=8)]
Back = Annotated[int, Field(ge=0, le=100_000, description="Rows before the end at which the forecast begins.")]


class SeriesAsked(Asked):
    """`text` is the table where the series is "own"; `target` its column, chosen where it is left out."""

    series: SeriesName
    text: Annotated[str, Field(max_length=LONGEST)] = ""
    target: Annotated[str, Field(max_length=200)] = ""


class ForecastAsked(SeriesAsked):
    models: Forecasters
    horizon: Annotated[int, Field(ge=1, le=96)] = 24
    back: Back = 0


class AheadAsked(SeriesAsked):
    models: Forecasters
    k: Annotated[int, Field(ge=1, le=64)] = 16


class WindowGatesAsked(SeriesAsked):
    model: ModelName
    back: Back = 0


@dataclass(frozen=True)
class Place:
    """Where a forecast of a series begins, and how far it goes."""

    opened: OpenedSeries
    origin: int
    horizon: int

    @property
    def window(self) -> Window:
        return Window(self.opened.table, 0, self.origin)


def place_of(opened: OpenedSeries, back: int, horizon: int) -> Place:
    """The forecast that begins `back` rows before the end, in the rows that nothing was fitted to."""
    return Place(opened, opened.table.rows - min(back, most_back(opened)), horizon)


def most_back(opened: OpenedSeries) -> int:
    """How many rows before the end a forecast may begin."""
    rows = opened.table.rows
    return max(0, rows - split_ends(rows, SPLIT, 1)[1])


@lru_cache(maxsize=64)
def solve(opened: OpenedSeries, model: str) -> TaskModel:
    """A forecaster without a network, fitted to the first rows of a series; fitted once."""
    rows = opened.table.rows
    learned, validated, _ = split_ends(rows, SPLIT, 1)
    horizon = max(1, min(MOST_HORIZON, (validated - learned) // 3, learned // 3))
    settings = ForecastSettings(model=model, horizon=horizon, split=SPLIT)
    task: AnyTask = TASKS.load(FORECASTING.name).configured(settings)
    chosen, training = fitting.settle(task, {**vars(settings), "device": "cpu"})
    configured, name = FORECASTING.configured(settings), opened.table.source
    windows = configured.windows_of(opened.table, SPLIT)
    train, valid = (Part(name, (), configured.part_of(windows, part, SPLIT), "") for part in ("train", "valid"))
    return TaskModel(fitting.fit(task, train, valid, chosen, training, source={"name": name}, notes=[]))


def expect(model: TaskModel, place: Place, *, name: str) -> ExpectedAnswer:
    """What a forecaster expects from a place on."""
    _checked(model)
    forecast = model.predict(place.window, horizon=place.horizon)
    assert isinstance(forecast, Forecast)
    mean_H = forecast.mean_HD[:, 0]
    came_H = place.opened.table.values(0)[place.origin : place.origin + place.horizon, 0]
    wrong_H = mean_H[: len(came_H)] - came_H
    seen_H = wrong_H[~np.isnan(wrong_H)]
    return ExpectedAnswer(
        model=name,
        mean=numbers(mean_H),
        bands=[
            BandAnswer(coverage=coverage, low=numbers(low_HD[:, 0]), high=numbers(high_HD[:, 0]))
            for coverage, (low_HD, high_HD) in zip(COVERAGES, map(forecast.band, COVERAGES), strict=True)
        ],
        rmse=number(np.sqrt(np.square(seen_H).mean())) if len(seen_H) else None,
    )


def forecast_answer(
    place: Place, forecasts: Sequence[ExpectedAnswer], failed: Sequence[FailedAnswer] = ()
) -> ForecastAnswer:
    """The rows around a place, and what was expected there."""
    table, origin, horizon = place.opened.table, place.origin, place.horizon
    begin = max(0, origin - max(_LEAST_HISTORY, _HISTORY * horizon))
    values_T = table.values(0)[:, 0]
    came_H = np.full(horizon, np.nan)
    came_H[: len(values_T) - origin] = values_T[origin : origin + horizon]
    season = natural_season(table.frequency)
    learned = split_ends(table.rows, SPLIT, 1)[0]
    return ForecastAnswer(
        target=table.targets[0],
        frequency=str(table.frequency),
        season=season if learned >= 2 * season else 1,
        rows=table.rows,
        learned=learned,
        back=table.rows - origin,
        most_back=most_back(place.opened),
        notes=list(place.opened.notes),
        times=[*spelled_times(table.times(0)[begin:origin]), *spelled_times(times_ahead(place.window, horizon))],
        values=[*numbers(values_T[begin:origin]), *numbers(came_H)],
        before=origin - begin,
        forecasts=list(forecasts),
        failed=list(failed),
    )


def measure_ahead(model: TaskModel, opened: OpenedSeries) -> Measurement:
    """The last rows of a series as they were forecast 1, 2, ... steps before; measured once for each series."""
    scales = _checked(model)
    known = _measured.setdefault(model, {})
    if opened.key not in known:
        net, _ = forecaster_of(model.net, model.codecs)
        windows = cut_windows(opened.table, scales.frame, "test", SPLIT)
        if not len(windows):
            raise OptionError(
                f"the last rows are fewer than the {scales.frame.horizon} steps of this forecaster; try a longer table"
            )
        rows = int(windows.origin_W.max() - windows.origin_W.min()) + scales.frame.horizon
        known[opened.key] = steps_ahead(net, scales, windows, range(1, min(MOST_AHEAD, rows // 2 or 1) + 1))
    return known[opened.key]


def ahead_answer(
    opened: OpenedSeries, k: int, measured: Sequence[tuple[str, Measurement]], failed: Sequence[FailedAnswer] = ()
) -> AheadAnswer:
    """Forecasters k steps ahead side by side, over the rows that all of them reach."""
    steps = min(len(one["ahead"]) for _, one in measured)
    rows = min(_SHOWN_ROWS, *(len(one["time"]) for _, one in measured))
    k = min(k, steps)
    first = measured[0][1]
    return AheadAnswer(
        target=opened.table.targets[0],
        k=k,
        steps=list(range(1, steps + 1)),
        compared=int(first.about["compared_rows"]),
        times=[str(time) for time in first["time"][-rows:]],
        actual=numbers(first["actual"][-rows:]),
        last_value=numbers(first["last_value_rmse"][:steps]),
        models=[
            AheadModelAnswer(
                model=name, predicted=numbers(one["predicted"][k - 1, -rows:]), rmse=numbers(one["rmse"][:steps])
            )
            for name, one in measured
        ],
        failed=list(failed),
    )


def window_gates(model: TaskModel, place: Place) -> WindowGatesAnswer:
    """The gates of the first layer while the window before a place is read."""
    scales = _checked(model)
    trace = model.trace(place.window)
    names = [name for name in gates_of(trace) if name.startswith(f"{_LAYER}.")]
    state = "c" if f"{_LAYER}.c" in trace.arrays else "h"
    mean_X, deviation_X = scales.of_table(place.opened.table)[0]
    value_T = trace["past"][:, 0].reshape(len(trace.tokens), -1).mean(axis=1, dtype=np.float64)
    return WindowGatesAnswer(
        times=list(trace.tokens),
        values=numbers(value_T * deviation_X[0] + mean_X[0]),
        rows=len(trace["past"]) // len(trace.tokens),
        units=trace[names[0]].shape[1],
        gates=[WindowGateAnswer(name=name.rpartition(".")[2], values=_means(trace[name])) for name in names],
        state=state,
        size=_means(np.abs(trace[f"{_LAYER}.{state}"])),
    )


def _means(values_TH: NDArray[np.number]) -> list[float | None]:
    return numbers(values_TH.mean(axis=1, dtype=np.float64).round(6))


def _checked(model: TaskModel) -> SeriesScales:
    """The scales of a forecaster of one series without covariates; OptionError for any other model."""
    _, scales = forecaster_of(model.net, model.codecs)
    if scales.targets != 1 or scales.covariates:
        raise OptionError(
            f"this forecaster was trained on {scales.targets} columns and {scales.covariates} covariates; expected one "
            "column alone; pick another"
        )
    return scales


@answers("/tasks/forecast", ForecastAnswer)
async def forecast(asked: ForecastAsked, visitor: Visitor) -> bytes:
    """What each forecaster expects of a series from a row on, with its bands, beside what came."""
    place = place_of(await _open(asked, visitor), asked.back, asked.horizon)
    results = await _ask_each(asked, visitor, place.opened, lambda name, model: expect(model, place, name=name))
    return await asyncio.to_thread(lambda: as_json(forecast_answer(place, *results)))


@answers("/tasks/forecast/ahead", AheadAnswer)
async def ahead(asked: AheadAsked, visitor: Visitor) -> bytes:
    """The last rows of a series as forecasters expected them k steps before, and the error by k."""
    opened = await _open(asked, visitor)
    results = await _ask_each(asked, visitor, opened, lambda name, model: (name, measure_ahead(model, opened)))
    return await asyncio.to_thread(lambda: as_json(ahead_answer(opened, asked.k, *results)))


@answers("/tasks/forecast/gates", WindowGatesAnswer, "window_gates")
async def gates_before(asked: WindowGatesAsked, visitor: Visitor) -> bytes:
    """The gates of a recurrent forecaster while it reads the window before a row."""
    place = place_of(await _open(asked, visitor), asked.back, 1)
    return await visitor.ask_task(asked.model, lambda model: as_json(window_gates(model, place)))


async def _open(asked: SeriesAsked, visitor: Visitor) -> OpenedSeries:
    return await visitor.apart("forecast", lambda: open_series(asked.series, asked.text, asked.target))


async def _ask_each(
    asked: ForecastAsked | AheadAsked, visitor: Visitor, opened: OpenedSeries, work: Callable[[str, TaskModel], T]
) -> tuple[list[T], list[FailedAnswer]]:
    """What a function makes of each forecaster: one of the list, or one that is fitted here."""

    async def ask(name: str) -> T:
        if ":" in name:
            return await visitor.ask_task(name, partial(work, name))
        return await visitor.apart("forecast", lambda: work(name, solve(opened, name)))

    return part(await attempt_each(dict.fromkeys(asked.models), ask))

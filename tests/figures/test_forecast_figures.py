"""Figures of forecasts: the numbers that are drawn are those of the forecast, and captions say of what."""

from __future__ import annotations

import numpy as np
import pytest

import thereafter
from refusals import assert_refused
from thereafter import figures, instruments
from thereafter.base.tabular import PlainTable, Row
from thereafter.errors import OptionError
from thereafter.figures.catalogue import FIGURES
from thereafter.figures.figure import Figure
from thereafter.inspection.measurement import Measurement
from thereafter.series.forecasting.answers import Forecast, ForecastTable
from thereafter.task_model import TaskModel


def forecast(series: str, steps: int = 6, samples: int = 0, targets: tuple[str, ...] = ("load",)) -> Forecast:
    mean_HD = np.arange(steps * len(targets), dtype=np.float64).reshape(steps, -1)
    spread_C = np.array([1.0, 2.0, 3.0, 4.0])
    times = np.datetime64("2024-01-03", "s") + np.arange(steps) * np.timedelta64(1, "h")
    low, high = mean_HD[..., None] - spread_C, mean_HD[..., None] + spread_C
    quantiles = np.repeat(mean_HD[..., None], 15, axis=2)
    paths = np.zeros((samples, steps, len(targets)))
    return Forecast(series, targets, times, mean_HD, quantiles, low, high, paths)


def table_of(*forecasts: Forecast, note: str = "") -> ForecastTable:
    times = np.datetime64("2024-01-01", "s") + np.arange(48) * np.timedelta64(1, "h")
    history = tuple((times, np.ones((48, len(one.targets)))) for one in forecasts)
    return ForecastTable(forecasts, history, note)


@pytest.fixture(scope="module")
def noisy() -> np.ndarray:
    return np.sin(0.1 * np.arange(300)) + np.random.default_rng(0).normal(0, 0.1, 300)


@pytest.fixture(scope="module")
def measured(noisy: np.ndarray) -> Measurement:
    model = thereafter.train(noisy, task="forecast", model="ar", order=4, horizon=1, **{"forecast.split": "60/10/30"})
    return instruments.steps_ahead(model, noisy, (1, 4, 16), name="AR(4)")


@pytest.fixture(scope="module")
def lstm(noisy: np.ndarray) -> TaskModel:
    options = {"horizon": 4, "lookback": 24, "hidden": 5, "epochs": 1, "seed": 0}
    return thereafter.train(noisy, task="forecast", model="lstm", **options)


def test_a_fan_has_the_mean_and_nested_bands_after_the_history():
    fan = figures.forecast_fan(table_of(forecast("north", samples=3), note="fitted to 2023"), model="ar")
    drawn = {trace.name: trace for trace in fan.plot.data}
    assert list(drawn["mean"].y) == list(range(6))
    assert len(drawn["observed"].x) == 48
    assert str(drawn["mean"].x[0]) > str(drawn["observed"].x[-1])
    assert list(drawn["95 % band"].y[:6]) == [mean + 4 for mean in range(6)]
    assert list(drawn["50 % band"].y[:6]) == [mean + 1 for mean in range(6)]
    assert sum(trace.name == "sampled paths" for trace in fan.plot.data) == 3
    assert "north" in fan.caption
    assert "of ar" in fan.caption
    assert fan.caption.endswith("Fitted to 2023.")
    assert fan.numbers("mean")[48:] == list(range(6))
    assert fan.numbers("low_80")[48:] == [mean - 2 for mean in range(6)]
    assert np.isnan(fan.numbers("mean")[:48]).all()


def test_of_many_series_the_first_are_drawn_and_the_rest_counted():
    table = table_of(*(forecast(f"s{at}") for at in range(9)))
    fan = figures.forecast_fan(table)
    assert set(fan.words("series")) == {f"s{at}" for at in range(6)}
    assert "Drawn are 6 of 9 series." in fan.caption
    assert set(figures.forecast_fan(table, series=["s7"]).words("series")) == {"s7"}
    with assert_refused(OptionError, "s99"):
        figures.forecast_fan(table, series=["s99"])


def test_every_target_of_a_series_has_a_plot_of_its_own():
    fan = figures.forecast_fan(table_of(forecast("north", targets=("load", "price"))))
    assert set(fan.words("target")) == {"load", "price"}
    assert {note.text for note in fan.plot.layout.annotations} == {"north, load", "north, price"}


def test_rows_k_steps_ahead_are_those_of_the_measurement(measured: Measurement):
    drawn = measured.figure()
    assert isinstance(drawn, Figure)
    assert drawn.name == "steps-ahead"
    assert drawn.numbers("16 steps ahead")[15:] == measured["predicted"][2, 15:].tolist()
    assert "AR(4)" in drawn.caption
    assert f"{measured['rmse'][0]:.3g}" in drawn.caption


def test_errors_by_k_of_several_models_stand_beside_the_last_value(measured: Measurement):
    other = Measurement(measured.kind, measured.arrays, measured.axes, measured.about | {"model": "lstm"})
    drawn = figures.error_by_steps([measured, other])
    assert list(dict.fromkeys(drawn.words("model"))) == ["AR(4)", "lstm", "last value"]
    assert drawn.numbers("rmse")[:3] == measured["rmse"].tolist()
    assert drawn.numbers("rmse")[-3:] == measured["last_value_rmse"].tolist()
    assert "AR(4) and lstm" in drawn.caption


def test_gates_over_a_window_are_the_means_of_the_trace(lstm: TaskModel, noisy: np.ndarray):
    trace = lstm.trace(noisy)
    drawn = trace.figure()  # the first that fits the trace of a forecaster
    assert isinstance(drawn, Figure)
    assert drawn.name == "series-gates"
    assert drawn.numbers("forget gate") == pytest.approx(trace["l0.forget"].mean(axis=1).tolist(), abs=1e-5)
    assert drawn.words("time") == trace.tokens == [str(row) for row in range(276, 300)]
    assert drawn.numbers("value") == pytest.approx(trace["past"][:, 0].tolist())
    assert "5 units" in drawn.caption


def test_a_recursive_network_is_traced_over_its_window(noisy: np.ndarray):
    options = {"horizon": 4, "lookback": 24, "hidden": 5, "epochs": 1, "seed": 0, "strategy": "recursive"}
    trace = thereafter.train(noisy, task="forecast", model="lstm", **options).trace(noisy)
    assert trace["l0.forget"].shape == (24, 5)
    assert len(np.unique(trace["l0.forget"][:, 0])) > 12


def surprises() -> PlainTable:
    rows: list[Row] = []
    for at in range(60):
        row: Row = {"series": "north", "time": f"2024-01-01 {at // 60:02}:{at % 60:02}", "value": float(at == 40) * 9}
        row |= {"expected": 0.0, "low": -1.0, "high": 1.0, "nats": 40.0 if at == 40 else 1.0, "unusual": at == 40}
        rows.append(row)
    return PlainTable(tuple(rows))


def test_unusual_points_are_marked_and_the_most_surprising_one_named():
    drawn = figures.unusual_points(surprises(), model="ar", text="sales.csv")
    marked = next(trace for trace in drawn.plot.data if trace.name == "unusual")
    assert (list(marked.x), list(marked.y)) == (["2024-01-01 00:40"], [9.0])
    assert "1 of 60 values" in drawn.caption
    assert "9 at 2024-01-01 00:40, cost 40.0 nats" in drawn.caption
    short = figures.unusual_points(surprises(), rows=20)
    assert len(short.words("time")) == 20
    assert "2024-01-01 00:40" in short.words("time")
    with assert_refused(OptionError, "expected"):
        figures.unusual_points(PlainTable(({"series": "a", "time": 1, "value": 2},)))


def test_the_catalogue_says_how_their_files_are_made():
    assert "inspect ahead" in FIGURES["steps-ahead"].made_by
    assert FIGURES["error-by-steps"].together

"""Forecasts of tables that are odd but legal: short series beside long ones, counted rows, covariates known ahead."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from looking_ahead import changed_by_future, predictor

import thereafter
from refusals import assert_refused
from thereafter.errors import ThereafterError
from thereafter.task_model import TaskModel

SMALL = {"task": "forecast", "hidden": 8, "epochs": 1, "seed": 1, "device": "cpu"}


def table(path: Path, columns: str, rows: Sequence[str]) -> Path:
    path.write_text("\n".join([columns, *rows]) + "\n", encoding="utf-8")
    return path


def hourly(rows: int, level: float = 50.0, begin: int = 0) -> list[str]:
    rng, t = np.random.default_rng(1), np.arange(begin, begin + rows)
    values = level + 5 * np.sin(2 * np.pi * t / 24) + rng.normal(size=rows)
    times = np.datetime64("2024-01-01T00:00:00") + t * np.timedelta64(3600, "s")
    return [f"{time},{value:.4f}" for time, value in zip(times, values, strict=True)]


def trained(source: Path, **options: object) -> TaskModel:
    model = thereafter.train(source, **{**SMALL, **options})
    assert isinstance(model, TaskModel)
    return model


@pytest.mark.parametrize("model", ["linear", "gru", "ar"])
def test_a_shorter_forecast_is_the_beginning_of_a_longer_one(tmp_path: Path, model: str):
    """Also where the calendar is known ahead, of which every step reads all."""
    source = table(tmp_path / "load.csv", "time,load", hourly(400))
    forecaster = trained(source, model=model, horizon=12, lookback=48, calendar=True)
    forecasts = {steps: forecaster.forecast(source, horizon=steps).forecasts[0] for steps in (5, 12, 20, 24)}
    whole = forecasts[24]
    for steps in (5, 12, 20):
        np.testing.assert_allclose(forecasts[steps].mean_HD, whole.mean_HD[:steps], rtol=1e-5)


def test_the_surprise_of_a_point_does_not_depend_on_whether_rows_follow(tmp_path: Path):
    rows = hourly(300)
    source = table(tmp_path / "load.csv", "time,load", rows)
    shorter = table(tmp_path / "shorter.csv", "time,load", rows[:250])
    forecaster = trained(source, model="linear", horizon=12, lookback=48, calendar=True)
    nats = {row["time"]: row["nats"] for row in forecaster.surprises(source).to_rows()}
    for row in forecaster.surprises(shorter).to_rows()[-5:]:
        assert row["nats"] == pytest.approx(nats[row["time"]], rel=1e-4)


def test_one_step_networks_that_read_a_day_at_a_step_go_further(tmp_path: Path):
    source = table(tmp_path / "load.csv", "time,load", hourly(400))
    forecast = trained(source, model="gru", horizon=1).forecast(source, horizon=3)
    assert len(forecast.forecasts[0]) == 3


def test_series_too_short_to_train_on_are_scaled_by_their_level_and_the_others_deviation(tmp_path: Path):
    lines = [f"long{k},{row}" for k in range(2) for row in hourly(300, 1000.0)]
    lines += [f"short,{row}" for row in hourly(20, 1000.0)]
    source = table(tmp_path / "many.csv", "series,time,load", lines)
    forecaster = trained(source, model="ar", horizon=24, lookback=48, series="series")
    short = forecaster.forecast(source)["short"]
    assert (np.abs(short.mean_HD - 1000.0) < 20).all()
    low, high = short.band(0.8)
    assert (high - low > 1.0).all()


def test_new_names_of_series_do_not_change_their_score(tmp_path: Path):
    lines = [f"s{k},{row}" for k, level in enumerate((10.0, 5000.0)) for row in hourly(300, level)]
    source = table(tmp_path / "two.csv", "series,time,load", lines)
    other = table(
        tmp_path / "renamed.csv", "series,time,load", [line.replace("s0", "a").replace("s1", "b") for line in lines]
    )
    forecaster = trained(source, model="naive", horizon=6, lookback=24, split="90/10")
    with pytest.warns(UserWarning, match="trained or validated"):
        before = forecaster.score(source)
    after = forecaster.score(other)
    assert after.mase == pytest.approx(before.mase, rel=0.3)


def test_the_column_of_series_that_was_recognised_is_that_of_the_run(tmp_path: Path):
    lines = [f"{name},{row}" for name, level in (("a", 10.0), ("b", 5000.0)) for row in hourly(200, level)]
    source = table(tmp_path / "two.csv", "name,time,load", lines)
    forecaster = trained(source, model="naive", horizon=6, lookback=24)
    alone = table(tmp_path / "alone.csv", "name,time,load", lines[-60:])
    assert forecaster.forecast(alone).forecasts[0].series == "b"


def test_a_new_series_is_scaled_without_its_future(tmp_path: Path):
    source = table(tmp_path / "two.csv", "series,time,load", [f"s{k},{row}" for k in range(2) for row in hourly(300)])
    forecaster = trained(source, model="linear", horizon=6, lookback=48)
    new = [f"n{k},{row}" for k in range(2) for row in hourly(30, 70.0)]
    fresh = forecaster.task.read([table(tmp_path / "new.csv", "series,time,load", new)])
    windows, _ = forecaster.task.scored(fresh, forecaster.codecs)
    assert changed_by_future(predictor(forecaster), [windows[0]]) == 0.0


@pytest.mark.parametrize("begin", [0, 1, 1000])
def test_counted_rows_that_were_trained_on_are_known_again(tmp_path: Path, begin: int):
    rows = [f"{begin + k},{np.sin(k / 5):.4f}" for k in range(300)]
    source = table(tmp_path / "counted.csv", "t,x", rows)
    forecaster = trained(source, model="naive", horizon=6, lookback=24, time="t", target="x", split="90/10")
    with pytest.warns(UserWarning, match="trained or validated"):
        forecaster.score(source)


def test_a_period_survives_rows_without_values():
    rng = np.random.default_rng(0)
    values = 10 + 3 * np.sin(2 * np.pi * np.arange(210) / 7)[:, None] + rng.normal(scale=0.3, size=(210, 2))
    values[rng.choice(np.arange(20, 200), 21, replace=False)] = np.nan
    forecaster = thereafter.train(
        values, task="forecast", model="ar", target="x1,x2", horizon=7, lookback=21, split="60/20/20"
    )
    assert forecaster.score(values).mse < 0.5  # 0.09 is the variance of the noise, 4.5 that of the season


def test_a_season_is_never_longer_than_what_is_read(tmp_path: Path):
    months = [f"{2010 + k // 12}-{k % 12 + 1:02d},{10 * (k % 12)}" for k in range(39)]
    source = table(tmp_path / "months.csv", "month,x", months)
    forecaster = trained(source, model="seasonal-naive", horizon=12)
    mean = forecaster.forecast(source).forecasts[0].mean_HD[:, 0]
    np.testing.assert_allclose(mean, [10 * (k % 12) for k in range(39, 51)], atol=1e-3)
    with assert_refused(ThereafterError, "seasonal-naive"):
        trained(source, model="seasonal-naive", horizon=6, lookback=8, season=12)


def test_the_order_of_an_autoregression_is_read_whatever_the_lookback(tmp_path: Path):
    source = table(tmp_path / "load.csv", "time,load", hourly(300))
    assert len(trained(source, model="ar", order=50, lookback=20, horizon=6).forecast(source).forecasts[0]) == 6


def test_a_short_new_table_is_scored(tmp_path: Path):
    source = table(tmp_path / "load.csv", "time,load", hourly(400))
    forecaster = trained(source, model="naive", horizon=24, lookback=48)
    score = forecaster.score(table(tmp_path / "new.csv", "time,load", hourly(80, begin=400)))
    assert score.windows == 80 - 48 - 24 + 1
    with pytest.raises(ThereafterError, match="try more rows"):
        forecaster.score(table(tmp_path / "few.csv", "time,load", hourly(10, begin=400)))


def test_what_cannot_be_is_one_sentence(tmp_path: Path):
    source = table(tmp_path / "load.csv", "time,load", hourly(400))
    forecaster = trained(source, model="linear", horizon=6, lookback=24, calendar=True)
    daily = table(tmp_path / "daily.csv", "time,load", [f"2024-01-{k + 1:02d},{k}" for k in range(30)])
    with pytest.raises(ThereafterError, match="covariates known ahead"), pytest.warns(UserWarning, match="row every"):
        forecaster.forecast(daily)
    with assert_refused(ThereafterError, "horizon", 1000000000):
        forecaster.forecast(source, horizon=10**9)
    with assert_refused(ThereafterError, "samples"):
        forecaster.forecast(source, samples=10**8)
    with pytest.raises(ThereafterError, match="named twice"):
        trained(source, model="naive", horizon=6, target="load", past="load")
    gappy = [row for k, row in enumerate(hourly(400)) if k % 24 != 3]
    with pytest.raises(ThereafterError, match="least squares needs windows"):
        trained(table(tmp_path / "gaps.csv", "time,load", gappy), model="linear", horizon=24, lookback=48)


def test_the_last_rows_alone_go_on_as_the_run_has_learned(tmp_path: Path):
    """The ends of April and May 2024 are work days; that of June is a Sunday."""
    days = [np.busday_offset(np.datetime64("2021-01") + k + 1, -1, roll="forward") for k in range(41)]
    rows = [f"{day},{k % 5}" for k, day in enumerate(days)]
    forecaster = trained(table(tmp_path / "sold.csv", "day,sold", rows), model="naive", horizon=3)
    for last in (1, 2, 8):
        times = forecaster.forecast(table(tmp_path / "last.csv", "day,sold", rows[-last:])).forecasts[0].times_H
        assert times.astype("datetime64[D]").astype(str).tolist() == ["2024-06-28", "2024-07-31", "2024-08-30"]


def test_forecasts_and_surprises_draw_themselves(tmp_path: Path):
    source = table(tmp_path / "load.csv", "time,load", hourly(200))
    forecaster = trained(source, model="naive", horizon=6, lookback=24)
    assert forecaster.forecast(source).figure().name == "forecast-fan"
    assert forecaster.surprises(source).figure().name == "unusual-points"
    with assert_refused(ThereafterError, "0.5", "0.8"):
        forecaster.forecast(source).forecasts[0].band(0.7)

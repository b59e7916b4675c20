"""A run knows the series it was trained on by their rows, whatever they are called; others have their own scale."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from looking_ahead import changed_by_future, predictor

import thereafter
from refusals import assert_refused
from thereafter.errors import EmptyCorpusError, FormatError
from thereafter.series.reading import read_series
from thereafter.series.scales import SeriesScales
from thereafter.series.table import ColumnChoice
from thereafter.task_model import TaskModel

HORIZON, LOOKBACK, ROWS = 8, 32, 300
OLD_RUN = Path(__file__).parent.parent / "old_runs" / "forecast" / "finished"


def autoregressive(level: float, seed: int, rows: int = ROWS) -> np.ndarray:
    """x_t = 0.7 x_{t-1} + noise about a level; its deviation is 1.4."""
    noise, values = np.random.default_rng(seed).normal(size=rows), np.zeros(rows)
    for row in range(1, rows):
        values[row] = 0.7 * values[row - 1] + noise[row]
    return level + values


def daily(path: Path, values: np.ndarray, begin: int = 0, digits: int = 10) -> Path:
    days = np.datetime64("2024-01-01") + begin + np.arange(len(values))
    rows = [f"{day},{'' if value != value else round(value, digits)}" for day, value in zip(days, values, strict=True)]
    path.write_text("\n".join(["day,sold", *rows]) + "\n", encoding="utf-8")
    return path


def trained(source: object, model: str = "ar", **options: object) -> TaskModel:
    options = {"horizon": HORIZON, "lookback": LOOKBACK, "epochs": 1, "hidden": 8, "seed": 1, **options}
    forecaster = thereafter.train(source, task="forecast", model=model, **options)
    assert isinstance(forecaster, TaskModel)
    return forecaster


@pytest.fixture(scope="module")
def own() -> np.ndarray:
    return autoregressive(10.0, 1)


@pytest.fixture(scope="module")
def timed(own: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> TaskModel:
    return trained(daily(tmp_path_factory.mktemp("timed") / "own.csv", own), split="70/10/20")


@pytest.fixture(scope="module")
def counted(own: np.ndarray) -> TaskModel:
    return trained(own, split="70/10/20")


def is_known(forecaster: TaskModel, path: Path) -> bool:
    """Whether the one series of a table is on the scale of the run's."""
    scales = forecaster.codecs["series"]
    (scale,) = scales.scales.values()
    return bool(scales.scale_of(read_series([path], scales.columns), 0) == scale)


@pytest.mark.parametrize(
    ("model", "level"),
    [
        ("ar", 1000.0),
        ("gru", -500.0),
        *(
            pytest.param(*one, marks=pytest.mark.wide)
            for one in (("ar", -500.0), ("ar", 40.0), ("gru", 1000.0), ("gru", 40.0))
        ),
    ],
)
def test_another_level_is_forecast_at_its_level(own: np.ndarray, model: str, level: float, tmp_path: Path):
    forecaster = trained(own, model)
    other = autoregressive(level, 2)
    asked = [forecaster.predict(other[-60:].tolist()), forecaster.predict(other[-5:]), *forecaster.forecast(other)]
    asked += trained(daily(tmp_path / "own.csv", own), model).forecast(daily(tmp_path / "other.csv", other))
    for forecast in asked:
        assert np.abs(forecast.mean_HD - level).max() < 8  # the deviation is 1.4
    assert forecaster.score(other).mae_standardised < 2


def test_another_series_that_is_asked_about_has_the_scale_of_its_rows(
    own: np.ndarray, timed: TaskModel, tmp_path: Path
):
    climbing = 1000 + 5 * np.arange(ROWS) + own
    scales, table = timed.codecs["series"], read_series([daily(tmp_path / "climbing.csv", climbing)])
    scale = scales.scale_of(replace(table, ends_now=True), 0)
    assert (*scale.mean, *scale.deviation) == pytest.approx((climbing.mean(), climbing.std()))
    scored = scales.scale_of(table, 0)  # by the rows before the first forecast
    assert (*scored.mean, *scored.deviation) == pytest.approx((climbing[:LOOKBACK].mean(), climbing[:LOOKBACK].std()))


def test_the_calendar_of_another_series_is_that_of_the_run(own: np.ndarray, tmp_path: Path):
    """A few days have a mean weekday of their own."""
    forecaster = trained(daily(tmp_path / "own.csv", own), calendar=True)
    scales = forecaster.codecs["series"]
    (scale,) = scales.scales.values()
    few = read_series([daily(tmp_path / "few.csv", own[:10] + 1000, 4)], scales.columns, calendar=True)
    other = scales.scale_of(few, 0)
    assert other.mean[0] == pytest.approx((own[:5] + 1000).mean())
    assert (other.covariate_mean, other.covariate_deviation) == (scale.covariate_mean, scale.covariate_deviation)


def test_rows_of_the_series_itself_are_known(own: np.ndarray, timed: TaskModel, tmp_path: Path):
    longer, mended, odd = np.concatenate([own, autoregressive(10.0, 9, 60)]), own.copy(), own.copy()
    mended[5], odd[::3] = 500.0, np.nan
    cases = {
        "itself": daily(tmp_path / "a.csv", own),
        "rows more": daily(tmp_path / "b.csv", longer),
        "the last rows": daily(tmp_path / "c.csv", own[-40:], 260),
        "rows from the middle, and later ones": daily(tmp_path / "d.csv", longer[100:], 100),
        "rounded": daily(tmp_path / "e.csv", own, digits=2),
        "a value mended": daily(tmp_path / "f.csv", mended),
        "gaps": daily(tmp_path / "g.csv", odd),
        "later rows alone": daily(tmp_path / "h.csv", longer[ROWS:], ROWS),
    }
    for case, path in cases.items():
        assert is_known(timed, path), case
    timed.forecast(cases["itself"])
    assert timed.score(cases["itself"]).windows == timed.score(cases["a value mended"]).windows == 60 - HORIZON + 1
    assert timed.score(cases["rounded"]).windows == 60 - HORIZON + 1


def test_a_series_that_grows_is_known_where_it_goes_on(tmp_path: Path):
    growing = np.arange(400.0) + np.random.default_rng(1).normal(size=400)
    forecaster = trained(daily(tmp_path / "own.csv", growing[:ROWS]))
    later = daily(tmp_path / "later.csv", growing[ROWS:], ROWS)
    assert is_known(forecaster, later)
    assert trained(growing[:ROWS]).predict(growing[-50:]).mean_HD[-1, 0] == pytest.approx(408, abs=5)


def test_rows_at_the_same_times_that_are_others_are_another_series(timed: TaskModel, tmp_path: Path):
    """They are scored from the first whole window on: the run never saw them."""
    for seed in range(5, 10):
        other = daily(tmp_path / "other.csv", autoregressive(10.0, seed))
        assert not is_known(timed, other)
        assert timed.score(other).windows == ROWS - LOOKBACK - HORIZON + 1


def test_rows_before_those_of_the_training_were_never_seen(own: np.ndarray, timed: TaskModel, tmp_path: Path):
    earlier = daily(tmp_path / "earlier.csv", autoregressive(10.0, 3, 100), -100)
    assert timed.score(earlier).windows == 100 - LOOKBACK - HORIZON + 1
    both = daily(tmp_path / "both.csv", np.concatenate([autoregressive(10.0, 3, 100), own]), -100)
    assert timed.score(both).windows == (100 - LOOKBACK - HORIZON + 1) + (60 - HORIZON + 1)


def test_two_shops_that_mostly_sell_nothing_are_told_apart(tmp_path: Path):
    draw = np.random.default_rng(1)
    one, other = ((draw.random(ROWS) < 0.15) * draw.integers(1, 4, ROWS) * 1.0 for _ in range(2))
    forecaster = trained(daily(tmp_path / "one.csv", one), "naive", split="70/10/20")
    assert forecaster.score(daily(tmp_path / "other.csv", other)).windows == ROWS - LOOKBACK - HORIZON + 1
    assert forecaster.score(daily(tmp_path / "one.csv", one)).windows == 60 - HORIZON + 1


def test_counted_rows_are_known_in_their_places(own: np.ndarray, counted: TaskModel):
    mended = own.copy()
    mended[5] = 500.0
    for rows in (own, mended):
        assert counted.score(rows).windows == 60 - HORIZON + 1
    assert counted.score(autoregressive(10.0, 4)).windows == ROWS - LOOKBACK - HORIZON + 1
    np.testing.assert_allclose(counted.predict(own[-60:]).mean_HD, counted.forecast(own).forecasts[0].mean_HD)


def test_a_test_part_shorter_than_the_horizon_is_said_to_be(own: np.ndarray):
    with assert_refused(EmptyCorpusError, 6, 8):
        trained(own[:40], lookback=8, split="60/25/15").score(own[:40])
    forecaster = trained(own, split="200/60/30")
    assert forecaster.score(own).windows == 30 - HORIZON + 1  # the last 10 rows are of no part
    assert forecaster.score(np.concatenate([own, own])).windows == 30 - HORIZON + 1


def test_one_of_several_files_is_known_by_its_rows(tmp_path: Path):
    levels = {"north": 10.0, "south": 5000.0}
    files = [daily(tmp_path / f"{name}.csv", autoregressive(level, 3)) for name, level in levels.items()]
    forecaster = trained([str(path) for path in files], "naive", split="70/10/20")
    scales = forecaster.codecs["series"]
    for name, path in zip(levels, files, strict=True):
        assert scales.scale_of(read_series([path], ColumnChoice()), 0) == scales.scales[name]
        assert forecaster.score(path).windows == 60 - HORIZON + 1


def test_a_shop_of_the_same_name_with_other_rows_is_another(tmp_path: Path):
    """And one of the same name with later rows is the same, wherever its level has gone."""

    def table(name: str, level: float, seed: int, begin: int) -> Path:
        values = np.stack([autoregressive(level, seed), autoregressive(level, seed + 1)])
        days = np.datetime64("2024-01-01") + begin + np.arange(ROWS)
        lines = [
            f"{shop},{day},{value}"
            for shop, row in zip("ab", values, strict=True)
            for day, value in zip(days, row, strict=True)
        ]
        path = tmp_path / name
        path.write_text("\n".join(["shop,day,sold", *lines]) + "\n", encoding="utf-8")
        return path

    forecaster = trained(table("own.csv", 10.0, 1, 0), "naive", split="70/10/20", series="shop")
    scales = forecaster.codecs["series"]
    later, other = (read_series([table("asked.csv", 20.0, 5, begin)], scales.columns) for begin in (ROWS, 0))
    assert scales.scale_of(later, 0) == scales.scales["a"]
    assert scales.scale_of(other, 0) != scales.scales["a"]


def test_what_is_recognised_saw_no_future(own: np.ndarray, timed: TaskModel, tmp_path: Path):
    for values in (own, autoregressive(10.0, 5), autoregressive(1000.0, 5)):
        windows = timed.task.read([daily(tmp_path / "asked.csv", values)])
        chosen, _ = timed.task.scored(windows, timed.codecs)
        assert changed_by_future(predictor(timed), [chosen[0], chosen[20]]) == 0.0


def test_a_run_without_rows_to_compare_goes_by_the_level():
    old = thereafter.load(OLD_RUN)
    (scale,) = old.codecs["series"].scales.values()
    assert scale.sample_times == ()
    values = scale.mean[0] + np.tile([0.0, 2.0, -2.0, 1.0], 10)
    near, far = old.predict(values).mean_HD, old.predict(values + 1000).mean_HD
    assert np.abs(near - scale.mean[0]).max() < 10
    assert np.abs(far - scale.mean[0] - 1000).max() < 10


def test_rows_to_compare_are_saved_and_few(own: np.ndarray, timed: TaskModel, tmp_path: Path):
    timed.save(tmp_path / "run")
    assert (tmp_path / "run" / "tokenizer.json").stat().st_size < 4_000
    again = thereafter.load(tmp_path / "run")
    (before,), (after,) = timed.codecs["series"].scales.values(), again.codecs["series"].scales.values()
    assert (before.sample_times, before.sample_values) == (after.sample_times, after.sample_values)
    assert not is_known(again, daily(tmp_path / "other.csv", autoregressive(10.0, 5)))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("until", "soon"),
        ("until", "\u00b2"),
        ("sample_times", [10**30] * 60),
        ("sample_times", [1]),
        ("sample_values", ["a"]),
        ("sample_values", [float("inf")] * 60),
    ],
)
def test_stored_rows_that_are_damaged(timed: TaskModel, counted: TaskModel, name: str, value: object):
    for forecaster in (timed, counted):
        stored = forecaster.codecs["series"].to_json()
        (scale,) = stored["scales"].values()
        scale[name] = value
        with pytest.raises(FormatError, match="the series of this run are damaged"):
            SeriesScales.from_json(stored)

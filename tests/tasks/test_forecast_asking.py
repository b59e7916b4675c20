"""What a trained forecaster says of a whole table: what comes next, and how surprising each point was."""

from __future__ import annotations

import csv
import datetime
import gc
import math
from pathlib import Path

import numpy as np
import pytest

import thereafter
from refusals import assert_refused
from stops import stopping_at
from thereafter.errors import OptionError, SourceError, ThereafterError
from thereafter.series.forecasting.answers import spelled_times

RNG = np.random.default_rng(1)
WALK = np.cumsum(RNG.normal(size=120)).round(4)


def hourly(path: Path, values: np.ndarray, **columns: np.ndarray) -> Path:
    """A table with a row an hour; NaN is an empty cell."""
    first = datetime.datetime(2024, 1, 1)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["time", "load", *columns])
        for row, value in enumerate(values):
            cells = [value, *(column[row] for column in columns.values())]
            writer.writerow([first + datetime.timedelta(hours=row), *("" if cell != cell else cell for cell in cells)])
    return path


def test_a_forecast_begins_after_the_last_value_and_goes_on_in_time(tmp_path: Path):
    table = hourly(tmp_path / "load.csv", np.concatenate([WALK, [np.nan, np.nan]]))
    model = thereafter.train(table, task="forecast", model="naive", horizon=3, lookback=6)
    forecast = model.forecast(table, horizon=5, samples=4, seed=2)
    (one,) = forecast
    assert one.mean_HD[:, 0].tolist() == pytest.approx([WALK[-1]] * 5)
    assert spelled_times(one.times_H)[:3] == ["2024-01-06 00:00", "2024-01-06 01:00", "2024-01-06 02:00"]
    times, values = forecast.history[0]
    assert len(times) == len(values) == 48
    assert values[-1, 0] == WALK[-1]
    row = forecast.to_rows()[0]
    assert {"series", "time", "step", "target", "mean", "median", "low_80", "high_95", "sample_4"} <= row.keys()
    assert forecast["load"] is one
    assert "5 steps after 2024-01-05 23:00, a row every hour" in forecast.note
    with assert_refused(OptionError, "lode"):
        forecast["lode"]
    again = model.forecast(table, horizon=5, samples=4, seed=2)
    assert again["load"] == one
    assert not np.array_equal(model.forecast(table, horizon=5, samples=4, seed=3)["load"].paths_SHD, one.paths_SHD)


def test_frames_and_arrays_are_tables(tmp_path: Path):
    pandas = pytest.importorskip("pandas")
    path = hourly(tmp_path / "load.csv", WALK)
    frame = pandas.read_csv(path, parse_dates=["time"])
    model = thereafter.train(frame, task="forecast", model="ar", horizon=4, lookback=12, split="80/20")
    of_path = thereafter.train(path, task="forecast", model="ar", horizon=4, lookback=12, split="80/20")
    assert model.forecast(frame)["load"] == of_path.forecast(path)["load"]
    assert model.forecast(frame.set_index("time"))["load"] == model.forecast(path)["load"]
    assert str(model.score(frame, part="valid")) == str(of_path.score(path, part="valid"))
    of_array = thereafter.train(WALK, task="forecast", model="ar", horizon=4, lookback=12, split="80/20")
    ahead = of_array.forecast(WALK).forecasts[0]
    assert ahead.mean_HD == pytest.approx(model.forecast(frame)["load"].mean_HD, rel=1e-6)
    assert ahead.times_H.tolist() == [120, 121, 122, 123]
    assert len(of_array.surprises(WALK)) == 108
    with assert_refused(OptionError, "ndarray"):
        thereafter.train(WALK)


def test_minus_log_p_is_that_of_the_density_in_the_units_of_the_data():
    """The last value with the spread of its errors on the training windows, in plain numpy."""
    values, lookback, learned = 50 + 7 * WALK, 6, 100
    model = thereafter.train(values, task="forecast", model="naive", horizon=1, lookback=lookback, split="100/20")
    points = model.surprises(values)
    errors = np.diff(values)
    spread = math.sqrt(np.square(errors[lookback - 1 : learned - 1]).mean())
    expected = 0.5 * np.square(errors[lookback - 1 :] / spread) + math.log(spread * math.sqrt(2 * math.pi))
    assert len(points) == len(values) - lookback
    assert points.left_out == lookback
    assert points.nats_N == pytest.approx(expected, rel=1e-4)
    assert points.expected_N == pytest.approx(values[lookback - 1 : -1], rel=1e-6)
    assert points.times_N.tolist() == list(range(lookback, 120))
    rows = points.most_unusual(5)
    assert [row["nats"] for row in rows] == sorted(points.nats_N.tolist(), reverse=True)[:5]
    assert list(points.to_rows()[0]) == ["series", "time", "value", "expected", "low", "high", "nats", "unusual"]


def test_an_autoregression_is_surprised_as_that_of_statsmodels():
    auto = pytest.importorskip("statsmodels.tsa.ar_model")
    values = np.zeros(300)
    noise = np.random.default_rng(3).normal(size=300)
    for row in range(2, 300):
        values[row] = 5 + 0.6 * values[row - 1] - 0.3 * values[row - 2] + noise[row]
    model = thereafter.train(values, task="forecast", model="ar", order=2, horizon=1, lookback=4, split="250/50")
    fitted = auto.AutoReg(values[:250], 2).fit()
    const, one, two = fitted.params
    points = model.surprises(values)
    expected = const + one * values[3:-1] + two * values[2:-2]
    assert points.expected_N == pytest.approx(expected, abs=1e-4)
    sigma = math.sqrt(np.square(fitted.resid).mean())
    nats = 0.5 * np.square((values[4:] - expected) / sigma) + math.log(sigma * math.sqrt(2 * math.pi))
    assert points.nats_N == pytest.approx(nats, abs=1e-3)


def test_a_planted_point_is_unusual_and_first(tmp_path: Path):
    steps = np.arange(400)
    clean = np.sin(steps * math.pi / 6) + 0.1 * RNG.normal(size=400)
    model = thereafter.train(clean, task="forecast", model="linear", horizon=2, lookback=24)
    planted = clean.copy()
    planted[300], planted[200] = 4.0, np.nan
    points = model.surprises(planted)
    assert points.most_unusual(1)[0]["time"] == "300"
    assert points.unusual_N[points.times_N == 300].all()
    assert points.unusual_N.mean() < 0.1
    assert 200 not in points.times_N
    assert "4, expected" in str(points).splitlines()[1]
    points.to_csv(tmp_path / "points.csv")
    assert len((tmp_path / "points.csv").read_text(encoding="utf-8").splitlines()) == 400 - 24 - 1 + 1


def test_one_step_ahead_is_the_first_step_of_the_forecast_with_what_is_known_ahead(tmp_path: Path):
    promo = RNG.integers(0, 2, size=200).astype(float)
    promo[-2:] = 1, 0
    values = 10 + 3 * promo + 0.1 * RNG.normal(size=200)
    values[-2:] = np.nan
    table = hourly(tmp_path / "sales.csv", values, promo=promo)
    options = {"horizon": 2, "lookback": 8, "known": "promo", "epochs": 1, "hidden": 8}
    for kind in ("linear", "gru"):
        model = thereafter.train(table, task="forecast", target="load", model=kind, **options)
        (forecast,) = model.forecast(table)
        values[-2] = 11.0
        points = model.surprises(hourly(tmp_path / "later.csv", values, promo=promo))
        assert points.expected_N[-1] == pytest.approx(forecast.mean_HD[0, 0], rel=1e-5)
        values[-2] = np.nan
        if kind == "linear":
            assert -np.diff(forecast.mean_HD[:, 0]) == pytest.approx([3], abs=0.3)
        with assert_refused(OptionError, "promo", 4, 2):
            model.forecast(table, horizon=3)


def test_the_calendar_goes_on_by_itself(tmp_path: Path):
    table = hourly(tmp_path / "load.csv", np.sin(np.arange(400) * math.pi / 12))
    model = thereafter.train(table, task="forecast", model="linear", calendar=True, horizon=4, lookback=24, ridge=1e-6)
    ahead = model.forecast(table, horizon=6)["load"]
    assert ahead.mean_HD[:, 0] == pytest.approx(np.sin(np.arange(400, 406) * math.pi / 12), abs=0.05)
    with pytest.raises(OptionError, match="the run reads other columns or the calendar"):
        model.predict([1.0, 2.0, 3.0])


def test_every_series_has_a_forecast_of_its_own(tmp_path: Path):
    path = tmp_path / "shops.csv"
    rows = [
        f"2024-01-{day:02d},{shop},{level + day % 7 if shop != 'closed' else ''}"
        for shop, level in (("north", 10), ("south", 500), ("closed", 0))
        for day in range(1, 32)
    ]
    path.write_text("\n".join(["day,shop,sold", *rows]) + "\n", encoding="utf-8")
    model = thereafter.train(path, task="forecast", model="seasonal-naive", target="sold", series="shop", horizon=7)
    with pytest.warns(UserWarning, match="the series 'closed' of .* has no value"):
        forecasts = model.forecast(path)
    assert [one.series for one in forecasts] == ["north", "south"]
    assert forecasts["south"].mean_HD[:, 0] - 500 == pytest.approx(forecasts["north"].mean_HD[:, 0] - 10)
    assert "7 steps of 2 series after 2024-01-31" in forecasts.note
    assert {row["series"] for row in model.surprises(path).to_rows()} == {"north", "south"}


def test_the_run_of_a_frame_that_was_killed_says_that_the_frame_is_gone(tmp_path: Path):
    options = {"task": "forecast", "horizon": 2, "lookback": 8, "hidden": 4, "epochs": 2, "batch": 16}
    with stopping_at(3), pytest.raises(KeyboardInterrupt):
        thereafter.train(WALK, out=tmp_path / "run", **options)
    gc.collect()
    with pytest.raises(SourceError, match="learned from the array, which is gone with the process") as caught:
        thereafter.resume(tmp_path / "run")
    assert "\n" not in str(caught.value)


def test_mistakes_are_one_sentence(tmp_path: Path):
    model = thereafter.train(hourly(tmp_path / "load.csv", WALK), task="forecast", model="naive", horizon=3)
    other = tmp_path / "other.csv"
    other.write_text("time,price\n2024-01-01,1\n2024-01-02,2\n", encoding="utf-8")
    asks = [
        lambda: model.forecast(other),
        lambda: model.forecast(tmp_path / "load.csv", horizon=0),
        lambda: model.forecast(tmp_path / "load.csv", samples=-1),
        lambda: model.forecast(tmp_path / "none.csv"),
        lambda: model.forecast(3),
        lambda: model.surprises(np.array([1.0])),
        lambda: model.predict("load.csv"),
        lambda: model.predict("nan nan"),
        lambda: thereafter.train(WALK, task="forecast", horizon=200),
        lambda: thereafter.train(np.zeros((3, 3, 3)), task="forecast"),
    ]
    for ask in asks:
        with pytest.raises(ThereafterError) as caught:
            ask()
        assert "\n" not in str(caught.value)
    tagger = thereafter.train(
        _tagged(tmp_path / "tags.tsv"), task="tag", hidden=4, embed=4, letter_embed=4, letter_hidden=4, epochs=1
    )
    with assert_refused(OptionError, "tag"):
        tagger.forecast(tmp_path / "load.csv")


def test_nothing_is_forecast_from_nothing():
    single = thereafter.train(WALK, task="forecast", model="naive", horizon=3)
    for nothing in ("nan nan", "nan, NaN", [math.nan], [None, None], np.full((4, 1), np.nan)):
        with pytest.raises(OptionError, match=r"no number; expected at least one number to go on from; try"):
            single.predict(nothing)
    assert single.predict("nan 3 nan").mean_HD[:, 0].tolist() == pytest.approx([3, 3, 3])
    both = np.stack([WALK, WALK], 1)
    pair = thereafter.train(both, task="forecast", model="naive", horizon=3, target="x1,x2")
    with assert_refused(OptionError, 2):
        pair.predict(np.array([[1.0, np.nan], [2.0, np.nan]]))


def _tagged(path: Path) -> Path:
    path.write_text("cat\tN\nsat\tV\n\n" * 4, encoding="utf-8")
    return path


def test_a_coarser_table_is_warned_of(tmp_path: Path):
    model = thereafter.train(hourly(tmp_path / "load.csv", WALK), task="forecast", model="naive", horizon=3)
    days = tmp_path / "days.csv"
    days.write_text("time,load\n" + "".join(f"2024-02-{day:02d},{day}\n" for day in range(1, 20)), encoding="utf-8")
    with pytest.warns(UserWarning, match="has a row every 1 day; the run was trained on a row every 1 hour"):
        model.forecast(days)


def test_tables_made_at_random_are_forecast_or_refused_in_a_sentence():
    draw = np.random.default_rng(5)
    forecast, refused = 0, 0
    for _ in range(60):
        values = _random_table(draw)
        kind = str(draw.choice(["naive", "seasonal-naive", "drift", "ar", "linear"]))
        options = {"horizon": int(draw.choice([1, 3, 12])), "season": int(draw.choice([0, 1, 6]))}
        targets = ",".join(f"x{column + 1}" for column in range(values.shape[1])) if values.shape[1] > 1 else ""
        message = ""
        try:
            model = thereafter.train(values, task="forecast", model=kind, target=targets, **options)
            (ahead,) = model.forecast(values, horizon=5, samples=1)
            points = model.surprises(values)
        except ThereafterError as error:
            message = str(error)
        if message:
            assert "\n" not in message
            assert "/" not in message.replace("70/15/15", ""), message  # no temporary file is named
            refused += 1
            continue
        assert np.isfinite(ahead.mean_HD).all()
        assert np.isfinite(points.nats_N).all()
        forecast += 1
    assert min(forecast, refused) > 10


def _random_table(draw: np.random.Generator) -> np.ndarray:
    rows, columns = int(draw.choice([1, 2, 4, 9, 30, 90])), int(draw.choice([1, 1, 2]))
    values = np.cumsum(draw.normal(size=(rows, columns)), axis=0)
    shape = draw.choice(["walk", "constant", "gaps", "huge", "tiny", "late"])
    if shape == "constant":
        values[:] = 5.0
    elif shape == "gaps":
        values[draw.random(values.shape) < draw.choice([0.1, 0.5, 0.9])] = np.nan
    elif shape in ("huge", "tiny"):
        values *= 1e200 if shape == "huge" else 1e-200
    elif shape == "late":
        values[: rows // 2] = 0.0
    return values

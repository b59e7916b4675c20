"""Backtests against forecasts made origin by origin, errors of utilsforecast, and a bootstrap by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from utilsforecast import losses

import thereafter
from refusals import assert_refused
from thereafter.base import progress
from thereafter.errors import EmptyCorpusError, OptionError, UnknownNameError
from thereafter.figures.figure import Figure
from thereafter.series.forecasting import asking as forecast_backtest
from thereafter.series.forecasting.asking import Backtest
from thereafter.task_model import TaskModel

HORIZON, SEASON = 9, 7
OPTIONS = {"task": "forecast", "model": "linear", "horizon": HORIZON, "lookback": 28}


class Recording(progress.Silent):
    """The notes that were shown."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, message: str) -> None:
        self.notes.append(message)


def sales() -> pd.DataFrame:
    """Two shops with a weekly season; the second opens later, and has a day without a row and five without a value."""
    random = np.random.default_rng(3)
    days = pd.date_range("2023-01-01", periods=400, freq="D")
    shops = []
    for shop, base, opening in (("north", 100.0, 0), ("south", 40.0, 33)):
        sold = base + 0.2 * base * np.sin(2 * np.pi * np.arange(400) / 7) + random.normal(0, 0.05 * base, 400)
        shops.append(pd.DataFrame({"day": days, "shop": shop, "sold": sold.round(2)}).iloc[opening:])
    table = pd.concat(shops, ignore_index=True)
    south = table.index[table["shop"] == "south"]
    table.loc[south[[100, -30, -22, -15, -8]], "sold"] = np.nan
    return table.drop(index=south[-18]).reset_index(drop=True)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return sales()


@pytest.fixture(scope="module")
def model(table: pd.DataFrame) -> TaskModel:
    trained = thereafter.train(table, target="sold", **OPTIONS)
    assert isinstance(trained, TaskModel)
    return trained


@pytest.fixture(scope="module")
def tested(model: TaskModel, table: pd.DataFrame) -> Backtest:
    return thereafter.backtest(model, table)


@pytest.fixture(scope="module")
def values(tested: Backtest) -> pd.DataFrame:
    """Every value that was forecast."""
    frame = tested.to_pandas()
    return frame.assign(origin=pd.to_datetime(frame["origin"]), time=pd.to_datetime(frame["time"]))


def before(table: pd.DataFrame, origin: pd.Timestamp) -> pd.DataFrame:
    return table[table["day"] <= origin]


def test_origins_are_all_days_after_those_learned_from(table: pd.DataFrame, values: pd.DataFrame) -> None:
    for shop, rows in values.groupby("series"):
        days = pd.date_range(*table.loc[table["shop"] == shop, "day"].agg(["min", "max"]), freq="D")
        test = days[-round(0.1 * len(days)) :]  # the last tenth of the calendar of the shop
        first = sorted(set(rows["origin"]))
        assert first == list(pd.date_range(test[0], test[-HORIZON]) - pd.Timedelta(days=1))
        assert (rows["time"] == rows["origin"] + pd.to_timedelta(rows["step"], unit="D")).all()


def test_every_forecast_is_the_one_made_from_a_table_that_ends_at_its_origin(
    table: pd.DataFrame, model: TaskModel, values: pd.DataFrame
) -> None:
    for origin in sorted(set(values["origin"]))[3::7]:
        ahead = model.forecast(before(table, origin)).to_pandas()
        ahead["time"] = pd.to_datetime(ahead["time"])
        ours = values[values["origin"] == origin]
        both = ours.merge(ahead, on=["series", "time"], suffixes=("", "_ahead"))
        last_seen = before(table.dropna(), origin).groupby("shop")["day"].max()
        there = both[both["series"].map(last_seen) == origin]  # else `forecast` begins after the last value, earlier
        assert len(there) in (HORIZON, 2 * HORIZON)
        for name, theirs in (("forecast", "mean"), ("low_80", "low_80_ahead"), ("high_80", "high_80_ahead")):
            np.testing.assert_allclose(there[name], there[theirs], rtol=1e-5)


def test_values_and_the_seasonal_naive_forecast_are_those_of_the_table(
    table: pd.DataFrame, tested: Backtest, values: pd.DataFrame
) -> None:
    sold = table.set_index(["shop", "day"])["sold"]
    expected, naive = [], []
    for row in values.itertuples():
        expected.append(sold.get((row.series, row.time), np.nan))
        back = row.time - pd.Timedelta(days=SEASON * -(-row.step // SEASON))
        while np.isnan(sold.get((row.series, back), np.nan)):
            back -= pd.Timedelta(days=SEASON)
        naive.append(sold[row.series, back])
    np.testing.assert_array_equal(values["value"], expected)
    assert np.isnan(expected).any()
    np.testing.assert_allclose(values["baseline"], naive, rtol=1e-5)
    assert tested.baseline == "seasonal naive"


def test_errors_are_those_of_utilsforecast(tested: Backtest, values: pd.DataFrame) -> None:
    there = values.dropna().rename(columns={"value": "y"})
    for by, column in (("step", "step"), ("series", "series"), ("all", "target")):
        frame = there.assign(unique_id=there[column])
        models = ["forecast", "baseline"]
        mae, rmse = (measure(frame, models).set_index("unique_id") for measure in (losses.mae, losses.rmse))
        rows = tested.errors(by).to_pandas()
        np.testing.assert_allclose(rows["mae"], mae["forecast"], rtol=1e-9)
        np.testing.assert_allclose(rows["rmse"], rmse["forecast"], rtol=1e-9)
        np.testing.assert_allclose(rows["baseline_mae"], mae["baseline"], rtol=1e-9)
        np.testing.assert_allclose(rows["gain"], mae["baseline"] - mae["forecast"], rtol=1e-9)
        inside = there["y"].between(there["low_80"], there["high_80"]).groupby(there[column]).mean()
        np.testing.assert_allclose(rows["covered"], inside)
        assert rows["values"].tolist() == there.groupby(column).size().tolist()
    assert 0.6 < rows["covered"].item() < 0.95
    assert (tested.errors("all").to_rows()[0]["gain_low"] or 0) > 0  # a map of four weeks beats one week here


def test_intervals_are_from_blocks_of_origins_of_both_shops_at_once(tested: Backtest, values: pd.DataFrame) -> None:
    there = values.dropna()
    error = (there["value"] - there["forecast"]).abs()
    simple = (there["value"] - there["baseline"]).abs()
    sums = pd.DataFrame({"error": error, "gain": simple - error, "count": 1}).groupby(there["origin"]).sum()
    days = len(sums)
    random = np.random.default_rng(12345)
    begins = random.integers(days, size=(1000, round(days / HORIZON)))
    drawn = (begins[:, :, None] + np.arange(HORIZON)) % days  # blocks of a horizon, round the end
    mae, gain = (
        np.sort(sums[name].to_numpy()[drawn].sum((1, 2)) / sums["count"].to_numpy()[drawn].sum((1, 2)))
        for name in ("error", "gain")
    )
    (row,) = tested.errors("all").to_rows()
    ends = [row[name] for name in ("mae_low", "mae_high", "gain_low", "gain_high")]
    np.testing.assert_allclose(ends, [mae[25], mae[-26], gain[25], gain[-26]], rtol=1e-9)
    assert f"blocks of {HORIZON} origins" in tested.note()


def test_origins_some_rows_apart_are_days_that_all_shops_share(model: TaskModel, table: pd.DataFrame) -> None:
    tested = model.backtest(table, every=SEASON)
    origins = tested.to_pandas().groupby("series")["origin"].unique()
    days = pd.to_datetime(sorted(set().union(*origins)))
    assert set(np.diff(days)) == {pd.Timedelta(days=SEASON)}
    assert set(origins["south"]) <= set(origins["north"])
    assert tested.errors("all").to_rows()[0]["mae_low"] is None
    assert "no intervals: they need 20 origins or more" in str(tested)


def test_too_many_forecasts_are_made_farther_apart(
    model: TaskModel, table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forecast_backtest, "MOST_SCORED", 20)
    tested = model.backtest(table, every=2)
    assert (len(tested) <= 20, tested.every) == (True, 4)
    days = pd.to_datetime(np.unique(tested.to_pandas()["origin"]))
    assert set(np.diff(days)) == {pd.Timedelta(days=4)}


def test_a_horizon_beyond_the_runs_own_and_a_shorter_one(
    model: TaskModel, table: pd.DataFrame, values: pd.DataFrame
) -> None:
    long = model.backtest(table, horizon=2 * HORIZON, every=5).to_pandas()
    assert long["step"].max() == 2 * HORIZON
    origin = long["origin"].iloc[0]
    ahead = model.forecast(before(table, pd.Timestamp(origin)), horizon=2 * HORIZON)["north"]
    np.testing.assert_allclose(long["forecast"][: 2 * HORIZON], ahead.mean_HD[:, 0], rtol=1e-5)
    short = model.backtest(table, horizon=3).to_pandas()
    assert short["step"].max() == 3
    first = short[short["series"] == "north"].head(3)
    np.testing.assert_allclose(first["forecast"], values[values["series"] == "north"]["forecast"].head(3), rtol=1e-5)


def test_columns_that_are_known_ahead_are_read_from_the_table(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    price = random.integers(1, 5, 300)
    lines = [
        f"{day:%Y-%m-%d},{50 - 8 * cost},{cost}"
        for day, cost in zip(pd.date_range("2024-01-01", periods=300), price, strict=True)
    ]
    (tmp_path / "sales.csv").write_text("\n".join(["day,sold,price", *lines]) + "\n", encoding="utf-8")
    trained = thereafter.train(tmp_path / "sales.csv", target="sold", known="price", **OPTIONS)
    trained.save(tmp_path / "run")
    for horizon in (HORIZON, 2 * HORIZON):
        rows = thereafter.backtest(tmp_path / "run", tmp_path / "sales.csv", horizon=horizon).errors("all").to_rows()
        assert rows[0]["mae"] < 1.5 < 5 < rows[0]["baseline_mae"]  # the price tells all, the week before nothing


def test_rows_that_were_learned_from_are_refused(model: TaskModel, table: pd.DataFrame) -> None:
    for days in (300, 340):  # trained on 320 days, validated on the 40 after them
        with assert_refused(EmptyCorpusError, 0):
            model.backtest(before(table, pd.Timestamp("2023-01-01") + pd.Timedelta(days=days)))
    with assert_refused(EmptyCorpusError, 41):
        model.backtest(table, horizon=41)
    whole = thereafter.train(table, target="sold", split="90/10", **OPTIONS)
    with assert_refused(EmptyCorpusError, "--split 70/10/20"):
        whole.backtest(table)


def test_a_series_without_new_rows_is_left_out_and_a_new_one_is_forecast(
    model: TaskModel, table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    north = table[table["shop"] == "north"]
    west = north.assign(shop="west", sold=7 * north["sold"].to_numpy()[::-1] + 3).tail(20)
    mixed = pd.concat([table[(table["shop"] != "north") | (table["day"] < "2023-10-01")], west])
    reporter = Recording()
    with progress.reporting(reporter):
        tested = model.backtest(mixed)
    assert f"2 series (left out, without {HORIZON} new rows: north); the run is not trained again" in str(tested)
    assert any("1 of 2 series, such as 'west' has 10 rows; the run reads 28" in note for note in reporter.notes)
    assert [row["series"] for row in tested.errors("series").to_rows()] == ["south", "west"]
    assert len(tested.errors("series", series="west").rows) == 1


def test_without_a_season_the_last_value_is_the_simple_forecast() -> None:
    wave = np.sin(np.arange(300) / 5)
    trained = thereafter.train(wave, season=1, **OPTIONS | {"horizon": 3})
    rows = trained.backtest(wave).to_pandas()
    np.testing.assert_allclose(rows["baseline"], wave[rows["origin"].astype(int)], atol=1e-5)
    assert trained.backtest(wave).baseline == "last value"


def test_the_figure_has_the_errors_of_all_and_of_each_series(tested: Backtest) -> None:
    drawn = tested.figure()
    assert isinstance(drawn, Figure)
    assert drawn.words("series") == ["all"] * HORIZON + ["north"] * HORIZON + ["south"] * HORIZON
    errors = [tested.errors("step", series=name).to_pandas()["mae"] for name in ("", "north", "south")]
    assert drawn.numbers("mae") == pytest.approx(np.concatenate(errors).tolist())
    lines = [trace for trace in drawn.plot.data if trace.name == "seasonal naive"]
    assert list(lines[2].y) == pytest.approx(tested.errors("step", series="south").to_pandas()["baseline_mae"].tolist())
    assert drawn.caption.startswith("32 origins from 2023-12-26 to 2024-01-26, 9 steps each, 2 series; ")
    assert "the run is not trained again. Errors in the unit of sold; 95 % intervals" in drawn.caption


def test_mistakes_are_sentences(model: TaskModel, tested: Backtest, table: pd.DataFrame) -> None:
    with assert_refused(OptionError, "every", 0, 1, 100000):
        model.backtest(table, every=0)
    with assert_refused(OptionError, "horizon", "2.5"):
        model.backtest(table, horizon=2.5)  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="grouping of errors"):
        tested.errors("month")
    with assert_refused(UnknownNameError, "north"):
        tested.errors("all", series="nort")

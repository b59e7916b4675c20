"""Measures of forecasts against utilsforecast, scoringrules and scikit-learn; the score of many windows."""

from __future__ import annotations

import json
import math
import sys

import numpy as np
import pytest
from numpy.typing import NDArray

from refusals import assert_refused
from thereafter.errors import OptionError, ShapeError
from thereafter.evaluation.bootstrap import resample_sums
from thereafter.series.forecasting import score as measures
from thereafter.series.forecasting.score import ForecastScore, resampled_forecasts, score_forecasts

losses = pytest.importorskip("utilsforecast.losses")
sklearn = pytest.importorskip("sklearn.metrics")
pandas = pytest.importorskip("pandas")

Floats = NDArray[np.float64]
W, H, T, SEASON = 7, 12, 60, 4
LEVELS = np.linspace(0.1, 0.9, 9)


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def walks(random: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Training parts [W, T], what came [W, H], and forecasts."""
    whole = 20 + random.normal(size=(W, T + H)).cumsum(1)
    return whole[:, :T], whole[:, T:], whole[:, T:] + random.normal(size=(W, H))


def frames(walks: tuple[Floats, Floats, Floats], **columns: Floats) -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """What came with the forecasts, and the training part, in long form."""
    train, actual, forecast = walks
    steps = np.tile(np.arange(T, T + H), W)
    names = np.repeat([f"series {w}" for w in range(W)], H)
    test = {"unique_id": names, "ds": steps, "y": actual.ravel(), "model": forecast.ravel()}
    test |= {name: column.ravel() for name, column in columns.items()}
    before = {
        "unique_id": np.repeat([f"series {w}" for w in range(W)], T),
        "ds": np.tile(np.arange(T), W),
        "y": train.ravel(),
    }
    return pandas.DataFrame(test), pandas.DataFrame(before)


def pinball(actual: Floats, quantiles: Floats, levels: Floats, axis: int | None = None) -> Floats:
    return measures.mean_of_known(measures.pinball_of_each(actual, quantiles, levels), axis)


def test_point_measures_are_those_of_utilsforecast(walks: tuple[Floats, Floats, Floats]) -> None:
    train, actual, forecast = walks
    test, before = frames(walks)
    for name in ("mae", "mse"):
        theirs = getattr(losses, name)(test, ["model"])["model"].to_numpy()
        np.testing.assert_allclose(getattr(measures, name)(actual, forecast, axis=1), theirs, rtol=1e-12)
    theirs = losses.smape(test, ["model"])["model"].to_numpy()
    np.testing.assert_allclose(measures.smape(actual, forecast, axis=1), 200 * theirs, rtol=1e-12)
    for name, power in (("mase", 1), ("rmsse", 2)):
        scale = (np.abs(train[:, SEASON:] - train[:, :-SEASON]) ** power).mean(1)
        theirs = getattr(losses, name)(test, ["model"], seasonality=SEASON, train_df=before)["model"].mean()
        assert getattr(measures, name)(actual, forecast, scale) == pytest.approx(theirs, rel=1e-12)


def test_point_measures_are_those_of_scikit_learn(walks: tuple[Floats, Floats, Floats]) -> None:
    _, actual, forecast = walks
    y, f = actual.ravel(), forecast.ravel()
    assert measures.mae(actual, forecast) == pytest.approx(sklearn.mean_absolute_error(y, f), rel=1e-12)
    assert measures.mse(actual, forecast) == pytest.approx(sklearn.mean_squared_error(y, f), rel=1e-12)
    for level in (0.1, 0.7):
        ours = pinball(actual, forecast[..., None], np.array([level]))
        assert ours == pytest.approx(sklearn.mean_pinball_loss(y, f, alpha=level), rel=1e-12)


def test_quantile_loss_and_coverage_are_those_of_utilsforecast(
    walks: tuple[Floats, Floats, Floats], random: np.random.Generator
) -> None:
    _, actual, forecast = walks
    quantiles = np.sort(forecast[..., None] + random.normal(size=(W, H, len(LEVELS))), -1)
    columns = {f"q{at}": quantiles[..., at] for at in range(len(LEVELS))}
    test, _ = frames(walks, **columns)
    theirs = [
        losses.quantile_loss(test, {"model": f"q{at}"}, q=level)["model"].to_numpy() for at, level in enumerate(LEVELS)
    ]
    np.testing.assert_allclose(pinball(actual, quantiles, LEVELS, axis=1), np.mean(theirs, 0), rtol=1e-12)
    test, _ = frames(walks, **{"model-lo-80": quantiles[..., 0], "model-hi-80": quantiles[..., -1]})
    theirs = losses.coverage(test, ["model"], level=80)["model"].to_numpy()
    np.testing.assert_allclose(measures.coverage(actual, quantiles[..., 0], quantiles[..., -1], axis=1), theirs)
    assert 0 < theirs.mean() < 1


def test_crps_is_that_of_scoringrules(random: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)  # it would compile all its scores at import
    rules = pytest.importorskip("scoringrules")
    y, quantiles = random.normal(size=(W, H)), np.sort(random.normal(size=(W, H, len(LEVELS))), -1)
    for axis in (None, 0):
        theirs = rules.crps_quantile(y, quantiles, LEVELS).mean(axis)
        np.testing.assert_allclose(2 * pinball(y, quantiles, LEVELS, axis), theirs, rtol=1e-12)


def test_missing_values_are_left_out_of_every_measure(
    walks: tuple[Floats, Floats, Floats], random: np.random.Generator
) -> None:
    _, actual, forecast = walks
    y, f = actual[0].copy(), forecast[0]
    y[[2, 5]] = np.nan
    seen = ~np.isnan(y)
    for name in ("mae", "mse", "smape"):
        measure = getattr(measures, name)
        assert measure(y, f) == pytest.approx(float(measure(y[seen], f[seen])), rel=1e-12)
    quantiles = np.sort(random.normal(20, 2, size=(H, 9)), -1)
    alone = pinball(y[seen], quantiles[seen], LEVELS)
    assert pinball(y, quantiles, LEVELS) == pytest.approx(float(alone), rel=1e-12)
    low, high = quantiles[:, 0], quantiles[:, -1]
    assert measures.coverage(y, low, high) == measures.coverage(y[seen], low[seen], high[seen])
    assert math.isnan(measures.mae([np.nan], [1.0]))
    assert measures.mae([[1.0, np.nan]], [[2.0, 2.0]], axis=0).tolist()[0] == 1.0
    window = np.stack([y, actual[1]])
    scale = np.array([2.0, 0.0])  # the second series never moved
    ours = measures.mase(window, forecast[:2], scale)
    assert ours == pytest.approx(float(measures.mae(y[seen], f[seen])) / 2, rel=1e-12)


def test_shapes_that_do_not_fit_are_named() -> None:
    with assert_refused(ShapeError, "shape"):
        measures.mae(np.zeros(3), np.zeros(4))
    with assert_refused(ShapeError, "levels"):
        pinball(np.zeros(3), np.zeros((3, 2)), np.array([0.5]))
    with assert_refused(ShapeError, "[W, H]", "[W]"):
        measures.mase(np.zeros((3, 2)), np.zeros((3, 2)), np.zeros(2))


@pytest.fixture
def arrays(random: np.random.Generator) -> dict[str, Floats]:
    """Two targets, one of them much larger, with gaps."""
    size = np.array([1.0, 50.0])
    actual = random.normal(size=(W, H, 2)) * size
    actual[0, 3, 1] = actual[2, :, 0] = np.nan
    mean = 0.2 * random.normal(size=(W, H, 2)) * size
    stats = pytest.importorskip("scipy.stats")
    quantiles = mean[..., None] + 2 * stats.norm.ppf(LEVELS) * size[:, None]
    spread = np.broadcast_to(1.28 * size, mean.shape)
    return {
        "actual": actual,
        "mean": mean,
        "quantiles": quantiles,
        "deviation": np.tile(size, (W, 1)),
        "absolute": np.tile(1.1 * size, (W, 1)),
        "squared": np.tile(1.5 * size**2, (W, 1)),
        "low": mean - spread,
        "high": mean + spread,
    }


def scored(arrays: dict[str, Floats], dtype: type = np.float64, **options: object) -> ForecastScore:
    given = {name: array.astype(dtype) for name, array in arrays.items()}
    return score_forecasts(
        given["actual"],
        given["mean"],
        given["quantiles"],
        LEVELS,
        deviation_WD=given["deviation"],
        absolute_scale_WD=given["absolute"],
        squared_scale_WD=given["squared"],
        **options,
    )


def test_a_score_has_the_measures_of_all_windows(arrays: dict[str, Floats]) -> None:
    score = scored(arrays, low_WHD=arrays["low"], high_WHD=arrays["high"], nats=np.array([1.0, np.nan, 2.0]))
    actual, mean = arrays["actual"], arrays["mean"]
    error = actual - mean
    assert (score.windows, score.horizon, score.values) == (W, H, 2 * W * H - H - 1)
    assert score.mae == pytest.approx(np.nanmean(np.abs(error)))
    assert score.mse == pytest.approx(np.nanmean(error**2))
    assert score.rmse == pytest.approx(np.nanmean(error**2) ** 0.5)
    assert score.mse_standardised == pytest.approx(np.nanmean((error / [1, 50]) ** 2))
    assert score.mae_standardised == pytest.approx(np.nanmean(np.abs(error / [1, 50])))
    assert score.smape == measures.smape(actual, mean)
    assert score.mase == pytest.approx(measures.mase(actual, mean, arrays["absolute"]))
    assert score.rmsse == pytest.approx(measures.rmsse(actual, mean, arrays["squared"]))
    assert score.crps == pytest.approx(2 * float(pinball(actual, arrays["quantiles"], LEVELS)))
    assert score.crps == pytest.approx(2 * score.pinball)
    assert score.nats == 1.5
    assert score.coverage > 0.95
    assert 0.7 < (score.coverage_calibrated or 0) < 0.9
    half = scored(arrays, np.float32)
    assert half.mse == pytest.approx(score.mse, rel=1e-5)
    assert half.coverage_calibrated is half.nats is None


def test_a_score_by_step_is_a_table(arrays: dict[str, Floats]) -> None:
    score = scored(arrays, low_WHD=arrays["low"], high_WHD=arrays["high"])
    rows = score.to_rows()
    assert [row["step"] for row in rows] == list(range(1, H + 1))
    assert list(rows[0]) == ["step", "mae", "mse", "coverage", "coverage_calibrated", "crps"]
    third = {name: array[:, 2:3] if array.ndim > 2 else array for name, array in arrays.items()}
    alone = scored(third, low_WHD=third["low"], high_WHD=third["high"])
    for name in ("mae", "mse", "coverage", "coverage_calibrated", "crps"):
        assert rows[2][name] == pytest.approx(alone.as_dict()[name], rel=1e-12)
    assert score.to_csv().startswith("step,mae,mse,coverage,coverage_calibrated,crps\n1,")
    figures = json.loads(json.dumps(score.as_dict(), allow_nan=False))
    assert figures["mse"] == score.mse
    assert len(figures["steps"]) == H
    assert figures["nats"] is None


def test_a_score_says_its_scales(arrays: dict[str, Floats]) -> None:
    lines = str(scored(arrays, low_WHD=arrays["low"], high_WHD=arrays["high"], nats=np.array([1.25]))).splitlines()
    assert lines[0] == f"{W} windows of {H} steps, {2 * W * H - H - 1} values"
    assert lines[1].startswith("in the unit of the target: MAE ")
    assert lines[2].startswith("in standard deviations of the training part: MSE ")
    assert lines[3].startswith("over the seasonal naive errors of the training part: MASE ")
    assert lines[4].startswith("the 80 % band covers ")
    assert "after calibration (step 1: " in lines[4]
    assert f"step {H}: " in lines[4]
    assert lines[5] == "1.25 nats a value, in the unit of the target"
    plain = str(scored(arrays))
    assert "calibration" not in plain
    assert "nats" not in plain


def test_a_score_refuses_what_does_not_fit(arrays: dict[str, Floats]) -> None:
    with assert_refused(OptionError, 0.025):
        scored(arrays, band=0.95)
    with assert_refused(OptionError):
        scored(arrays, low_WHD=arrays["low"])
    flat = {name: array[..., 0] if array.ndim == 3 else array for name, array in arrays.items()}
    with assert_refused(ShapeError, "[W, H, D]"):
        scored(flat)


def test_nothing_but_gaps_has_no_figures(arrays: dict[str, Floats]) -> None:
    score = scored(arrays | {"actual": np.full((W, H, 2), np.nan)})
    assert score.values == 0
    assert math.isnan(score.mse)
    assert score.as_dict()["mse"] is None
    assert "nan" in str(score)


@pytest.mark.parametrize("block", [1, 3])
def test_resampled_forecasts_have_the_errors_of_the_whole(arrays: dict[str, Floats], block: int) -> None:
    resampled = resampled_forecasts(arrays["actual"], arrays["mean"], block=block)
    assert len(resampled.statistics_NS) == math.ceil(W / block)
    figures = resampled.figures(resampled.statistics_NS.sum(0, keepdims=True))
    assert -figures["mse"][0] == pytest.approx(float(measures.mse(arrays["actual"], arrays["mean"])), rel=1e-12)
    assert -figures["mae"][0] == pytest.approx(float(measures.mae(arrays["actual"], arrays["mean"])), rel=1e-12)


def test_a_resample_is_the_measure_of_the_windows_drawn(arrays: dict[str, Floats]) -> None:
    resampled = resampled_forecasts(arrays["actual"], arrays["mean"])
    drawn = np.random.default_rng(5).integers(W, size=(1, W))[0]
    sums = resample_sums(resampled.statistics_NS, resamples=1, seed=5)
    ours = -resampled.figures(sums)["mse"][0]
    assert ours == pytest.approx(float(measures.mse(arrays["actual"][drawn], arrays["mean"][drawn])), rel=1e-12)

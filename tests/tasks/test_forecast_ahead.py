"""Forecasts k steps ahead: against the equation of an autoregression, by hand, and against plain forecasts."""

from __future__ import annotations

import numpy as np
import pytest

import thereafter
from refusals import assert_refused
from thereafter import instruments
from thereafter.errors import OptionError, ThereafterError
from thereafter.series.forecasters.solved import Autoregression
from thereafter.task_model import TaskModel

STEPS = (1, 4, 16)


@pytest.fixture(scope="module")
def values() -> np.ndarray:
    draw = np.random.default_rng(3)
    return np.sin(0.1 * np.arange(400)) + draw.normal(0, 0.1, 400)


@pytest.fixture(scope="module")
def model(values: np.ndarray) -> TaskModel:
    options = {"forecast.split": "60/10/30", "order": 3, "horizon": 2, "lookback": 8}
    return thereafter.train(values, task="forecast", model="ar", **options)


def test_every_row_is_the_equation_repeated_k_times(model: TaskModel, values: np.ndarray):
    measured = instruments.steps_ahead(model, values, STEPS)
    net = model.net
    assert isinstance(net, Autoregression)
    scale = model.codecs["series"].scales["value"]
    c, *a = net.weight_DP1[0].tolist()
    z = (values - scale.mean[0]) / scale.deviation[0]
    begin = 280  # 60 % and 10 % of 400 rows
    assert measured["actual"].tolist() == values[begin:].tolist()
    for place, k in enumerate(STEPS):
        assert np.isnan(measured["predicted"][place, : k - 1]).all()
        for row in (begin + k - 1, 333, 399):
            known = list(z[: row - k + 1])
            for _ in range(k):
                known.append(c + sum(weight * known[-1 - lag] for lag, weight in enumerate(a)))
            expected = known[-1] * scale.deviation[0] + scale.mean[0]
            assert measured["predicted"][place, row - begin] == pytest.approx(expected, abs=1e-5)


def test_errors_are_over_the_same_rows_for_every_k(model: TaskModel, values: np.ndarray):
    measured = instruments.steps_ahead(model, values, STEPS)
    rows = np.arange(280 + STEPS[-1] - 1, 400)
    assert measured.about["compared_rows"] == len(rows)
    for place, k in enumerate(STEPS):
        wrong = measured["predicted"][place, rows - 280] - values[rows]
        assert measured["rmse"][place] == pytest.approx(np.sqrt((wrong**2).mean()))
        assert measured["mae"][place] == pytest.approx(np.abs(wrong).mean())
        assert measured["last_value_rmse"][place] == pytest.approx(
            np.sqrt(((values[rows - k] - values[rows]) ** 2).mean())
        )
    assert measured["rmse"][0] < measured["rmse"][-1]


def test_a_network_that_gives_several_steps_goes_on_from_its_own_predictions(values: np.ndarray):
    options = {"forecast.split": "60/10/30", "horizon": 4, "lookback": 8, "hidden": 4, "epochs": 1, "seed": 0}
    model = thereafter.train(values, task="forecast", model="gru", **options)
    measured = instruments.steps_ahead(model, values, (3, 6))
    first = model.predict(values[: 300 - 2])  # the row 300, three steps ahead
    assert measured["predicted"][0, 300 - 280] == pytest.approx(first.mean_HD[2, 0], abs=1e-5)
    begun = model.predict(values[: 300 - 5])
    longer = model.predict(np.concatenate((values[: 300 - 5], begun.mean_HD[:4, 0])))
    assert measured["predicted"][1, 300 - 280] == pytest.approx(longer.mean_HD[1, 0], abs=1e-4)


def test_what_cannot_be_measured_is_refused_with_a_sentence(model: TaskModel, values: np.ndarray):
    with assert_refused(OptionError, 120):
        instruments.steps_ahead(model, values, (1, 200))
    with assert_refused(OptionError, 1):
        instruments.steps_ahead(model, values, (0,))
    with pytest.raises(ThereafterError, match="series"):
        instruments.steps_ahead(model, values, (1,), series="other")


def test_it_is_a_table_and_is_saved(model: TaskModel, values: np.ndarray, tmp_path: object):
    measured = instruments.steps_ahead(model, values, STEPS)
    assert [row["ahead"] for row in measured.to_rows()] == list(STEPS)
    assert "rmse" in measured.to_rows()[0]
    again = type(measured).load(measured.save(f"{tmp_path}/ahead.npz"))
    np.testing.assert_array_equal(again["predicted"], measured["predicted"])

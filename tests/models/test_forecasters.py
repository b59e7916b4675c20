"""Forecasters against independent truths: statsmodels, numpy's least squares, brute force over windows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from statsmodels.tsa import ar_model

from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.series.batches import WindowBatch
from thereafter.series.forecasters.network import Forecaster, WindowFacts
from thereafter.series.forecasters.settings import SIMPLE, ForecastSettings, models
from thereafter.series.forecasters.solved import best_order, build_forecaster, least_squares
from thereafter.series.number_heads import ENDS

FACTS = WindowFacts(targets=1, covariates=0, known=0, lookback=12, horizon=4, season=3, gaps=False)
NETWORKS = [name for name in models() if ForecastSettings(model=name).trained_in_steps]


def series(rows: int = 200, seed: int = 1) -> NDArray[np.float64]:
    """x_t = 0.5 + 0.6 x_{t-1} - 0.3 x_{t-2} + noise."""
    rng = np.random.default_rng(seed)
    x = [0.0, 0.0]
    for _ in range(rows):
        x.append(0.5 + 0.6 * x[-1] - 0.3 * x[-2] + 0.1 * rng.normal())
    return np.array(x[2:])


def windows(x_T: NDArray[np.float64], facts: WindowFacts = FACTS) -> WindowBatch:
    """All windows of one series."""
    L, H = facts.lookback, facts.horizon
    rows = np.lib.stride_tricks.sliding_window_view(x_T, L + H)
    past, future = torch.tensor(rows[:, :L, None]).float(), torch.tensor(rows[:, L:, None]).float()
    seen, later = torch.ones_like(past, dtype=torch.bool), torch.ones_like(future, dtype=torch.bool)
    return WindowBatch(past, seen, past[..., :0], future[..., :0], future, later)


def solved(model: str, x_T: NDArray[np.float64], facts: WindowFacts = FACTS, **options: object) -> Forecaster:
    net = build_forecaster(ForecastSettings(model=model, **options), facts)
    net.solve(lambda: iter([windows(x_T, facts)]), [torch.from_numpy(x_T)[:, None]])
    return net


def test_autoregression_is_that_of_statsmodels():
    x_T = series()
    for order in (1, 3, 8):
        ours = solved("ar", x_T, order=order)
        theirs = ar_model.AutoReg(x_T, lags=order).fit()
        np.testing.assert_allclose(ours.weight_DP1[0].numpy(), theirs.params, rtol=1e-8, atol=1e-10)
        assert float(ours.sigma_D[0]) ** 2 == pytest.approx(theirs.sigma2, rel=1e-8)
        ahead = theirs.predict(len(x_T), len(x_T) + 9)
        batch = WindowBatch(*(one.double() for one in (torch.tensor(x_T[-12:])[None, :, None],)), *_rest(10))
        np.testing.assert_allclose(ours.expect(batch).mean()[0, :, 0].numpy(), ahead, rtol=1e-6)


def _rest(horizon: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.ones(1, 12, 1, dtype=torch.bool), torch.zeros(1, 12, 0), torch.zeros(1, horizon, 0)


def test_the_order_is_chosen_as_statsmodels_chooses_it():
    for seed in range(5):
        x_T = series(300, seed)
        chosen = ar_model.ar_select_order(x_T, maxlag=12, ic="aic").ar_lags
        assert best_order([torch.from_numpy(x_T)], 12) == (max(chosen) if chosen is not None else 0)


def test_gaps_leave_rows_out_of_the_regression():
    x_T = series()
    x_T[50:53] = np.nan
    rows = [(x_T[t - 2 : t][::-1], x_T[t]) for t in range(2, len(x_T)) if not np.isnan(x_T[t - 2 : t + 1]).any()]
    design = np.array([[1.0, *lags] for lags, _ in rows])
    weight, *_ = np.linalg.lstsq(design, np.array([y for _, y in rows]), rcond=None)
    ours, _ = least_squares([torch.from_numpy(x_T)], 2, 2)
    np.testing.assert_allclose(ours.numpy(), weight, rtol=1e-9)


def test_the_variance_ahead_is_that_of_many_paths():
    net = solved("ar", series(), order=2)
    batch = windows(series()).rows(torch.tensor([0])).ahead(4)
    paths = net.paths(batch, 20_000, torch.Generator().manual_seed(0))
    analytic = net.expect(batch).quantiles(torch.tensor([0.1, 0.9]))[0, :, 0]
    drawn = torch.quantile(paths[:, 0, :, 0], torch.tensor([0.1, 0.9]), dim=0).T
    torch.testing.assert_close(drawn, analytic, atol=0.01, rtol=0.02)


def test_linear_is_least_squares_on_the_window_relative_to_its_last_value():
    x_T = series()
    net, batch = solved("linear", x_T, ridge=0.0), windows(x_T)
    past, future = batch.past_BLD[..., 0].double().numpy(), batch.answers()[0][..., 0].double().numpy()
    design = np.concatenate((past - past[:, -1:], np.ones((len(past), 1))), 1)
    weight, *_ = np.linalg.lstsq(design, future - past[:, -1:], rcond=None)
    np.testing.assert_allclose(net.expect(batch).mean()[..., 0].numpy(), design @ weight + past[:, -1:], atol=1e-5)


def test_simple_forecasts_are_their_definitions():
    x_T = np.arange(40, dtype=np.float64) ** 1.5
    batch = windows(x_T)
    past = batch.past_BLD[..., 0]
    means = {name: solved(name, x_T).expect(batch).mean()[..., 0] for name in SIMPLE}
    torch.testing.assert_close(means["naive"], past[:, -1:].expand(-1, 4))
    torch.testing.assert_close(means["seasonal-naive"], past[:, [9, 10, 11, 9]])
    slope = (past[:, -1] - past[:, 0]) / 11
    torch.testing.assert_close(means["drift"], past[:, -1:] + slope[:, None] * torch.arange(1, 5))


def test_a_gap_one_season_ago_is_passed_over_for_the_season_before():
    """Rows 9, 10, 11 are the last season of three; where all rows of a place are missing, the last value is taken."""
    facts = WindowFacts(targets=1, covariates=0, known=0, lookback=12, horizon=4, season=3, gaps=True)
    net = build_forecaster(ForecastSettings(model="seasonal-naive"), facts)
    past, seen = torch.arange(1.0, 13.0)[None, :, None], torch.ones(1, 12, 1, dtype=torch.bool)
    seen[0, [9, 6, 10], 0] = False
    seen[0, 2::3, 0] = False
    batch = WindowBatch(past * seen, seen, torch.zeros(1, 12, 0), torch.zeros(1, 4, 0))
    assert net.expect(batch).mean()[0, :, 0].tolist() == [4.0, 8.0, 8.0, 4.0]


@pytest.mark.parametrize("model", NETWORKS)
@pytest.mark.parametrize("strategy", ["direct", "recursive"])
def test_a_network_gives_losses_forecasts_and_paths_of_the_right_shape(model: str, strategy: str):
    torch.manual_seed(0)
    facts = WindowFacts(targets=2, covariates=3, known=2, lookback=12, horizon=4, season=3, gaps=True)
    net = build_forecaster(ForecastSettings(model=model, strategy=strategy, hidden=8), facts)
    past, seen = torch.randn(5, 12, 2), torch.rand(5, 12, 2) > 0.2
    future = torch.randn(5, 4, 2)
    batch = WindowBatch(
        past * seen, seen, torch.randn(5, 12, 3), torch.randn(5, 4, 2), future, torch.ones_like(future) > 0
    )
    assert net.costs(batch).shape == future.shape
    net.nats(batch).backward()
    assert all(weight.grad is not None for weight in net.parameters())
    longer = WindowBatch(past, seen, batch.inputs_BLC, torch.randn(5, 7, 2))
    with net.quietly():
        expected = net.forecast(longer, torch.tensor([0.1, 0.5, 0.9]), torch.Generator().manual_seed(1))
        paths = net.paths(longer, 3, torch.Generator().manual_seed(1))
        again = net.paths(longer, 3, torch.Generator().manual_seed(1))
    assert expected.mean_BHD.shape == (5, 7, 2)
    assert expected.quantiles_BHDQ.shape == (5, 7, 2, 3)
    assert bool((expected.quantiles_BHDQ.diff(dim=-1) >= 0).all())
    assert paths.shape == (3, 5, 7, 2)
    assert torch.equal(paths, again)


@pytest.mark.parametrize("model", ["gru", "window"])
def test_one_step_of_the_future_changes_no_forecast_before_it(model: str):
    """Costs of a recursive network: that of step h reads the true rows before it, and none after."""
    torch.manual_seed(0)
    net = build_forecaster(ForecastSettings(model=model, strategy="recursive", hidden=8, head="squared"), FACTS)
    batch = windows(series(30))
    future, seen = batch.answers()
    changed = future.clone()
    changed[:, 2:] += 100.0
    other = WindowBatch(batch.past_BLD, batch.seen_BLD, batch.inputs_BLC, batch.ahead_BHK, changed, seen)
    with net.quietly():
        before, after = net.costs(batch), net.costs(other)
    assert torch.equal(before[:, :2], after[:, :2])
    assert not torch.equal(before[:, 2:], after[:, 2:])


def test_a_recursive_recurrent_network_carries_its_state_as_if_it_read_all_again():
    torch.manual_seed(0)
    net = build_forecaster(
        ForecastSettings(model="lstm", strategy="recursive", hidden=8, head="squared", norm="none"), FACTS
    )
    batch = windows(series(30)).rows(torch.arange(3))
    with net.quietly():
        path = net.mean_path(batch)
        longer = torch.cat((batch.past_BLD, path[:, :-1]), 1)  # the whole pass over what it predicted
        h_BTF = net.body.every_step(longer)[:, -4:]
        whole = net.head.expect(h_BTF.flatten(0, 1)).mean().view_as(path)
    torch.testing.assert_close(path, whole, atol=1e-5, rtol=1e-5)


def test_calibrated_bands_cover_as_promised_on_windows_like_those_they_learned_from():
    x_T = series(3000)
    net = solved("naive", x_T[:1000])
    valid, test = windows(x_T[1000:2000]), windows(x_T[2000:])
    ends = torch.tensor(ENDS)
    net.calibration.fit(iter([valid]), lambda batch: net.expect(batch).quantiles(ends), None)
    assert bool(net.calibration.by_step)
    low, high = net.calibration.bands(net.expect(test).quantiles(ends), test.spread())
    future = test.answers()[0][..., None]
    covered = ((low <= future) & (future <= high)).float().mean((0, 1, 2))
    torch.testing.assert_close(covered, torch.tensor([0.5, 0.8, 0.9, 0.95]), atol=0.04, rtol=0)


def test_few_windows_scale_the_band_of_the_forecast_itself():
    x_T = series(3000)
    net = solved("naive", x_T[:1000])
    net.spread_HD *= 0.5  # a forecaster that is too sure of itself
    ends = torch.tensor(ENDS)
    few, test = windows(x_T[1000:1080]), windows(x_T[2000:])
    net.calibration.fit(iter([few]), lambda batch: net.expect(batch).quantiles(ends), None)
    assert not bool(net.calibration.by_step)
    low, high = net.calibration.bands(net.expect(test).quantiles(ends), test.spread())
    future = test.answers()[0][..., None]
    covered = ((low <= future) & (future <= high)).float().mean((0, 1, 2))
    torch.testing.assert_close(covered, torch.tensor([0.5, 0.8, 0.9, 0.95]), atol=0.12, rtol=0)
    median = net.expect(test).mean()[..., None]
    assert bool(((low <= median) & (median <= high)).all())


def test_drawn_paths_go_together_as_the_steps_did():
    """Steps that were always wrong together give paths whose steps lie on one side."""
    rng = np.random.default_rng(0)
    levels = np.repeat(rng.normal(size=400), 16)  # blocks of a constant level
    facts = WindowFacts(targets=1, covariates=0, known=0, lookback=12, horizon=4, season=1, gaps=False)
    rows = torch.tensor(levels.reshape(400, 16)).float()
    past, future = torch.randn(400, 12, 1), rows[:, 12:, None]
    ones = torch.ones(400, 12, 1, dtype=torch.bool), torch.ones(400, 4, 1, dtype=torch.bool)
    batch = WindowBatch(past, ones[0], past[..., :0], future[..., :0], future, ones[1])
    net = build_forecaster(ForecastSettings(model="linear", norm="none"), facts)
    net.solve(lambda: iter([batch]), [])
    net.calibration.fit(
        iter([batch]),
        lambda one: net.expect(one).quantiles(torch.tensor(ENDS)),
        lambda one: net.expect(one).cdf(one.answers()[0]),
    )
    paths = net.paths(batch.rows(torch.arange(1)), 4000, torch.Generator().manual_seed(0))[:, 0, :, 0]
    correlation = torch.corrcoef(paths.T)
    assert float(correlation[0, 3]) > 0.8


def test_settings_that_do_not_go_together_are_refused():
    with assert_refused(OptionError, "segments"):
        build_forecaster(ForecastSettings(model="gru", segment=5), FACTS).expect(windows(series(30)))
    with pytest.raises(OptionError, match="one row at a time"):
        build_forecaster(ForecastSettings(model="gru", segment=3, strategy="recursive"), FACTS)
    with pytest.raises(OptionError, match="counts are not shifted"):
        build_forecaster(ForecastSettings(model="gru", head="negative-binomial", norm="last"), FACTS)
    with assert_refused(OptionError, "horizon", 0):
        ForecastSettings(horizon=0)

"""Forecasting from tables to scores: nothing looks ahead, published figures come out, a killed training goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from looking_ahead import changed_by_future, noise_after, predictor
from toys import assert_resumed_to_the_bit

import thereafter
from refusals import assert_refused
from thereafter.data.corpora import locate_source
from thereafter.errors import ThereafterError
from thereafter.series.forecasters.settings import models
from thereafter.series.forecasting.answers import Forecast
from thereafter.series.forecasting.score import ForecastScore
from thereafter.series.forecasting.task import FORECASTING
from thereafter.series.reading import read_series
from thereafter.series.scales import SeriesScales
from thereafter.series.table import ColumnChoice, Window, WindowFrame, Windows, cut_windows, split_ends, thinned
from thereafter.task_model import TaskModel
from thereafter.tasks.finding import Part
from thereafter.tasks.fitting import Fitted, fit, settle
from thereafter.tasks.task import AnyTask
from thereafter.training.settings import TrainingSettings

SMALL: Mapping[str, object] = {"hidden": 8, "epochs": 1, "seed": 1, "device": "cpu", "lookback": 24, "season": 12}


def hourly(path: Path, rows: int = 400, seed: int = 1, gaps: int = 0) -> Path:
    """A season of 12 rows, a trend and noise, with times."""
    rng = np.random.default_rng(seed)
    t = np.arange(rows)
    values = 50 + 0.02 * t + 5 * np.sin(2 * np.pi * t / 12) + rng.normal(size=rows)
    times = np.datetime64("2024-01-01T00:00:00") + t * np.timedelta64(3600, "s")
    cells = [f"{value:.4f}" for value in values]
    for place in rng.choice(np.arange(1, rows), gaps, replace=False):
        cells[place] = ""
    path.write_text("time,load\n" + "".join(f"{time},{cell}\n" for time, cell in zip(times, cells, strict=True)))
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hourly(tmp_path_factory.mktemp("series") / "load.csv")


def trained(source: Path, **options: object) -> TaskModel:
    model = thereafter.train(source, task="forecast", horizon=6, **{**SMALL, **options})
    assert isinstance(model, TaskModel)
    return model


def windows_of(model: TaskModel, source: Path) -> Windows:
    windows, scales = model.task.read([source]), model.codecs["series"]
    assert isinstance(windows, Windows)
    assert isinstance(scales, SeriesScales)
    return replace(windows, frame=scales.frame).of_part("all", "100")


# ---- nothing looks ahead


@pytest.mark.parametrize("name", models())
def test_no_model_sees_the_future(table: Path, name: str):
    model = trained(table, model=name, split="60/20/20", calendar=True)
    windows = windows_of(model, table)
    chosen = [windows[place] for place in (0, len(windows) // 2, len(windows) - 1)]
    assert changed_by_future(predictor(model), chosen) == 0.0


def test_a_planted_leak_is_caught(table: Path):
    """A forecaster that smooths over the next row as well as the last ones."""
    model = trained(table, model="naive")
    honest = predictor(model)

    def peeking(windows: Sequence[Window]) -> Sequence[Forecast]:
        answers = honest(windows)
        for window, answer in zip(windows, answers, strict=True):
            answer.mean_HD[:] += 0.01 * window.table.values(window.series)[window.origin]
        return answers

    windows = windows_of(model, table)
    assert changed_by_future(peeking, [windows[0]]) > 0.0
    assert changed_by_future(honest, [windows[0]]) == 0.0


def fitted(windows: Windows, **options: object) -> Fitted:
    """Trained on the windows of a table that is in memory."""
    task: AnyTask = FORECASTING
    settings, training = settle(task, {**SMALL, "horizon": 6, "split": "60/20/20", **options})
    assert isinstance(training, TrainingSettings)
    task = task.configured(settings)
    parts = [Part(part, (), task.part_of(windows, part, ""), "") for part in ("train", "valid")]
    return fit(task, parts[0], parts[1], settings, training, source={}, notes=[])


def weights(run: Fitted | TaskModel, prefix: str = "") -> dict[str, bytes]:
    state = run.net.state_dict()
    return {name: value.cpu().numpy().tobytes() for name, value in state.items() if name.startswith(prefix)}


def test_the_scaler_sees_training_rows_alone(table: Path):
    windows = windows_of(trained(table, model="naive"), table).of_part("train", "60/20/20")
    noisy = noise_after(windows.table, windows.ends_S3[:, 0])
    other = cut_windows(noisy, windows.frame, "train", "60/20/20")
    columns = ColumnChoice(target=("load",))
    before, after = SeriesScales.fit(windows, columns), SeriesScales.fit(other, columns)
    assert before.scales == after.scales
    assert SeriesScales.fit(cut_windows(noisy, windows.frame, "train", "100"), columns).scales != before.scales


@pytest.mark.parametrize("name", ["ar", "linear", "naive"])
def test_what_is_solved_sees_training_rows_alone(table: Path, name: str):
    """The order by AIC, coefficients and spreads; only the bands know the validation rows."""
    windows = windows_of(trained(table, model="naive"), table)
    ends = windows.of_part("train", "60/20/20").ends_S3
    noisy = cut_windows(noise_after(windows.table, ends[:, 0]), windows.frame, "all", "100")
    before, after = weights(fitted(windows, model=name)), weights(fitted(noisy, model=name))
    assert before.keys() == after.keys()
    differ = {key for key in before if before[key] != after[key]}
    assert differ
    assert all(key.startswith("calibration.") for key in differ)


def test_calibration_and_the_choice_of_weights_never_see_the_test_part(table: Path):
    windows = windows_of(trained(table, model="naive"), table)
    ends = windows.of_part("train", "60/20/20").ends_S3
    noisy = cut_windows(noise_after(windows.table, ends[:, 1]), windows.frame, "all", "100")
    for name in ("gru", "ar"):
        options = {"model": name, "calendar": False, "epochs": 2}
        assert weights(fitted(windows, **options)) == weights(fitted(noisy, **options))


# ---- figures


@pytest.mark.parametrize(
    ("horizon", "windows", "last", "linear"),
    [(24, 2857, 0.0343, 0.0260), pytest.param(96, 2785, 0.0693, 0.0531, marks=pytest.mark.wide)],
)
@pytest.mark.corpus("ett: errors of the last value and of least squares, 24 and 96 hours ahead")
def test_last_value_and_least_squares_on_etth1_are_the_published_ones(
    data: Path, horizon: int, windows: int, last: float, linear: float
):
    """MSE of OT in units of the training deviation, 2,857 and 2,785 windows; see docs/results.md."""
    figures = {}
    for name in ("naive", "linear"):
        model = thereafter.train("ett", task="forecast", target="OT", horizon=horizon, model=name, device="cpu")
        figures[name] = model.score("ett")
    assert figures["naive"].windows == windows
    assert figures["naive"].mse_standardised == pytest.approx(last, abs=5e-5)
    assert figures["linear"].mse_standardised == pytest.approx(linear, abs=1e-4)
    assert 0.73 < figures["linear"].coverage_calibrated < 0.87
    assert figures["linear"].coverage > 0.95


def test_one_model_of_many_series_beats_an_autoregression_of_each(tmp_path: Path):
    """200 short series with a shared season: what one cannot learn from its 36 rows, all together teach."""
    shared = {"task": "forecast", "horizon": 6, "lookback": 12, "season": 12, "device": "cpu"}
    together = thereafter.train("many-seasons", model="linear", **shared).score("many-seasons")
    source = locate_source("many-seasons", FORECASTING.file_kind)
    lines = next(iter(source.parts.values())).files[0].read_text().splitlines()
    rows: dict[str, list[str]] = {}
    for line in lines[1:]:
        rows.setdefault(line.split(",")[0], []).append(line)
    alone = []
    for name in sorted(rows)[:40]:  # forty of them are enough to tell, and quick
        path = tmp_path / f"{name}.csv"
        path.write_text("\n".join([lines[0], *rows[name]]) + "\n")
        model = thereafter.train(path, model="ar", split="60/20/20", **shared)
        alone.append(model.score(path).mase)
    assert together.mase < 0.9 * float(np.mean(alone))


def test_a_killed_forecaster_is_the_one_that_was_never_killed(table: Path, tmp_path: Path):
    options = {**SMALL, "horizon": 6, "model": "lstm", "epochs": 5, "checkpoint_every": 3, "checkpoint_seconds": 0.0}
    assert_resumed_to_the_bit(tmp_path / "run", "forecast", table, **options)


# ---- tables as they come


def test_gaps_are_masked_and_scored_without(tmp_path: Path):
    source = hourly(tmp_path / "gaps.csv", gaps=30)
    for name in ("naive", "seasonal-naive", "drift", "ar", "linear", "gru"):
        score = trained(source, model=name, split="60/20/20").score(source)
        assert np.isfinite(score.mse)
        assert score.values < score.windows * score.horizon


def test_several_targets_are_forecast_together(tmp_path: Path):
    rng = np.random.default_rng(0)
    lines = [f"2024-01-{1 + k // 24:02d} {k % 24:02d}:00,{np.sin(k / 4):.4f},{rng.normal():.4f}" for k in range(300)]
    path = tmp_path / "two.csv"
    path.write_text("\n".join(["time,a,b", *lines]) + "\n")
    model = trained(path, model="gru", target="a,b")
    (answer,) = model.task.answers_with(
        model.net, model.task.batch([model.task.read([path])[-1]], model.codecs), model.codecs, {}
    )
    assert answer.mean_HD.shape == (6, 2)
    assert {row["target"] for row in answer.to_rows()} == {"a", "b"}


@pytest.mark.parametrize(
    "head",
    [
        "gaussian",
        "quantile",
        *(pytest.param(head, marks=pytest.mark.wide) for head in ("squared", "absolute", "huber", "student-t")),
    ],
)
def test_every_head_learns_and_covers(table: Path, head: str):
    score = trained(table, model="gru", head=head, split="60/20/20", epochs=20).score(table)
    assert 0.6 < score.coverage_calibrated < 0.95
    assert score.mse < trained(table, model="naive", split="60/20/20").score(table).mse


def test_counts_are_forecast_as_counts(tmp_path: Path):
    rng = np.random.default_rng(0)
    rows = "".join(f"{k},{rng.poisson(3 + 2 * np.sin(2 * np.pi * k / 12))}\n" for k in range(400))
    path = tmp_path / "counts.csv"
    path.write_text("row,sold\n" + rows)
    options = {"model": "gru", "head": "negative-binomial", "target": "sold", "time": "row", "split": "60/20/20"}
    score = trained(path, **options, epochs=60, rate=3e-3).score(path)
    assert score.mse < 4.5  # 3 is the variance of the counts, 5 that with their season
    with assert_refused(ThereafterError, "negative-binomial", "gaussian"):
        trained(hourly(tmp_path / "no_counts.csv"), model="gru", head="negative-binomial")


def test_rows_are_split_by_time():
    assert split_ends(100, "", 24) == (76, 100, 100)
    assert split_ends(17420, "8640/2880/2880", 24) == (8640, 11520, 14400)
    with pytest.raises(ThereafterError, match="try shares"):
        split_ends(1000, "8640/2880/2880", 24)
    with pytest.raises(ThereafterError, match="whole numbers"):
        split_ends(1000, "a/b", 24)


def test_a_score_says_where_rows_were_trained_on(table: Path):
    model = trained(table, model="naive", split="90/10")
    with pytest.warns(UserWarning, match="trained or validated on"):
        model.score(table)


def test_simple_forecasts_beside_a_score_are_those_of_numpy(table: Path):
    simple = dict(trained(table, model="linear").baselines(table))
    assert list(simple) == ["seasonal naive", "last value"]
    load = np.genfromtxt(table, delimiter=",", skip_header=1, usecols=1)
    scale = np.abs(load[12:320] - load[: 320 - 12]).mean()  # a season apart, in the rows that are learned from
    origins = range(360, 400 - 6 + 1)
    for name, back in (("seasonal naive", 12), ("last value", None)):
        forecasts = (load[at - back : at - back + 6] if back else np.repeat(load[at - 1], 6) for at in origins)
        errors_WH = np.array([load[at : at + 6] - one for at, one in zip(origins, forecasts, strict=True)])
        score = simple[name]
        assert isinstance(score, ForecastScore)
        assert score.mae == pytest.approx(np.abs(errors_WH).mean(), rel=1e-5)
        assert score.rmse == pytest.approx(np.sqrt((errors_WH**2).mean()), rel=1e-5)
        assert score.mase == pytest.approx(np.abs(errors_WH).mean() / scale, rel=1e-5)
        assert score.line().startswith(f"MAE {score.mae:.4g}, RMSE {score.rmse:.4g}, CRPS ")
        assert " in the unit of load, MASE " in score.line()
    assert list(dict(trained(table, model="linear", season=1).baselines(table))) == ["last value"]


@pytest.mark.parametrize("model", ["gru", "linear"])
def test_without_a_split_the_last_windows_are_a_test_that_nothing_is_learned_from(
    table: Path, tmp_path: Path, model: str
):
    head, *rows = table.read_text(encoding="utf-8").splitlines()
    times = [row.split(",")[0] for row in rows]
    changed = [f"{time},{1e4 * (at % 7):.1f}" for at, time in enumerate(times)]
    (tmp_path / "changed.csv").write_text("\n".join([head, *rows[:360], *changed[360:]]) + "\n", encoding="utf-8")
    plain, other = trained(table, model=model), trained(tmp_path / "changed.csv", model=model)
    assert plain.config["forecast"]["split"] == "auto"
    assert weights(plain) == weights(other)
    assert plain.codecs["series"].to_json() == other.codecs["series"].to_json()
    score = plain.score(table)
    assert (score.windows, score.targets) == (35, ("load",))  # rows 360 to 399, 6 steps each
    assert score.mae < 5 < 1000 < other.score(tmp_path / "changed.csv").mae
    assert "which nothing is learned from" in plain.log[0]["notes"][-1]


def test_a_table_of_fewer_than_four_horizons_has_no_test(tmp_path: Path):
    options = {"model": "naive", "lookback": 5, "season": 1}
    short = trained(hourly(tmp_path / "short.csv", 23), **options)
    assert short.config["forecast"]["split"] == ""
    assert short.log[0]["notes"][-1] == "no test: the longest series has 23 rows; expected 24 or more, or --split"
    assert trained(hourly(tmp_path / "long.csv", 24), **options).score(tmp_path / "long.csv").windows == 1


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"horizon": 500}, ("horizon",)),
        ({"lookback": 5000}, ("lookback", 5000)),
        ({"model": "gur"}, ("gur", "gru")),
        ({"head": "gausian"}, ("gausian", "gaussian")),
        ({"target": "lod"}, ("lod", "load")),
        ({"split": "50/50/50/50"}, ("split", "50/50/50/50")),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(table: Path, options: dict[str, object], facts: tuple[object, ...]):
    with assert_refused(ThereafterError, *facts):
        thereafter.train(table, task="forecast", **{**SMALL, "horizon": 6, **options})


@pytest.mark.parametrize("most", [2, 7, 50, 10_000])
def test_thinned_windows_are_evenly_chosen_from_the_first_to_the_last(table: Path, most: int):
    all_of_it = thinned(cut_windows(read_series([table]), WindowFrame(lookback=4, horizon=2, season=1), "all", ""), 400)
    chosen = [window.origin for window in thinned(all_of_it, most)]
    origins = [window.origin for window in all_of_it]
    assert len(chosen) == min(most, len(origins))
    assert (chosen[0], chosen[-1]) == (origins[0], origins[-1])
    steps = np.diff(chosen)
    assert steps.max() - steps.min() <= 1

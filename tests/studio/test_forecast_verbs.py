"""The Forecast panel without a browser: answers are what the library says, and tables are refused in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from serving_studio import Served

import thereafter
from thereafter.errors import ThereafterError
from thereafter.ready import tasks as ready_tasks
from thereafter.studio.panels import forecasting as verbs
from thereafter.task_model import TaskModel, load_task

MONTHS = "month,sales\n" + "".join(
    f"{2019 + at // 12}-{1 + at % 12:02}-01,{100 + at + 10 * (at % 12)}\n" for at in range(72)
)


@pytest.fixture(scope="module")
def models(ready_folder: Path) -> dict[str, TaskModel]:
    names = [one.name for one in ready_tasks.READY_TASKS if one.task == "forecast"]
    return {name: load_task(ready_folder / ready_tasks.TASKS / name) for name in names}


@pytest.fixture(scope="module")
def sine() -> verbs.OpenedSeries:
    return verbs.open_series("noisy-sine")


def ask(server: Served, path: str = "", **asked: Any) -> Any:
    answer = httpx.post(f"{server.address}/api/tasks/forecast{path}", json=asked, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(server: Served, path: str = "", **asked: Any) -> str:
    answer = httpx.post(f"{server.address}/api/tasks/forecast{path}", json=asked, timeout=60)
    assert answer.status_code in (400, 404), answer.text
    return str(answer.json()["error"])


def test_the_last_value_and_the_seasonal_one_are_what_they_say():
    months = verbs.open_series(verbs.OWN, MONTHS)
    place = verbs.place_of(months, back=6, horizon=8)
    values = months.table.values(0)[:, 0]
    last = verbs.expect(verbs.solve(months, "naive"), place, name="naive")
    assert last.mean == pytest.approx([values[65]] * 8)
    seasonal = verbs.expect(verbs.solve(months, "seasonal-naive"), place, name="seasonal-naive")
    assert seasonal.mean == pytest.approx(values[54:62].tolist())
    assert last.rmse == pytest.approx(float(np.sqrt(((values[65] - values[66:72]) ** 2).mean())))
    assert [band.coverage for band in last.bands] == [0.5, 0.8, 0.95]


def test_the_rows_around_a_forecast_are_those_of_the_series(sine: verbs.OpenedSeries):
    place = verbs.place_of(sine, back=30, horizon=48)
    answer = verbs.forecast_answer(place, [])
    values = sine.table.values(0)[:, 0]
    assert len(answer.times) == len(answer.values) == answer.before + 48
    assert answer.times[answer.before] == "971"
    assert answer.times[-1] == "1018"
    assert answer.values[: answer.before + 30] == pytest.approx(values[970 - answer.before :].tolist())
    assert answer.values[answer.before + 30 :] == [None] * 18
    assert (answer.rows, answer.learned, answer.back, answer.most_back) == (1000, 700, 30, 200)
    assert verbs.place_of(sine, back=5000, horizon=1).origin == 800  # not in rows that were fitted to


def test_an_autoregression_is_the_librarys_own(sine: verbs.OpenedSeries):
    fitted = verbs.solve(sine, "ar")
    assert verbs.solve(sine, "ar") is fitted  # fitted once
    horizon = fitted.config["forecast"]["horizon"]
    own = thereafter.train(
        "noisy-sine", task="forecast", model="ar", horizon=horizon, **{"forecast.split": verbs.SPLIT}
    )
    place = verbs.place_of(sine, back=100, horizon=24)
    expected = own.predict(place.window, horizon=24)
    answer = verbs.expect(fitted, place, name="ar")
    assert answer.mean == pytest.approx(expected.mean_HD[:, 0].tolist())
    assert answer.bands[1].low == pytest.approx(expected.band(0.8)[0][:, 0].tolist())


def test_k_steps_ahead_every_model_is_measured_on_the_same_rows(sine: verbs.OpenedSeries, models: dict[str, TaskModel]):
    measured = [
        (name, verbs.measure_ahead(model, sine))
        for name, model in (("ar", verbs.solve(sine, "ar")), ("ready:sine-lstm", models["sine-lstm"]))
    ]
    answer = verbs.ahead_answer(sine, 16, measured)
    assert (answer.k, answer.steps[-1], answer.compared) == (16, 64, 137)
    values = sine.table.values(0)[:, 0]
    assert answer.actual == pytest.approx(values[-len(answer.actual) :].tolist())
    for one, (_, measurement) in zip(answer.models, measured, strict=True):
        rows = len(values) - 137
        wrong = measurement["predicted"][15, -137:] - values[rows:]
        assert one.rmse[15] == pytest.approx(float(np.sqrt((wrong**2).mean())))
        assert one.rmse[0] < one.rmse[-1]
    assert measured[1][1]["rmse"][-1] < measured[0][1]["last_value_rmse"][-1]


def test_gates_are_the_means_of_the_trace(models: dict[str, TaskModel]):
    load = verbs.open_series("seasonal")
    place = verbs.place_of(load, back=48, horizon=1)
    answer = verbs.window_gates(models["season-lstm"], place)
    trace = models["season-lstm"].trace(place.window)
    assert [gate.name for gate in answer.gates] == ["input", "forget", "output"]
    assert answer.gates[1].values == pytest.approx(trace["l0.forget"].mean(axis=1).tolist(), abs=1e-5)
    assert (answer.rows, answer.units, answer.state, len(answer.times)) == (1, 24, "c", 168)
    values = load.table.values(0)[place.origin - 168 : place.origin, 0]
    assert answer.values == pytest.approx(values.tolist(), rel=1e-4)
    days = verbs.window_gates(models["season-gru"], place)
    assert (days.rows, len(days.times), days.state) == (24, 14, "h")


def test_the_ready_networks_are_better_than_the_value_of_a_day_before(models: dict[str, TaskModel]):
    load = verbs.open_series("seasonal")
    naive = verbs.measure_ahead(verbs.solve(load, "seasonal-naive"), load)["rmse"][23]
    for name in ("season-lstm", "season-gru"):
        assert verbs.measure_ahead(models[name], load)["rmse"][23] < naive, name


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the table is empty"),
        ("a,b\n1,x\n", "expected"),
        ("time,x\n" + "".join(f"2024-01-{day:02},1\n" for day in range(1, 20)), "expected at least 30"),
        ("time,x,y\n" + "".join(f"2024-01-{day:02},1,2\n" for day in range(1, 31)), "Column to forecast"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused_in_words_of_the_page(text: str, why: str):
    with pytest.raises(ThereafterError) as refusal:
        verbs.open_series(verbs.OWN, text)
    assert why in str(refusal.value)
    assert "table.csv" not in str(refusal.value)  # no path of this machine
    assert "--" not in str(refusal.value)  # no option of the shell


def test_a_named_column_is_forecast_and_of_long_tables_the_last_rows(monkeypatch: pytest.MonkeyPatch):
    text = "t,x,y\n" + "".join(f"{row},{row},{row % 5}\n" for row in range(60))
    opened = verbs.open_series(verbs.OWN, text, "y")
    assert opened.table.targets == ("y",)
    monkeypatch.setattr(verbs, "MOST_ROWS", 40)
    cut = verbs.open_series(verbs.OWN, text, "x")
    assert cut.table.values(0)[:, 0].tolist() == list(range(20, 60))
    assert "of 60 rows the last 40 are used" in cut.notes


def test_over_the_wire_the_same_figures(server: Served, sine: verbs.OpenedSeries, models: dict[str, TaskModel]):
    offered = httpx.get(f"{server.address}/api/tasks/forecast/series").json()
    named = {one["name"]: one["networks"] for one in offered["series"]}
    assert named["noisy-sine"] == ["ready:sine-lstm"]
    assert named["seasonal"] == ["ready:season-lstm", "ready:season-gru"]
    assert {"noisy-sine", "seasonal", "mackey-glass"} <= named.keys()
    names = ["naive", "ready:sine-lstm"]
    answer = ask(server, series="noisy-sine", models=names, horizon=5, back=20)
    place = verbs.place_of(sine, 20, 5)
    assert [one["model"] for one in answer["forecasts"]] == names
    expected = models["sine-lstm"].predict(place.window, horizon=5)
    assert answer["forecasts"][1]["mean"] == pytest.approx(expected.mean_HD[:, 0].tolist())
    own = ask(server, series="own", text=MONTHS, models=["linear"], horizon=3)
    assert own["target"] == "sales"
    assert own["times"][-1] == "2025-03-01"
    assert own["forecasts"][0]["rmse"] is None  # nothing has come yet
    ahead = ask(server, "/ahead", series="noisy-sine", models=["naive"], k=64)
    assert ahead["models"][0]["rmse"] == pytest.approx(ahead["last_value"])
    gates = ask(server, "/gates", series="noisy-sine", model="ready:sine-lstm", back=0)
    assert gates["times"][-1] == "1000"


def test_what_is_no_forecaster_is_refused_with_a_sentence(server: Served):
    assert "forecasts no series" in refused(server, series="noisy-sine", models=["ready:tagger"])
    assert "pick one of the list" in refused(server, series="noisy-sine", models=["ready:lstm"])
    assert "expected" in refused(server, series="own", text="nothing at all", models=["ar"])
    assert "try a longer table" in refused(server, series="own", text="t,x\n1,2\n2,3\n", models=["ar"])

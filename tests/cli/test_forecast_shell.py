"""Forecasting from the shell: train, predict --last, score, surprisal, compare; and what is refused."""

from __future__ import annotations

import csv
import datetime
import io
import json
import math
import random
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import thereafter
from refusals import assert_refused
from thereafter.cli import app, main
from thereafter.errors import ThereafterError


def write_wave(path: Path, rows: int = 240) -> Path:
    """A wave of 12 hours with noise, and a column that nobody asks for."""
    draw, first = random.Random(1), datetime.datetime(2024, 1, 1)
    values = [10 + 4 * math.sin(row * math.pi / 6) + draw.gauss(0, 0.4) for row in range(rows)]
    lines = [f"{first + datetime.timedelta(hours=row)},{value:.4f},{row % 5}" for row, value in enumerate(values)]
    path.write_text("\n".join(["when,load,other", *lines]) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table, and a run of least squares on it."""
    place = tmp_path_factory.mktemp("shell")
    write_wave(place / "load.csv")
    (place / "text.csv").write_text("this is no table\n", encoding="utf-8")
    (place / "bare.csv").write_text("when,other\n2024-01-01,1\n2024-01-02,3\n", encoding="utf-8")
    options = {"target": "load", "horizon": 6, "lookback": 24, "split": "70/10/20"}
    thereafter.train(place / "load.csv", task="forecast", model="linear", **options).save(place / "run")
    return place


def ask(*words: object) -> Result:
    result = CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def test_train_prints_scores_beside_simple_forecasters(folder: Path, tmp_path: Path):
    options = ("--target", "load", "--time", "when", "--horizon", 4, "--lookback", 24, "--calendar")
    out = ask(
        "train", folder / "load.csv", "--task", "forecast", *options, "--split", "70/10/20", "--model", "gru",
        "--epochs", 1, "--set", "hidden=4", "--out", tmp_path / "run",
    ).stdout  # fmt: skip
    assert "task       forecast" in out
    assert "valid      21 windows of 4 steps" in out
    assert "test       this model      45 windows of 4 steps" in out
    assert [line.split("MAE")[0].split() for line in out.splitlines() if " standardised" in line] == [
        ["seasonal", "naive"], ["last", "value"], ["least", "squares"],
    ]  # fmt: skip
    assert "caution    this model loses to seasonal naive: RMSE" in out
    config = thereafter.load(tmp_path / "run").config["forecast"]
    assert (config["horizon"], config["calendar"], config["model"], config["split"]) == (4, True, "gru", "70/10/20")


def test_predict_gives_a_table_a_file_and_a_figure(folder: Path, tmp_path: Path):
    pytest.importorskip("plotly")
    shown = ask("predict", folder / "run", "--last", folder / "load.csv")
    assert len(shown.stdout.splitlines()) == 6
    assert shown.stdout.startswith("2024-01-11 00:00  ")
    assert "forecast 6 steps after 2024-01-10 23:00, a row every hour" in shown.stderr
    files = ("--out", tmp_path / "forecast.csv", "--figure", tmp_path / "fan.html")
    ask("predict", folder / "run", "--last", folder / "load.csv", "--horizon", 9, "--samples", 3, *files)
    with (tmp_path / "forecast.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 9
    assert {"series", "time", "step", "target", "mean", "low_80", "high_80", "low_95", "sample_3"} <= rows[0].keys()
    assert all(float(row["low_95"]) <= float(row["low_80"]) <= float(row["high_80"]) for row in rows)
    assert "plotly" in (tmp_path / "fan.html").read_text(encoding="utf-8")
    printed = json.loads(ask("predict", folder / "run", "--last", folder / "load.csv", "--horizon", 9, "--json").stdout)
    assert [row["mean"] for row in printed] == pytest.approx([float(row["mean"]) for row in rows])
    one_line = ask("predict", folder / "run", "10 11 12 13 12 11", "--horizon", 2).stdout.splitlines()
    assert len(one_line) == 1
    assert one_line[0].count(";") == 1


def test_score_prints_all_figures_and_rows_by_step(folder: Path):
    plain = ask("score", folder / "run", folder / "load.csv").stdout
    assert "in standard deviations of the training part: MSE" in plain
    steps = list(csv.DictReader(io.StringIO(ask("score", folder / "run", folder / "load.csv", "--csv").stdout)))
    assert [row["step"] for row in steps] == list("123456")
    assert {"mae", "mse", "crps", "coverage", "coverage_calibrated"} <= steps[0].keys()
    figures = json.loads(ask("score", folder / "run", folder / "load.csv", "--json").stdout)
    assert {"mse_standardised", "mase", "rmsse", "pinball", "smape", "coverage_calibrated"} <= figures.keys()
    assert len(figures["steps"]) == 6


def test_backtest_prints_errors_by_step_or_series_and_draws_them(folder: Path, tmp_path: Path):
    pytest.importorskip("plotly")
    shown = ask("backtest", folder / "run", folder / "load.csv", "--figure", tmp_path / "errors.html")
    steps = [line.split()[0] for line in shown.stdout.splitlines()[4:]]
    assert steps == [*"123456", "all"]
    assert shown.stdout.startswith("43 origins from 2024-01-08 23:00 to 2024-01-10 17:00, 6 steps each; the run is not")
    printed = json.loads(ask("backtest", folder / "run", folder / "load.csv", "--by", "series", "--json").stdout)
    tested = thereafter.backtest(folder / "run", folder / "load.csv")
    assert printed == tested.errors("series").to_rows()
    assert (tmp_path / "errors.html").stat().st_size < 100_000


def test_surprisal_of_a_forecaster_is_a_row_a_point(folder: Path, tmp_path: Path):
    pytest.importorskip("plotly")
    files = ("--out", tmp_path / "points.csv", "--figure", tmp_path / "points.html")
    shown = ask("surprisal", folder / "run", folder / "load.csv", *files)
    assert "216 points" in shown.stdout
    assert "24 values before the first whole window are left out" in shown.stdout
    with (tmp_path / "points.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 216
    assert list(rows[0]) == ["series", "time", "value", "expected", "low", "high", "nats", "unusual"]
    assert (tmp_path / "points.html").exists()
    printed = json.loads(ask("surprisal", folder / "run", folder / "load.csv", "--json").stdout)
    assert printed[-1]["nats"] == pytest.approx(float(rows[-1]["nats"]))


def test_compare_says_which_network_loses_to_what_is_solved(folder: Path, tmp_path: Path):
    names = "naive,seasonal-naive,ar,linear,gru,small:model=window:hidden=4"
    words = ("compare", folder / "load.csv", "--task", "forecast", "--target", "load", "--horizon", 2, "--lookback", 24)
    options = ("--models", names, "--epochs", 1, "--set", "season=12", "--out", tmp_path / "all")
    out = ask(*words, *options).stdout
    header = out.splitlines()[1].split()
    assert header == [
        "network", "seeds", "parameters", "mse_standardised", "mae", "mase", "crps", "coverage_calibrated", "seconds",
    ]  # fmt: skip
    assert "tested on its test part" in out
    assert "loses to" in next(line for line in out.splitlines() if line.startswith("gru "))
    assert "gru loses to " in out
    assert "no network that is trained in steps beats it here" in out
    assert "paired bootstrap over" in out
    rows = list(csv.DictReader(io.StringIO(ask(*words, *options, "--csv").stdout)))
    assert [row["network"] for row in rows] == ["naive", "seasonal-naive", "ar", "linear", "gru", "small"]
    assert rows[4]["loses_to"] in ("ar", "linear")
    assert not rows[1]["loses_to"]
    stored = json.loads(ask(*words, *options, "--json").stdout)
    assert stored["advice"]
    assert stored["solved"] == ["naive", "seasonal-naive", "ar", "linear"]
    assert stored["part"] == "test"


def test_without_names_the_usual_forecasters_are_compared():
    from thereafter.series.forecasters.settings import compared_models, models
    from thereafter.tasks import TASKS

    usual = ["naive", "seasonal-naive", "ar", "linear", "window", "rnn", "gru", "lstm", "transformer"]
    assert list(TASKS.load("forecast").peers()) == list(compared_models()) == usual
    assert set(usual) < set(models())


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        ("train {}/load.csv --task forecast --out {}/x", (2, "load", "other")),
        ("train {}/load.csv --task forecast --target laod --out {}/x", ("laod", "load")),
        ("train {}/load.csv --task forecast --target load --horizon 900 --out {}/x", (900,)),
        ("train {}/load.csv --task forecast --target load --model lstn --out {}/x", ("lstn", "lstm")),
        ("train {}/load.csv --target load", ("--target", "--task forecast")),
        ("train {}/load.csv --task tag --split 90/10 --out {}/x", ("--split",)),
        ("train {}/load.csv --task forecast --target load --split a/b --out {}/x", ("a/b",)),
        ("train none.csv --task forecast --lookback 0 --out {}/x", ("--lookback", 0, 1)),
        ("compare none.csv --task forecast --lookback 0", ("--lookback", 0, 1)),
        ("train {}/load.csv --task forecast --rate inf --out {}/x", ("rate", "inf")),
        ("train {}/text.csv --task forecast --split 100/0/0 --out {}/x", ("100/0/0",)),
        ("train {}/text.csv --task forecast --split 70 --out {}/x", ("70",)),
        ("train {}/text.csv --task forecast --split 0/50/50 --out {}/x", ("0/50/50",)),
        ("train {}/text.csv --task forecast --split 7/1/1/1 --out {}/x", ("7/1/1/1",)),
        ("train {}/load.csv --task forecast --target load --set ridge=nan --out {}/x", ("ridge", "nan")),
        ("predict {}/run --last {}/none.csv", ("none.csv",)),
        ("predict {}/run --last {}/load.csv --horizon 0", ("horizon", 0)),
        ("predict {}/run --last {}/load.csv --out x.conllu", ("x.conllu", ".csv")),
        ("predict {}/run --last {}/load.csv --figure x.gif", ("--figure", "x.gif")),
        ("predict {}/run --last {}/load.csv --explain", ("--last", "--explain")),
        ("predict {}/run --samples 3", ("--last", "--samples")),
        ("backtest {}/run {}/load.csv --every 0", ("every", 0, 1)),
        ("backtest {}/run {}/load.csv --horizon 49", (48,)),
        ("backtest {}/run {}/load.csv --by month", ("month", "all", "series", "step")),
        ("backtest {}/run {}/load.csv --figure x.gif", ("--figure", "x.gif")),
        ("backtest {}/run {}/load.csv --out x.xlsx", ("x.xlsx", ".csv")),
        ("backtest {}/run {}/bare.csv", ("bare.csv", "load")),
        ("backtest {}/run {}/none.csv", ("none.csv",)),
        ("backtest {}/none {}/load.csv", ("none",)),
        ("surprisal {}/run {}/load.csv --detail", ("--detail",)),
        ("surprisal {}/run {}/run {}/load.csv", (2,)),
        ("compare {}/load.csv --task forecast --target load --models naive,lstn", ("lstn", "lstm")),
        ("compare {}/load.csv --horizon 3", ("--horizon",)),
        ("compare {}/load.csv --task tag --models gru", ("gru", "NAME:OPTION=VALUE")),
    ],
)
def test_mistakes_are_one_sentence(folder: Path, words: str, facts: tuple[object, ...]):
    with assert_refused(ThereafterError, *facts) as error:
        CliRunner().invoke(app, words.replace("{}", str(folder)).split(), catch_exceptions=False)
    assert "\n" not in str(error.value)
    assert not (folder / "x").exists()


def test_how_a_table_is_read_is_printed_once_for_all_networks(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    words = ["compare", folder / "load.csv", "--task", "forecast", "--target", "load", "--horizon", 2, "--lookback", 12]
    words += ["--models", "naive,linear", "--out", tmp_path / "two"]
    monkeypatch.setattr(sys, "argv", ["thereafter", *map(str, words)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    shown = capsys.readouterr().err
    assert shown.count("a row every hour") == 1
    assert [line for line in shown.splitlines() if "seed 0" in line] == ["naive, seed 0", "linear, seed 0"]

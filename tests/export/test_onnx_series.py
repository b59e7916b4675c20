"""Forecasters and classifiers of series as ONNX graphs, run by ONNX Runtime, against the networks themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import thereafter
from refusals import assert_refused
from thereafter.errors import ExportError
from thereafter.export.onnx.model import model_bytes, session
from thereafter.export.task_export import check_task, graphs_of
from thereafter.series.classifying.network import ReaderSettings, SeriesClassifier
from thereafter.series.forecasters.network import WindowFacts
from thereafter.series.forecasters.settings import ForecastSettings
from thereafter.series.forecasters.solved import Autoregression, Linear, build_forecaster
from thereafter.series.number_heads import NUMBER_HEADS

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

PLAIN = WindowFacts(targets=1, covariates=0, known=0, lookback=12, horizon=4, season=3, gaps=False)
RICH = WindowFacts(targets=2, covariates=3, known=2, lookback=12, horizon=4, season=3, gaps=True)


def checked(net: nn.Module, folder: Path) -> float:
    """The largest difference over drawn inputs, after every weight was drawn."""
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in net.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    made = graphs_of(net.eval())
    places = {name: folder / f"{name}.onnx" for name in made.graphs}
    for name, place in places.items():
        place.write_bytes(model_bytes(made.graphs[name], {}))
    return check_task(made, places).largest


@pytest.mark.parametrize(
    "facts", [pytest.param(PLAIN, marks=pytest.mark.wide), RICH], ids=["one column", "gaps and covariates"]
)
@pytest.mark.parametrize(
    "options",
    [
        *({"head": head, "model": "window"} for head in NUMBER_HEADS),
        {"model": "gru", "head": "student-t", "norm": "last"},
        {"model": "lstm", "layers": 2, "segment": 1, "skip": True},
        {"model": "rnn", "strategy": "recursive", "norm": "none"},
        {"model": "mingru", "segment": 4},
        {"model": "transformer", "heads": 2, "layers": 2, "head": "quantile"},
    ],
    ids=str,
)
def test_graphs_of_forecasters_expect_what_they_do(facts: WindowFacts, options: dict[str, Any], tmp_path: Path) -> None:
    assert checked(build_forecaster(ForecastSettings(hidden=8, **options), facts), tmp_path) <= 1e-4


@pytest.mark.parametrize("facts", [PLAIN, RICH], ids=["one column", "gaps and covariates"])
@pytest.mark.parametrize("options", [{"model": "linear"}, {"model": "linear", "norm": "standard"}, {"model": "ar"}])
def test_graphs_of_least_squares_expect_what_they_do(
    facts: WindowFacts, options: dict[str, Any], tmp_path: Path
) -> None:
    net = build_forecaster(ForecastSettings(**options), facts)
    torch.manual_seed(0)
    with torch.no_grad():
        if isinstance(net, Linear):
            net.weight_PO.normal_(std=0.1)
            net.spread_HD.uniform_(0.5, 2.0)
        if isinstance(net, Autoregression):
            net.weight_DP1.normal_(std=0.2)
            net.sigma_D.uniform_(0.5, 2.0)
    assert checked(net, tmp_path) <= 1e-4


@pytest.mark.parametrize(
    "options",
    [
        {"pooling": "concat"},
        {"pooling": "last", "bidirectional": False, "encoder": "lstm"},
        {"pooling": "attention", "encoder": "minlstm"},
        {"encoder": "conv", "layers": 2, "pooling": "max"},
        {"encoder": "mingru", "stack": "residual", "layers": 2, "feed": "gated", "pooling": "last"},
        {"encoder": "diagonal", "stack": "residual", "feed": "plain", "pooling": "mean"},
    ],
    ids=str,
)
@pytest.mark.parametrize("gaps", [False, True])
def test_graphs_of_labelled_series_label_as_they_do(gaps: bool, options: dict[str, Any], tmp_path: Path) -> None:
    net = SeriesClassifier(ReaderSettings(hidden=5, **options), channels=2, labels=3, gaps=gaps)
    assert checked(net, tmp_path) <= 1e-4


@pytest.mark.parametrize("model", ["naive", "seasonal-naive", "drift"])
def test_forecasters_without_weights_are_refused_in_a_sentence(model: str) -> None:
    with assert_refused(ExportError, "weights"):
        graphs_of(build_forecaster(ForecastSettings(model=model), PLAIN))


def test_a_forecast_by_onnxruntime_alone_is_that_of_the_run(tmp_path: Path) -> None:
    """The file, its metadata and numpy are enough: scaled by the codec, forecast, scaled back."""
    table = tmp_path / "numbers.csv"
    y_T = 20 + 5 * np.sin(np.arange(200) / 3)
    table.write_text("y\n" + "".join(f"{value:.4f}\n" for value in y_T))
    model = thereafter.train(table, task="forecast", model="gru", hidden=4, horizon=3, lookback=12, epochs=1, seed=1)
    exported = model.export(tmp_path / "m.onnx")
    assert exported.checked.steps >= 1000
    run = session(exported.path)
    scales = json.loads(run.get_modelmeta().custom_metadata_map["codecs"])["series"]
    (scale,) = scales["scales"].values()
    past_BLD = ((np.round(y_T, 4)[-12:, None] - scale["mean"][0]) / scale["deviation"][0])[None].astype(np.float32)
    location = run.run(["location"], {"past": past_BLD, "seen": np.ones_like(past_BLD, dtype=bool)})[0]
    ours = model.forecast(table).to_rows()
    theirs = location[0, :, 0] * scale["deviation"][0] + scale["mean"][0]
    np.testing.assert_allclose(theirs, np.array([row["mean"] for row in ours], dtype=np.float64), atol=1e-3)

"""Networks of tasks as ONNX graphs, run by ONNX Runtime, against the networks themselves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import thereafter
from refusals import assert_refused
from thereafter.errors import ExportError
from thereafter.export.onnx.model import model_bytes
from thereafter.export.task_export import TaskGraphs, check_task, graphs_of
from thereafter.models.word_decoder import ATTENTIONS
from thereafter.tasks.classify import POOLINGS, Classifier, ClassifierSettings
from thereafter.tasks.tag.network import Tagger, TaggerSettings
from thereafter.tasks.translate.task import RecurrentTranslator, TranslatorSettings

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

_TAGGER = TaggerSettings(embed=6, hidden=5, letter_embed=4, letter_hidden=3)
_CLASSIFIER = ClassifierSettings(embed=6, hidden=5)
_TRANSLATOR = TranslatorSettings(embed=6, hidden=8, layers=2)


def checked(net: nn.Module, folder: Path) -> float:
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in net.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    made = graphs_of(net.eval())
    return check_task(made, put(made, folder)).largest


def put(made: TaskGraphs, folder: Path) -> dict[str, Path]:
    places = {name: folder / f"{name}.onnx" for name in made.graphs}
    for name, place in places.items():
        place.write_bytes(model_bytes(made.graphs[name], {}))
    return places


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"letters": "cnn"},
        {"letters": "none", "cell": "gru"},
        {"crf": True, "cell": "elman"},
        {"body": (7, 6), "body_cell": "lstm"},
    ],
    ids=str,
)
def test_graphs_of_taggers_tag_as_they_do(options: dict[str, Any], tmp_path: Path) -> None:
    assert checked(Tagger(replace(_TAGGER, **options), words=40, letters=20, tags=5), tmp_path) <= 1e-4


@pytest.mark.parametrize(
    "options",
    [
        *({"pooling": pooling} for pooling in POOLINGS),
        {"encoder": "cnn"},
        {"encoder": "gru", "sizes": (7, 6), "pooling": "concat"},
        {"encoder": "elman", "layers": 2, "pooling": "last"},
    ],
    ids=str,
)
def test_graphs_of_classifiers_label_as_they_do(options: dict[str, Any], tmp_path: Path) -> None:
    assert checked(Classifier(replace(_CLASSIFIER, **options), words=40, labels=3), tmp_path) <= 1e-4


@pytest.mark.parametrize(
    "options",
    [
        *({"attention": attention} for attention in ATTENTIONS),
        {"cell": "lstm", "reverse": True, "bidirectional": False},
        {"cell": "elman", "tied": False, "attention": "none"},
    ],
    ids=str,
)
def test_graphs_of_translators_write_as_they_do(options: dict[str, Any], tmp_path: Path) -> None:
    net = RecurrentTranslator(replace(_TRANSLATOR, **options), source=30, target=25)
    assert checked(net, tmp_path) <= 1e-4


def test_a_graph_of_a_task_that_differs_is_noticed(tmp_path: Path) -> None:
    net = Classifier(_CLASSIFIER, words=40, labels=3).eval()
    made = graphs_of(net)
    places = put(made, tmp_path)
    with torch.no_grad():
        net.head.bias[1] += 0.01
    assert check_task(made, places).largest > 1e-3


def test_other_networks_of_tasks_are_refused_in_a_sentence() -> None:
    with assert_refused(ExportError):
        graphs_of(nn.Linear(2, 3))


def test_the_export_of_a_task_is_asked_for_as_that_of_a_model(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from thereafter.cli import app

    source = tmp_path / "texts.tsv"
    source.write_text("".join(f"{word} day it was\t{word}\n" for word in ("good", "bad") * 20))
    small: Any = {"embed": 4, "hidden": 3, "epochs": 1}
    lm = thereafter.train(source, task="classify", out=tmp_path / "run", **small)
    exported = lm.export(tmp_path / "m.onnx")
    assert exported.checked.largest <= 1e-4
    out = tmp_path / "n.onnx"
    result = CliRunner().invoke(app, ["export", str(tmp_path / "run"), "--to", "onnx", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert out.read_bytes() == (tmp_path / "m.onnx").read_bytes()
    assert "of drawn inputs, largest difference" in result.output
    wishes: list[Any] = [{"to": "c"}, {"int8": True}]
    for wish in wishes:
        with assert_refused(ExportError):
            lm.export(tmp_path / "o.onnx", **wish)

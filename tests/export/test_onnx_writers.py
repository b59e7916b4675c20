"""Translators, captioners and fillers as ONNX graphs, run by ONNX Runtime, against the networks themselves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from refusals import assert_refused
from thereafter.errors import ExportError
from thereafter.export.onnx.model import model_bytes
from thereafter.export.task_export import check_task, graphs_of
from thereafter.tasks.fill import Filler, FillerSettings
from thereafter.tasks.translate.task import TransformerTranslator, TranslatorSettings
from thereafter.vision.captioning.network import Captioner, CaptionerSettings, PictureForm
from thereafter.vision.drawing.network import Drawer, DrawerSettings

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

_PIXELS = PictureForm("pixels", (3, 12, 9), (0.4, 0.5, 0.6), (0.2, 0.3, 0.2))
_MAPS = PictureForm("maps", (5, 4), (0.1,) * 4, (0.9,) * 4)
_VECTORS = PictureForm("vectors", (4,), (0.1,) * 4, (0.9,) * 4)


def checked(net: nn.Module, folder: Path) -> float:
    """The largest difference over drawn inputs, after every weight and every running mean was drawn."""
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in net.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
        for name, buffer in net.named_buffers():
            if "running" in name:
                buffer.add_(0.5 * torch.rand_like(buffer))
    made = graphs_of(net.eval())
    places = {name: folder / f"{name}.onnx" for name in made.graphs}
    for name, place in places.items():
        place.write_bytes(model_bytes(made.graphs[name], {}))
    return check_task(made, places).largest


@pytest.mark.parametrize("options", [{"layers": 2}, {"shared": True, "tied": False, "longest": 20}], ids=str)
def test_graphs_of_transformer_translators_write_as_they_do(options: dict[str, Any], tmp_path: Path) -> None:
    settings = TranslatorSettings(model="transformer", hidden=8, heads=2, layers=1)
    assert checked(TransformerTranslator(replace(settings, **options), source=25, target=25), tmp_path) <= 1e-4


@pytest.mark.parametrize(
    ("form", "options"),
    [
        (_PIXELS, {"layers": 2}),
        (_PIXELS, {"norm": "group", "see": "every", "cell": "gru", "blocks": 2}),
        (_MAPS, {"attention": "dot", "cell": "gru"}),
        (_VECTORS, {"see": "first", "layers": 2}),
        (_PIXELS, {"see": "nothing"}),
    ],
    ids=str,
)
def test_graphs_of_captioners_write_as_they_do(form: PictureForm, options: dict[str, Any], tmp_path: Path) -> None:
    settings = CaptionerSettings(embed=6, hidden=8, width=4, stages=2, longest=10)
    assert checked(Captioner(replace(settings, **options), form, words=15), tmp_path) <= 1e-4


@pytest.mark.parametrize("options", [{}, {"sides": "right", "cell": "gru", "layers": 2}], ids=str)
def test_graphs_of_fillers_fill_as_they_do(options: dict[str, Any], tmp_path: Path) -> None:
    settings = FillerSettings(embed=6, hidden=5)
    assert checked(Filler(replace(settings, **options), words=20), tmp_path) <= 1e-4


def test_networks_without_a_graph_say_why() -> None:
    with assert_refused(ExportError, "windows"):
        graphs_of(Drawer(DrawerSettings(hidden=4, latent=2, strokes=2), height=8, width=8))
    with assert_refused(ExportError, "tagger", "torch.export"):
        graphs_of(nn.Linear(2, 3))

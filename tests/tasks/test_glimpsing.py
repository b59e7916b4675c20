"""The task `glimpse`: labels with the path of glimpses that led to them."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from toys import Shell

import thereafter
from tasks.toy_pictures import SAVED, stacked_pictures
from thereafter.errors import OptionError
from thereafter.tasks.finding import task_for
from thereafter.vision.glimpsing.network import GlimpserSettings
from thereafter.vision.glimpsing.task import GlimpsesExplained
from thereafter.vision.pictures.glyphs import ClutterRule

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "glimpses.md").read_text(encoding="utf-8")
QUICK: dict[str, Any] = {"hidden": 16, "read": 16, "glimpses": 3, "patch": 3, "batch": 8, "rate": 0.01, "seed": 1}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> thereafter.TaskModel:
    """Tells pictures that are bright at the top, at the bottom and at the left, from three glimpses of 3 x 3."""
    source = stacked_pictures(tmp_path_factory.mktemp("lit") / "lit.npz", 120)
    return thereafter.train(source, task="glimpse", epochs=15, **QUICK)


def test_glimpses_are_enough_to_tell_pictures_apart(trained: thereafter.TaskModel, tmp_path: Path) -> None:
    score = trained.score(stacked_pictures(tmp_path / "more.npz", 60, seed=9))
    assert score.as_dict()["accuracy"] > 0.9


def test_a_label_comes_with_its_path_of_glimpses(trained: thereafter.TaskModel) -> None:
    path = SAVED / "top.png"
    explained = trained.explain(str(path))
    assert isinstance(explained, GlimpsesExplained)
    assert explained.label == trained.predict(np.asarray(Image.open(path)))
    assert explained.places_T2.shape == (3, 2)
    assert explained.places_T2.min() >= 0
    assert explained.places_T2.max() <= 6
    np.testing.assert_allclose(explained.beliefs_TL.sum(1), 1, rtol=1e-5)
    label, p = explained.best(2)
    assert label == explained.label
    assert p == pytest.approx(max(explained.probabilities.values()))
    lines = str(explained).splitlines()
    assert len(lines) == 4
    assert lines[3].startswith("  glimpse 3 at column ")
    assert len(explained.as_dict()["glimpses"]) == 3


def test_a_trace_has_every_glimpse_and_the_states_between(trained: thereafter.TaskModel) -> None:
    trace = trained.trace(str(SAVED / "top.png"))
    assert trace.tokens == ["glimpse 1", "glimpse 2", "glimpse 3"]
    assert trace.arrays["l0.h"].shape == (3, 16)
    assert trace.arrays["l0.forget"].shape == (3, 16)
    assert trace.arrays["patches"].shape == (3, 1, 1, 3, 3)
    scores = trace.arrays["l0.h"] @ trained.net.state_dict()["head.weight"].numpy().T
    beliefs = np.exp(scores + trained.net.state_dict()["head.bias"].numpy())
    np.testing.assert_allclose(beliefs / beliefs.sum(1, keepdims=True), trace.arrays["belief"], rtol=1e-4)


def test_glimpses_are_compared_with_other_places_and_with_convolutions(tmp_path: Path) -> None:
    source, options = stacked_pictures(tmp_path / "lit.npz", 40), QUICK | {"epochs": 1, "hidden": 8}
    model = thereafter.train(source, task="glimpse", **options)
    rows = dict(model.baselines(stacked_pictures(tmp_path / "more.npz", 20, seed=3)))
    assert set(rows) == {
        "nearest of 36 training pictures",
        "most frequent label",
        "glimpses at random",
        "glimpses at the centre",
        "convolutions, all pixels",
    }
    whole = thereafter.train(source, task="glimpse", places="all", **options)
    assert whole.trace(str(SAVED / "top.png")).tokens == ["the picture"]


def test_the_path_of_glimpses_is_saved_as_a_figure(trained: thereafter.TaskModel, tmp_path: Path, shell: Shell) -> None:
    pytest.importorskip("plotly")
    run = trained.save(tmp_path / "run")
    _, code = shell("predict", run, SAVED / "top.png", "--explain", "--figure", tmp_path / "path.html")
    assert code == 0
    assert "What is believed after each glimpse" in (tmp_path / "path.html").read_text(encoding="utf-8")


def test_the_command_line_glimpses_at_files(trained: thereafter.TaskModel, tmp_path: Path, shell: Shell) -> None:
    run = trained.save(tmp_path / "run")
    _, code = shell("predict", run, "--in", SAVED, "--out", tmp_path / "labels.csv")
    assert code == 0
    rows = list(csv.DictReader((tmp_path / "labels.csv").read_text(encoding="utf-8").splitlines()))
    assert {row["picture"]: row["label"] for row in rows}["top.png"] == "top"
    lines, code = shell("predict", run, SAVED / "top.png", "--explain")
    assert code == 0
    assert any("glimpse 3 at column" in line for line in lines)


def test_it_learns_from_a_rule_of_clutter(tmp_path: Path) -> None:
    rule = tmp_path / "rule.json"
    rule.write_text(ClutterRule(count=24, end=30).to_json())
    model = thereafter.train(rule, task="glimpse", epochs=1, scales=3, **QUICK | {"patch": 8})
    assert model.score(rule).as_dict()["accuracy"] >= 0
    assert task_for("classify", rule).name == "classify-pictures"


def test_the_page_on_glimpses_says_what_comes_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    exec(compile(block, "docs/glimpses.md", "exec"), {})  # noqa: S102, our own page
    assert capsys.readouterr().out.splitlines() == re.findall(r"print\(.*\)  # (.+)", block)
    (rule,) = re.findall(r"```json\n(.*?)```", PAGE, re.S)
    assert ClutterRule.from_json(rule).count == 20_000
    defaults = vars(GlimpserSettings())
    for names, values in re.findall(r"^\| (`.*`) \| ([^|]*\d.*) \|$", PAGE.partition("## Cluttered")[0], re.M):
        for name, value in zip(re.findall(r"`(\w+)`", names), re.split(r"[,;] ", values), strict=False):
            assert str(defaults[name]).removesuffix(".0") == value.strip("`"), name


def test_features_are_not_glimpsed_at(tmp_path: Path) -> None:
    np.savez(tmp_path / "features.npz", x=np.random.default_rng(1).random((8, 5)), labels=["a", "b"] * 4)
    with pytest.raises(OptionError, match="vectors of features; expected pixels"):
        thereafter.train(tmp_path / "features.npz", task="glimpse", **QUICK)

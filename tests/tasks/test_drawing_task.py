"""`draw`: pictures without labels, scored by a bound in nats, drawn again and drawn anew."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from toys import Shell, assert_resumed_to_the_bit

import thereafter
from refusals import assert_refused
from tasks.toy_pictures import SAVED, bare_pictures, labelled_pictures, stacked_pictures
from thereafter.comparing.task_trials import compare_task
from thereafter.errors import OptionError, ThereafterError
from thereafter.vision.drawing.network import DrawingBatch, drawn_pixels
from thereafter.vision.drawing.task import DRAWING
from thereafter.vision.measures import resampled_drawings, score_drawings

QUICK: dict[str, Any] = {"hidden": 8, "latent": 3, "strokes": 3, "write": 3, "epochs": 2, "batch": 8, "rate": 0.01}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    written: Path = bare_pictures(tmp_path_factory.mktemp("lit") / "lit.npz", 40)
    return written


@pytest.fixture(scope="module")
def drawing(source: Path) -> Any:
    return thereafter.train(source, task="draw", seed=1, **QUICK)


# ---- pictures


def test_pictures_are_read_with_labels_or_without(tmp_path: Path, source: Path) -> None:
    assert len(DRAWING.read([source])) == 40
    assert len(DRAWING.read([stacked_pictures(tmp_path / "both.npz", 12)])) == 12
    labelled_pictures(tmp_path / "table.tsv", 7)
    assert len(DRAWING.read(sorted((tmp_path / "lit").glob("*.png")))) == 7
    with assert_refused(ThereafterError, "words.txt"):
        DRAWING.read([tmp_path / "words.txt"])


def test_features_of_pictures_are_not_drawn(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "features.npz", features=np.random.default_rng(1).random((9, 5), np.float32))
    with pytest.raises(ThereafterError, match="expected pixels, which are drawn"):
        thereafter.train(tmp_path / "features.npz", task="draw", **QUICK)


def test_coloured_pictures_are_drawn_in_their_colours(tmp_path: Path) -> None:
    pixels = np.random.default_rng(2).integers(0, 256, (20, 6, 5, 3)).astype(np.uint8)
    np.savez_compressed(tmp_path / "colours.npz", pixels=pixels)
    model: Any = thereafter.train(tmp_path / "colours.npz", task="draw", **QUICK | {"epochs": 1})
    assert model.predict(pixels[0]).pixels_HWC.shape == (6, 5, 3)
    assert model.net.sample(2).shape == (2, 3, 6, 5)


# ---- figures


def test_a_score_is_the_mean_of_its_pictures(drawing: Any, source: Path) -> None:
    score = drawing.score(source)
    answers = [drawing.predict(one) for one in DRAWING.read([source])]
    nats = np.array([one.nats for one in answers])
    assert score.nats == pytest.approx(nats.mean(), rel=1e-5)
    assert score.nats == pytest.approx(score.pixels + sum(score.strokes), rel=1e-6)
    low, high = score.interval
    assert high - low == pytest.approx(2 * 1.959964 * nats.std(ddof=1) / 40**0.5, rel=1e-4)
    assert drawing.score(source).as_dict() == score.as_dict()  # to the bit
    assert [row["stroke"] for row in score.to_rows()] == [1, 2, 3]
    assert json.loads(json.dumps(score.as_dict()))["pictures"] == 40


def test_resampled_figures_of_drawings_are_those_of_the_whole() -> None:
    rng = np.random.default_rng(1)
    pixels_N, latent_NT = rng.random(9) * 100, rng.random((9, 4))
    sampled = resampled_drawings(pixels_N, latent_NT)
    figures = sampled.figures(sampled.statistics_NS.sum(0, keepdims=True))
    assert -figures["nats"][0] == pytest.approx(score_drawings(pixels_N, latent_NT).nats)


def test_pixels_alone_are_scored_exactly(tmp_path: Path, source: Path) -> None:
    pixels = np.load(source)["pixels"]
    np.savez_compressed(tmp_path / "train.npz", pixels=pixels[:30])
    np.savez_compressed(tmp_path / "valid.npz", pixels=pixels[30:])
    model: Any = thereafter.train(tmp_path / "train.npz", task="draw", valid=tmp_path / "valid.npz", model="pixels")
    p = (pixels[:30].astype(np.float64).sum(0) / 255 + 0.5) / 31
    batch = DrawingBatch(torch.from_numpy(pixels[30:, None]))
    x = drawn_pixels(batch, torch.zeros(1, dtype=torch.float64), anew=False)[:, 0].numpy()
    nats = -(x * np.log(p) + (1 - x) * np.log(1 - p)).sum((1, 2))
    score = model.score(tmp_path / "valid.npz")
    assert score.nats == pytest.approx(nats.mean(), rel=1e-5)
    assert re.fullmatch(r"[\d.]+ nats a picture \([\d.]+ to [\d.]+\), exact; 10 pictures", str(score))
    assert model.baselines(tmp_path / "valid.npz") == []


def test_beside_a_drawer_are_pixels_alone_and_the_same_without_attention(drawing: Any, source: Path) -> None:
    rows = dict(drawing.baselines(source))
    assert list(rows) == ["pixels alone", "without attention"]
    assert not rows["pixels alone"].strokes
    assert len(rows["without attention"].strokes) == 3


@pytest.mark.wide
def test_drawers_are_compared_with_intervals(tmp_path: Path) -> None:
    options = {name: value for name, value in QUICK.items() if name != "seed"} | {"epochs": 1}
    comparison = compare_task(bare_pictures(tmp_path / "lit.npz", 250), "draw", models=["pixels", "draw"], **options)
    assert comparison.solved == ("pixels",)
    assert {one.figure for one in comparison.differences} == {"nats"}


# ---- stroke by stroke


@pytest.mark.parametrize("attend", [True, False])
def test_a_drawing_is_explained_and_traced_stroke_by_stroke(source: Path, attend: bool) -> None:
    model: Any = thereafter.train(source, task="draw", attend=attend, **QUICK | {"epochs": 1})
    picture = str(SAVED / "top.png")
    explained, answer = model.explain(picture), model.predict(picture)
    assert explained.canvases_TCHW.shape == (3, 1, 6, 6)
    np.testing.assert_allclose(explained.canvases_TCHW[-1], answer.chances_CHW, rtol=1e-4, atol=1e-5)
    assert explained.places_TV3.shape == ((3, 2, 3) if attend else (0, 2, 3))
    assert str(explained).count("stroke") == 4
    assert ("writes at" in str(explained)) is attend
    strokes = json.loads(json.dumps(explained.as_dict()))["strokes"]
    assert (set(strokes[0]) == {"latent", "read", "write"}) is attend
    trace = model.trace(picture)
    assert trace.arrays["canvas"].shape == (3, 1, 6, 6)
    assert {"latent", "encoder.forget", "decoder.h", "pixels"} <= trace.arrays.keys()
    if attend:
        assert trace.arrays["read.centre"].shape == (3, 2)
        assert trace.arrays["write.deviation"].shape == (3,)
        assert trace.arrays["write.centre"][0].tolist() == pytest.approx(explained.places_TV3[0, 1, :2].tolist())
    np.testing.assert_allclose(trace.arrays["latent"], answer.latent_T, rtol=1e-4, atol=1e-5)


def test_a_drawer_without_attention_goes_on_to_the_same_bits(source: Path, tmp_path: Path) -> None:
    assert_resumed_to_the_bit(tmp_path / "run", "draw", source, step=6, attend=False, seed=1, **QUICK)


# ---- commands


def test_commands_score_tabulate_and_draw(drawing: Any, source: Path, tmp_path: Path, shell: Shell) -> None:
    run = drawing.save(tmp_path / "run")
    lines, code = shell("predict", run, "--score", source)
    assert (code, len(lines)) == (0, 1)
    _, code = shell("predict", run, "--in", source, "--out", tmp_path / "table.csv")
    table = (tmp_path / "table.csv").read_text().splitlines()
    assert (code, len(table)) == (0, 41)
    assert table[0].endswith("picture,nats,pixels,latent")
    lines, code = shell("predict", run, "--samples", 5, "--seed", 2, "--figure", tmp_path / "new.png")
    assert code == 0
    assert "5 pictures, seed 2" in lines[-1]
    with Image.open(tmp_path / "new.png") as sheet:
        pixels = np.asarray(sheet)
    assert pixels.shape == (18, 26)
    expected = np.rint(255 * drawing.net.sample(5, seed=2)[3, 0].numpy())
    np.testing.assert_allclose(pixels[10:16, 2:8], expected, atol=1)


def test_new_pictures_are_kept_as_arrays_that_are_read_again(drawing: Any, tmp_path: Path, shell: Shell) -> None:
    run, file = drawing.save(tmp_path / "run"), tmp_path / "new.npz"
    lines, code = shell("predict", run, "--samples", 5, "--seed", 2, "--out", file)
    assert (code, lines[-1]) == (0, f"saved {file}: 5 pictures, seed 2")
    own_NCHW = drawing.net.sample(5, seed=2).numpy()
    with np.load(file, allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["chances"], np.moveaxis(own_NCHW, 1, 3))
        np.testing.assert_array_equal(arrays["pixels"], np.rint(255 * np.moveaxis(own_NCHW, 1, 3)))
    again = drawing.task.read([file])
    assert [one.read().shape for one in again] == [(6, 6, 1)] * 5
    for words in (("--samples", 5, "--out", "new.csv"), ("--out", "new.npz")):
        _, code = shell("predict", run, *words)
        assert code == 2


def test_how_a_picture_is_drawn_again_is_saved_as_a_figure(drawing: Any, tmp_path: Path, shell: Shell) -> None:
    pytest.importorskip("plotly")
    run, picture = drawing.save(tmp_path / "run"), tmp_path / "one.png"
    Image.fromarray(np.full((6, 6), 90, np.uint8)).save(picture)
    _, code = shell("predict", run, picture, "--explain", "--figure", tmp_path / "strokes.html")
    assert code == 0
    assert "drawn stroke by stroke" in (tmp_path / "strokes.html").read_text(encoding="utf-8")


def test_mistakes_of_drawing_are_refused_in_a_sentence(
    drawing: Any, tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = drawing.save(tmp_path / "run")
    for words in (("--samples", 0), ("--samples", 5, "--figure", "new.svg"), ("--samples", 5, "--explain")):
        lines, code = shell("predict", run, *words)
        assert (code, lines) == (2, [])
    assert not [*tmp_path.glob("*.svg"), *tmp_path.glob("*.png")]
    with assert_refused(OptionError, "model", "vae", "draw", "pixels"):
        thereafter.train(tmp_path / "never-read.npz", task="draw", model="vae")

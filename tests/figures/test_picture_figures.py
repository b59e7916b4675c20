"""Figures of captions and clips hold the pixels, weights and nats they are given, and are drawn from a saved file."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
import pytest

from refusals import assert_refused
from thereafter.errors import OptionError, ShapeError
from thereafter.figures import pictures
from thereafter.figures.catalogue import draw
from thereafter.inspection.measurement import Measurement
from thereafter.vision import figures
from thereafter.vision.captioning.task import CaptionExplained
from thereafter.vision.clips.labels import ClipExplained, ClipLabels
from thereafter.vision.clips.next_frames import FramesExplained, JudgedFrames, NextFrames
from thereafter.vision.measures import score_frames

WORDS = ("a", "red", "circle")


def explained_caption(picture: pictures.Pixels | None = None) -> CaptionExplained:
    weights = np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.7, 0.1, 0.1], [0.0, 0.0, 0.0, 1.0]], np.float32)
    shown = np.arange(6 * 8 * 3, dtype=np.uint8).reshape(6, 8, 3) if picture is None else picture
    return CaptionExplained("one.png", "a red circle", WORDS, (0.5, 0.25, 1.0), weights, (2, 2), shown)


def explained_clip() -> ClipExplained:
    frames = np.zeros((3, 5, 5), np.uint8)
    frames[np.arange(3), np.arange(3), np.arange(3)] = 255
    beliefs = {
        "digit": np.array([[0.5, 0.5], [0.75, 0.25], [1.0, 0.0]], np.float32),
        "direction": np.array([[0.25, 0.5, 0.25], [0.0, 1.0, 0.0], [0.0, 0.5, 0.5]], np.float32),
    }
    names = {"digit": ("3", "7"), "direction": ("E", "N", "W")}
    return ClipExplained(ClipLabels({"digit": "3", "direction": "N"}, {}), names, beliefs, frames)


def explained_frames(shift: float = 0.0, seed: int = 0) -> FramesExplained:
    frames = np.random.default_rng(seed).integers(0, 256, (5, 4, 6), dtype=np.uint8)
    judged = JudgedFrames((10.0 + shift, 20.5 + shift), (1.0, 2.0), (0.5, 0.5))
    return FramesExplained(frames[:3], frames[3:], NextFrames(np.full((2, 4, 6), 0.2, np.float32)), judged)


def decoded(source: str) -> np.ndarray:
    """Pixels of an address, read by another reader of PNG than ours."""
    image = pytest.importorskip("PIL.Image")
    content = base64.b64decode(source.removeprefix("data:image/png;base64,"))
    return np.asarray(image.open(io.BytesIO(content)))


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 7, 1), (6, 4, 3)])
def test_a_png_has_the_pixels_it_was_made_of(shape: tuple[int, int, int]):
    given = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    np.testing.assert_array_equal(decoded(pictures.data_uri(given)).reshape(shape), given)


def test_what_is_no_picture_is_no_png():
    for shape in ((4, 4), (4, 4, 2), (0, 4, 3)):
        with assert_refused(ShapeError, 1, 3):
            pictures.png(np.zeros(shape, np.uint8))


@pytest.mark.parametrize(("rows", "columns"), [(4, 3), (1, 1), (2, 5)])
def test_weights_are_spread_as_torch_interpolates(rows: int, columns: int):
    torch = pytest.importorskip("torch")
    weights = np.random.default_rng(1).random((rows, columns))
    expected = torch.nn.functional.interpolate(torch.tensor(weights)[None, None], (11, 13), mode="bilinear")
    np.testing.assert_allclose(pictures.spread_over(weights, 11, 13), expected[0, 0].numpy(), atol=1e-12)


def test_a_picture_is_itself_where_the_weight_is_largest():
    picture = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    np.testing.assert_array_equal(pictures.lit_by(picture, np.ones((2, 2))), picture)
    lit = pictures.lit_by(picture, np.array([[1.0, 0.0], [0.0, 0.0]]))
    np.testing.assert_array_equal(lit[:2, :2], picture[:2, :2])
    assert np.ptp(lit[6:, 6:].astype(int)) <= 0.13 * 255  # elsewhere hardly any contrast is left
    assert pictures.enlarged(picture, 20).shape == (24, 24, 3)


def test_an_attended_picture_shows_the_picture_and_one_for_each_word():
    drawn = figures.attended_picture(explained_caption(), model="a captioner")
    assert len(drawn.plot.data) == 4
    first = decoded(drawn.plot.data[0].source)
    np.testing.assert_array_equal(first[::25, ::25], explained_caption().picture)  # 6 pixels as 150
    titles = [one.text for one in drawn.plot.layout.annotations]
    assert [word in title for word, title in zip(("the picture", *WORDS), titles, strict=True)] == [True] * 4
    assert drawn.table["weight"][:4] == [0.7, 0.1, 0.1, 0.1]
    assert drawn.to_rows()[-1] == {"word": "circle", "probability": 1.0, "row": 1, "column": 1, "weight": 1.0}
    for part in ("a captioner", "a red circle", "one.png"):
        assert part in drawn.caption


def test_features_without_pixels_are_drawn_as_a_field():
    drawn = figures.attended_picture(explained_caption(np.zeros((0, 0, 3), np.uint8)))
    assert decoded(drawn.plot.data[0].source).min() == 255
    looked = decoded(drawn.plot.data[3].source)
    assert looked[-1, -1] == 255
    assert looked[0, 0] < 180


def test_without_attention_there_is_nothing_to_draw():
    blind = CaptionExplained(
        "x", "a", ("a",), (1.0,), np.zeros((1, 0), np.float32), (0, 0), np.zeros((2, 2, 1), np.uint8)
    )
    with assert_refused(OptionError, "see = attention"):
        figures.attended_picture(blind)


def test_beliefs_stand_under_their_frames():
    drawn = figures.belief_by_frame(figures.measured_belief(explained_clip(), model="an LSTM", truth={"digit": "3"}))
    images = [one for one in drawn.plot.data if one.type == "image"]
    maps = [one for one in drawn.plot.data if one.type == "heatmap"]
    for number, (image, frame) in enumerate(zip(images, explained_clip().frames_THW, strict=True)):
        np.testing.assert_array_equal(decoded(image.source), frame)
        assert image.x0 + 2 * image.dx == pytest.approx(maps[0].x[number])  # 5 pixels: the third is the middle
    np.testing.assert_allclose(np.array(maps[1].z, float), explained_clip().beliefs["direction"].T)
    ticks = list(drawn.plot.layout.yaxis2.ticktext)
    assert ["◂" in name for name in ticks] == [True, False]
    assert "◂" in drawn.caption
    assert drawn.to_rows()[5] == {"frame": 2, "column": "digit", "label": "3", "right": 1, "probability": 0.75}
    assert "◂" not in figures.belief_by_frame(figures.measured_belief(explained_clip())).caption


def test_predicted_frames_stand_under_those_that_came():
    one, other = (
        figures.measured_frames(explained_frames(shift), model=name, text="a clip")
        for name, shift in (("conv-lstm", 0.0), ("copying", 5.0))
    )
    drawn = figures.predicted_frames([one, other])
    assert len(drawn.plot.data) == 5 + 2 + 2
    came, predicted = drawn.plot.data[3], drawn.plot.data[5]
    assert (came.x0, came.dx) == (predicted.x0, predicted.dx)
    assert came.y0 < predicted.y0
    assert set(decoded(predicted.source).ravel()) == {51}
    assert drawn.table == {
        "model": ["conv-lstm"] * 2 + ["copying"] * 2,
        "step": [1, 2] * 2,
        "nats": [10, 20.5, 15, 25.5],
    }
    with assert_refused(OptionError, "clip"):
        figures.predicted_frames([one, figures.measured_frames(explained_frames(seed=1), model="copying")])


def nats(model: str, slope: float) -> Measurement:
    nats_NK = np.array([[10.0, 10 + slope], [20.0, 20 + slope]])
    return figures.measured_nats(score_frames(nats_NK, nats_NK, np.full((2, 2), 3.0)), model=model, text="clips")


def test_nats_by_step_has_a_line_a_model_in_its_own_colour():
    drawn = figures.nats_by_step([nats("lstm", 4.0), nats("lstm, conv", 2.0)])
    assert [list(line.y) for line in drawn.plot.data] == [[15, 19], [15, 17]]
    assert len({line.line.color for line in drawn.plot.data}) == 2
    assert drawn.plot.layout.shapes[0].y0 == 3.0
    assert drawn.table["nats"] == [15, 19, 15, 17]
    assert "2 clips" in drawn.caption


@pytest.mark.parametrize(
    ("name", "measured"),
    [
        ("attended-picture", figures.measured_caption(explained_caption())),
        ("belief-by-frame", figures.measured_belief(explained_clip())),
        ("predicted-frames", figures.measured_frames(explained_frames())),
        ("nats-by-step", nats("lstm", 1.0)),
    ],
)
def test_figures_of_pictures_are_drawn_from_a_file(name: str, measured: Measurement, tmp_path: Path):
    (drawn,) = draw(name, [measured.save(tmp_path / "measured.npz")])
    assert drawn.name == name
    assert drawn.to_rows() == measured.figure().to_rows()
    assert "nan" not in drawn.csv()

"""Figures of glimpses and of drawings hold the squares, canvases and nats they are given, and are drawn from a file."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.figures.catalogue import draw
from thereafter.inspection.trace import Trace
from thereafter.vision import figures
from thereafter.vision.glimpsing.task import GlimpsesExplained


def explained_glimpses() -> GlimpsesExplained:
    pixels = np.random.default_rng(0).integers(0, 256, (1, 20, 20), dtype=np.uint8)
    beliefs = np.array([[0.2, 0.5, 0.3], [0.1, 0.8, 0.1]], np.float32)
    places = np.array([[9.6, 4.2], [19.0, 18.4]], np.float32)
    return GlimpsesExplained("b", {"b": 0.8, "a": 0.1, "c": 0.1}, ("a", "b", "c"), places, beliefs, pixels)


def traced_drawing(*, attends: bool = True) -> Trace:
    rng = np.random.default_rng(1)
    arrays: dict[str, NDArray[np.number]] = {
        "pixels": rng.integers(0, 256, (1, 10, 10), dtype=np.uint8),
        "canvas": rng.random((3, 1, 10, 10), np.float32),
        "latent": np.array([1.5, 0.25, 3.0], np.float32),
    }
    axes: dict[str, tuple[str, ...]] = {"pixels": ("channel", "row", "column"), "latent": ("stroke",)}
    axes["canvas"] = ("stroke", "channel", "row", "column")
    for name in ("read", "write") if attends else ():
        arrays[f"{name}.centre"] = np.full((3, 2), 4.5, np.float32)
        arrays[f"{name}.stride"] = np.array([1.0, 2.0, 0.5], np.float32)
        axes |= {f"{name}.centre": ("stroke", "place"), f"{name}.stride": ("stroke",)}
    return Trace(["1", "2", "3"], [], arrays, axes, {"answer": "12.00 nats"})


def decoded_pixels(source: str) -> NDArray[np.uint8]:
    """Pixels of an address, read by another reader of PNG than ours."""
    content = base64.b64decode(source.removeprefix("data:image/png;base64,"))
    return np.asarray(Image.open(io.BytesIO(content)))


def test_squares_of_a_glimpse_are_drawn_where_the_sensor_cuts_and_what_it_saw_below() -> None:
    measured = figures.measured_glimpses(explained_glimpses(), patch=4, scales=2, truth="b")
    figure = figures.glimpse_path(measured)
    images = [decoded_pixels(one.source) for one in figure.plot.data if one.type == "image"]
    assert len(images) == 4
    orange = (images[0] == (0xE6, 0x9F, 0x00)).all(-1)
    rows, columns = np.nonzero(orange)
    # 20 pixels as 220: the widest square has 8 pixels from column floor(9.6 - 4 + .5) = 6 and row floor(.7) = 0 on
    assert (columns.min() // 11, columns.max() // 11) == (6, 13)
    assert (rows.min() // 11, rows.max() // 11) == (0, 7)
    picture = explained_glimpses().pixels_CHW[0].astype(float)
    times = images[2].shape[0] // 8
    corner = picture[0:2, 6:8].mean()  # the coarse patch: means of 2 x 2 pixels
    assert images[2][0, 0].tolist() == [round(corner)] * 3
    assert images[2][2 * times, 2 * times, 0] == picture[2, 8]  # the sharp one in its middle
    assert images[3][-1, -1].max() == 0  # beyond the edge
    (heat,) = [one for one in figure.plot.data if one.type == "heatmap"]
    np.testing.assert_allclose(np.array(heat.z, float), explained_glimpses().beliefs_TL.T, rtol=1e-6)
    assert figure.to_rows()[4] == {
        "glimpse": 2, "column": 19.0, "row": 18.4, "label": "b", "right": 1, "probability": 0.8,
    }  # fmt: skip


def test_windows_are_drawn_about_their_middle_and_bars_are_the_nats() -> None:
    figure = figures.drawn_strokes(figures.measured_strokes(traced_drawing(), read=2, write=4))
    images = [decoded_pixels(one.source) for one in figure.plot.data if one.type == "image"]
    assert len(images) == 6
    for image, side, tint in ((images[0], 4.0, (0xE6, 0x9F, 0x00)), (images[4], 3.0, (0x56, 0xB4, 0xE9))):
        rows, columns = np.nonzero((image == tint).all(-1))
        times = image.shape[0] / 10
        for edge in (rows, columns):
            assert (edge.max() + 1 - edge.min()) / times == pytest.approx(side)
            assert (edge.max() + 1 + edge.min()) / 2 / times == pytest.approx(5)
    (bars,) = [one for one in figure.plot.data if one.type == "bar"]
    assert list(bars.y) == [1.5, 0.25, 3.0]
    assert figure.to_rows()[2]["write side"] == 2.5
    assert "12.00 nats" in figure.caption


def test_without_windows_the_canvases_are_as_they_are() -> None:
    trace = traced_drawing(attends=False)
    figure = figures.drawn_strokes(figures.measured_strokes(trace, read=2, write=4))
    first = decoded_pixels(figure.plot.data[0].source)
    expected = np.rint(255 * trace.arrays["canvas"][0, 0]).astype(np.uint8)
    np.testing.assert_array_equal(first[::16, ::16, 0], expected)
    assert figure.to_rows()[0]["read row"] is None
    assert "orange" not in figure.caption


def test_both_are_drawn_from_saved_files_and_others_are_refused(tmp_path: Path) -> None:
    path = figures.measured_glimpses(explained_glimpses(), patch=4).save(tmp_path / "path.npz")
    strokes = figures.measured_strokes(traced_drawing(), read=2, write=4).save(tmp_path / "strokes.npz")
    assert draw("glimpse-path", [path])[0].name == "glimpse-path"
    assert draw("drawn-strokes", [strokes])[0].name == "drawn-strokes"
    with assert_refused(OptionError, "glimpse-path"):
        draw("drawn-strokes", [path])
    with assert_refused(OptionError, "canvas"):
        figures.measured_strokes(Trace(["a"], [], {}, {}, {}), read=1, write=1)
    with assert_refused(OptionError, "patch", 0):
        figures.measured_glimpses(explained_glimpses(), patch=0)

"""The pictures of a task have one shape: cropped and resized as Pillow does it, decoded once, in a file and not in
memory."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_files import drawn, png, write
from PIL import Image, ImageOps

from refusals import assert_refused
from thereafter.base import progress
from thereafter.base.progress import Silent
from thereafter.errors import FormatError, OptionError
from thereafter.vision.pictures.codec import PictureCodec
from thereafter.vision.pictures.decoding import fit_in
from thereafter.vision.pictures.picture import Picture, pictures_of
from thereafter.vision.pictures.sources import open_pictures, picture_of


class Notes(Silent):
    """Hears what a user is told."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def note(self, message: str) -> None:
        self.heard.append(message)


def folder_of(folder: Path, shapes: list[tuple[int, int, int]]) -> list[Picture]:
    for number, shape in enumerate(shapes):
        write(folder / f"{number}.png", png(drawn(number, *shape)))
    return pictures_of(open_pictures(folder))


@pytest.mark.parametrize("size", [(40, 60), (60, 40), (50, 50), (33, 91)])
@pytest.mark.parametrize("channels", [1, 3])
def test_middle_and_size_are_those_of_pillow(size: tuple[int, int], channels: int):
    pixels = drawn(1, *size, channels)
    image = Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels)
    side = min(size)
    left, top = (size[1] - side) // 2, (size[0] - side) // 2
    expected = image.crop((left, top, left + side, top + side)).resize((20, 20), Image.Resampling.LANCZOS)
    fitted = fit_in(pixels, 20, 20, channels)
    np.testing.assert_array_equal(np.moveaxis(fitted, 0, 2).squeeze(), np.asarray(expected))
    wide = fit_in(pixels, 10, 30, channels)
    assert wide.shape == (channels, 10, 30)
    near = np.asarray(ImageOps.fit(image, (30, 10), Image.Resampling.LANCZOS), float)
    assert np.abs(np.moveaxis(wide, 0, 2).squeeze() - near).mean() < 25  # it cuts between pixels


def test_colours_and_grey():
    pixels = drawn(2, 5, 5)
    grey = np.asarray(Image.fromarray(pixels).convert("L"), int)
    assert np.abs(fit_in(pixels, 5, 5, 1)[0].astype(int) - grey).max() <= 1
    np.testing.assert_array_equal(fit_in(pixels[:, :, :1], 5, 5, 3), np.repeat(pixels[None, :, :, 0], 3, axis=0))
    np.testing.assert_array_equal(fit_in(pixels, 5, 5, 3), np.moveaxis(pixels, 2, 0))


def test_equal_pictures_keep_their_size_and_give_their_moments(tmp_path: Path):
    pictures = folder_of(tmp_path, [(6, 8, 3)] * 5)
    codec = PictureCodec.fit(pictures)
    assert (codec.kind, codec.shape, codec.size) == ("pixels", (3, 6, 8), 0)
    stacked = np.stack([drawn(number) for number in range(5)]) / 255
    np.testing.assert_allclose(codec.mean, stacked.mean((0, 1, 2)))
    np.testing.assert_allclose(codec.deviation, stacked.std((0, 1, 2)))
    np.testing.assert_array_equal(codec.batch(pictures[3:1:-1]), np.stack([codec.encode(pictures[k]) for k in (3, 2)]))


def test_one_grey_among_colours_is_read_as_colour_with_one_note(tmp_path: Path):
    pictures = folder_of(tmp_path, [(6, 8, 3), (6, 8, 1), (6, 8, 3)])
    notes = Notes()
    with progress.reporting(notes):
        codec = PictureCodec.fit(pictures)
    assert notes.heard == ["1 of 3 pictures is grey, read as colours"]
    batch = codec.batch(pictures)
    assert (batch[1] == batch[1, :1]).all()
    assert PictureCodec.fit(pictures[1:2]).channels == 1


def test_different_sizes_are_read_as_64_unless_a_size_is_asked_for(tmp_path: Path):
    pictures = folder_of(tmp_path, [(70, 90, 1), (80, 65, 1)])
    notes = Notes()
    with progress.reporting(notes):
        assert PictureCodec.fit(pictures).shape == (1, 64, 64)
    assert notes.heard == ["the pictures have 2 sizes; their middles are read as 64 x 64"]
    codec = PictureCodec.fit(pictures, size=16)
    assert codec.batch(pictures).shape == (2, 1, 16, 16)
    for size in (-1, 100_000):
        with assert_refused(OptionError, "size", size, 1, 4096):
            PictureCodec.fit(pictures, size=size)
    with pytest.raises(OptionError, match="no pictures to learn from"):
        PictureCodec.fit([])


class Counted:
    """A source that counts how often its rows are decoded."""

    name, kind = "counted", "pixels"

    def __init__(self, count: int) -> None:
        self.count, self.reads = count, Counter[int]()

    def __len__(self) -> int:
        return self.count

    def names(self) -> list[str]:
        return [str(row) for row in range(self.count)]

    def shape(self, row: int) -> tuple[int, ...]:
        return (6, 8, 3)

    def read(self, row: int) -> np.ndarray:
        self.reads[row] += 1
        return drawn(row)


def test_every_picture_is_decoded_once():
    source: Any = Counted(9)
    pictures = pictures_of(source)
    codec = PictureCodec.fit(pictures, size=4)
    first = codec.batch(pictures)
    np.testing.assert_array_equal(codec.batch(pictures[::-1]), first[::-1])
    np.testing.assert_array_equal(codec.batch([pictures[4], pictures[4]]), first[[4, 4]])
    codec.keep(pictures)
    assert set(source.reads.values()) == {1}
    PictureCodec.fit(pictures, size=5).keep(pictures)  # another size is kept beside it
    assert set(source.reads.values()) == {2}
    np.testing.assert_array_equal(first[3], codec.encode(pictures[3]))


def test_several_sources_in_one_batch(tmp_path: Path):
    files = folder_of(tmp_path / "files", [(6, 8, 1)] * 3)
    np.save(tmp_path / "a.npy", np.stack([drawn(number, 6, 8, 1)[:, :, 0] for number in range(3)]))
    stacked = pictures_of(open_pictures(tmp_path / "a.npy"))
    given = picture_of(drawn(1, 6, 8, 1))
    codec = PictureCodec.fit(files)
    mixed = codec.batch([files[1], stacked[2], given, stacked[1], files[2]])
    np.testing.assert_array_equal(mixed[[0, 3]], mixed[[2, 2]])
    np.testing.assert_array_equal(mixed[1], mixed[4])


@pytest.mark.parametrize(("kind", "shape"), [("vectors", (4, 5)), ("maps", (4, 3, 5))])
def test_features_made_elsewhere(tmp_path: Path, kind: str, shape: tuple[int, ...]):
    values = np.random.default_rng(0).normal(3, 2, shape).astype(np.float32)
    np.savez(tmp_path / "a.npz", features=values, names=np.array(list("abcd")))
    pictures = pictures_of(open_pictures(tmp_path / "a.npz"))
    codec = PictureCodec.fit(pictures)
    assert (codec.kind, codec.shape) == (kind, shape[1:])
    np.testing.assert_allclose([codec.mean[0], codec.deviation[0]], [values.mean(), values.std()], rtol=1e-5)
    np.testing.assert_array_equal(codec.batch(pictures), values)
    np.testing.assert_array_equal(codec.encode(picture_of(values[2])), values[2])
    for wrong in (drawn(), values[0][..., :2]):
        with pytest.raises(OptionError, match=r"expected .*as in training"):
            codec.encode(picture_of(np.ascontiguousarray(wrong)))


def test_features_where_pixels_are_expected_and_both_at_once(tmp_path: Path):
    np.save(tmp_path / "a.npy", np.zeros((2, 5)))
    np.save(tmp_path / "b.npy", np.zeros((2, 7)))
    vectors, others = (pictures_of(open_pictures(tmp_path / name)) for name in ("a.npy", "b.npy"))
    pixels = picture_of(drawn())
    with assert_refused(OptionError, "a.npy", 5, "6 x 8"):
        PictureCodec.fit([pixels]).encode(vectors[0])
    with pytest.raises(FormatError, match=r"the pictures are pixels .* and vectors .*expected one kind"):
        PictureCodec.fit([pixels, vectors[0]])
    with assert_refused(FormatError, "b.npy", 7, 5):
        PictureCodec.fit([vectors[0], others[0]])


def test_a_codec_comes_back_and_damage_is_refused():
    codec = PictureCodec.fit([picture_of(drawn()), picture_of(drawn(1))])
    stored = json.loads(json.dumps(codec.to_json()))
    assert PictureCodec.from_json(stored) == codec
    again = codec.decode(codec.encode(picture_of(drawn())))
    np.testing.assert_array_equal(again.read(), drawn())
    for key, value in (
        ("kind", "movies"), ("height", 0), ("width", "8"), ("channels", 2), ("mean", [0.5]), ("deviation", [0.0] * 3),
        ("mean", [float("nan")] * 3), ("height", True), ("width", 1 << 40),
    ):  # fmt: skip
        with pytest.raises(FormatError, match="the pictures of this run are damaged"):
            PictureCodec.from_json(stored | {key: value})


def test_large_equal_pictures_are_read_as_64_with_a_note(tmp_path: Path):
    pictures = folder_of(tmp_path, [(20, 300, 1)] * 2)
    notes = Notes()
    with progress.reporting(notes):
        assert PictureCodec.fit(pictures).shape == (1, 64, 64)
    assert len(notes.heard) == 1
    assert "20 x 300 pixels, more than 256 a side; their middles are read as 64 x 64" in notes.heard[0]
    assert "--set size=256" in notes.heard[0]
    assert PictureCodec.fit(pictures, size=300).shape == (1, 300, 300)
    assert PictureCodec.fit(folder_of(tmp_path / "b", [(20, 256, 1)] * 2)).shape == (1, 20, 256)

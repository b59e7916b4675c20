"""Pictures are read pixel by pixel as they were written, from files, folders, archives, idx files and arrays."""

from __future__ import annotations

import gc
import gzip
import io
import os
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_files import drawn, idx, jpeg, png, png_of, write
from PIL import Image

from refusals import assert_refused
from thereafter.errors import OptionError
from thereafter.vision.pictures.decoding import decode
from thereafter.vision.pictures.picture import Picture, pictures_of
from thereafter.vision.pictures.sources import open_pictures, picture_of


@pytest.mark.parametrize("channels", [1, 3])
def test_a_file_gives_its_pixels(tmp_path: Path, channels: int):
    pixels = drawn(channels=channels)
    source = open_pictures(write(tmp_path / "a.png", png(pixels)))
    assert (len(source), source.kind, source.names(), source.shape(0)) == (1, "pixels", ["a.png"], pixels.shape)
    np.testing.assert_array_equal(source.read(0), pixels)


def test_a_folder_gives_its_files_in_order_and_those_below(tmp_path: Path):
    for name, seed in (("b.png", 1), ("a.png", 2), ("deep/c.PNG", 3)):
        write(tmp_path / name, png(drawn(seed)))
    write(tmp_path / "readme.md", "no picture")
    write(tmp_path / ".hidden.png", png(drawn(4)))
    source = open_pictures(tmp_path)
    assert source.names() == ["a.png", "b.png", "deep/c.PNG"]
    for picture, seed in zip(pictures_of(source), (2, 1, 3), strict=True):
        np.testing.assert_array_equal(picture.read(), drawn(seed))


@pytest.mark.parametrize("packing", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_archive_is_read_without_unpacking_it(tmp_path: Path, packing: int):
    path = tmp_path / "all.zip"
    with zipfile.ZipFile(path, "w", packing) as archive:
        archive.comment = b"a comment at the end"
        archive.writestr("images/x.png", png(drawn(1)))
        archive.writestr("__MACOSX/images/._x.png", b"no picture")
        archive.writestr("notes.txt", "no picture")
        archive.writestr("images/y.png", png(drawn(2, channels=1)))
    source = open_pictures(path)
    assert (source.names(), source.shape(1)) == (["images/x.png", "images/y.png"], (6, 8, 1))
    np.testing.assert_array_equal(source.read(1), drawn(2, channels=1))
    np.testing.assert_array_equal(source.read(0), drawn(1))
    assert os.listdir(tmp_path) == ["all.zip"]


@pytest.mark.parametrize("packed", [False, True])
def test_idx_files_plain_and_gzipped(tmp_path: Path, packed: bool):
    pixels = drawn(3, 5, 7, 4).transpose(2, 0, 1).copy()  # four pictures 5 x 7
    content = idx(pixels)
    name = "train-images-idx3-ubyte" + (".gz" if packed else "")
    source = open_pictures(write(tmp_path / name, gzip.compress(content) if packed else content))
    assert (len(source), source.names()[:2], source.shape(3)) == (4, ["0", "1"], (5, 7, 1))
    np.testing.assert_array_equal(np.stack([source.read(row)[:, :, 0] for row in range(4)]), pixels)


@pytest.mark.parametrize(
    ("shape", "dtype", "kind", "each"),
    [
        ((3, 5, 7), "uint8", "pixels", (5, 7, 1)),
        ((3, 5, 7, 3), "uint8", "pixels", (5, 7, 3)),
        ((3, 3, 5, 7), "uint8", "pixels", (5, 7, 3)),
        ((3, 5, 7), "bool", "pixels", (5, 7, 1)),
        ((3, 5, 7, 3), "float32", "pixels", (5, 7, 3)),
        ((3, 9), "float64", "vectors", (9,)),
        ((3, 4, 9), "float32", "maps", (4, 9)),
        ((3, 2, 2, 9), "float16", "maps", (4, 9)),
        ((3, 9, 2, 2), "float32", "maps", (4, 9)),
    ],
)
@pytest.mark.parametrize("ending", ["npy", "npz"])
def test_arrays_are_what_their_type_and_axes_say(
    tmp_path: Path, shape: tuple[int, ...], dtype: str, kind: str, each: tuple[int, ...], ending: str
):
    drawn_once = np.random.default_rng(0).random(shape)
    array = (
        (drawn_once * 255).astype(dtype) if dtype == "uint8" else (drawn_once > 0.5 if dtype == "bool" else drawn_once)
    )
    array = array.astype(dtype)
    path = tmp_path / f"it.{ending}"
    np.save(path, array) if ending == "npy" else np.savez_compressed(path, pictures_here=array)
    source = open_pictures(path)
    assert (len(source), source.kind, source.shape(1)) == (3, kind, each)
    one = np.asarray(source.read(1))
    assert (one.shape, one.dtype) == (each, np.dtype("uint8" if kind == "pixels" else "float32"))
    expected = array[1].astype(np.float64) * (255 if dtype in ("bool", "float32") and kind == "pixels" else 1)
    if shape in ((3, 3, 5, 7), (3, 9, 2, 2)):
        expected = np.moveaxis(expected, 0, 2)
    np.testing.assert_allclose(one, expected.reshape(each), atol=0.5 if kind == "pixels" else 1e-6)


def test_an_npz_names_its_pixels_and_its_pictures(tmp_path: Path):
    np.savez(tmp_path / "a.npz", other=np.zeros(3), x=np.ones((2, 4, 4)) * 0.5, names=np.array(["u.jpg", "v.jpg"]))
    source = open_pictures(tmp_path / "a.npz")
    assert (source.kind, source.shape(0), list(source.names())) == ("pixels", (4, 4, 1), ["u.jpg", "v.jpg"])
    assert int(np.asarray(source.read(0)).max()) == 128
    fortran = np.asfortranarray(drawn(1, 4, 5, 3))[None]
    np.savez(tmp_path / "b.npz", pixels=fortran)
    np.testing.assert_array_equal(open_pictures(tmp_path / "b.npz").read(0), drawn(1, 4, 5, 3))


def test_transparency_is_over_white(tmp_path: Path):
    pixels = np.zeros((1, 3, 4), np.uint8)
    pixels[0, :, 3] = (0, 128, 255)
    read = open_pictures(write(tmp_path / "a.png", png(pixels))).read(0)
    assert np.asarray(read)[0, :, 0].tolist() == [255, 127, 0]


def test_photographs_are_turned_as_their_camera_says(tmp_path: Path):
    pixels = np.zeros((8, 24, 3), np.uint8)
    pixels[:, :12] = 255  # white on the left
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise: what is left comes to the top
    source = open_pictures(write(tmp_path / "a.jpg", jpeg(pixels, exif=exif)))
    read = np.asarray(source.read(0))
    assert read.shape == source.shape(0) == (24, 8, 3)
    assert read[:8].min() > 200
    assert read[16:].max() < 50


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"])
def test_every_mode_of_pillow_is_read(tmp_path: Path, mode: str):
    grey = Image.fromarray(np.repeat(np.array([[0, 255]], np.uint8), 2, axis=0))
    image = Image.fromarray(np.array([[0, 65535]] * 2, np.uint16)) if mode == "I;16" else grey.convert(mode)
    path = tmp_path / ("a.tif" if mode == "CMYK" else "a.png")
    image.save(path)
    source = open_pictures(path)
    read = np.asarray(source.read(0))
    assert read.shape == source.shape(0)
    assert read.shape[2] == (1 if mode in ("1", "L", "LA", "I;16") else 3)
    assert read[:, :, 0].tolist() == [[0, 255]] * 2


def test_what_a_user_hands_over(tmp_path: Path):
    pixels = drawn()
    path = write(tmp_path / "a.png", png(pixels))
    for given in (str(path), path, pixels, Image.fromarray(pixels), pixels.astype(np.float64) / 255):
        np.testing.assert_array_equal(picture_of(given).read(), pixels)
    np.testing.assert_array_equal(picture_of(pixels[:, :, 0]).read(), pixels[:, :, :1])
    picture = picture_of(path)
    assert picture_of(picture) is picture
    assert picture_of(pixels) == picture_of(pixels.copy()) != picture_of(drawn(1))
    assert picture_of(np.ones(5, np.float32)).source.kind == "vectors"


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        (3, "a picture is int; expected the path"),
        (np.zeros((2, 2), object), "of object"),
        (np.zeros((3, 5, 7), np.uint8), "np.moveaxis"),
        (np.zeros((4, 5, 7, 3), np.uint8), r"\[4, 5, 7, 3\]"),
        (np.zeros((0, 7), np.uint8), r"\[0, 7\]"),
        (np.full((2, 2), np.nan), "NaN"),
        (np.arange(4), "whole numbers"),
    ],
)
def test_what_is_no_picture_is_refused(given: Any, wrong: str):
    with pytest.raises(OptionError, match=wrong):
        picture_of(given)


def test_floats_beyond_one_are_refused_where_pixels_are_read():
    with assert_refused(OptionError, 0, 3, 1, "uint8"):
        picture_of(np.array([[0.0, 3.0]])).read()


def test_a_file_with_several_pictures_is_not_one(tmp_path: Path):
    np.save(tmp_path / "a.npy", np.zeros((2, 4, 4), np.uint8))
    with assert_refused(OptionError, 2):
        picture_of(tmp_path / "a.npy")


def test_the_same_file_is_the_same_source_until_it_changes(tmp_path: Path):
    path = write(tmp_path / "a.png", png(drawn()))
    first = open_pictures(path)
    assert open_pictures(path) is first
    assert Picture(first, 0) == Picture(open_pictures(path), 0, "another name")
    assert len({Picture(first, 0), Picture(first, 0)}) == 1
    write(path, png(drawn(1, 7)))
    assert open_pictures(path) is not first


@pytest.mark.skipif(sys.platform == "win32", reason="files of other systems")
def test_what_is_inflated_is_gone_with_its_source(tmp_path: Path):
    def open_files() -> int:
        return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0

    path = write(tmp_path / "a-images-idx3-ubyte.gz", gzip.compress(idx(drawn()[None, :, :, 0])))
    gc.collect()
    before = open_files()
    source = open_pictures(path)
    assert source.read(0).shape == (6, 8, 1)
    assert open_files() > before or before == 0
    del source
    gc.collect()
    assert open_files() == before


def test_neither_pillow_nor_torch_is_imported_for_arrays(tmp_path: Path):
    np.save(tmp_path / "a.npy", np.zeros((2, 4, 4), np.uint8))
    code = (
        "import sys, pathlib\nfrom thereafter.vision.pictures.sources import open_pictures\n"
        "from thereafter.vision.pictures.codec import PictureCodec\n"
        "from thereafter.vision.pictures.picture import pictures_of\n"
        f"it = pictures_of(open_pictures(pathlib.Path({str(tmp_path / 'a.npy')!r})))\n"
        "print(PictureCodec.fit(it).batch(it).shape, sorted({'torch', 'PIL'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(2, 1, 4, 4) []"


def test_16_bits_and_palettes_of_other_programs():
    deep = png_of(1, 2, 0, zlib.compress(b"\0" + np.array([257 * 100, 257 * 7], ">u2").tobytes()), depth=16)
    assert decode(io.BytesIO(deep), "deep").ravel().tolist() == [100, 7]


@pytest.mark.parametrize("top", [200, 300, 65535])
def test_sixteen_bits_are_scaled_alike_whatever_the_brightest_pixel(tmp_path: Path, top: int):
    Image.fromarray(np.array([[0, 128, top]], np.uint16)).save(tmp_path / "a.png")
    read = np.asarray(open_pictures(tmp_path / "a.png").read(0))
    assert read[:, :, 0].tolist() == [[0, 0, round(top / 257)]]

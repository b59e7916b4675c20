"""Mistakes and attacks: one sentence that names the file, and no memory taken for what a header promises."""

from __future__ import annotations

import shutil
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from pathlib import Path

import numpy as np
import pytest
from made_files import drawn, idx, jpeg, png, png_of, write
from PIL import Image, ImageFile

from refusals import assert_refused
from thereafter.errors import (
    EmptyCorpusError,
    FormatError,
    MissingPackageError,
    SourceError,
    StorageError,
    ThereafterError,
)
from thereafter.vision.clips.reading import read_clips
from thereafter.vision.pictures import archives
from thereafter.vision.pictures.codec import PictureCodec
from thereafter.vision.pictures.picture import pictures_of
from thereafter.vision.pictures.sources import open_pictures


def test_a_folder_without_pictures(tmp_path: Path):
    write(tmp_path / "notes.md", "none")
    with assert_refused(SourceError, ".png"):
        open_pictures(tmp_path)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("notes.txt", "none")
    with assert_refused(EmptyCorpusError, "a.zip"):
        open_pictures(tmp_path / "a.zip")


@pytest.mark.parametrize("content", [jpeg(drawn(0, 64, 64))[:-400], png(drawn(0, 64, 64))[:-400]], ids=["jpeg", "png"])
def test_a_file_that_is_cut_short_is_named(tmp_path: Path, content: bytes):
    write(tmp_path / "good.png", png(drawn(0, 64, 64)))
    write(tmp_path / "short.jpg", content)
    pictures = pictures_of(open_pictures(tmp_path))
    codec = PictureCodec.fit(pictures[:1])
    with assert_refused(SourceError, "short.jpg") as caught:
        codec.keep(pictures)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("Dear all, this is a letter.\n", r"a\.png is text, not a picture"),
        ("", r"a\.png is empty"),
        (b"\xfe\xdc\xba" * 9, r"a\.png is not a picture"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n", "text, not a picture"),  # Pillow would start another program
    ],
)
def test_what_is_no_picture_whatever_its_name(tmp_path: Path, content: bytes | str, sentence: str):
    with pytest.raises(SourceError, match=sentence):
        open_pictures(write(tmp_path / "a.png", content)).read(0)


@pytest.mark.parametrize("side", [8_001, 12_000, 100_000])
def test_a_bomb_is_refused_by_its_header(tmp_path: Path, side: int):
    source = open_pictures(write(tmp_path / "a.png", png_of(side, side, 2, zlib.compress(b"\0" * 1000))))
    for look in (source.read, source.shape):
        with assert_refused(SourceError, "a.png", "64 million"):
            look(0)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def test_the_shape_of_a_png_is_read_from_its_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    side, loaded = 8_000, []
    packer = zlib.compressobj(1)
    rows = b"".join(packer.compress(bytes(1 + side)) for _ in range(side)) + packer.flush()
    path = write(tmp_path / "a.png", png_of(side, side, 0, rows))
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda image: loaded.append(image))
    assert open_pictures(path).shape(0) == (side, side, 1)
    assert not loaded


@pytest.mark.parametrize("late", [False, True])
def test_a_png_is_turned_wherever_its_note_stands(tmp_path: Path, late: bool):
    plain, exif = png(drawn()), Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter
    at = plain.index(b"IEND" if late else b"IDAT") - 4
    content = plain[:at] + chunk(b"eXIf", exif.tobytes()[6:]) + plain[at:]
    source = open_pictures(write(tmp_path / "a.png", content))
    assert source.shape(0) == source.read(0).shape == (8, 6, 3)


def declaring(path: Path, size: int) -> Path:
    """An archive whose table declares another size of its one picture."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.png", png(drawn()))
    content = bytearray(path.read_bytes())
    at = content.rindex(b"PK\1\2")
    content[at + 24 : at + 28] = struct.pack("<I", size)
    path.write_bytes(content)
    return path


def test_an_archive_that_declares_absurd_sizes(tmp_path: Path):
    with assert_refused(SourceError, "a.png", 4000000000):
        open_pictures(declaring(tmp_path / "large.zip", 4_000_000_000))
    source = open_pictures(declaring(tmp_path / "small.zip", 50))
    with assert_refused(SourceError, "a.png"):
        source.read(0)


@pytest.mark.parametrize(("packed", "offset"), [(1 << 40, 0), (10, (1 << 63) + 1)])
def test_a_member_beyond_the_end_of_its_archive(tmp_path: Path, packed: int, offset: int):
    """zip64: the table declares sizes of 64 bits, for which nothing may be reserved."""
    for name in (b"a.png", b"pixels.npy"):
        sizes = struct.pack("<HHQQQ", 1, 24, 10, packed, offset)
        before = struct.pack("<4s5H3I2H", b"PK\3\4", 45, 0, 0, 0, 0, zlib.crc32(b"x" * 10), 10, 10, len(name), 0)
        before += name + b"x" * 10
        table = b"PK\1\2" + struct.pack(
            "<6H3I5H2I",
            45,
            45,
            0,
            0,
            0,
            0,
            zlib.crc32(b"x" * 10),
            0xFFFFFFFF,
            0xFFFFFFFF,
            len(name),
            len(sizes),
            0,
            0,
            0,
            0,
            0xFFFFFFFF,
        )
        table += name + sizes
        end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 1, 1, len(table), len(before), 0)
        path = write(tmp_path / ("a.zip" if name == b"a.png" else "a.npz"), before + table + end)
        with pytest.raises(SourceError, match="beyond the end of the archive"):
            open_pictures(path)


def test_an_archive_that_is_none_damaged_or_encrypted(tmp_path: Path):
    with assert_refused(SourceError, "a.zip"):
        open_pictures(write(tmp_path / "a.zip", "text"))
    path = tmp_path / "b.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.png", png(drawn()))
    content = bytearray(path.read_bytes())
    content[60] ^= 1
    with assert_refused(SourceError, "a.png", "c.zip"):
        open_pictures(write(tmp_path / "c.zip", bytes(content))).read(0)
    content[content.rindex(b"PK\1\2") + 8] |= 1
    with assert_refused(SourceError, "a.png", "d.zip"):
        open_pictures(write(tmp_path / "d.zip", bytes(content)))


@pytest.mark.parametrize("packed", [False, True])
def test_an_idx_header_that_promises_more_than_there_is(tmp_path: Path, packed: bool):
    import gzip

    for sizes in ((3, 6, 8), (1 << 31, 1 << 15, 1 << 15)):
        content = struct.pack(">4B3I", 0, 0, 8, 3, *sizes) + bytes(2 * 6 * 8)
        path = tmp_path / ("a-idx3-ubyte" + (".gz" if packed else ""))
        write(path, gzip.compress(content) if packed else content)
        with assert_refused(FormatError, "a-idx3-ubyte"):
            open_pictures(path)


def test_idx_labels_are_no_pictures_and_other_files_no_idx(tmp_path: Path):
    with assert_refused(FormatError, "images-idx3-ubyte"):
        open_pictures(write(tmp_path / "labels-idx1-ubyte", idx(np.zeros(5, np.uint8))))
    with assert_refused(FormatError, "b-idx3-ubyte"):
        open_pictures(write(tmp_path / "b-idx3-ubyte", "not an idx file at all"))
    with assert_refused(SourceError, "b.pdf"):
        open_pictures(write(tmp_path / "b.pdf", "not a picture at all"))
    with assert_refused(SourceError, "none.png"):
        open_pictures(tmp_path / "none.png")


@pytest.mark.parametrize("ending", ["npy", "npz"])
def test_objects_are_never_unpickled(tmp_path: Path, ending: str):
    path = tmp_path / f"a.{ending}"
    objects = np.array([drawn(), drawn(1, 3)], object)
    np.save(path, objects) if ending == "npy" else np.savez(path, pixels=objects)
    with assert_refused(FormatError, "np.stack"):
        open_pictures(path)


@pytest.mark.parametrize("ending", ["npy", "npz"])
def test_an_array_that_promises_more_than_there_is(tmp_path: Path, ending: str):
    np.save(tmp_path / "a.npy", np.zeros((10, 10, 10), np.uint8))
    content = (tmp_path / "a.npy").read_bytes().replace(b"(10, 10, 10)", b"(99999, 9, )"[:12].replace(b", )", b",9)"))
    path = write(tmp_path / "b.npy", content)
    if ending == "npz":
        path = tmp_path / "b.npz"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("pixels.npy", content)
    with assert_refused(FormatError, "[99999, 9, 9]"):
        open_pictures(path)


@pytest.mark.parametrize("read", [open_pictures, lambda path: read_clips([path])], ids=["pictures", "clips"])
def test_an_npz_that_would_fill_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], object]
):
    """Zeros take a thousandth of their room in an archive."""
    np.savez_compressed(tmp_path / "a.npz", frames=np.zeros((50, 10, 30, 30), np.uint8)[:, :3])
    room = shutil.disk_usage(tmp_path)._replace(free=100_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: room)
    with assert_refused(StorageError, "frames.npy", "a.npz", 135000, 100000):
        read(tmp_path / "a.npz")


def test_labels_of_an_npz_that_would_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(archives, "_MOST_STRINGS", 1_000)
    np.savez_compressed(tmp_path / "a.npz", pixels=np.zeros((9, 4, 4), np.uint8), names=np.full(9, "a" * 100))
    with assert_refused(SourceError, "names.npy", 1000):
        open_pictures(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (np.zeros((2, 9), np.uint8), "of whole numbers; expected pixels"),
        (np.zeros((2, 4, 5, 7), np.uint8), r"\[2, 4, 5, 7\]; expected pixels"),
        (np.zeros(5), r"\[5\]; expected pixels"),
        (np.zeros((2, 3), complex), "type complex128"),
        (np.zeros((0, 5, 5), np.uint8), "there are no pictures"),
    ],
)
def test_arrays_that_are_no_pictures(tmp_path: Path, array: np.ndarray, sentence: str):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(ThereafterError, match=sentence):
        open_pictures(tmp_path / "a.npy")


@pytest.mark.parametrize("array", [np.full((2, 4, 4), "a"), np.zeros((2, 4, 4), complex), np.zeros((2, 4, 4), "V4")])
def test_an_npz_whose_pixels_are_no_numbers(tmp_path: Path, array: np.ndarray):
    np.savez(tmp_path / "a.npz", pixels=array)
    with assert_refused(FormatError, "pixels", "a.npz"):
        open_pictures(tmp_path / "a.npz")


@pytest.mark.parametrize("array", [np.full((2, 4), np.inf), np.full((2, 4, 4, 1), 7.0), np.full((2, 4, 4), 300)])
def test_values_that_no_picture_has(tmp_path: Path, array: np.ndarray):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(FormatError, match=r"a\.npy has (an infinite|pixels from)"):
        open_pictures(tmp_path / "a.npy").read(0)


def test_an_npz_without_a_name_for_its_pictures(tmp_path: Path):
    np.savez(tmp_path / "a.npz", first=np.zeros((2, 4, 4), np.uint8), second=np.zeros(2))
    with assert_refused(FormatError, "first, second", "pixels"):
        open_pictures(tmp_path / "a.npz")


@pytest.mark.parametrize("kind", ["png", "jpeg", "gif", "webp", "tif", "zip", "npz", "npy", "idx"])
def test_random_damage_is_an_error_of_ours_or_a_picture(tmp_path: Path, kind: str):
    """150 files with a few bytes changed or cut: nothing but our own errors comes out."""
    from PIL import Image

    pixels = drawn(0, 12, 12)
    path = tmp_path / f"a.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("x.png", png(pixels))
    elif kind in ("npz", "npy"):
        np.savez(path, pixels=pixels[None]) if kind == "npz" else np.save(path, pixels[None])
    elif kind == "idx":
        write(path, idx(pixels[None, :, :, 0].copy()))
    else:
        Image.fromarray(pixels).save(path)
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    sentences = []
    for number in range(150):
        content = bytearray(whole)
        for at in rng.integers(0, len(content), 1 + number % 4):
            content[at] = rng.integers(256)
        damaged = write(tmp_path / f"{number}.{kind}", bytes(content[: len(content) - (number % 3) * 7]))
        try:
            source = open_pictures(damaged)
            source.shape(0), source.read(0)
        except ThereafterError as refused:
            sentences.append(str(refused))
    assert sentences
    assert not any("\n" in sentence for sentence in sentences)


def test_without_pillow_the_install_line_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    source = open_pictures(write(tmp_path / "a.png", png(drawn())))
    for module in [name for name in sys.modules if name.partition(".")[0] == "PIL"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "meta_path", [Hidden(), *sys.meta_path])
    with assert_refused(MissingPackageError, "thereafter[pictures]"):
        source.read(0)


class Hidden(MetaPathFinder):
    """Finds no Pillow."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] == "PIL":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

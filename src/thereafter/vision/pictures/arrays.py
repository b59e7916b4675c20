"""Pictures in .npy and .npz files of numpy. Nothing is unpickled; headers are compared with the files first.

A .npy is mapped. An array of an .npz is a member of a zip archive: it is unpacked into a temporary file and mapped.
"""

from __future__ import annotations

import io
import math
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import FormatError, SourceError
from thereafter.vision.pictures.archives import check_member, members_of
from thereafter.vision.pictures.mapped import MappedArray
from thereafter.vision.pictures.picture import PictureKind
from thereafter.vision.pictures.stacked import StackedPictures

PIXEL_NAMES = ("pixels", "images", "pictures", "frames", "x", "x_train", "x_test")
FEATURE_NAMES = ("features", "vectors", "maps")
NAME_NAMES = ("names", "files", "filenames", "ids")
_MOST = 1 << 38
_MOST_STRINGS = 1 << 28  # bytes: names and labels are read into memory
_BLOCK = 1 << 20
_HEAD = 1 << 14


def open_npy(path: Path) -> StackedPictures:
    """The pictures or features of a .npy."""
    return StackedPictures(str(path), npy_array(path))


def npy_array(path: Path) -> NDArray[np.generic]:
    """The array of a .npy, mapped: it takes no memory. A header that promises more than the file has is an error."""
    try:
        with open(path, "rb") as file:
            shape, fortran, dtype = _header(file, str(path))
            begin = file.tell()
        if begin + math.prod(shape) * dtype.itemsize > path.stat().st_size:
            raise _cut_short(str(path), shape, dtype, path.stat().st_size)
        if math.prod(shape) == 0:  # there is nothing to map
            return np.empty(shape, dtype)
        return np.memmap(path, dtype, "r", begin, shape, "F" if fortran else "C")
    except OSError as failed:
        raise SourceError(f"{path} could not be read: {failed.strerror or failed}") from None


class NamedPictures(StackedPictures):
    """Stacked pictures with names of their own."""

    def __init__(self, name: str, array: NDArray[np.generic], kind: PictureKind | None, names: list[str]) -> None:
        super().__init__(name, array, kind)
        if len(names) != len(self):
            raise FormatError(f"{name} has {len(names):,} names for {len(self):,} pictures; expected one each")
        self._names = names

    def names(self) -> list[str]:
        return self._names


def open_npz(path: Path) -> StackedPictures:
    """The pictures or features of an .npz: the array called pixels, images, x, features ..., or the only large one.

    Names of the pictures are in an array of strings called `names` or `files`, where there is one.
    """
    arrays = npz_arrays(path)
    key = _pictures_key(path, arrays)
    kind: PictureKind | None = "pixels" if key.lower() in PIXEL_NAMES else None
    where = f"{key} in {path}"
    array = npz_array(path, arrays[key])
    if kind is None or (array.dtype.kind == "f" and array.ndim == 2):
        kind = None
    names_key = next((one for one in arrays if one.lower() in NAME_NAMES), None)
    if names_key is None:
        return StackedPictures(where, array, kind)
    return NamedPictures(where, array, kind, npz_strings(path, arrays[names_key]))


def npz_arrays(path: Path) -> dict[str, zipfile.ZipInfo]:
    """The arrays of an .npz by name."""
    return {one.filename.removesuffix(".npy"): one for one in members_of(path) if one.filename.endswith(".npy")}


def npz_strings(path: Path, member: zipfile.ZipInfo) -> list[str]:
    """An array of labels or names, as strings."""
    values = npz_array(path, member, _MOST_STRINGS)
    if values.ndim != 1 or values.dtype.kind not in "USiub":
        raise FormatError(
            f"{member.filename} in {path} has the type {values.dtype} and the shape {list(values.shape)}; expected "
            "strings or whole numbers, one for each picture"
        )
    if values.dtype.kind == "S":
        return [bytes(one).decode("utf-8", "replace") for one in values.tolist()]
    return [str(one) for one in values.tolist()]


def npz_array(path: Path, member: zipfile.ZipInfo, most: int = _MOST) -> NDArray[np.generic]:
    """An array of an .npz, mapped from a temporary file; of at most so many bytes, for which there must be room."""
    where = f"{member.filename} in {path}"
    check_member(path, member, most)
    try:
        with zipfile.ZipFile(path) as archive, archive.open(member) as file:
            head = io.BytesIO(file.read(_HEAD))
            shape, fortran, dtype = _header(head, where)
            rest = head.read()
            size = math.prod(shape) * dtype.itemsize
            if head.tell() - len(rest) + size > member.file_size:
                raise _cut_short(where, shape, dtype, member.file_size)
            mapped = MappedArray((max(1, size),), np.uint8, f"the numbers of {where}")
            mapped.write_bytes(0, _blocks(rest, file, size))
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError) as failed:
        raise SourceError(f"{where} is damaged ({failed}); fetch it again") from None
    array = mapped.array[:size].view(dtype)
    return array.reshape(shape[::-1]).T if fortran else array.reshape(shape)


def _pictures_key(path: Path, arrays: dict[str, zipfile.ZipInfo]) -> str:
    for known in (*PIXEL_NAMES, *FEATURE_NAMES):
        for key in arrays:
            if key.lower() == known:
                return key
    if len(arrays) == 1:
        return next(iter(arrays))
    listed = ", ".join(arrays) or "none"
    raise FormatError(
        f"{path} has the arrays {listed}; expected one called pixels (or images, x), or features; try "
        "np.savez_compressed(file, pixels=..., labels=...)"
    )


def _header(file: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    """Shape, order of axes and type of a .npy."""
    try:
        version = np.lib.format.read_magic(file)
        size_bytes = file.read(2 if version == (1, 0) else 4)
        shape, fortran, dtype = parse_header(file.read(min(_HEAD, int.from_bytes(size_bytes, "little"))))
    except (ValueError, TypeError, SyntaxError) as broken:
        raise FormatError(
            f"{name} is no array of numpy, or a damaged one ({str(broken)[:100]}); save it again"
        ) from None
    if dtype.hasobject:
        raise FormatError(
            f"{name} holds Python objects (dtype object), which are never unpickled here; expected numbers; try "
            "np.save(file, np.stack(pictures))"
        )
    if any(size < 0 for size in shape):
        raise FormatError(f"{name} says its shape is {list(shape)}; it is damaged; save it again")
    return shape, fortran, dtype


def _cut_short(name: str, shape: tuple[int, ...], dtype: np.dtype[np.generic], size: int) -> FormatError:
    return FormatError(
        f"{name} promises an array {list(shape)} of {dtype} and has {size:,} bytes; it is cut short; save it again"
    )


def _blocks(first: bytes, file: IO[bytes], size: int) -> Iterator[bytes]:
    """At most so many bytes: those that were read already, then those of the file."""
    yield first[:size]
    size -= len(first)
    while size > 0 and (block := file.read(min(size, _BLOCK))):
        size -= len(block)
        yield block


# The header of a .npy file: a Python dictionary as text, of a type, an order of axes and a shape.
#
# numpy reads it by `ast.literal_eval`. In CPython 3.11 two threads that do so at once can get a SystemError
# (CPython issue 106905), and pictures are read by the threads of a server. Here one pattern reads it.


_VALUES = {"descr": r"'[^']*'", "fortran_order": "True|False", "shape": r"\([\d,L ]*\)"}
_ENTRY = re.compile(r"\s*'(\w{1,20})' ?: ?('[^']*'|True|False|\([\d,L ]*\)) ?(?:,|(?=\}))")

_MOST_AXES = 32
"""What numpy 1 can hold; numpy 2 holds 64."""


def parse_header(header: bytes) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    """Shape, whether the first axis runs fastest, and type. A header that is none is a ValueError or a TypeError."""
    text = header.decode("latin-1").strip()
    if not text.startswith("{"):
        raise ValueError("no dictionary")
    entries: dict[str, str] = {}
    place = 1
    while entry := _ENTRY.match(text, place):
        entries[entry[1]] = entry[2]
        place = entry.end()
    if text[place:].strip() != "}" or entries.keys() != _VALUES.keys():
        raise ValueError(f"expected descr, fortran_order and shape, got {text[:60]}")
    for key, pattern in _VALUES.items():
        if not re.fullmatch(pattern, entries[key]):
            raise ValueError(f"{key} is {entries[key][:40]}")
    # Python 2 wrote long integers as 3L
    shape = tuple(int(size) for size in re.findall(r"\d+", entries["shape"]))
    if len(shape) > _MOST_AXES:
        raise ValueError(f"{len(shape):,} axes, at most {_MOST_AXES} are possible")
    return shape, entries["fortran_order"] == "True", np.dtype(entries["descr"][1:-1])

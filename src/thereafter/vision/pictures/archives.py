"""Pictures in files that contain several: zip archives, .npy and .npz of numpy, and idx files as MNIST is published.

Whatever a file declares is compared with its size before memory is taken, and nothing is unpickled. The table of a zip
archive is read once. A member is then read by its place in the file, so that no file stays open and threads do not wait
for each other.

A .npy is mapped. An array of an .npz is a member of a zip archive: it is unpacked into a temporary file and mapped, and
so is a gzipped idx file. The file is gone with its object, however the process ends.

idx (LeCun, Cortes and Burges 1998) has a header, big-endian: two zeros, the type (8: unsigned bytes), the number of
axes, and the size of each.
"""

from __future__ import annotations

import io
import math
import shutil
import struct
import tempfile
import threading
import weakref
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tokenize import TokenError
from typing import IO

import numpy as np
from numpy.typing import DTypeLike, NDArray

from thereafter.data.files import Readable, open_content
from thereafter.errors import EmptyCorpusError, FormatError, SourceError, StorageError
from thereafter.vision.pictures.decoding import PICTURE_ENDINGS, decode_bytes, shape_of_file
from thereafter.vision.pictures.picture import PictureKind, PictureSource, StackedPictures


class MappedArray:
    """Rows of one shape, written row by row and read as an array.

    Plain writes: the pages of a writable map would count as memory. Rows that were never written take no room on most
    file systems.
    """

    def __init__(self, shape: tuple[int, ...], dtype: DTypeLike, purpose: str) -> None:
        self._purpose = purpose
        self._dtype = np.dtype(dtype)
        self._row_bytes = int(np.prod(shape[1:], dtype=np.int64)) * self._dtype.itemsize
        self._writing = threading.Lock()
        self._check_room(shape[0] * self._row_bytes)
        try:
            self._file: IO[bytes] = tempfile.TemporaryFile(prefix="thereafter-", buffering=0)  # noqa: SIM115
            weakref.finalize(self, self._file.close)
            self._file.truncate(max(1, shape[0] * self._row_bytes))
            mapped: NDArray[np.generic] = np.memmap(self._file, dtype=self._dtype, mode="r", shape=shape)
        except OSError as failed:
            raise self._no_room(failed) from None
        self.array = mapped

    def write(self, row: int, values: NDArray[np.generic]) -> None:
        """Write one row."""
        self.write_bytes(row * self._row_bytes, [np.ascontiguousarray(values, self._dtype).tobytes()])

    def write_bytes(self, at: int, blocks: Iterable[bytes]) -> int:
        """Write bytes from a place on; returns how many there were."""
        with self._writing:
            self._file.seek(at)
            total = 0
            for block in blocks:
                rest = memoryview(block)
                while rest:  # an unbuffered file may take a part of it
                    try:
                        rest = rest[self._file.write(rest) :]
                    except OSError as failed:
                        raise self._no_room(failed) from None
                total += len(block)
        return total

    def _check_room(self, size: int) -> None:
        """Refuse what the file system has no room for, before any of it is written."""
        folder = tempfile.gettempdir()
        free = shutil.disk_usage(folder).free
        if size > free:
            raise StorageError(
                f"{self._purpose} need {size:,} bytes in a temporary file in {folder}, where {free:,} are free; try "
                "TMPDIR=FOLDER with room in it"
            )

    def _no_room(self, failed: OSError) -> StorageError:
        return StorageError(
            f"{self._purpose} need a temporary file in {tempfile.gettempdir()}, which failed: "
            f"{failed.strerror or failed}; try TMPDIR=FOLDER with room in it"
        )


MOST_BYTES = 256 << 20
"""Of a picture in an archive."""
_RATIO = 1032  # deflate cannot compress better
_LOCAL = struct.Struct("<4s22xHH")  # signature; the lengths of the name and of the extra field before the data


class ZipPictures(PictureSource):
    """The pictures of a zip archive."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path
        self._members = [one for one in members_of(path) if is_picture(one.filename)]
        if not self._members:
            raise EmptyCorpusError(f"{path} holds no pictures; expected files such as photo.jpg or photo.png in it")
        for one in self._members:
            check_member(path, one, MOST_BYTES)

    def __len__(self) -> int:
        return len(self._members)

    def names(self) -> Sequence[str]:
        return [one.filename for one in self._members]

    def shape(self, row: int) -> tuple[int, ...]:
        return shape_of_file(io.BytesIO(self._content(row)), self._full_name(row))

    def read(self, row: int) -> NDArray[np.uint8]:
        return decode_bytes(self._content(row), self._full_name(row))

    def _full_name(self, row: int) -> str:
        return f"{self._members[row].filename} in {self.name}"

    def _content(self, row: int) -> bytes:
        return read_member(self._path, self._members[row])


def members_of(path: Path) -> list[zipfile.ZipInfo]:
    """The files of an archive, by its table; hidden ones, and those that macOS adds, are left out."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, struct.error, ValueError, NotImplementedError) as broken:
        raise SourceError(f"{path} is no zip archive, or a damaged one ({broken}); fetch it again") from None
    except OSError as failed:
        raise SourceError(f"{path} could not be read: {failed.strerror or failed}") from None
    paths = [(one, one.filename.split("/")) for one in members if not one.is_dir()]
    return [one for one, parts in paths if not any(part.startswith(".") or part == "__MACOSX" for part in parts)]


def is_picture(name: str) -> bool:
    """Whether a file is a picture by its ending."""
    return name.lower().endswith(PICTURE_ENDINGS)


def check_member(path: Path, member: zipfile.ZipInfo, most: int) -> None:
    """Refuse a member whose declared sizes cannot be true, or are too large."""
    where = f"{member.filename} in {path}"
    if member.flag_bits & 1:
        raise SourceError(f"{where} is encrypted; try unpacking the archive first")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise SourceError(f"{where} is packed in an unusual way; expected plain zip; try unpacking the archive first")
    if member.header_offset + member.compress_size > path.stat().st_size:
        raise SourceError(f"{where} lies beyond the end of the archive, by its table; it is damaged; fetch it again")
    possible = _RATIO * member.compress_size if member.compress_type == zipfile.ZIP_DEFLATED else member.compress_size
    if member.file_size > min(most, possible):
        raise SourceError(
            f"{where} declares {member.file_size:,} bytes, packed in {member.compress_size:,}; expected at most "
            f"{min(most, possible):,}; is the archive damaged, or made to fill memory?"
        )


def read_member(path: Path, member: zipfile.ZipInfo) -> bytes:
    """The content of a member that `check_member` let pass; its checksum is compared."""
    where = f"{member.filename} in {path}"
    try:
        with open(path, "rb") as file:
            file.seek(member.header_offset)
            signature, name_size, extra_size = _LOCAL.unpack(file.read(_LOCAL.size))
            file.seek(name_size + extra_size, io.SEEK_CUR)
            packed = file.read(member.compress_size)
        content = packed
        if member.compress_type == zipfile.ZIP_DEFLATED:
            content = zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, member.file_size + 1)
    except (OSError, struct.error, zlib.error) as failed:
        raise SourceError(f"{where} could not be read: {failed}; fetch the archive again") from None
    if signature != b"PK\3\4" or len(content) != member.file_size or zlib.crc32(content) != member.CRC:
        raise SourceError(f"{where} is damaged: its size or checksum is another; fetch the archive again")
    return content


PIXEL_NAMES = ("pixels", "images", "pictures", "frames", "x", "x_train", "x_test")
FEATURE_NAMES = ("features", "vectors", "maps")
NAME_NAMES = ("names", "files", "filenames", "ids")
_MOST = 1 << 38
_MOST_STRINGS = 1 << 28  # bytes: names and labels are read into memory
_BLOCK = 1 << 20
_HEAD = 1 << 14
_MOST_AXES = 32  # what numpy 1 can hold; numpy 2 holds 64
_parsing = threading.Lock()


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


def open_npz(path: Path) -> StackedPictures:
    """The pictures or features of an .npz: the array called pixels, images, x, features ..., or the only large one.

    Names of the pictures are in an array of strings called `names` or `files`, where there is one.
    """
    arrays, key = find_array(path, (*PIXEL_NAMES, *FEATURE_NAMES), "pixels (or images, x), or features", "pixels")
    where, array = f"{key} in {path}", npz_array(path, arrays[key])
    vectors = array.dtype.kind == "f" and array.ndim == 2
    kind: PictureKind | None = "pixels" if key.lower() in PIXEL_NAMES and not vectors else None
    names_key = next((one for one in arrays if one.lower() in NAME_NAMES), None)
    names = None if names_key is None else npz_strings(path, arrays[names_key])
    return StackedPictures(where, array, kind, names)


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
            mapped.write_bytes(0, _blocks(file, size, rest))
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError) as failed:
        raise SourceError(f"{where} is damaged ({failed}); fetch it again") from None
    array = mapped.array[:size].view(dtype)
    return array.reshape(shape[::-1]).T if fortran else array.reshape(shape)


def find_array(
    path: Path, names: Sequence[str], expected: str, example: str, *, or_only: bool = True
) -> tuple[dict[str, zipfile.ZipInfo], str]:
    """The arrays of an .npz, and which of them has the first of these names that there is, in whatever case; else the
    only array. FormatError says what was `expected`, such as the `example`."""
    arrays = npz_arrays(path)
    named = (key for name in names for key in arrays if key.lower() == name)
    key = next(named, next(iter(arrays)) if or_only and len(arrays) == 1 else None)
    if key is None:
        raise FormatError(
            f"{path} has the arrays {', '.join(arrays) or 'none'}; expected one called {expected}; try "
            f"np.savez_compressed(file, {example}=..., labels=...)"
        )
    return arrays, key


def _header(file: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    """Shape, order of axes and type of a .npy, as numpy reads them.

    numpy parses the header by `ast.literal_eval`. In early CPython 3.11 two threads that do so at once can get a
    SystemError (CPython issue 106905), and pictures are read by the threads of a server: hence the lock.
    """
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        with _parsing:
            shape, fortran, dtype = read(file)
    except (ValueError, TypeError, SyntaxError, TokenError, MemoryError, RecursionError) as broken:
        raise FormatError(
            f"{name} is no array of numpy, or a damaged one ({str(broken)[:100]}); save it again"
        ) from None
    if dtype.hasobject:
        raise FormatError(
            f"{name} holds Python objects (dtype object), which are never unpickled here; expected numbers; try "
            "np.save(file, np.stack(pictures))"
        )
    if dtype.fields or len(shape) > _MOST_AXES or any(size < 0 for size in shape):
        raise FormatError(
            f"{name} says its shape is {str(shape)[:100]} and its type {str(dtype)[:100]}; it is damaged; save it again"
        )
    return shape, fortran, dtype


def _cut_short(name: str, shape: tuple[int, ...], dtype: np.dtype[np.generic], size: int) -> FormatError:
    return FormatError(
        f"{name} promises an array {list(shape)} of {dtype} and has {size:,} bytes; it is cut short; save it again"
    )


def _blocks(file: Readable | IO[bytes], size: int, first: bytes = b"") -> Iterator[bytes]:
    """At most so many bytes: those that were read already, then those of the file."""
    yield first[:size]
    size -= len(first)
    while size > 0 and (block := file.read(min(size, _BLOCK))):
        size -= len(block)
        yield block


IDX_ENDINGS = ("-ubyte", ".idx", ".idx1", ".idx3", ".idx4")
_BYTES = 8
_GZIP_RATIO = 1040  # gzip cannot compress better
_IDX_AXES = 4


def idx_shape(path: Path) -> tuple[int, ...] | None:
    """The shape in the header of an idx file; None for any other file."""
    try:
        with open_content(path, 4 + 4 * _IDX_AXES) as content:
            head = content.head
    except SourceError:
        return None
    if len(head) < 8 or head[:2] != b"\0\0" or head[2] != _BYTES or not 1 <= head[3] <= _IDX_AXES:
        return None
    end = 4 + 4 * head[3]
    return struct.unpack(f">{head[3]}I", head[4:end]) if len(head) >= end else None


def open_idx(path: Path) -> StackedPictures:
    """The pictures of an idx file of three axes (grey) or four (the last three colours)."""
    shape = _checked_shape(path)
    if len(shape) < 3:
        raise FormatError(
            f"{path} has the shape {list(shape)}, so it holds labels, not pictures; expected [count, height, width]; "
            "try its neighbour called ...images-idx3-ubyte"
        )
    return StackedPictures(str(path), _bytes_of(path, shape), "pixels")


def read_idx_labels(path: Path) -> list[str]:
    """The labels of an idx file of one axis."""
    shape = _checked_shape(path)
    if len(shape) != 1:
        raise FormatError(f"{path} has the shape {list(shape)}; expected labels, [count]")
    return [str(label) for label in _bytes_of(path, shape).tolist()]


def _checked_shape(path: Path) -> tuple[int, ...]:
    shape = idx_shape(path)
    if shape is None:
        raise FormatError(f"{path} is no idx file of bytes; expected one that begins with 00 00 08 and its sizes")
    stored, packed = path.stat().st_size, _is_packed(path)
    promised, possible = 4 + 4 * len(shape) + math.prod(shape), stored * _GZIP_RATIO if packed else stored
    if promised > possible:
        raise FormatError(
            f"{path} promises {' x '.join(f'{size:,}' for size in shape)} bytes and has {stored:,}"
            f"{' of gzip' if packed else ''}; it is cut short or damaged; fetch it again"
        )
    return shape


def _is_packed(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _bytes_of(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    offset = 4 + 4 * len(shape)
    if not _is_packed(path):
        return np.memmap(path, np.uint8, "r", offset, shape)
    mapped = MappedArray(shape, np.uint8, f"the bytes of {path}")
    with open_content(path, offset) as content:
        content.read(offset)
        size = mapped.write_bytes(0, _blocks(content, math.prod(shape)))
    if size < math.prod(shape):
        raise FormatError(f"{path} promises {math.prod(shape):,} bytes and ends after {size:,}; fetch it again")
    return mapped.array.view(np.uint8)

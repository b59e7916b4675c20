"""idx files, as MNIST is published: a header and bytes (LeCun, Cortes and Burges 1998).

Header, big-endian: two zeros, the type (8: unsigned bytes), the number of axes, and the size of each. The sizes are
compared with the file before anything is read. A gzipped file is inflated into a temporary one.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thereafter.data.files import Readable, open_content
from thereafter.errors import FormatError, SourceError
from thereafter.vision.pictures.mapped import MappedArray
from thereafter.vision.pictures.stacked import StackedPictures

IDX_ENDINGS = ("-ubyte", ".idx", ".idx1", ".idx3", ".idx4")
_BYTES = 8
_BLOCK = 1 << 20
_RATIO = 1040  # gzip cannot compress better
_MOST_AXES = 4


def idx_shape(path: Path) -> tuple[int, ...] | None:
    """The shape in the header of an idx file; None for any other file."""
    try:
        with open_content(path, 4 + 4 * _MOST_AXES) as content:
            head = content.head
    except SourceError:
        return None
    if len(head) < 8 or head[:2] != b"\0\0" or head[2] != _BYTES or not 1 <= head[3] <= _MOST_AXES:
        return None
    return _sizes(head) if len(head) >= 4 + 4 * head[3] else None


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


def _sizes(head: bytes) -> tuple[int, ...]:
    sizes: tuple[int, ...] = struct.unpack(f">{head[3]}I", head[4 : 4 + 4 * head[3]])
    return sizes


def _checked_shape(path: Path) -> tuple[int, ...]:
    shape = idx_shape(path)
    if shape is None:
        raise FormatError(f"{path} is no idx file of bytes; expected one that begins with 00 00 08 and its sizes")
    stored, packed = path.stat().st_size, _is_packed(path)
    promised, possible = 4 + 4 * len(shape) + math.prod(shape), stored * _RATIO if packed else stored
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


def _blocks(content: Readable, size: int) -> Iterator[bytes]:
    """At most so many bytes."""
    while size > 0 and (block := content.read(min(size, _BLOCK))):
        size -= len(block)
        yield block

"""Files of pictures for the tests, written by hand where that is the point."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image


def drawn(seed: int = 0, height: int = 6, width: int = 8, channels: int = 3) -> NDArray[np.uint8]:
    """Random pixels [H, W, C]."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)


def png(pixels_HWC: NDArray[np.uint8]) -> bytes:
    """A PNG file by its specification: one channel is grey, three are colours, four have alpha."""
    height, width, channels = pixels_HWC.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels_HWC)
    return png_of(height, width, {1: 0, 3: 2, 4: 6}[channels], zlib.compress(rows))


def png_of(height: int, width: int, colour: int, packed: bytes, depth: int = 8) -> bytes:
    """A PNG file with any header, true or not."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    chunks = b"".join(_chunk(kind, data) for kind, data in ((b"IHDR", header), (b"IDAT", packed), (b"IEND", b"")))
    return b"\x89PNG\r\n\x1a\n" + chunks


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def jpeg(pixels_HWC: NDArray[np.uint8], **options: object) -> bytes:
    content = io.BytesIO()
    image = Image.fromarray(pixels_HWC[:, :, 0] if pixels_HWC.shape[2] == 1 else pixels_HWC)
    image.save(content, "JPEG", quality=95, **options)
    return content.getvalue()


def idx(array: NDArray[np.uint8]) -> bytes:
    """An idx file."""
    return struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def write(path: Path, content: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path

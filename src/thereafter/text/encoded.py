"""The ids of a source: in memory if it is small, else in a memory-mapped file of the cache.

The key of a cached file is the content of the source and the tokenizer, never a path. It is a header of 128 bytes
(JSON, padded) and the ids, little-endian; the header is completed last, and a file that is too short or has a wrong
checksum is written again.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from thereafter.base.storage import cache_folder, replacing
from thereafter.errors import StorageError
from thereafter.text.sources import Source
from thereafter.text.tokenizers.base import Ids, Tokenizer, join_ids

IdArray = NDArray[np.integer]
CACHE_FROM_BYTES = 32 << 20
_FORMAT = "thereafter-ids-1"
_HEADER = 128
_BLOCK = 1 << 20


def encode_source(tokenizer: Tokenizer, source: Source, *, cache_from_bytes: int = CACHE_FROM_BYTES) -> IdArray:
    """The ids of a whole source; a last line without a newline counts as a line.

    Small sources give int32 in memory. From `cache_from_bytes` on, or if a compressed one turns out to be large, the
    result is a read-only memory map of the smallest of uint8, uint16 and int32 that holds the vocabulary.
    """
    label = f"tokenizing {source.name}"
    stream = tokenizer.encode_stream(source.chunks(label), whole=True)
    arrays: list[Ids] = []
    size = 0
    if source.size < cache_from_bytes:
        for array in stream:
            arrays.append(array)
            size += array.nbytes
            if size > 4 * max(cache_from_bytes, 1):
                break
        else:
            return join_ids(arrays)
    key = f"{_FORMAT} {source.fingerprint()} {tokenizer.fingerprint()}"
    path = cache_folder() / "tokens" / f"{hashlib.sha256(key.encode()).hexdigest()}.ids"
    if (cached := _open_ids(path)) is not None:
        return cached
    first = (arrays.pop(0) for _ in range(len(arrays)))  # freed as they are written
    return _write_ids(path, tokenizer, chain(first, stream))


def fit_source(
    tokenizer: type[Tokenizer],
    source: Source,
    *,
    min_count: int | None = None,
    max_size: int | None = None,
    cache_from_bytes: int = CACHE_FROM_BYTES,
) -> tuple[Tokenizer, IdArray]:
    """Fit a tokenizer to a source and encode the source with it; a small one is split only once."""
    chunks = partial(source.chunks, f"reading {source.name}")
    if source.size >= cache_from_bytes or any(path.suffix == ".gz" for path in source.files):
        fitted = tokenizer.fit(chunks, min_count=min_count, max_size=max_size)
        return fitted, encode_source(fitted, source, cache_from_bytes=cache_from_bytes)
    return tokenizer.fit_encode(chunks, min_count=min_count, max_size=max_size)


def _write_ids(path: Path, tokenizer: Tokenizer, arrays: Iterable[Ids]) -> IdArray:
    """Write the file and map it. Plain writes: the pages of a writable map would count as memory."""
    size = len(tokenizer.vocabulary)
    dtype: np.dtype[np.integer] = np.dtype("u1" if size <= 1 << 8 else "<u2" if size <= 1 << 16 else "<i4")
    try:
        with replacing(path) as temporary, temporary.open("wb") as file:
            _write(file, dtype, arrays)
    except StorageError as failed:
        raise StorageError(f"{failed}, or set THEREAFTER_CACHE to a folder that has room for token ids") from None
    opened = _open_ids(path)
    if opened is None:
        raise StorageError(f"the token ids written to {path} could not be read back; try another THEREAFTER_CACHE")
    return opened


def _write(file: BinaryIO, dtype: np.dtype[np.integer], arrays: Iterable[Ids]) -> None:
    file.write(b"\0" * _HEADER)
    count = checksum = 0
    for array in arrays:
        raw = array.astype(dtype).tobytes()
        file.write(raw)
        checksum = zlib.crc32(raw, checksum)
        count += len(array)
    header = json.dumps({"format": _FORMAT, "dtype": dtype.str, "count": count, "crc32": checksum})
    file.seek(0)
    file.write(header.encode().ljust(_HEADER))


def _open_ids(path: Path) -> IdArray | None:
    """The ids in a cached file, None if there is none or it is damaged."""
    try:
        with open(path, "rb") as file:
            header = json.loads(file.read(_HEADER))
            if header["format"] != _FORMAT or header["dtype"] not in ("|u1", "<u2", "<i4"):
                return None
            dtype, count = np.dtype(header["dtype"]), int(header["count"])
            checksum = size = 0
            while block := file.read(_BLOCK):
                checksum = zlib.crc32(block, checksum)
                size += len(block)
            if size != count * dtype.itemsize or checksum != header["crc32"]:
                return None
        if count == 0:
            return np.empty(0, dtype)
        return np.memmap(path, dtype=dtype, mode="r", offset=_HEADER, shape=(count,))
    except (OSError, ValueError, KeyError, TypeError):
        return None

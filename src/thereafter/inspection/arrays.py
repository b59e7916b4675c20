"""Named arrays and a description of them in one `.npz` file, which nothing has to be unpickled to read."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thereafter.storage import replacing

_DAMAGED = (EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RecursionError)  # what unpacking may raise
UNREADABLE = (*_DAMAGED, OSError, ValueError, KeyError, TypeError, AttributeError)
"""What reading a file that is none of ours may raise."""


def write(path: str | Path, key: str, described: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Path:
    """Every array by its name, and the description as JSON under `key`; moved into place in one step."""
    target = Path(path)
    packed: dict[str, Any] = {key: np.frombuffer(json.dumps(described).encode(), dtype=np.uint8), **arrays}
    with replacing(target) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **packed)
    return target


def reason(error: BaseException) -> str:
    """Why a file could not be read, for its user: what numpy says of a foreign file is about pickles."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return "damaged, or something else"


def read(path: str | Path, key: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Description and arrays; one of `UNREADABLE` where the file is damaged or another."""
    # opened here, since numpy leaves a file open that turns out to be something else
    with Path(path).open("rb") as raw, np.load(raw, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    described: dict[str, Any] = json.loads(arrays.pop(key).tobytes())
    return described, arrays

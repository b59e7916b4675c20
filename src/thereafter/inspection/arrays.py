"""Named arrays and a description of them in one file: `.npz`, which nothing has to be unpickled to read, or as text."""

from __future__ import annotations

import csv
import io
import json
import math
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray

from thereafter.config import Table
from thereafter.errors import OptionError
from thereafter.storage import replacing, write_text

_DAMAGED = (EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RecursionError)  # what unpacking may raise
UNREADABLE = (*_DAMAGED, OSError, ValueError, KeyError, TypeError, AttributeError)
"""What reading a file that is none of ours may raise."""


ENDINGS = (".npz", ".json", ".csv")
"""What a file of arrays may be: numpy's own, which can be read back and drawn; JSON; a table with a number a line."""


Nested = None | bool | int | float | str | list["Nested"]
"""An array as JSON can say it."""


class Description(TypedDict):
    """What is said of the arrays of a file: the names of their axes, and what a trace or a measurement adds."""

    axes: Mapping[str, Sequence[str]]
    about: Table
    kind: NotRequired[str]
    tokens: NotRequired[list[str]]
    vocabulary: NotRequired[list[str]]


def check_ending(path: str | Path) -> None:
    """Refuse a name that says another format than those there are; one that says none stays as it is, for arrays."""
    if Path(path).suffix.lower() not in ("", *ENDINGS):
        raise OptionError(
            f"{Path(path).name!r} ends in {Path(path).suffix!r}; expected .npz (arrays, which can be "
            f"drawn later), .json or .csv; try {Path(path).stem}.npz"
        )


def write(path: str | Path, key: str, described: Description, arrays: Mapping[str, NDArray[np.generic]]) -> Path:
    """What the ending of the name says, moved into place in one step.

    `.npz`: every array by its name, and the description as JSON under `key`. `.json`: the description under `key`, the
    arrays as lists under "arrays". `.csv`: the arrays alone, a number a line, with its place along each axis.
    """
    target = Path(path)
    check_ending(target)
    if target.suffix.lower() == ".json":
        listed = {name: _plain(array.tolist()) for name, array in arrays.items()}
        write_text(target, json.dumps({key: described, "arrays": listed}, allow_nan=False) + "\n")
        return target
    if target.suffix.lower() == ".csv":
        write_text(target, _table(described["axes"], arrays))
        return target
    packed: dict[str, Any] = {key: np.frombuffer(json.dumps(described).encode(), dtype=np.uint8), **arrays}
    with replacing(target) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **packed)
    return target


def _plain(value: Nested) -> Nested:
    """Nested lists with None for numbers that JSON cannot say."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _table(axes: Mapping[str, Sequence[str]], arrays: Mapping[str, NDArray[np.generic]]) -> str:
    """A line for each number: the array, its place along every axis there is (empty where it has no such axis)."""
    columns = list(dict.fromkeys(axis for name in arrays for axis in axes[name]))
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(["array", *columns, "value"])
    for name, array in arrays.items():
        at = [columns.index(axis) for axis in axes[name]]
        for place, value in np.ndenumerate(array):
            row = [""] * len(columns)
            for column, index in zip(at, place, strict=True):
                row[column] = str(index)
            lines.writerow([name, *row, value])
    return text.getvalue()


def holds(path: str | Path, key: str) -> bool:
    """Whether a file has a description of that kind, however sound the rest of it is."""
    try:
        with zipfile.ZipFile(path) as file:
            return f"{key}.npy" in file.namelist()
    except (*_DAMAGED, OSError, ValueError):
        return False


def reason(error: BaseException) -> str:
    """Why a file could not be read, for its user: what numpy says of a foreign file is about pickles."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return "damaged, or something else"


def read(path: str | Path, key: str) -> tuple[Description, dict[str, NDArray[np.number]]]:
    """Description and arrays; one of `UNREADABLE` where the file is damaged or another."""
    # opened here, since numpy leaves a file open that turns out to be something else
    with Path(path).open("rb") as raw, np.load(raw, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    described: Description = json.loads(arrays.pop(key).tobytes())
    return described, arrays

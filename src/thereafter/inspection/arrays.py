"""Named arrays and a description of them in one file: `.npz`, which nothing has to be unpickled to read, or as text.

In a table, the axes of one array make the rows: a row for each place along them. Every other array that has no further
axis is a column beside it, repeated along the axes it has not. So `norm` [layer, distance] and `token` [layer] become

    layer  distance  token  norm
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray

from thereafter.base.config import Table
from thereafter.base.storage import replacing, write_text
from thereafter.base.tabular import Row
from thereafter.errors import OptionError, UnknownNameError

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


Axes = tuple[str, ...]
Places = NDArray[np.intp] | int


def array_rows(
    arrays: Mapping[str, NDArray[np.generic]], axes: Mapping[str, Axes], main: str, across: Sequence[str] = ()
) -> list[Row]:
    """The table whose rows are the places of the array `main`; places along the axes `across` are columns instead.

    An axis whose places have names (an array of the axis' name) shows them; another one counts from 0, as the arrays
    do. Rows at which no figure is a number are left out, since such a place does not exist.

    >>> arrays = {"norm": np.array([[1.0, 0.5], [0.2, np.nan]]), "layer": np.array(["l0", "l1"])}
    >>> array_rows(arrays, {"norm": ("layer", "d"), "layer": ("layer",)}, "norm")
    [{'layer': 'l0', 'd': 0, 'norm': 1.0}, {'layer': 'l0', 'd': 1, 'norm': 0.5}, {'layer': 'l1', 'd': 0, 'norm': 0.2}]
    """
    if main not in arrays:
        raise UnknownNameError("array", main, arrays)
    # no axis has the name of one before: a matrix of sentences has `sentence` and `sentence_2`
    named = {
        name: tuple(axis if axis not in axes[name][:at] else f"{axis}_{at + 1}" for at, axis in enumerate(axes[name]))
        for name in arrays
    }
    sizes = dict(zip(named[main], arrays[main].shape, strict=True))
    down = [axis for axis in named[main] if axis not in across]
    places = np.indices([sizes[axis] for axis in down]).reshape(len(down), -1)
    place_of = dict(zip(down, places, strict=True))
    columns: dict[str, list[object]] = {}
    for axis in down:
        labels = _labels(arrays, axes, axis)
        columns[axis] = place_of[axis].tolist() if labels is None else labels[place_of[axis]].tolist()
    whole: list[str] = []
    beside = [name for name in arrays if set(named[name]) <= sizes.keys() and not _is_label(name, axes) and named[name]]
    for name in sorted(beside, key=lambda name: arrays[name].dtype.kind != "U"):  # words before numbers
        if not set(named[name]) & set(down) and down:
            continue  # along columns alone, it has no value for a row
        parts = _columns(arrays, axes, name, named[name], place_of, sizes)
        if set(down) <= set(named[name]) and arrays[name].dtype.kind == "f":
            whole += parts
        columns |= parts
    rows: list[Row] = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    return [row for row in rows if _exists(row, whole)] if len(down) > 1 else rows


def _columns(
    arrays: Mapping[str, NDArray[np.generic]],
    axes: Mapping[str, Axes],
    name: str,
    own: Axes,
    place_of: Mapping[str, NDArray[np.intp]],
    sizes: Mapping[str, int],
) -> dict[str, list[object]]:
    """The column of an array, or one for each place along those of its axes that are no rows."""
    spread = [axis for axis in own if axis not in place_of]
    columns: dict[str, list[object]] = {}
    for chosen in product(*(range(sizes[axis]) for axis in spread)):
        at = dict(zip(spread, chosen, strict=True))
        index: tuple[Places, ...] = tuple(at[axis] if axis in at else place_of[axis] for axis in own)
        words = [
            str(place if (labels := _labels(arrays, axes, axis)) is None else labels[place])
            for axis, place in at.items()
        ]
        columns["_".join([name, *words])] = arrays[name][index].tolist()
    return columns


def _is_label(name: str, axes: Mapping[str, Axes]) -> bool:
    return axes[name] == (name,)


def _labels(
    arrays: Mapping[str, NDArray[np.generic]], axes: Mapping[str, Axes], axis: str
) -> NDArray[np.generic] | None:
    """The names of the places along an axis, if they have any."""
    first = axis if axis in arrays else re.sub(r"_\d+$", "", axis)
    return arrays[first] if first in arrays and _is_label(first, axes) else None


def _exists(row: Row, figures: Sequence[str]) -> bool:
    values = [row[name] for name in figures]
    return not values or not all(isinstance(value, float) and math.isnan(value) for value in values)


def description_rows(
    arrays: Mapping[str, NDArray[np.generic]], axes: Mapping[str, Axes], meanings: Mapping[str, str]
) -> tuple[Row, ...]:
    """What arrays there are: name, axes, shape, and what the numbers mean."""
    return tuple(
        {
            "name": name,
            "axes": ", ".join(axes[name]),
            "shape": " x ".join(map(str, array.shape)),
            "meaning": meanings.get(name, ""),
        }
        for name, array in arrays.items()
    )

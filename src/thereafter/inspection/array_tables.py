"""Named arrays with named axes as the rows of a table.

The axes of one array make the rows: a row for each place along them. Every other array that has no further axis is a
column beside it, repeated along the axes it has not. So `norm` [layer, distance] and `token` [layer] become

    layer  distance  token  norm
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import UnknownNameError
from thereafter.tabular import Row

Axes = tuple[str, ...]
Places = NDArray[np.intp] | int


def array_rows(
    arrays: Mapping[str, NDArray[np.generic]],
    axes: Mapping[str, Axes],
    main: str,
    across: Sequence[str] = (),
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
    named = {name: _distinct(axes[name]) for name in arrays}
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


def _distinct(axes: Axes) -> Axes:
    """Axes of which none has the name of one before: a matrix of sentences has `sentence` and `sentence_2`."""
    return tuple(axis if axis not in axes[:at] else f"{axis}_{at + 1}" for at, axis in enumerate(axes))


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

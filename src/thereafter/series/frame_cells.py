"""Values of data frames and arrays as cells of a table: numbers exactly, times as text."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from datetime import time as clock_time

import numpy as np
from numpy.typing import NDArray

_NOTHING = frozenset({"<NA>", "NaT", "nan", "None"})
"""How missing values of pandas are written."""


def is_zoned(value: object) -> bool:
    """Whether a value is a time with a zone."""
    return isinstance(value, datetime) and value.tzinfo is not None


def clock_of(values: Iterable[object]) -> str:
    """How times of a zone with summer time are written: "local" dates where all are at midnight, else by "UTC"."""
    zoned = [value for value in values if isinstance(value, datetime) and value.tzinfo is not None]
    if len({value.utcoffset() for value in zoned}) < 2:
        return ""
    return "local" if all(value.time() == clock_time() for value in zoned) else "UTC"


def cells_of(values: NDArray[np.generic], clock: str = "") -> list[object]:
    """The cells of a column: numbers exactly, times as text, nothing where a value is missing."""
    if values.dtype.kind == "M":
        whole = values.astype("datetime64[s]")
        exact = bool((np.isnat(whole) | (whole.astype(values.dtype) == values)).all())
        texts = np.datetime_as_string(whole if exact else values.astype("datetime64[ns]")).tolist()
        return ["" if text == "NaT" else text for text in texts]
    return [cell_of(value, clock) for value in values.tolist()]


def cell_of(value: object, clock: str) -> object:
    """One cell: a number, or text."""
    if value is None:
        return ""
    if isinstance(value, float):
        return "" if value != value else value
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value
    if clock and isinstance(value, datetime) and value.tzinfo is not None:
        value = value.replace(tzinfo=None) if clock == "local" else value.astimezone(UTC)
    text = str(value)
    return "" if text in _NOTHING else text

"""A kind of measurement: what its arrays mean, and which of them make its table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class KindOfMeasurement:
    """`main`: the array whose axes make the rows of the table; places along `across` become columns of it."""

    main: str
    meanings: Mapping[str, str]
    across: tuple[str, ...] = ()

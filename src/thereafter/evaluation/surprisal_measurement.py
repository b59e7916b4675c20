"""Surprisals as a measurement: named arrays, which pictures are drawn from and which are saved as `.npz`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from thereafter.inspection.measurement import Measurement

if TYPE_CHECKING:
    from thereafter.evaluation.surprisal import Surprisals

KIND = "surprisal"


def as_measurement(table: Surprisals) -> Measurement:
    """`bits` and `spelling_bits` [model, step], `text` and `line` [step]; with detail `rank`, `entropy`, `context`."""
    models = range(len(table.readings))
    arrays: dict[str, NDArray[np.generic]] = {
        "model": np.array([reading.model for reading in table.readings]),
        "text": np.array(table.texts),
        "line": np.asarray(table.lines),
        "bits": np.stack([table.bits(number) for number in models]),
        "spelling_bits": np.stack([table.spelling_bits(number) for number in models]),
        "unknown": np.stack([table.unknown(number) for number in models]),
    }
    if all(reading.predicted is not None for reading in table.readings):
        for name in ("rank", "entropy", "context"):
            arrays[name] = np.stack([_chosen(table, number, name) for number in models])
    axes: dict[str, tuple[str, ...]] = dict.fromkeys(arrays, ("model", "step"))
    axes |= {"model": ("model",), "text": ("step",), "line": ("step",)}
    about = {
        "model": " and ".join(reading.model for reading in table.readings),
        "text": table.readings[0].text,
        "by": table.by,
        "tokens": [len(reading.costs.ids) for reading in table.readings],
        "notes": [note for reading in table.readings for note in reading.notes],
    }
    return Measurement(KIND, arrays, axes, about)


def _chosen(table: Surprisals, number: int, name: str) -> NDArray[np.float64]:
    """A figure of the prediction where each unit begins; NaN where the model has no token of it."""
    reading = table.readings[number]
    if reading.predicted is None:
        return np.full(len(table.texts), np.nan)
    values = {
        "rank": reading.predicted.rank_T,
        "entropy": reading.predicted.entropy_T,
        "context": reading.predicted.context_T,
    }[name]
    return np.append(values.astype(np.float64), np.nan)[reading.decisive(table.units[number])]

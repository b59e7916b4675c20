"""Surprisals as a measurement: named arrays, which pictures are drawn from and which are saved as `.npz`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thereafter.evaluation.text_reading import TextReading
from thereafter.evaluation.text_units import TextUnits, count_words
from thereafter.inspection.measurement import Measurement

KIND = "surprisal"
_BITS = 1 / math.log(2)


def as_measurement(readings: Sequence[TextReading], units: Sequence[TextUnits], by: str) -> Measurement:
    """`bits` and `spelling_bits` [model, step], `text` and `line` [step]; with detail `rank`, `entropy`, `context`."""
    pairs = list(zip(readings, units, strict=True))
    arrays: dict[str, NDArray[np.generic]] = {
        "model": np.array([reading.model for reading in readings]),
        "text": np.array(units[0].texts),
        "line": np.asarray(units[0].lines_U),
        "bits": np.stack([part.sums(reading.costs.nats_T) * _BITS for reading, part in pairs]),
        "spelling_bits": np.stack([part.sums(reading.costs.spelling_T) * _BITS for reading, part in pairs]),
        "unknown": np.stack([part.sums(reading.costs.unknown_T.astype(float)).astype(int) for reading, part in pairs]),
    }
    if all(reading.predicted is not None for reading in readings):
        for name in ("rank", "entropy", "context"):
            arrays[name] = np.stack([_chosen(reading, part, name) for reading, part in pairs])
    axes: dict[str, tuple[str, ...]] = dict.fromkeys(arrays, ("model", "step"))
    axes |= {"model": ("model",), "text": ("step",), "line": ("step",)}
    about = {
        "model": " and ".join(reading.model for reading in readings),
        "text": readings[0].text,
        "by": by,
        "words": sum(map(count_words, units[0].texts)),
        "tokens": [len(reading.costs.ids) for reading in readings],
        "notes": [note for reading in readings for note in reading.notes],
    }
    return Measurement(KIND, arrays, axes, about)


def _chosen(reading: TextReading, units: TextUnits, name: str) -> NDArray[np.float64]:
    """A figure of the prediction where each unit begins; NaN where the model has no token of it."""
    if reading.predicted is None:
        return np.full(len(units), np.nan)
    values = {
        "rank": reading.predicted.rank_T,
        "entropy": reading.predicted.entropy_T,
        "context": reading.predicted.context_T,
    }[name]
    return np.append(values.astype(np.float64), np.nan)[reading.decisive(units)]

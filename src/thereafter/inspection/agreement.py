"""Agreement of a verb with its subject as a measurement: by words and by nouns between them, and by congruence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thereafter.evaluation.agreement import Agreement, Tally, measure_agreement
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.reader import Reader
from thereafter.text.agreement import Sentence

GROUPS = ("distance", "attractors", "congruence")


def agreement(reader: Reader, sentences: Iterable[Sentence]) -> Measurement:
    """The verdicts of a model over sentences that know their dependency: see `evaluation.agreement`."""
    known = list(sentences)
    found = measure_agreement(reader.model, reader.tokenizer, known, context=reader.context, prepare=reader.prepare)
    return from_tallies(found, reader.about(text=f"{len(known):,} new sentences of agreement"))


def from_tallies(found: Agreement, about: Mapping[str, Any]) -> Measurement:
    """Verdicts that were counted already, such as those of a comparison, as a measurement.

    For each of `distance`, `attractors`, `congruence`: the groups under that name, and `right_` and `total_` of it.
    """
    arrays: dict[str, NDArray[Any]] = {}
    axes: dict[str, tuple[str, ...]] = {}
    for name in GROUPS:
        tallies: dict[Any, Tally] = getattr(found, name)
        arrays |= {
            name: np.array(list(tallies)),
            f"right_{name}": np.array([tally.right for tally in tallies.values()], dtype=np.float64),
            f"total_{name}": np.array([tally.total for tally in tallies.values()], dtype=np.int64),
        }
        axes |= dict.fromkeys((name, f"right_{name}", f"total_{name}"), (name,))
    return Measurement("agreement", arrays, axes, dict(about))

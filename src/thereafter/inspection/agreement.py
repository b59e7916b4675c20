"""A long dependency as a measurement: how often a model is right by words and by nouns between, and by congruence.

The pair may be a subject and its verb, a noun and its reflexive pronoun, or any other pair that the sentences mark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from thereafter.evaluation.agreement import measure_agreement
from thereafter.evaluation.verdicts import Verdicts
from thereafter.inspection.measurement import Arrays, Measurement
from thereafter.inspection.sentence_reader import SentenceReader
from thereafter.text.agreement import Sentence

DEPENDENCY = "dependency"
GROUPS = ("distance", "attractors", "congruence")


def agreement(reader: SentenceReader, sentences: Iterable[Sentence], corpus: str = "agreement") -> Measurement:
    """The verdicts of a model over sentences that know their dependency: see `evaluation.agreement`.

    The pictures of agreement speak of verbs, so that sentences of another corpus become a measurement of another kind.
    """
    known = list(sentences)
    forms = [(one.correct_form, one.wrong_form) for one in known]
    facts = (
        reader.check_words((one.prefix for one in known), forms, "both forms to choose from", corpus) if known else {}
    )
    tallies = measure_agreement(reader.model, reader.tokenizer, known, context=reader.context, prepare=reader.prepare)
    about = reader.about(text=f"{len(known):,} new sentences of {corpus}", corpus=corpus) | facts
    return from_tallies(tallies, about, "agreement" if corpus == "agreement" else DEPENDENCY)


def from_tallies(verdicts: Verdicts, about: Mapping[str, object], kind: str = "agreement") -> Measurement:
    """Verdicts that were counted already, such as those of a comparison, as a measurement.

    For each of `distance`, `attractors`, `congruence`: the groups under that name, and `right_` and `total_` of it.
    """
    arrays: Arrays = {}
    axes: dict[str, tuple[str, ...]] = {}
    groups = verdicts.all_groups()
    for name in GROUPS:
        tallies = groups[name]
        arrays |= {
            name: np.array(list(tallies)),
            f"right_{name}": np.array([tally.right for tally in tallies.values()], dtype=np.float64),
            f"total_{name}": np.array([tally.total for tally in tallies.values()], dtype=np.int64),
        }
        axes |= dict.fromkeys((name, f"right_{name}", f"total_{name}"), (name,))
    return Measurement(kind, arrays, axes, dict(about))

"""How likely chosen words are after each word of a sentence, such as `was` and `were` on the way to the verb."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thereafter.errors import OptionError
from thereafter.inspection.measurement import Measurement
from thereafter.inspection.sentence_reader import SentenceReader


def expectation(reader: SentenceReader, sentence: str, words: Sequence[str]) -> Measurement:
    """p(word | sentence so far) for each of `words`, after each word of the sentence: `probability` [step, word]."""
    reader.whole_words()
    ids, chosen = reader.ids(sentence), [reader.word(word) for word in words]
    read = sentence.split()
    if not read or not chosen:
        raise OptionError(f"got {len(read)} words to read and {len(chosen)} to expect; expected at least one of both")
    state = reader.model.start(1)
    rows = []
    for token in ids.tolist():
        logp_1V, state = reader.model.step(np.array([token]), state)
        rows.append(np.exp(np.asarray(logp_1V, dtype=np.float64)[0, chosen]))
    arrays = {"step": np.array(read), "word": np.array(list(words)), "probability": np.array(rows[-len(read) :])}
    axes = {"step": ("step",), "word": ("word",), "probability": ("step", "word")}
    return Measurement("expectation", arrays, axes, reader.about(text=sentence))

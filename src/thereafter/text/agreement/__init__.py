"""Generated sentences with a long-range dependency whose truth is known.

A subject noun and a later verb agree in number, with 0 to 40 words between them. The number of every noun is a fair
coin of its own, so a model that sees fewer words than the distance is right half the time, whatever it has learned.

A `sentence` is written by a `grammar` with a `lexicon` of `words`, around one of the `frames`; `corpora` collects them.

>>> first = next(sentences(None, seed=3))
>>> first.words[first.subject + first.distance + 1] == first.correct_form
True
"""

from thereafter.text.agreement.corpora import (
    CORPORA,
    DEFAULT_SEED,
    DEFAULT_SENTENCES,
    LONGEST,
    PARTS,
    Part,
    neutral_text,
    part_of,
    read_sentences,
    sentence_corpus,
    sentences,
    write_corpus,
)
from thereafter.text.agreement.sentence import Attractor, Number, Sentence

__all__ = [
    "CORPORA",
    "DEFAULT_SEED",
    "DEFAULT_SENTENCES",
    "LONGEST",
    "PARTS",
    "Attractor",
    "Number",
    "Part",
    "Sentence",
    "neutral_text",
    "part_of",
    "read_sentences",
    "sentence_corpus",
    "sentences",
    "write_corpus",
]

"""Which part of the corpus a sentence belongs to: decided by its text alone, so all seeds and sizes agree."""

from __future__ import annotations

from hashlib import blake2b
from typing import Literal, get_args

from thereafter.text.agreement.lexicon import neutral_forms

Part = Literal["train", "valid", "test"]
PARTS: tuple[Part, ...] = get_args(Part)

# One stream of sentences is dealt out to the parts. The default sizes are 87 : 4 : 9; a smaller share for training
# costs some draws when the corpus is written, and saves many whenever a held-out part is streamed by itself.
_BUCKETS: tuple[Part, ...] = ("train",) * 14 + ("valid",) * 2 + ("test",) * 4


def neutral_text(words: tuple[str, ...]) -> str:
    """The sentence with every choice of number (and of bracket, and of or/nor) taken out."""
    table = neutral_forms()
    return " ".join(map(table.get, words, words))  # a word that is not in the table stays itself


def part_of(words: tuple[str, ...]) -> Part:
    """The part a sentence belongs to.

    Hashing the neutral text has two uses. A held-out sentence is never a training sentence with a number changed.
    And the part says nothing about number: were the plain text hashed, a sentence held out would mean that its
    counterpart in the other number is in training more often than not, and a model could be led *below* chance.
    """
    digest = blake2b(neutral_text(words).encode(), digest_size=8).digest()
    return _BUCKETS[int.from_bytes(digest, "big") % len(_BUCKETS)]

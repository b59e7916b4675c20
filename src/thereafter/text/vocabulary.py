"""The forms a model can predict, numbered from 0, and the cost of an unknown form.

That cost, in bits per byte, is the code length of its bytes and an end mark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from thereafter.base.config import Table
from thereafter.errors import FormatError, OptionError

UNKNOWN = "<unk>"
LINE_END = "</s>"
START = "<s>"


class Vocabulary:
    """Forms and their ids, both ways; `counts[i]` is how often form i was seen in training, if that is known.

    >>> Vocabulary.from_counts({"cat": 2, "the": 3, "fish": 1}, reserved={"<unk>": 0}, min_count=2).forms
    ['<unk>', 'the', 'cat']
    """

    def __init__(self, forms: Sequence[str], counts: Sequence[int] | None = None) -> None:
        self.forms = list(forms)
        self.index = {form: number for number, form in enumerate(self.forms)}
        self.counts = None if counts is None else list(counts)
        if len(self.index) != len(self.forms):
            raise FormatError(
                "a vocabulary holds the same form twice, expected each once; it is damaged: train it again"
            )

    @classmethod
    def from_counts(
        cls,
        counts: Mapping[str, int],
        *,
        reserved: Mapping[str, int],
        min_count: int = 1,
        max_size: int | None = None,
    ) -> Vocabulary:
        """Reserved forms first, then those seen at least `min_count` times by falling count, ties by code point.

        `max_size` caps the whole, reserved forms included. What is left out is counted as the first reserved form.
        """
        check_cutoffs(min_count, max_size, smallest=max(1, len(reserved)))
        kept = [(form, count) for form, count in counts.items() if count >= min_count and form not in reserved]
        kept.sort(key=lambda entry: (-entry[1], entry[0]))
        if max_size is not None:
            del kept[max_size - len(reserved) :]
        forms = [*reserved, *(form for form, _ in kept)]
        numbers = [*reserved.values(), *(count for _, count in kept)]
        if reserved:
            dropped = sum(count for form, count in counts.items() if form not in reserved)
            numbers[0] += dropped - sum(count for _, count in kept)
        return cls(forms, numbers)

    def __len__(self) -> int:
        return len(self.forms)

    def __contains__(self, form: object) -> bool:
        return form in self.index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.forms == other.forms

    def __hash__(self) -> int:
        return hash(tuple(self.forms))

    def __repr__(self) -> str:
        return f"Vocabulary({len(self):,} forms)"

    def to_json(self) -> Table:
        """Plain lists, ready for JSON."""
        return {"forms": self.forms} if self.counts is None else {"forms": self.forms, "counts": self.counts}

    @classmethod
    def from_json(cls, stored: object) -> Vocabulary:
        """Read back `to_json`; FormatError for anything else."""
        if not isinstance(stored, dict) or not isinstance(stored.get("forms"), list):
            raise FormatError(
                "a vocabulary has no list of forms, expected {'forms': [...]}; it is damaged: train it again"
            )
        forms, counts = stored["forms"], stored.get("counts")
        if not all(isinstance(form, str) for form in forms):
            raise FormatError("a vocabulary holds a form that is not text; it is damaged: train it again")
        if not is_unicode(forms):
            raise FormatError(
                "a vocabulary holds a lone surrogate, which no text contains; it is damaged: train it again"
            )
        if counts is not None and not (
            isinstance(counts, list)
            and len(counts) == len(forms)
            and all(type(count) is int and count >= 0 for count in counts)
        ):
            raise FormatError(
                f"the counts of a vocabulary are not {len(forms)} whole numbers; it is damaged: train it again"
            )
        return cls(forms, counts)


def check_cutoffs(min_count: int | None, max_size: int | None, *, smallest: int) -> None:
    """OptionError for a `min_count` or a `max_size` that is out of range."""
    if min_count is not None and min_count < 1:
        raise OptionError(f"min_count is {min_count}, expected 1 or more; try min_count=1 to keep every form")
    if max_size is not None and max_size < smallest:
        raise OptionError(f"max_size is {max_size}, expected at least {smallest}; try max_size=10000")


def is_unicode(forms: Iterable[str]) -> bool:
    """Whether all forms can be encoded as UTF-8."""
    try:
        "".join(forms).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


_SYMBOLS = 257  # 256 bytes and the end mark


class Spelling:
    """A byte unigram model over 257 symbols, add-one, estimated over types: each form counts once.

    `p(symbol) = (count(symbol) + 1) / (N + 257)`, N the bytes and end marks of all forms; a form costs
    `-sum(log p(byte)) - log p(end)` nats, which is finite for any bytes.

    >>> round(Spelling.from_forms(["a"]).nats("a"), 4)  # two symbols, each 2 / (2 + 257)
    9.7274
    """

    def __init__(self, costs: NDArray[np.float64]) -> None:
        self._costs = costs

    @classmethod
    def from_forms(cls, forms: Iterable[str]) -> Spelling:
        """Estimate from the ordinary forms of a vocabulary; the reserved ones are not spelled and are left out."""
        listed = list(forms)
        counts = np.ones(_SYMBOLS)
        counts[:256] += np.bincount(_join_bytes(listed), minlength=256)
        counts[256] += len(listed)
        return cls(-np.log(counts / counts.sum()))

    def nats(self, form: str) -> float:
        """The code length of one form."""
        return self.total([form])

    def total(self, forms: Iterable[str]) -> float:
        """The summed code length of forms, each with its end mark."""
        listed = list(forms)
        counts = np.bincount(_join_bytes(listed), minlength=256)
        return float(counts @ self._costs[:256] + len(listed) * self._costs[256])


def _join_bytes(forms: list[str]) -> NDArray[np.uint8]:
    return np.frombuffer("".join(forms).encode("utf-8"), dtype=np.uint8)

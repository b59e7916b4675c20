"""What `word` and `prose` share: a text is split into forms, and each form has an id."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import ClassVar, Self

import numpy as np

from thereafter.text.counting import FormCounter
from thereafter.text.tokenizers.base import Chunks, Ids, Tokenizer, join_ids
from thereafter.text.vocabulary import UNKNOWN, Vocabulary, check_cutoffs

SEEN_TWICE = 2


class FormTokenizer(Tokenizer):
    """Splits into forms with the C loops of `str.split` and `re`, and looks them up with those of `dict` and numpy."""

    reserved: ClassVar[tuple[str, ...]] = (UNKNOWN,)
    unknown_id: ClassVar[int | None] = 0
    never_kept: ClassVar[tuple[str, ...]] = ()

    @classmethod
    @abstractmethod
    def cut(cls, chunks: Iterable[str]) -> Iterator[str]:
        """The same text, cut where no form crosses."""

    @classmethod
    @abstractmethod
    def forms_of(cls, group: str) -> list[str]:
        """The forms of a part of a text, reserved ones included."""

    @classmethod
    def closing_forms(cls, last: str) -> list[str]:
        """The forms that end a whole text whose last character is `last`."""
        return []

    @classmethod
    def fit(cls, chunks: Chunks, *, min_count: int | None = None, max_size: int | None = None) -> Self:
        check_cutoffs(min_count, max_size, smallest=len(cls.reserved))
        with FormCounter() as counter:
            last = ""
            for group in cls.cut(chunks()):
                last = group[-1]
                counter.add(cls.forms_of(group), len(group))
            closing = cls.closing_forms(last)
            counter.add(closing, len(closing))
            reserved = {form: counter.take(form) for form in (*cls.reserved, *cls.never_kept)}
            least = cls._least(min_count, reserved)
            counts = counter.at_least(least)
            return cls(cls._vocabulary(counts, counter.total, reserved, least, max_size))

    @classmethod
    def fit_encode(
        cls, chunks: Chunks, *, min_count: int | None = None, max_size: int | None = None
    ) -> tuple[Self, Ids]:
        check_cutoffs(min_count, max_size, smallest=len(cls.reserved))
        # Forms are numbered as they come, then renumbered by their counts: the text is split only once.
        numbers: defaultdict[str, int] = defaultdict()
        numbers.default_factory = numbers.__len__
        arrays: list[Ids] = []
        last = ""
        for group in cls.cut(chunks()):
            last = group[-1]
            forms = cls.forms_of(group)
            arrays.append(np.fromiter(map(numbers.__getitem__, forms), np.int32, len(forms)))
        closing = cls.closing_forms(last)
        arrays.append(np.fromiter(map(numbers.__getitem__, closing), np.int32, len(closing)))
        first = join_ids(arrays)
        counts = dict(zip(numbers, np.bincount(first, minlength=len(numbers)).tolist(), strict=True))
        seen = list(counts)
        reserved = {form: counts.pop(form, 0) for form in (*cls.reserved, *cls.never_kept)}
        least = cls._least(min_count, reserved)
        kept = {form: count for form, count in counts.items() if count >= least}
        fitted = cls(cls._vocabulary(kept, len(first), reserved, least, max_size))
        renumbered = fitted.look_up(seen)
        return fitted, renumbered[first]

    @classmethod
    def _least(cls, min_count: int | None, reserved: dict[str, int]) -> int:
        return SEEN_TWICE if min_count is None else min_count

    @classmethod
    def _vocabulary(
        cls, kept: dict[str, int], total: int, reserved_counts: dict[str, int], min_count: int, max_size: int | None
    ) -> Vocabulary:
        reserved = {form: reserved_counts[form] for form in cls.reserved}
        reserved[UNKNOWN] = total - sum(kept.values()) - sum(reserved.values()) + reserved[UNKNOWN]
        return Vocabulary.from_counts(kept, reserved=reserved, min_count=min_count, max_size=max_size)

    def groups(self, chunks: Iterable[str]) -> Iterator[str]:
        return self.cut(chunks)

    def ids_of(self, group: str) -> Ids:
        return self.look_up(self.forms_of(group))

    def look_up(self, forms: list[str]) -> Ids:
        """The id of each form; that of `<unk>` if it is not in the vocabulary."""
        return np.fromiter(map(self.vocabulary.index.get, forms, repeat(0)), np.int32, len(forms))

"""Characters, that is, Unicode code points."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from thereafter.text.chunks import slice_chunks
from thereafter.text.tokenizers.base import Chunks, Ids, MeasuredText, Tokenizer, byte_length
from thereafter.text.tokenizers.forms import SEEN_TWICE
from thereafter.text.vocabulary import UNKNOWN, Vocabulary, check_cutoffs

_CODE_POINTS = 0x110000


class CharTokenizer(Tokenizer):
    """One id for each character seen at least twice; a table over all code points gives the ids."""

    name: ClassVar[str] = "char"
    reserved: ClassVar[tuple[str, ...]] = (UNKNOWN,)
    unknown_id: ClassVar[int | None] = 0

    @classmethod
    def fit(cls, chunks: Chunks, *, min_count: int | None = None, max_size: int | None = None) -> Self:
        check_cutoffs(min_count, max_size, smallest=1)
        least = SEEN_TWICE if min_count is None else min_count
        counts = np.zeros(_CODE_POINTS, np.int64)
        for piece in slice_chunks(chunks()):
            piece_counts = np.bincount(_code_points(piece))
            counts[: len(piece_counts)] += piece_counts
        kept = {chr(point): int(counts[point]) for point in np.flatnonzero(counts >= least).tolist()}
        rare = int(counts.sum()) - sum(kept.values())
        return cls(Vocabulary.from_counts(kept, reserved={UNKNOWN: rare}, min_count=least, max_size=max_size))

    @classmethod
    def is_form(cls, form: str) -> bool:
        return len(form) == 1

    @cached_property
    def _table(self) -> Ids:
        table = np.zeros(_CODE_POINTS, np.int32)
        table[_code_points("".join(self.ordinary_forms))] = np.arange(1, len(self.vocabulary))
        return table

    def groups(self, chunks: Iterable[str]) -> Iterator[str]:
        return slice_chunks(chunks)

    def ids_of(self, group: str) -> Ids:
        return self._table[_code_points(group)]

    def measure(self, group: str, inside_line: bool) -> MeasuredText:
        points = _code_points(group)
        ids = self._table[points]
        unknown = list(points[ids == 0].tobytes().decode("utf-32-le"))
        return MeasuredText(ids, group.count("\n"), len(group), byte_length(group), len(unknown), unknown)

    @property
    def line_end_id(self) -> int | None:
        return self.vocabulary.index.get("\n")


def _code_points(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le"), dtype="<u4")

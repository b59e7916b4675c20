"""Bytes and characters: the 256 bytes of UTF-8 (nothing to learn, nothing unknown), and Unicode code points."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thereafter.errors import FormatError, OptionError
from thereafter.text.reading import code_points, slice_chunks
from thereafter.text.tokenizers.base import (
    UNKNOWN,
    Chunks,
    Ids,
    MeasuredText,
    Tokenizer,
    Vocabulary,
    byte_length,
    check_cutoffs,
)
from thereafter.text.tokenizers.forms import SEEN_TWICE


def _forms() -> list[str]:
    """Names for the bytes: ASCII as itself, the others, which are no text alone, as `<0xE2>`."""
    return [chr(value) if value < 128 else f"<0x{value:02X}>" for value in range(256)]


class ByteTokenizer(Tokenizer):
    """An id is the value of a byte. Ids that are not valid UTF-8 decode with the replacement character."""

    name: ClassVar[str] = "byte"

    def __init__(self, vocabulary: Vocabulary | None = None) -> None:
        super().__init__(vocabulary or Vocabulary(_forms()))
        if self.vocabulary.forms != _forms():
            raise FormatError("a byte vocabulary is not the 256 bytes in order; it is damaged: train it again")

    @classmethod
    def fit(cls, chunks: Chunks, *, min_count: int | None = None, max_size: int | None = None) -> Self:
        """The text is not read: all bytes are known beforehand."""
        check_cutoffs(min_count, max_size, smallest=256)
        if min_count is not None:
            raise OptionError(
                f"min_count is {min_count}, but the byte tokenizer always keeps all 256 bytes; leave it out"
            )
        return cls()

    def groups(self, chunks: Iterable[str]) -> Iterator[str]:
        return slice_chunks(chunks)

    def ids_of(self, group: str) -> Ids:
        return np.frombuffer(group.encode("utf-8"), np.uint8).astype(np.int32)

    def measure(self, group: str, inside_line: bool) -> MeasuredText:
        ids = self.ids_of(group)
        return MeasuredText(ids, group.count("\n"), len(group), len(ids))

    @cached_property
    def token_sizes(self) -> NDArray[np.int64]:
        return np.ones(256, dtype=np.int64)

    @property
    def line_end_id(self) -> int:
        return ord("\n")

    def bytes_of(self, id: int) -> bytes:
        return bytes([id])

    def decode(self, ids: ArrayLike) -> str:
        return bytes(self.check_ids(ids)).decode("utf-8", errors="replace")


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
            piece_counts = np.bincount(code_points(piece))
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
        table[code_points("".join(self.ordinary_forms))] = np.arange(1, len(self.vocabulary))
        return table

    def groups(self, chunks: Iterable[str]) -> Iterator[str]:
        return slice_chunks(chunks)

    def ids_of(self, group: str) -> Ids:
        return self._table[code_points(group)]

    def measure(self, group: str, inside_line: bool) -> MeasuredText:
        points = code_points(group)
        ids = self._table[points]
        unknown = list(points[ids == 0].tobytes().decode("utf-32-le"))
        return MeasuredText(ids, group.count("\n"), len(group), byte_length(group), len(unknown), unknown)

    @property
    def line_end_id(self) -> int | None:
        return self.vocabulary.index.get("\n")

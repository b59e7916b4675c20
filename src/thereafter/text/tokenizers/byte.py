"""The bytes of UTF-8: 256 ids, nothing to learn, nothing unknown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thereafter.errors import FormatError, OptionError
from thereafter.text.chunks import slice_chunks
from thereafter.text.tokenizers.base import Chunks, Ids, MeasuredText, Tokenizer
from thereafter.text.vocabulary import Vocabulary, check_cutoffs


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

"""From forms to piece ids, each distinct form encoded once; and the characters that stand for bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import repeat
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from thereafter.text.tokenizers.base import Ids

MOST_FORMS = 200_000
_MOST_CHARS = 1 << 24
BATCH_CHARS = 1 << 19


class PieceTable:
    """Caches the ids of forms, and concatenates those of a list of forms without a loop over forms.

    Its size is bounded: a table that has grown too large is emptied before the next new form is added.
    """

    def __init__(self, encode: Callable[[list[str]], list[list[int]]]) -> None:
        self._encode = encode
        self._lock = Lock()
        self._forget()

    def ids(self, forms: list[str]) -> Ids:
        """The ids of all forms, one after the other."""
        with self._lock:
            slots = self._look_up(forms)
            if len(slots) and slots.min() < 0:
                if len(self._slots) > MOST_FORMS or self._chars > _MOST_CHARS:
                    self._forget()
                self._learn([form for form in dict.fromkeys(forms) if form not in self._slots])
                slots = self._look_up(forms)
            starts, lengths, flat = self._starts[slots], self._lengths[slots], self._flat
        # The place of id k of a form: where the form begins in the table, plus k.
        before = np.cumsum(lengths) - lengths
        places: NDArray[np.int64] = np.repeat(starts - before, lengths)
        places += np.arange(len(places))
        laid: Ids = flat[places]
        return laid

    def _forget(self) -> None:
        self._slots: dict[str, int] = {}
        self._chars = 0
        self._starts: NDArray[np.int64] = np.zeros(0, np.int64)
        self._lengths: NDArray[np.int64] = np.zeros(0, np.int64)
        self._flat: Ids = np.zeros(0, np.int32)

    def _look_up(self, forms: list[str]) -> NDArray[np.int64]:
        return np.fromiter(map(self._slots.get, forms, repeat(-1)), np.int64, len(forms))

    def _learn(self, forms: list[str]) -> None:
        runs = [np.array(ids, np.int32) for batch in _batches(forms) for ids in self._encode(batch)]
        lengths = np.fromiter(map(len, runs), np.int64, len(runs))
        self._slots.update(zip(forms, range(len(self._slots), len(self._slots) + len(forms)), strict=True))
        self._chars += sum(map(len, forms))
        self._starts = np.concatenate([self._starts, len(self._flat) + np.cumsum(lengths) - lengths])
        self._lengths = np.concatenate([self._lengths, lengths])
        self._flat = np.concatenate([self._flat, *runs])


def _batches(forms: list[str]) -> Iterator[list[str]]:
    """Forms by half a million characters: the library needs some hundred bytes for each while it encodes."""
    batch: list[str] = []
    chars = 0
    for form in forms:
        batch.append(form)
        chars += len(form)
        if chars >= BATCH_CHARS:
            yield batch
            batch, chars = [], 0
    if batch:
        yield batch


@cache
def byte_alphabet() -> dict[str, int]:
    """The character that stands for each byte in byte-level pieces, as all such tokenizers write them.

    Bytes that are visible in Latin-1 stand for themselves; the others, in order, for U+0100 and what follows.
    """
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [value for value in range(256) if value not in visible]
    return {chr(value): value for value in visible} | {chr(0x100 + rank): value for rank, value in enumerate(hidden)}

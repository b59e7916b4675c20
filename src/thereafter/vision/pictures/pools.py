"""Digits to be moved about: those of MNIST, or drawn ones. Shapes: N digits of the pool, B chosen ones, h pixels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from thereafter.data import corpora
from thereafter.errors import FormatError, OptionError
from thereafter.vision.pictures.glyphs import SIDE, numbered_glyphs
from thereafter.vision.pictures.idx import open_idx, read_idx_labels
from thereafter.vision.pictures.stacked import StackedPictures

GLYPHS = 10_000
"""The drawn digits that are meant where a rule does not say how many."""

_MOST_GLYPHS = 1_000_000


class DigitPool(Protocol):
    """Pictures of single digits, h x h pixels, by their number."""

    @property
    def side(self) -> int:
        """h, the pixels from edge to edge."""

    @property
    def digits(self) -> NDArray[np.int64]:
        """Which digit each picture shows, [N]."""

    def __len__(self) -> int: ...

    def take(self, rows_B: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Pictures by their numbers, [B, h, h]."""


class GlyphPool:
    """Drawn digits: each is drawn when it is first asked for, and kept."""

    side = SIDE

    def __init__(self, begin: int, end: int) -> None:
        if end - begin > _MOST_GLYPHS:
            raise OptionError(f"a rule asks for {end - begin:,} drawn digits; expected at most {_MOST_GLYPHS:,}")
        self.digits = np.arange(begin, end) % 10
        self._begin = begin
        self._drawn_N = np.zeros(end - begin, np.bool_)
        self._pictures_Nhh = np.zeros((end - begin, SIDE, SIDE), np.uint8)

    def __len__(self) -> int:
        return len(self.digits)

    def take(self, rows_B: NDArray[np.int64]) -> NDArray[np.uint8]:
        missing = np.unique(rows_B[~self._drawn_N[rows_B]])
        if len(missing):
            self._pictures_Nhh[missing] = numbered_glyphs(self._begin + missing)
            self._drawn_N[missing] = True  # last: another thread may draw the same digit, never see half of one
        return self._pictures_Nhh[rows_B]


class PicturePool:
    """Pictures of digits in one array, from `begin` to before `end`; read from their file when they are asked for."""

    side = SIDE

    def __init__(self, pictures: StackedPictures, labels: Sequence[str], begin: int, end: int) -> None:
        if len(pictures) != len(labels) or pictures.shape(0) != (SIDE, SIDE, 1):
            raise FormatError(
                f"{pictures.name} has {len(pictures):,} pictures of {list(pictures.shape(0))}, {len(labels):,} labels; "
                f"expected a label for each, and {SIDE} x {SIDE} grey pixels"
            )
        if max(end, begin + 1) > len(pictures):
            raise OptionError(
                f"{pictures.name} has {len(pictures):,} digits; got a rule for those from {begin:,} to {end:,}"
            )
        wrong = sorted(set(labels) - set("0123456789"))
        if wrong:
            raise FormatError(f"{pictures.name} has a label {wrong[0]!r}; expected the digits 0 to 9")
        self.digits = np.array(labels[begin : end or len(labels)], np.int64)
        self._pictures = pictures
        self._begin = begin

    def __len__(self) -> int:
        return len(self.digits)

    def take(self, rows_B: NDArray[np.int64]) -> NDArray[np.uint8]:
        return np.asarray(self._pictures.stack((self._begin + rows_B).tolist())[..., 0], np.uint8)


def open_pool(source: str, begin: int = 0, end: int = 0) -> DigitPool:
    """The digits from `begin` to before `end` (0: to the last) of "glyphs", "mnist:train" or "mnist:test"."""
    if source == "glyphs":
        return GlyphPool(begin, end or max(GLYPHS, begin + 1))
    corpus, _, part = source.partition(":")
    pictures, labels = _opened(*(str(corpora.locate(corpus).parts[key]) for key in (part, f"{part}.labels")))
    return PicturePool(pictures, labels, begin, end)


@lru_cache(maxsize=4)
def _opened(images: str, labels: str) -> tuple[StackedPictures, list[str]]:
    """Files that several clips share, opened once: gzipped ones are inflated."""
    return open_idx(Path(images)), read_idx_labels(Path(labels))

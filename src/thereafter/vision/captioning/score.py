"""The score of captions, and two captioners that any network has to beat: one sentence for every picture, and the
caption of the nearest training picture.

Shapes: N pictures, C captions, B pictures as rows of D numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.base.tabular import Row, Tabular
from thereafter.errors import EmptyCorpusError, ShapeError
from thereafter.vision.captioning.measures import (
    RULE,
    CountedCaptions,
    Floats,
    bleu_of_sums,
    bleu_statistics,
    caption_words,
    check_captions,
    cider_of_each,
    count_captions,
    count_grams,
    most_of_references,
    nearest_length,
)

_ROWS = 1024  # pictures in one product
_NEAREST = 8  # whose distances are worked out exactly


@dataclass(frozen=True)
class CaptionScore(Tabular):
    """BLEU-1 to BLEU-4 (0 to 100) and CIDEr-D (mostly 0 to 2) of `captions` answers, one a picture.

    `references` is how many captions of people a picture has on average, `distinct` how many different captions were
    given, `length` their mean number of words, `rule` what counts as a word.
    """

    bleu_1: float
    bleu_2: float
    bleu_3: float
    bleu_4: float
    cider_d: float
    captions: int
    references: float
    distinct: int
    length: float
    rule: str = RULE

    def as_dict(self) -> Table:
        """All figures, for JSON."""
        return asdict(self)

    def to_rows(self) -> list[Row]:
        """One row."""
        return [asdict(self)]

    def line(self) -> str:
        """The figures that captioners are compared by, in one line."""
        return f"BLEU-1 {self.bleu_1:.1f}, BLEU-4 {self.bleu_4:.1f}, CIDEr-D {self.cider_d:.3f}"

    def __str__(self) -> str:
        scores = (self.bleu_1, self.bleu_2, self.bleu_3, self.bleu_4)
        return (
            ", ".join(f"BLEU-{n} {score:.1f}" for n, score in enumerate(scores, 1))
            + f", CIDEr-D {self.cider_d:.3f} over {self.captions:,} pictures, {self.references:.3g} references each\n"
            f"{self.distinct:,} different captions of {self.length:.1f} words on average ({self.rule})"
        )


def measure_captions(answers: Sequence[str], references: Sequence[Sequence[str]]) -> CaptionScore:
    """Captions, one a picture, against those that people wrote of it; what counts as a word is `caption_words`."""
    counted, words = counted_texts(answers, references)
    bleu_1, bleu_2, bleu_3, bleu_4 = bleu_of_sums(bleu_statistics(counted).sum(axis=0)[None])[0].tolist()
    return CaptionScore(
        bleu_1,
        bleu_2,
        bleu_3,
        bleu_4,
        cider_d=float(cider_of_each(counted).mean()),
        captions=len(answers),
        references=len(counted.picture_R) / len(answers),
        distinct=len(set(map(tuple, words))),
        length=float(counted.length_N.mean()),
    )


def counted_texts(
    answers: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[CountedCaptions, list[list[str]]]:
    """The k-grams of captions as they are written, and the words of the answers."""
    check_captions(answers, references)
    words = [caption_words(text) for text in answers]
    return count_captions(words, [[caption_words(text) for text in several] for several in references]), words


def constant_caption(references: Sequence[Sequence[str]]) -> str:
    """The one training caption, as it is written, with the highest BLEU-4 if it is given for every training picture;
    of equal ones the one with the highest BLEU-3, and so on; then the first.

    BLEU of all C captions at once: the k-grams a caption has in common with N pictures are sums of counts by k-gram.
    """
    texts = [text for several in references for text in several]
    counted, _ = counted_texts([""] * len(references), references)
    captions = count_grams([caption_words(text) for text in texts])
    pictures, length_C = len(references), counted.length_R
    columns: list[Floats] = []
    for grams in captions:
        key_Y, most_Y = most_of_references(grams, counted.picture_R, 0)
        gram_Y, common_X = key_Y % max(1, grams.kinds), np.zeros(len(grams.gram_X))
        for times in range(1, int(most_Y.max(initial=0)) + 1):
            has_G = np.bincount(gram_Y[most_Y >= times], minlength=grams.kinds)
            common_X += np.where(grams.count_X >= times, has_G[grams.gram_X], 0)
        columns.append(np.bincount(grams.caption_X, common_X, len(texts)).astype(np.float64))
    for k in range(1, len(captions) + 1):
        columns.append(pictures * np.maximum(length_C - k + 1, 1).astype(np.float64))
    near = {int(n): float(nearest_length(np.full(pictures, n), counted).sum()) for n in np.unique(length_C)}
    columns += [pictures * length_C.astype(np.float64), np.array([near[int(n)] for n in length_C])]
    scores_CO = bleu_of_sums(np.stack(columns, axis=1))
    return texts[int(np.lexsort((np.arange(len(texts)), *-scores_CO.T))[0])]


def nearest_captions(
    train_BD: NDArray[np.generic], test_BD: NDArray[np.generic], captions: Sequence[Sequence[str]]
) -> list[str]:
    """For every test picture the first caption of the nearest training picture: the least sum of squared differences,
    of equally near ones the first. Pictures are rows of numbers, of any shape behind the first axis.

    Products of blocks in single precision choose a few; their differences decide.
    """
    if train_BD.shape[1:] != test_BD.shape[1:] or train_BD.ndim < 2:
        raise ShapeError(
            f"training pictures are {train_BD.shape} and test pictures {test_BD.shape}; expected [B, ...] of one shape"
        )
    check_captions([""] * len(train_BD), captions)
    if not len(test_BD):
        raise EmptyCorpusError("there are no test pictures; expected at least one")
    middle_D = _rows(train_BD[:_ROWS]).mean(axis=0)
    nearest: list[int] = []
    with progress.task("comparing pictures", total=len(test_BD)) as advance:
        for begin in range(0, len(test_BD), _ROWS):
            test = test_BD[begin : begin + _ROWS]
            few_BK = _few_nearest(_rows(test) - middle_D, train_BD, middle_D)
            nearest += [_nearest(one, train_BD, few_K) for one, few_K in zip(test, few_BK, strict=True)]
            advance(len(test))
    return [captions[row][0] for row in nearest]


def _few_nearest(
    test_BD: NDArray[np.float32], train_BD: NDArray[np.generic], middle_D: NDArray[np.float32]
) -> NDArray[np.int64]:
    """The rows of a few training pictures nearest to each test picture, in order of their rows, [B, K]."""
    away_BN = np.empty((len(test_BD), len(train_BD)), np.float32)
    for begin in range(0, len(train_BD), _ROWS):
        train = _rows(train_BD[begin : begin + _ROWS]) - middle_D
        away_BN[:, begin : begin + len(train)] = (train**2).sum(axis=1) - 2 * (test_BD @ train.T)
    few = min(_NEAREST, len(train_BD))
    return np.sort(np.argpartition(away_BN, few - 1, axis=1)[:, :few], axis=1).astype(np.int64)


def _nearest(one: NDArray[np.generic], train_BD: NDArray[np.generic], few_K: NDArray[np.int64]) -> int:
    """Of a few training pictures the nearest, in double precision."""
    squares_KD = (_rows(train_BD[few_K], np.float64) - one.reshape(-1).astype(np.float64)) ** 2
    return int(few_K[squares_KD.sum(axis=1).argmin()])


def _rows(pictures: NDArray[np.generic], dtype: type[np.floating] = np.float32) -> NDArray[np.floating]:
    return np.asarray(pictures.reshape(len(pictures), -1), dtype)

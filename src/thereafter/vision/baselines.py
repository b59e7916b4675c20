"""What networks over pictures have to beat: answers without a look at the picture, or by looks alone.

Captions
    one sentence       the training caption that fits all training pictures best
    nearest picture    the first caption of the training picture with the nearest pixels, or features
    other pictures     what the network says of another picture, by a fixed rotation of the test pictures: as good as
                       its captions are without saying anything of this one
Labels
    nearest picture    the label of the nearest training picture
    most frequent      the most frequent label

Shapes: N pictures, C captions, B pictures as rows of D numbers, K near ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.errors import EmptyCorpusError, ShapeError
from thereafter.series.classifying.task import most_frequent
from thereafter.vision.captioning import measures
from thereafter.vision.captioning.reading import CaptionedPicture
from thereafter.vision.pictures.codec import USUAL_SIZE, PictureCodec
from thereafter.vision.pictures.labelled_pictures import LabelledPicture
from thereafter.vision.pictures.picture import Picture

OTHER_PICTURES = "this model, other pictures"
"""What the row is called that asks the network itself."""
MOST_COMPARED = 10_000
"""Training pictures that each test picture is compared with, spread evenly where there are more."""
_ROWS = 1024  # pictures in one product
_NEAREST = 8  # whose distances are worked out exactly


Rows = Mapping[str, Callable[[], list[str]]]
"""Answers to all examples that need no network, by the name of their row."""


def caption_rows(learned: Sequence[CaptionedPicture], asked: Sequence[CaptionedPicture]) -> Rows:
    """The rows of captions that need no network."""
    pictures, captions = [one.picture for one in learned], [one.captions for one in learned]
    kind = "pixels" if pictures[0].source.kind == "pixels" else "features"
    return {
        "one sentence for all": lambda: [constant_caption(captions)] * len(asked),
        f"nearest picture ({kind})": lambda: _first_of_nearest(pictures, [one.picture for one in asked], captions),
    }


def picture_rows(learned: Sequence[LabelledPicture], asked: Sequence[LabelledPicture]) -> Rows:
    """The rows of labels that need no network."""
    rows = np.unique(np.linspace(0, len(learned) - 1, min(len(learned), MOST_COMPARED)).round().astype(int))
    pictures, labels = [learned[row].picture for row in rows], [(learned[row].label,) for row in rows]
    nearest = f"nearest of {len(rows):,} training pictures"
    return {
        nearest: lambda: _first_of_nearest(pictures, [one.picture for one in asked], labels),
        "most frequent label": lambda: [most_frequent([one.label for one in learned])] * len(asked),
    }


def _first_of_nearest(
    learned: Sequence[Picture], asked: Sequence[Picture], texts: Sequence[Sequence[str]]
) -> list[str]:
    """As pictures are compared: pixels at their own size, those of more than 64 x 64 at 64 x 64."""
    first = learned[0]
    large = first.source.kind == "pixels" and math.prod(first.shape()[:2]) > USUAL_SIZE**2
    codec = PictureCodec.fit(learned, USUAL_SIZE if large else 0)
    return nearest_captions(codec.batch(learned), codec.batch(asked), texts)


def constant_caption(references: Sequence[Sequence[str]]) -> str:
    """The one training caption, as it is written, with the highest BLEU-4 if it is given for every training picture;
    of equal ones the one with the highest BLEU-3, and so on; then the first.

    BLEU of all C captions at once: the k-grams a caption has in common with N pictures are sums of counts by k-gram.
    """
    texts = [text for several in references for text in several]
    counted, _ = measures.counted_texts([""] * len(references), references)
    captions = measures.count_grams([measures.caption_words(text) for text in texts])
    pictures, length_C = len(references), counted.length_R
    columns: list[measures.Floats] = []
    for grams in captions:
        key_Y, most_Y = measures.most_of_references(grams, counted.picture_R, 0)
        gram_Y, common_X = key_Y % max(1, grams.kinds), np.zeros(len(grams.gram_X))
        for times in range(1, int(most_Y.max(initial=0)) + 1):
            has_G = np.bincount(gram_Y[most_Y >= times], minlength=grams.kinds)
            common_X += np.where(grams.count_X >= times, has_G[grams.gram_X], 0)
        columns.append(np.bincount(grams.caption_X, common_X, len(texts)).astype(np.float64))
    for k in range(1, len(captions) + 1):
        columns.append(pictures * np.maximum(length_C - k + 1, 1).astype(np.float64))
    near = {int(n): float(measures.nearest_length(np.full(pictures, n), counted).sum()) for n in np.unique(length_C)}
    columns += [pictures * length_C.astype(np.float64), np.array([near[int(n)] for n in length_C])]
    scores_CO = measures.bleu_of_sums(np.stack(columns, axis=1))
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
    measures.check_captions([""] * len(train_BD), captions)
    if not len(test_BD):
        raise EmptyCorpusError("there are no test pictures; expected at least one")
    middle_D = _rows(train_BD[:_ROWS]).mean(axis=0)
    nearest: list[int] = []
    with progress.task("comparing pictures", total=len(test_BD)) as advance:
        for begin in range(0, len(test_BD), _ROWS):
            test = test_BD[begin : begin + _ROWS]
            few_BK = _few_nearest(_rows(test) - middle_D, train_BD, middle_D)
            for one, few_K in zip(test, few_BK, strict=True):  # in double precision
                squares_KD = (_rows(train_BD[few_K], np.float64) - one.reshape(-1).astype(np.float64)) ** 2
                nearest.append(int(few_K[squares_KD.sum(axis=1).argmin()]))
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


def _rows(pictures: NDArray[np.generic], dtype: type[np.floating] = np.float32) -> NDArray[np.floating]:
    return np.asarray(pictures.reshape(len(pictures), -1), dtype)

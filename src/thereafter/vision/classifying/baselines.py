"""What a classifier of pictures has to beat: the label of the nearest training picture, and the most frequent one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from thereafter.series.classifying.nearest import most_frequent
from thereafter.vision.captioning.score import nearest_captions
from thereafter.vision.pictures.codec import PictureCodec
from thereafter.vision.pictures.labelled_pictures import LabelledPicture
from thereafter.vision.pictures.measuring import USUAL_SIZE
from thereafter.vision.pictures.picture import Picture

MOST_COMPARED = 10_000
"""Training pictures that each test picture is compared with, spread evenly where there are more."""


def picture_rows(
    learned: Sequence[LabelledPicture], asked: Sequence[LabelledPicture]
) -> Mapping[str, Callable[[], list[str]]]:
    """The rows that need no network."""
    rows = np.unique(np.linspace(0, len(learned) - 1, min(len(learned), MOST_COMPARED)).round().astype(int))
    compared = [learned[row] for row in rows]

    def nearest() -> list[str]:
        codec = comparing_codec([one.picture for one in compared])
        before, after = (codec.batch([one.picture for one in part]) for part in (compared, asked))
        return nearest_captions(before, after, [(one.label,) for one in compared])

    return {
        f"nearest of {len(compared):,} training pictures": nearest,
        "most frequent label": lambda: [most_frequent([one.label for one in learned])] * len(asked),
    }


def comparing_codec(pictures: Sequence[Picture]) -> PictureCodec:
    """Pictures as they are compared: pixels at their own size, those of more than 64 x 64 at 64 x 64."""
    first = pictures[0]
    large = first.source.kind == "pixels" and math.prod(first.shape()[:2]) > USUAL_SIZE**2
    return PictureCodec.fit(pictures, USUAL_SIZE if large else 0)

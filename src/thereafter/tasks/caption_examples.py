"""The examples of a captioner: the files of their pictures, their words, and the random draws that belong to each."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from thereafter.data.finding import find_files
from thereafter.errors import SourceError
from thereafter.evaluation.caption_measures import caption_words
from thereafter.images.caption_files import read_names
from thereafter.images.captioned import all_pictures, read_captioned
from thereafter.images.picture import Picture
from thereafter.images.sources import PICTURE_FILES, holds_pictures
from thereafter.models.captioner import PictureBatch


def with_pictures(files: Sequence[Path]) -> list[Path]:
    """The files with the pictures beside them, where they are captions alone."""
    if any(map(holds_pictures, files)):
        return list(files)
    beside: list[Path] = []
    with suppress(SourceError):  # none there: the reader says what is missing
        for folder in dict.fromkeys(path.absolute().parent for path in files):
            beside += find_files(folder, PICTURE_FILES)
    return [*files, *beside]


def asked_pictures(files: Sequence[Path]) -> list[Picture]:
    """The pictures of files; where a file of names is among them, only those that it names and that have captions."""
    named = any(not holds_pictures(path) and read_names(path) is not None for path in files)
    return [one.picture for one in read_captioned(files)] if named else all_pictures(files)


def normal_caption(caption: str) -> str:
    """A caption as it is learned: its words, and nothing else."""
    return " ".join(caption_words(caption))


def generators(batch: PictureBatch, seed: int | None) -> list[np.random.Generator]:
    """One for each picture, of the seed and its own numbers, so that its batch does not matter; and of how often it
    came before, so that one asked several times has several answers."""
    if seed is None:
        return [np.random.default_rng() for _ in range(len(batch))]
    rngs, came = [], Counter[int]()
    for picture in batch.pictures.cpu().numpy():
        key = zlib.crc32(np.ascontiguousarray(picture).tobytes())
        rngs.append(np.random.default_rng([seed, came[key], key]))
        came[key] += 1
    return rngs

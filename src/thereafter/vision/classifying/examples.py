"""The examples of a classifier of pictures: their files, and those that are held out."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from thereafter.data.files import AnySource, Files, Parts
from thereafter.data.finding import find_files
from thereafter.data.sources import locate
from thereafter.errors import EmptyCorpusError, SourceError
from thereafter.vision.captioning.reading import all_pictures
from thereafter.vision.pictures.idx import idx_shape
from thereafter.vision.pictures.labelled_pictures import (
    LABELLED_FILES,
    LabelledPicture,
    holds_labelled_pictures,
    read_labelled_pictures,
)
from thereafter.vision.pictures.picture import Picture
from thereafter.vision.pictures.sources import PICTURE_FILES, holds_pictures

MOST_HELD_OUT = 5_000


def part_of_pictures(given: Parts, part: str) -> Files | None:
    """The pictures of a part of a corpus with their labels."""
    files, labels = given.parts.get(part), given.parts.get(f"{part}.labels")
    if files is None or labels is None:
        return None
    return replace(files, files=(*files.files, *labels.files))


def read_pictures(files: Sequence[Path]) -> list[LabelledPicture]:
    """Pictures with labels; with the pictures beside them, where the files are tables of labels alone."""
    if any(map(holds_pictures, files)):
        return list(read_labelled_pictures(files))
    beside: list[Path] = []
    for folder in dict.fromkeys(path.absolute().parent for path in files):
        with suppress(SourceError):
            beside += find_files(folder, PICTURE_FILES)
    if not beside:
        raise EmptyCorpusError(
            f"{', '.join(map(str, files))}: no pictures there or beside it; expected idx files, LABEL/name.png in "
            "folders, an .npz with pixels and labels, or a table of labels beside its pictures"
        )
    return list(read_labelled_pictures([*files, *beside]))


def has_pictures(source: AnySource) -> bool:
    """Whether a source is a corpus of pictures with labels, or files of them."""
    given = locate(source, LABELLED_FILES)
    if given.kind == "pictures" or (given.corpus is not None and given.corpus.kind == "pictures"):
        return True
    files = [path for part in given.parts.values() for path in part.files]
    pictures = [path for path in files if holds_labelled_pictures([path])]
    # a plot beside a table of texts makes no pictures of them
    return given.kind == "text" and given.corpus is None and len(pictures) > len(files) - len(pictures)


def asked_pictures_of(files: Sequence[Path]) -> list[Picture]:
    """The pictures of files, whatever labels are among them."""
    return all_pictures([path for path in files if holds_pictures(path) and len(idx_shape(path) or "...") > 1])


def hold_out_pictures(
    examples: Sequence[LabelledPicture], share: float
) -> tuple[list[LabelledPicture], list[LabelledPicture], str]:
    """The last ones where they have all labels; else, as in folders by label, the last of each label."""
    count = min(MOST_HELD_OUT, max(1, round(share * len(examples))))
    labels = {one.label for one in examples}
    if labels == {one.label for one in examples[-count:]}:
        return list(examples[:-count]), list(examples[-count:]), ""
    places: dict[str, list[int]] = {}
    for at, one in enumerate(examples):
        places.setdefault(one.label, []).append(at)
    last = {at for own in places.values() for at in own[len(own) - round(count / len(examples) * len(own)) :]}
    last = last or {max(places.values(), key=len)[-1]}
    learned = [one for at, one in enumerate(examples) if at not in last]
    return learned, [examples[at] for at in sorted(last)], ", of each label its share,"

"""Pictures with a label each: the examples of a classifier, and those that are held out.

Five forms are told apart by their files:

idx       images and labels, as MNIST is published: `train-images-idx3-ubyte`, `train-labels-idx1-ubyte` (or .gz)
folders   LABEL/name.png, as files or in a .zip
arrays    an .npz with pixels (or images, x) and labels (or y)
table     pictures, and a .csv or .tsv with the columns image and label
rule      a .json by which digits are put among pieces of others
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from thereafter.data.corpora import locate_source
from thereafter.data.files import AnySource, Files, Parts
from thereafter.data.finding import FileKind
from thereafter.errors import EmptyCorpusError, FormatError
from thereafter.text.labelled import LABEL_NAMES
from thereafter.text.reading import place
from thereafter.text.tables import TextTable, read_table, require_characters
from thereafter.vision.captioning.reading import PICTURE_COLUMNS, all_pictures, picture_columns
from thereafter.vision.pictures.archives import IDX_ENDINGS, find_array, idx_shape, npz_strings, read_idx_labels
from thereafter.vision.pictures.decoding import PICTURE_ENDINGS
from thereafter.vision.pictures.glyphs import ClutteredPictures, is_clutter_rule
from thereafter.vision.pictures.picture import Picture, PictureSource, pictures_of
from thereafter.vision.pictures.sources import PicturesByName, holds_pictures, open_pictures

LABEL_TABLES = (".csv", ".tsv")


def read_label_table(path: Path) -> Iterator[tuple[str, str, str]]:
    """The name of a picture, its label, and the place where it stands."""
    table = _read(path)
    columns = picture_columns(table, LABEL_NAMES)
    if columns is None:
        raise FormatError(
            f"the columns of {os.fspath(path)} do not say which are pictures and labels ({table.describe_columns()}); "
            "expected image and label"
        )
    for row in table.rows:
        name, label = (str(row.cells[column]).strip() for column in columns)
        if not name or not label:
            raise FormatError(f"{place(path, row.line)} lacks a name or a label; expected both")
        yield name, require_characters(label, place(path, row.line)), place(path, row.line)


def _read(path: Path) -> TextTable:
    return read_table(
        path, has_header=lambda rows: any(str(cell).strip().lower() in PICTURE_COLUMNS for cell in rows[0].cells)
    )


LABELLED_FILES = FileKind(
    "pictures", ((*PICTURE_ENDINGS, ".zip", ".npz", *LABEL_TABLES), IDX_ENDINGS, (".json",)), lists=LABEL_TABLES
)
"""The pictures of a folder and the tables of their labels."""
LABEL_ARRAYS = ("labels", "label", "y", "targets", "classes", "y_train", "y_test")


@dataclass(frozen=True)
class LabelledPicture:
    """A picture and its class; `label` is empty where it is asked for."""

    picture: Picture
    label: str = ""

    @property
    def name(self) -> str:
        return self.picture.name


def read_labelled_pictures(files: Sequence[Path]) -> Sequence[LabelledPicture]:
    """All pictures of these files with their labels."""
    shapes = {path: shape for path in files if (shape := _idx_shape(path)) is not None}
    if shapes:
        return _of_idx(files, shapes)
    rules = [path for path in files if path.suffix.lower() == ".json"]
    if rules:
        sources = [source for path in rules if isinstance(source := open_pictures(path), ClutteredPictures)]
        return [one for source in sources for one in _joined(source, source.labels(), source.name)]
    npz = [path for path in files if path.name.lower().endswith(".npz")]
    if npz:
        return [one for path in npz for one in _of_arrays(path)]
    tables = [path for path in files if _is_table(path)]
    pictures = all_pictures([path for path in files if not _is_table(path)])
    if not pictures:
        raise EmptyCorpusError("there are no pictures; expected idx files, LABEL/name.png, or an .npz with labels")
    labels = [path for path in tables if picture_columns(_read(path), LABEL_NAMES) is not None]
    if tables and not labels and len({_folder(picture) for picture in pictures}) < 2:
        labels = tables  # which say what they lack
    return _of_table(labels, pictures) if labels else _of_folders(pictures)


def holds_labelled_pictures(files: Sequence[Path]) -> bool:
    """Whether files hold pictures with labels, by their endings and first bytes."""
    endings = (*PICTURE_ENDINGS, ".zip", ".npz")
    return any(
        path.name.lower().endswith(endings) or _idx_shape(path) is not None or is_clutter_rule(path) for path in files
    )


def _idx_shape(path: Path) -> tuple[int, ...] | None:
    return idx_shape(path) if path.name.removesuffix(".gz").endswith(IDX_ENDINGS) or not path.suffix else None


def _is_table(path: Path) -> bool:
    return path.name.lower().removesuffix(".gz").endswith(LABEL_TABLES)


def _of_idx(files: Sequence[Path], shapes: dict[Path, tuple[int, ...]]) -> list[LabelledPicture]:
    """Images and labels by the beginning of their names: train-images..., train-labels..."""
    images = [path for path in files if len(shapes.get(path, ())) > 2]
    labels = [path for path in files if len(shapes.get(path, ())) == 1]
    if len(images) == len(labels) == 1:
        pairs = list(zip(images, labels, strict=True))
    else:
        by_stem = {_stem(path, "labels"): path for path in labels}
        pairs = [(path, by_stem[_stem(path, "images")]) for path in images if _stem(path, "images") in by_stem]
    if not pairs or len(pairs) < max(len(images), len(labels)):
        named = ", ".join(path.name for path in (*images, *labels))
        raise FormatError(
            f"the idx files {named} are {len(images)} of images and {len(labels)} of labels; expected one of labels "
            "for each of images, such as train-images-idx3-ubyte and train-labels-idx1-ubyte"
        )
    return [one for image, label in pairs for one in _joined(open_pictures(image), read_idx_labels(label), str(label))]


def _stem(path: Path, word: str) -> str:
    return path.name.partition(word)[0]


def _of_arrays(path: Path) -> list[LabelledPicture]:
    arrays, key = find_array(path, LABEL_ARRAYS, "labels", "pixels", or_only=False)
    return _joined(open_pictures(path), npz_strings(path, arrays[key]), f"{key} in {path}")


def _joined(source: PictureSource, labels: Sequence[str], where: str) -> list[LabelledPicture]:
    if len(labels) != len(source):
        raise FormatError(
            f"{where} has {len(labels):,} labels and {source.name} has {len(source):,} pictures; expected as many"
        )
    return [LabelledPicture(picture, label) for picture, label in zip(pictures_of(source), labels, strict=True)]


def _of_table(tables: Sequence[Path], pictures: Sequence[Picture]) -> list[LabelledPicture]:
    by_name = PicturesByName(pictures)
    examples = []
    for table, (name, label, where) in ((path, row) for path in tables for row in read_label_table(path)):
        if (picture := by_name.find(name)) is not None:
            examples.append(LabelledPicture(picture, label))
        elif not (table.parent / name).is_file():  # else it is of another part
            raise FormatError(f"{where} names {name!r}, and there is no such picture; expected its file beside it")
    return examples


def _folder(picture: Picture) -> str:
    return picture.name.rpartition("/")[0].rpartition("/")[2]


def _of_folders(pictures: Sequence[Picture]) -> list[LabelledPicture]:
    """The label is the name of the folder a picture is in."""
    examples = [LabelledPicture(picture, _folder(picture)) for picture in pictures]
    if len({one.label for one in examples}) < 2:
        first = examples[0]
        raise FormatError(
            f"all {len(examples):,} pictures are in one folder ({first.picture.source.name}), so they have no labels; "
            "expected a folder for each label (cats/1.png, dogs/2.png), or a labels.csv with the columns image and "
            "label"
        )
    return examples


MOST_HELD_OUT = 5_000


def part_of_pictures(given: Parts, part: str) -> Files | None:
    """The pictures of a part of a corpus with their labels."""
    files, labels = given.parts.get(part), given.parts.get(f"{part}.labels")
    if files is None or labels is None:
        return None
    return replace(files, files=(*files.files, *labels.files))


def has_pictures(source: AnySource) -> bool:
    """Whether a source is a corpus of pictures with labels, or files of them."""
    given = locate_source(source, LABELLED_FILES)
    if given.kind == "pictures" or (given.corpus is not None and given.corpus.kind == "pictures"):
        return True
    files = [path for part in given.parts.values() for path in part.files]
    pictures = [path for path in files if holds_labelled_pictures([path])]
    # a plot beside a table of texts makes no pictures of them
    return given.kind == "text" and given.corpus is None and len(pictures) > len(files) - len(pictures)


def asked_pictures_of(files: Sequence[Path]) -> list[Picture]:
    """The pictures of files, whatever labels are among them."""
    return all_pictures([path for path in files if holds_pictures(path) and len(idx_shape(path) or "...") > 1])

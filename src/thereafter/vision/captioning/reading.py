"""Pictures with captions: files of pictures, files of captions, and perhaps a file of the names that are meant.

The files may come in any order; what each is follows from its ending and its first lines.

Flickr8k     `name.jpg#0<TAB>caption`, a line a caption
tables       .csv, .tsv or .txt with the columns image (file, picture, name) and caption (text), or these two in order
jsonl        an object a caption, or a picture: {"image": "a.jpg", "captions": ["...", "..."]}
names        one a line: only these pictures are meant
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from thereafter.base import progress
from thereafter.data.finding import FileKind
from thereafter.errors import EmptyCorpusError, FormatError
from thereafter.text.reading import place, read_lines
from thereafter.text.tables import TableRow, TextTable, format_of, read_table, require_characters
from thereafter.vision.pictures import sources
from thereafter.vision.pictures.archives import IDX_ENDINGS
from thereafter.vision.pictures.decoding import PICTURE_ENDINGS
from thereafter.vision.pictures.picture import Picture, pictures_of
from thereafter.vision.pictures.sources import PicturesByName

CAPTION_ENDINGS = (".txt", ".tsv", ".csv", ".jsonl", ".ndjson")
PICTURE_COLUMNS = ("image", "picture", "file", "filename", "file_name", "image_name", "image_id", "name", "id", "photo")
CAPTION_COLUMNS = ("caption", "captions", "text", "sentence", "comment", "description", "raw")
_NUMBER = re.compile(r"#\d+$")
_LOOKED_AT = 50  # lines, to tell names from captions


def read_names(path: Path) -> list[str] | None:
    """The names in a file that has one a line; None if it has captions."""
    if path.name.lower().removesuffix(".gz").endswith((".jsonl", ".ndjson")):
        return None
    first = [line for line in islice(read_lines(path), _LOOKED_AT) if line.strip()]
    if not first:
        raise EmptyCorpusError(f"{path} is empty; expected captions, or the names of pictures, one a line")
    is_table = path.name.lower().removesuffix(".gz").endswith(".csv") and "," in first[0]
    if is_table or any("\t" in line for line in first):
        return None
    if _named_columns(first[0].split(","), CAPTION_COLUMNS) or not all(
        line.strip().lower().endswith(PICTURE_ENDINGS) or len(line.split()) == 1 for line in first
    ):
        return None
    return [line.strip() for line in read_lines(path) if line.strip()]


def read_captions(path: Path) -> Iterator[tuple[str, str]]:
    """The name of a picture and a caption, in the order of the file."""
    kind = format_of(path, None)
    table = read_table(path, format=kind, has_header=lambda rows: bool(_named_columns(rows[0].cells, CAPTION_COLUMNS)))
    if not table.rows:
        raise EmptyCorpusError(f"{path} holds no captions; expected at least one")
    columns = picture_columns(table, CAPTION_COLUMNS)
    if columns is None:
        raise FormatError(
            f"the columns of {os.fspath(path)} do not say which are pictures and captions "
            f"({table.describe_columns()}); expected image and caption, or `name.jpg#0<TAB>caption`"
        )
    picture, caption = columns
    for row in table.rows:
        name = row.cells[picture]
        if not isinstance(name, str | int) or not str(name).strip():
            raise FormatError(f"{place(path, row.line)} names no picture; expected the name of its file")
        yield from ((_NUMBER.sub("", str(name).strip()), one) for one in _captions(path, row, caption))


def _captions(path: Path, row: TableRow, column: int) -> Iterator[str]:
    given = row.cells[column]
    for one in given if isinstance(given, list) else [given]:
        if not isinstance(one, str) or not one.strip():
            raise FormatError(f"{place(path, row.line)} has no caption for {row.cells[0]!r}; expected some words")
        yield require_characters(" ".join(one.split()), place(path, row.line))


def picture_columns(table: TextTable, usual: Sequence[str]) -> tuple[int, int] | None:
    """The columns of pictures and of what is said of them, which has one of the `usual` names; None if that is open."""
    if table.names is not None:
        return _named_columns(table.names, usual)
    return (0, 1) if table.width == 2 else None


def _named_columns(names: Sequence[object], usual: Sequence[str]) -> tuple[int, int] | None:
    small = [str(name).strip().lower().lstrip("\ufeff") for name in names]
    pictures = [small.index(known) for known in PICTURE_COLUMNS if known in small]
    texts = [small.index(known) for known in usual if known in small]
    return (pictures[0], texts[0]) if pictures and texts and pictures[0] != texts[0] else None


CAPTIONED_FILES = FileKind(
    "pictures with captions",
    ((*PICTURE_ENDINGS, ".zip", ".npz", ".npy", *IDX_ENDINGS, *CAPTION_ENDINGS),),
    lists=CAPTION_ENDINGS,
)
"""The pictures of a folder and the captions beside them."""


@dataclass(frozen=True)
class CaptionedPicture:
    """A picture and what people wrote below it; no captions where they are asked for."""

    picture: Picture
    captions: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.picture.name


def read_captioned(files: Sequence[Path], notes: list[str] | None = None) -> list[CaptionedPicture]:
    """The pictures of these files that have captions, in the order of the names or of the captions.

    `notes` gets a sentence on what was left out.
    """
    notes = [] if notes is None else notes
    pictures = PicturesByName(all_pictures(files))
    captions: dict[str, list[str]] = {}
    names: dict[str, None] = {}
    for path in files:
        if sources.holds_pictures(path):
            continue
        listed = read_names(path)
        if listed is None:
            with progress.task("reading captions"):
                for name, caption in read_captions(path):
                    captions.setdefault(sources.plain_name(name), []).append(caption)
        elif any(pictures.find(name) for name in listed):
            names |= dict.fromkeys(map(sources.plain_name, listed))
        else:
            notes.append(f"{path} names none of the pictures and is passed over")
    return _joined(pictures, captions, names, files, notes)


def all_pictures(files: Sequence[Path]) -> list[Picture]:
    """The pictures of files, whatever else is among them."""
    single = sorted(path for path in files if sources.is_picture_file(path))  # in any order they are the same source
    pictures: list[Picture] = []
    if single:
        folders = {path.parent for path in single}
        folder = folders.pop() if len(folders) == 1 else Path(os.path.commonpath([one.absolute() for one in folders]))
        pictures += pictures_of(sources.open_picture_files(single, str(folder), folder))
    for path in files:
        if sources.holds_pictures(path) and not sources.is_picture_file(path):
            pictures += pictures_of(sources.open_pictures(path))
    return pictures


def _joined(
    pictures: PicturesByName,
    captions: dict[str, list[str]],
    names: dict[str, None],
    files: Sequence[Path],
    notes: list[str],
) -> list[CaptionedPicture]:
    """Captions by the picture they belong to; what has no partner is left out and counted in a note."""
    by_picture: dict[Picture, list[str]] = {}
    lonely: list[str] = []
    for name, lines in captions.items():
        picture = pictures.find(name)
        if picture is None:
            lonely.append(name)
        else:
            by_picture.setdefault(picture, []).extend(lines)
    wanted = list(by_picture)
    if names:
        meant = {name: pictures.find(name) for name in names}
        wanted = list(dict.fromkeys(one for one in meant.values() if one is not None))
        lonely = [name for name, one in meant.items() if one is None]
    silent = [one for one in (wanted if names else pictures.pictures) if one not in by_picture]
    examples = [CaptionedPicture(one, tuple(by_picture[one])) for one in wanted if one in by_picture]
    if not examples:
        raise EmptyCorpusError(_none_left(pictures, captions, files))
    if lonely:
        notes.append(f"{_counted(len(lonely), 'name')} without a picture left out; the first is {lonely[0]}")
    if silent:
        notes.append(f"{_counted(len(silent), 'picture')} without captions left out; the first is {silent[0].name}")
    return examples


def _counted(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number:,} {what}s"


def _none_left(pictures: PicturesByName, captions: dict[str, list[str]], files: Sequence[Path]) -> str:
    where = str(files[0]) if len(files) == 1 else f"{len(files):,} files"
    if not pictures.pictures:
        return f"there are captions and no pictures in {where}; expected both; try the folder that contains them"
    if not captions:
        return (
            f"there are {_counted(len(pictures.pictures), 'picture')} and no captions in {where}; expected a file of "
            "captions beside them, such as a .tsv with the columns image and caption"
        )
    return (
        f"no caption belongs to a picture: the captions name {next(iter(captions))!r}, the pictures are called "
        f"{pictures.pictures[0].name!r}; expected the same names, with or without folder and ending"
    )

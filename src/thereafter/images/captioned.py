"""Pictures with captions: files of pictures, files of captions, and perhaps a file of the names that are meant.

The files may come in any order; what each is follows from its ending and its first lines (`caption_files.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from thereafter import progress
from thereafter.data.finding import FileKind
from thereafter.errors import EmptyCorpusError
from thereafter.images.caption_files import CAPTION_ENDINGS, read_captions, read_names
from thereafter.images.decoding import PICTURE_ENDINGS
from thereafter.images.idx import IDX_ENDINGS
from thereafter.images.lookup import PicturesByName, plain_name
from thereafter.images.picture import Picture, pictures_of
from thereafter.images.sources import holds_pictures, is_picture_file, open_picture_files, open_pictures

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


def read_captioned(files: Sequence[Path], notes: list[str] | None = None) -> list[CaptionedPicture]:
    """The pictures of these files that have captions, in the order of the names or of the captions.

    `notes` gets a sentence on what was left out.
    """
    notes = [] if notes is None else notes
    pictures = PicturesByName(_pictures(files))
    captions: dict[str, list[str]] = {}
    names: dict[str, None] = {}
    for path in files:
        if holds_pictures(path):
            continue
        listed = read_names(path)
        if listed is None:
            with progress.task("reading captions"):
                for name, caption in read_captions(path):
                    captions.setdefault(plain_name(name), []).append(caption)
        elif any(pictures.find(name) for name in listed):
            names |= dict.fromkeys(map(plain_name, listed))
        else:
            notes.append(f"{path} names none of the pictures and is passed over")
    return _joined(pictures, captions, names, files, notes)


def all_pictures(files: Sequence[Path]) -> list[Picture]:
    """The pictures of files, whatever else is among them: for questions."""
    return _pictures(files)


def _pictures(files: Sequence[Path]) -> list[Picture]:
    single = sorted(path for path in files if is_picture_file(path))  # in any order they are the same source
    pictures: list[Picture] = []
    if single:
        folder = single[0].parent if len({path.parent for path in single}) == 1 else _common_folder(single)
        pictures += pictures_of(open_picture_files(single, str(folder), folder))
    for path in files:
        if holds_pictures(path) and not is_picture_file(path):
            pictures += pictures_of(open_pictures(path))
    return pictures


def _common_folder(files: Sequence[Path]) -> Path:
    first, *others = files
    return next(
        folder for folder in first.absolute().parents if all(o.absolute().is_relative_to(folder) for o in others)
    )


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

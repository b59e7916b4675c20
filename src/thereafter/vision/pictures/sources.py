"""What a path means as pictures, and what a user hands to `predict`.

The same file, opened again, is the same source: parts of a corpus share what was decoded of it.
Pictures are found by the names that captions and labels give them, which may lack folder and ending.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np

from thereafter.data.finding import FileKind, find_files
from thereafter.errors import EmptyCorpusError, FormatError, OptionError, SourceError
from thereafter.vision.pictures.archives import IDX_ENDINGS, ZipPictures, idx_shape, npy_array, open_idx, open_npz
from thereafter.vision.pictures.decoding import PICTURE_ENDINGS, is_image, pixels_of
from thereafter.vision.pictures.glyphs import ClutteredPictures, ClutterRule, is_clutter_rule
from thereafter.vision.pictures.picture import Picture, PictureFiles, PictureSource, StackedPictures, given_array

PICTURE_FILES = FileKind("pictures", (PICTURE_ENDINGS, (".zip", ".npz", ".npy", *IDX_ENDINGS)))
"""The pictures of a folder: files of pictures, else archives and arrays."""
_EXPECTED = "PNG, JPEG, a folder or a .zip of them, idx files, .npy or .npz"

_open: WeakValueDictionary[tuple[object, ...], PictureSource] = WeakValueDictionary()
_choosing = threading.Lock()


def open_pictures(path: Path) -> PictureSource:
    """The pictures of a folder, of one file, of a zip archive, of an idx file (plain or .gz), of an .npy or .npz."""
    if path.is_dir():
        files = find_files(path, FileKind("pictures", (PICTURE_ENDINGS,)))
        return open_picture_files(files, str(path), path)
    if not path.exists():
        raise SourceError(f"{path} does not exist; check the spelling and the current folder")
    if is_picture_file(path):
        return open_picture_files([path], str(path))
    return _shared((str(path.absolute()), *_state(path)), lambda: _opened(path))


def open_picture_files(files: Sequence[Path], name: str, folder: Path | None = None) -> PictureSource:
    """Files of pictures as one source; their names are those below the folder."""
    if not files:
        raise EmptyCorpusError(f"{name} holds no pictures; expected {_EXPECTED}")
    key = (name, folder, *((str(file.absolute()), *_state(file)) for file in files))
    return _shared(key, lambda: PictureFiles(name, files, folder))


def picture_of(given: object, such_as: str = "digit.png") -> Picture:
    """What a user hands over as one picture: a path, an array, an image of Pillow, or a `Picture`."""
    if isinstance(given, Picture):
        return given
    if isinstance(given, str) and not given.strip():
        raise OptionError(f"the path of a picture is empty; expected a file such as {such_as}")
    if isinstance(given, str | os.PathLike):
        return _only(Path(given).expanduser())
    if isinstance(given, np.ndarray):
        return given_array(given)
    if is_image(given):
        return given_array(pixels_of(given))
    raise OptionError(
        f"a picture is {type(given).__name__}; expected the path of a PNG or JPEG file, an array uint8 [height, width] "
        "or [height, width, 3], or an image of Pillow"
    )


def is_picture_file(path: Path) -> bool:
    """Whether a file is one picture by its ending."""
    return path.name.lower().endswith(PICTURE_ENDINGS)


def holds_pictures(path: Path) -> bool:
    """Whether a file contains pictures by its ending, or is an idx file by its content."""
    name = path.name.lower()
    if name.endswith((*PICTURE_ENDINGS, ".zip", ".npz", ".npy")):
        return True
    if name.removesuffix(".gz").endswith(IDX_ENDINGS) or is_clutter_rule(path):
        return True
    return path.suffix in ("", ".gz") and idx_shape(path) is not None


def _opened(path: Path) -> PictureSource:
    name = path.name.lower()
    if name.endswith(".npy"):
        return StackedPictures(str(path), npy_array(path))
    if name.endswith(".npz"):
        return open_npz(path)
    if name.endswith(".zip"):
        return ZipPictures(path)
    if name.endswith(".json"):
        return ClutteredPictures(ClutterRule.read(path), str(path))
    if name.removesuffix(".gz").endswith(IDX_ENDINGS) or idx_shape(path) is not None:
        return open_idx(path)
    raise SourceError(f"{path} holds no pictures, by its ending; expected {_EXPECTED}")


def _only(path: Path) -> Picture:
    source = open_pictures(path)
    if len(source) != 1:
        raise OptionError(
            f"{path} holds {len(source):,} pictures; expected one; try the path of one, or all of them: --in {path}"
        )
    return Picture(source, 0, source.names()[0])


def _state(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError as failed:
        raise SourceError(f"{path} could not be read: {failed.strerror or failed}") from None
    return status.st_size, status.st_mtime_ns


def _shared(key: tuple[object, ...], opening: Callable[[], PictureSource]) -> PictureSource:
    with _choosing:
        source = _open.get(key)
        if source is None:
            source = _open[key] = opening()
        return source


def with_pictures(files: Sequence[Path]) -> list[Path]:
    """The files with the pictures beside them, where they are captions or labels alone."""
    beside: list[Path] = []
    for folder in () if any(map(holds_pictures, files)) else dict.fromkeys(path.absolute().parent for path in files):
        with suppress(SourceError):  # none there: the reader says what is missing
            beside += find_files(folder, PICTURE_FILES)
    return [*files, *beside]


_NUMBERED = re.compile(rf"({'|'.join(map(re.escape, PICTURE_ENDINGS))})\.\d+$", re.IGNORECASE)


def plain_name(name: str) -> str:
    """A name as the file has it; some captions of Flickr8k are those of `name.jpg.1`.

    >>> plain_name("photos\\\\2258277193_586949ec62.jpg.1")
    'photos/2258277193_586949ec62.jpg'
    """
    return _NUMBERED.sub(r"\1", name.strip().replace("\\", "/"))


class PicturesByName:
    """Pictures by their full name, their file name, or that without its ending."""

    def __init__(self, pictures: Iterable[Picture]) -> None:
        self.pictures = list(pictures)
        self._by_name: dict[str, list[Picture]] = {}
        for picture in self.pictures:
            for name in dict.fromkeys(_spellings(picture.name)):
                self._by_name.setdefault(name, []).append(picture)

    def find(self, name: str) -> Picture | None:
        """The picture of a name; None if there is none, FormatError if there are several."""
        for spelling in _spellings(name):
            here = self._by_name.get(spelling, [])
            exact = [picture for picture in here if picture.name == spelling]
            if len(here) == 1 or len(exact) == 1:
                return (exact or here)[0]
            if here:
                raise FormatError(
                    f"{name!r} may be {here[0].name!r} or {here[1].name!r}; expected one picture of that name; try "
                    "names with their folder and ending"
                )
        return None


def _spellings(name: str) -> Sequence[str]:
    """A name as it stands, without its folder, and without its ending."""
    plain = plain_name(name)
    base = plain.rpartition("/")[2]
    stem = base.rpartition(".")[0] if base.lower().endswith(PICTURE_ENDINGS) else base
    return (plain, base, stem)

"""What a path means as pictures, and what a user hands to `predict`.

The same file, opened again, is the same source: parts of a corpus share what was decoded of it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np

from thereafter.data.finding import FileKind, find_files
from thereafter.errors import EmptyCorpusError, OptionError, SourceError
from thereafter.vision.glimpsing.cluttered import is_clutter_rule, open_cluttered
from thereafter.vision.pictures.archives import ZipPictures
from thereafter.vision.pictures.arrays import open_npy, open_npz
from thereafter.vision.pictures.decoding import PICTURE_ENDINGS, is_image, pixels_of
from thereafter.vision.pictures.given_pictures import given_array
from thereafter.vision.pictures.idx import IDX_ENDINGS, idx_shape, open_idx
from thereafter.vision.pictures.picture import Picture, PictureFiles, PictureSource

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


def picture_of(given: object) -> Picture:
    """What a user hands over as one picture: a path, an array, an image of Pillow, or a `Picture`."""
    if isinstance(given, Picture):
        return given
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
    return name.removesuffix(".gz").endswith(IDX_ENDINGS) or _is_idx(path) or is_clutter_rule(path)


def _is_idx(path: Path) -> bool:
    return path.suffix in ("", ".gz") and idx_shape(path) is not None


def _opened(path: Path) -> PictureSource:
    name = path.name.lower()
    if name.endswith(".npy"):
        return open_npy(path)
    if name.endswith(".npz"):
        return open_npz(path)
    if name.endswith(".zip"):
        return ZipPictures(path)
    if name.endswith(".json"):
        return open_cluttered(path)
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

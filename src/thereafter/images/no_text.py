"""What a language model says to files and folders of pictures: they are no text, and which tasks read them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from thereafter.data.files import AnySource
from thereafter.data.finding import FileKind, find_files
from thereafter.errors import SourceError
from thereafter.images.archives import is_picture, members_of
from thereafter.images.decoding import PICTURE_ENDINGS
from thereafter.images.idx import IDX_ENDINGS

_ENDINGS = (*PICTURE_ENDINGS, *IDX_ENDINGS, ".npz", ".npy")
_DOCUMENTS = {"mimetype", "META-INF/container.xml", "word/document.xml"}  # of EPUB and others, which are archives too


def refuse_pictures(source: AnySource) -> None:
    """A file of pictures is no text in an unusual encoding."""
    for name in _names(source):
        if name.lower().removesuffix(".gz").endswith(_ENDINGS) or _is_archive(Path(name)):
            raise _no_text(name)


def refuse_folders_of_pictures(source: AnySource) -> None:
    """A folder without text files may have pictures."""
    for name in _names(source):
        try:
            pictures = Path(name).expanduser().is_dir() and find_files(name, FileKind("pictures", (_ENDINGS,)))
        except (SourceError, OSError, ValueError, RuntimeError):  # none, or no such folder: said elsewhere
            continue
        if pictures:
            raise _no_text(name)


def _names(source: AnySource) -> Iterator[str]:
    for path in source if isinstance(source, list | tuple) else [source]:
        if isinstance(path, str | os.PathLike):
            yield os.fspath(path)


def _is_archive(path: Path) -> bool:
    if path.suffix.lower() != ".zip":
        return False
    try:
        names = [one.filename for one in members_of(path)]
    except SourceError:
        return False
    return any(map(is_picture, names)) and _DOCUMENTS.isdisjoint(names)


def _no_text(name: str) -> SourceError:
    return SourceError(
        f"{name} holds pictures, not running text; try the task that reads them",
        "task='caption', task='classify' or task='video'",
        "--task caption, --task classify or --task video",
    )

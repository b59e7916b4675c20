"""Pictures by the names that captions and labels give them: with or without folder and ending."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from thereafter.errors import FormatError
from thereafter.images.decoding import PICTURE_ENDINGS
from thereafter.images.picture import Picture

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

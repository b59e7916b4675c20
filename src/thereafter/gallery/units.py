"""Pictures of units that follow the text, from the gallery's character LSTM."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from thereafter.figures import units
from thereafter.figures.figure import Figure
from thereafter.gallery.claims import units_follow_text
from thereafter.gallery.models import Models
from thereafter.gallery.picture import GalleryPicture
from thereafter.inspection.measurement import Measurement
from thereafter.ready.models import FOLLOWED, LETTER_UNITS, search_letters

KARPATHY = "Karpathy, Johnson and Li (2015)"


@cache
def _search(models: Models) -> Measurement:
    """The search, made once for all pictures of it."""
    name = f"a character LSTM (python-code, {LETTER_UNITS} units)"
    return search_letters(models.letters(), (*FOLLOWED, "keyword", "boundary"), text="python-code (test)", model=name)


def _ranking(models: Models) -> Figure:
    return units.ranking(_search(models))


def _follows(name: str, picture: str) -> GalleryPicture:
    def build(models: Models) -> Figure:
        return replace(units.coloured(_search(models), name), name=picture)

    return GalleryPicture(picture, KARPATHY, build)


PICTURES = [
    GalleryPicture("unit-ranking", KARPATHY, _ranking, units_follow_text),
    _follows("quotes-or-comment", "unit-quotes-or-comment"),
    _follows("quotes", "unit-quotes"),
    _follows("line-position", "unit-line-position"),
    _follows("indentation", "unit-indentation"),
    _follows("brackets", "unit-brackets"),
]

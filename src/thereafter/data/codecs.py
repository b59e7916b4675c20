"""Codecs: they turn the values of a user into numbers and back, and are fitted to the training data.

A tokenizer, the labels of a classifier, a scaler of numbers, a picture: one contract. A run folder holds the codecs of
its task as JSON, each with the name it has in `CODECS`, and reads them back without executing anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from thereafter.base.config import Table
from thereafter.base.kinds import Registry
from thereafter.errors import FormatError

CODECS = Registry(
    "codec",
    {
        "forms": "thereafter.tasks.lexicon:Lexicon",
        "sentences": "thereafter.tasks.wording:Wording",
        "tokenizer": "thereafter.text.tokenizers:StoredTokenizer",
        "scaler": "thereafter.data.scaler:Scaler",
        "series": "thereafter.series.scales:SeriesScales",
        "pictures": "thereafter.vision.pictures.codec:PictureCodec",
        "pixel-order": "thereafter.vision.pictures.codec:PixelOrder",
        "clips": "thereafter.vision.clips.clip:ClipCodec",
        "catch": "thereafter.vision.acting.game:CatchCodec",
        "label-columns": "thereafter.tasks.lexicon:ColumnLexicons",
        "channels": "thereafter.data.scaler:ChannelScaler",
    },
)

V_contra = TypeVar("V_contra", contravariant=True)
D_co = TypeVar("D_co", covariant=True)


class StoredCodec(Protocol):
    """The part of a codec that a run folder needs."""

    codec: ClassVar[str]
    """Its name in `CODECS`."""

    @property
    def size(self) -> int:
        """How many values have a number of their own; 0 if the values are numbers themselves."""

    def to_json(self) -> Table:
        """What `from_json` reads."""

    @classmethod
    def from_json(cls, stored: Table) -> Self:
        """The codec again; FormatError if `stored` is damaged."""


class Codec(StoredCodec, Protocol[V_contra, D_co]):
    """The whole contract. Each kind also has a classmethod `fit`, with the options it needs."""

    def encode(self, values: V_contra) -> NDArray[np.generic]:
        """Values as numbers; a value that was not seen in `fit` is no error."""

    def decode(self, numbers: NDArray[np.generic]) -> D_co:
        """Numbers as values."""


def store_codecs(codecs: Mapping[str, StoredCodec]) -> Table:
    """Codecs by name as JSON."""
    return {name: {"codec": one.codec, **one.to_json()} for name, one in codecs.items()}


def restore_codecs(table: Table) -> dict[str, StoredCodec]:
    """The codecs again, from the JSON of `store_codecs`."""
    return {str(name): _restore_codec(one) for name, one in table.items()}


def _restore_codec(one: Table) -> StoredCodec:
    if not isinstance(one, dict):
        raise FormatError("a codec of this run is damaged; expected a table; try training again")
    rest = {key: value for key, value in one.items() if key != "codec"}
    name = one.get("codec", "sentences" if "tokenizer" in one else "forms")  # older runs do not name it
    if not isinstance(name, str) or name not in CODECS:
        raise FormatError(f"a codec of this run is called {name!r}; expected one of {', '.join(CODECS)}")
    codec: StoredCodec = CODECS.load(name).from_json(rest)
    return codec

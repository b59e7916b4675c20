"""Codecs: what turns the values of a user into numbers and back, fitted to the data that is learned from.

A tokenizer, the labels of a classifier, a scaler of numbers, a picture: one contract. A run folder holds the codecs of
its task as JSON, each with the name it has in `CODECS`, and reads them back without executing anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from thereafter.config import Table
from thereafter.errors import FormatError
from thereafter.registry import Registry

CODECS = Registry(
    "codec",
    {
        "forms": "thereafter.tasks.lexicon:Lexicon",
        "sentences": "thereafter.tasks.wording:Wording",
        "tokenizer": "thereafter.text.tokenizers:StoredTokenizer",
        "scaler": "thereafter.data.scaler:Scaler",
    },
)

V_contra = TypeVar("V_contra", contravariant=True)
D_co = TypeVar("D_co", covariant=True)


class Stored(Protocol):
    """The half of a codec that a run folder asks for."""

    codec: ClassVar[str]
    """Its name in `CODECS`."""

    @property
    def size(self) -> int:
        """How many things have a number of their own; 0 where values are numbers themselves."""

    def to_json(self) -> Table:
        """What `from_json` reads."""

    @classmethod
    def from_json(cls, stored: Table) -> Self:
        """The codec again; FormatError where `stored` is damaged."""


class Codec(Stored, Protocol[V_contra, D_co]):
    """The whole contract. Each kind has a classmethod `fit` besides, with the options it needs."""

    def encode(self, values: V_contra) -> NDArray[np.generic]:
        """Values as numbers; one that was never met is no error."""

    def decode(self, numbers: NDArray[np.generic]) -> D_co:
        """Numbers as values."""


def stored(codecs: Mapping[str, Stored]) -> Table:
    """Codecs by name as JSON."""
    return {name: {"codec": one.codec, **one.to_json()} for name, one in codecs.items()}


def restored(table: Table) -> dict[str, Stored]:
    """Codecs again from what `stored` gave."""
    return {str(name): _restored(one) for name, one in table.items()}


def _restored(one: Table) -> Stored:
    if not isinstance(one, dict):
        raise FormatError("a codec of this run is damaged; expected a table; try training again")
    rest = {key: value for key, value in one.items() if key != "codec"}
    name = one.get("codec", "sentences" if "tokenizer" in one else "forms")  # older runs do not say
    if not isinstance(name, str) or name not in CODECS:
        raise FormatError(f"a codec of this run is called {name!r}; expected one of {', '.join(CODECS)}")
    codec: Stored = CODECS.load(name).from_json(rest)
    return codec

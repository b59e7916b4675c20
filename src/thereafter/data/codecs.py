"""Codecs: they turn the values of a user into numbers and back, and are fitted to the training data.

A tokenizer, the labels of a classifier, a scaler of numbers, a picture: one contract. A run folder holds the codecs of
its task as JSON, each with the name it has in `CODECS`, and reads them back without executing anything.

Here are those of numbers, scaled to mean 0 and standard deviation 1, as measured on the training data; series channel
by channel.

Shapes: T steps, C channels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thereafter.base.config import Table
from thereafter.base.kinds import Registry
from thereafter.errors import FormatError, OptionError

CODECS = Registry(
    "codec",
    {
        "forms": "thereafter.tasks.lexicon:Lexicon",
        "sentences": "thereafter.tasks.lexicon:Wording",
        "tokenizer": "thereafter.text.tokenizers:StoredTokenizer",
        "scaler": "thereafter.data.codecs:Scaler",
        "series": "thereafter.series.scales:SeriesScales",
        "pictures": "thereafter.vision.pictures.codec:PictureCodec",
        "pixel-order": "thereafter.vision.pictures.codec:PixelOrder",
        "clips": "thereafter.vision.clips.clip:ClipCodec",
        "catch": "thereafter.vision.acting.game:CatchCodec",
        "label-columns": "thereafter.tasks.lexicon:ColumnLexicons",
        "channels": "thereafter.data.codecs:ChannelScaler",
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
        """Number of values that have an id of their own; 0 if the values are numbers themselves."""

    def to_json(self) -> Table:
        """What `from_json` reads."""

    @classmethod
    def from_json(cls, stored: Table) -> Self:
        """The codec of its JSON; FormatError if `stored` is damaged."""


class Codec(StoredCodec, Protocol[V_contra, D_co]):
    """The whole contract. Each kind also has a classmethod `fit`, with the options it needs."""

    def encode(self, values: V_contra) -> NDArray[np.generic]:
        """Values as numbers; a value that was not seen in `fit` is not an error."""

    def decode(self, numbers: NDArray[np.generic]) -> D_co:
        """Numbers as values."""


def store_codecs(codecs: Mapping[str, StoredCodec]) -> Table:
    """Codecs by name as JSON."""
    return {name: {"codec": codec.codec, **codec.to_json()} for name, codec in codecs.items()}


def restore_codecs(table: Table) -> dict[str, StoredCodec]:
    """The codecs from the JSON of `store_codecs`."""
    return {str(name): _restore_codec(stored) for name, stored in table.items()}


def _restore_codec(stored: Table) -> StoredCodec:
    if not isinstance(stored, dict):
        raise FormatError("a codec of this run is damaged; expected a table; try training again")
    rest = {key: value for key, value in stored.items() if key != "codec"}
    name = stored.get("codec", "sentences" if "tokenizer" in stored else "forms")  # older runs do not name it
    if not isinstance(name, str) or name not in CODECS:
        raise FormatError(f"a codec of this run is called {name!r}; expected one of {', '.join(CODECS)}")
    codec: StoredCodec = CODECS.load(name).from_json(rest)
    return codec


@dataclass(frozen=True)
class Scaler:
    """z = (x - mean) / deviation, and back: see `codecs.Codec`.

    >>> scaler = Scaler.fit([1.0, 3.0])
    >>> scaler.encode([2.0, 4.0]).tolist(), scaler.decode(np.array([0.0]))
    ([0.0, 2.0], [2.0])
    """

    codec: ClassVar[str] = "scaler"
    mean: float
    deviation: float

    @classmethod
    def fit(cls, values: Sequence[float] | NDArray[np.float64]) -> Self:
        """Mean and deviation of all values; a constant series is only shifted."""
        numbers = np.asarray(values, np.float64)
        if not numbers.size or not np.isfinite(numbers).all():
            raise OptionError(f"a scaler was given {numbers.size} numbers; expected at least one, all of them finite")
        deviation = float(numbers.std())
        return cls(float(numbers.mean()), deviation if deviation > 0.0 else 1.0)

    @property
    def size(self) -> int:
        return 0

    def encode(self, values: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float32]:
        return ((np.asarray(values, np.float64) - self.mean) / self.deviation).astype(np.float32)

    def decode(self, numbers: NDArray[np.generic]) -> list[float]:
        scaled: list[float] = (np.asarray(numbers, np.float64) * self.deviation + self.mean).tolist()
        return scaled

    def to_json(self) -> Table:
        return {"mean": self.mean, "deviation": self.deviation}

    @classmethod
    def from_json(cls, stored: Table) -> Self:
        mean, deviation = stored.get("mean"), stored.get("deviation")
        if not isinstance(mean, float) or not isinstance(deviation, float):
            raise FormatError("a scaler of this run is damaged; expected mean and deviation; try training again")
        if not (math.isfinite(mean) and math.isfinite(deviation) and deviation > 0.0):
            raise FormatError(f"a scaler of this run says mean {mean} and deviation {deviation}; try training again")
        return cls(mean, deviation)


_DAMAGED = "the channels of this run are damaged; expected a name, a mean and a deviation for each; try training again"
_LEAST = 1e-12  # of a deviation, relative to the mean: below that a channel is constant


@dataclass(frozen=True)
class ChannelScaler:
    """z = (x - mean) / deviation by channel, and back: see `codecs.Codec`. Missing values stay NaN.

    `gaps`: whether the training series had missing values.

    >>> scaler = ChannelScaler.fit([np.array([[1.0, 5.0], [3.0, 5.0]])], ["a", "b"])
    >>> scaler.encode([[2.0, 6.0]]).tolist(), scaler.decode(np.array([[1.0, 1.0]]))
    ([[0.0, 1.0]], [3.0, 6.0])
    """

    codec: ClassVar[str] = "channels"
    names: tuple[str, ...]
    means: tuple[float, ...]
    deviations: tuple[float, ...]
    gaps: bool = False

    @classmethod
    def fit(cls, series: Iterable[NDArray[np.float64]], names: Sequence[str]) -> Self:
        """Mean and deviation of each channel over all steps [T, C] of all series; a constant one is only shifted."""
        values_NC = np.concatenate(list(series) or [np.empty((0, len(names)))])
        if np.isinf(values_NC).any() or not len(values_NC):
            raise OptionError(f"channels were given {len(values_NC)} steps; expected at least one, without infinities")
        means, deviations = [], []
        for column_N in values_NC.T:
            seen_N = column_N[~np.isnan(column_N)]
            mean = float(seen_N.mean()) if len(seen_N) else 0.0
            deviation = float(seen_N.std()) if len(seen_N) else 0.0
            means.append(mean)
            deviations.append(deviation if deviation > _LEAST * max(1.0, abs(mean)) else 1.0)
        return cls(tuple(names), tuple(means), tuple(deviations), bool(np.isnan(values_NC).any()))

    @property
    def size(self) -> int:
        return 0

    def encode(self, values: ArrayLike) -> NDArray[np.float32]:
        """Values [T, C], or step by step in one row, scaled."""
        values_TC: NDArray[np.float64] = np.asarray(values, np.float64).reshape(-1, len(self.names))
        scaled_TC: NDArray[np.float64] = (values_TC - np.array(self.means)) / np.array(self.deviations)
        return scaled_TC.astype(np.float32)

    def decode(self, numbers: NDArray[np.generic]) -> list[float]:
        """The values step by step in one row."""
        values_TC = np.asarray(numbers, np.float64).reshape(-1, len(self.names)) * self.deviations + self.means
        values: list[float] = values_TC.reshape(-1).tolist()
        return values

    def to_json(self) -> Table:
        return {
            "names": list(self.names),
            "means": list(self.means),
            "deviations": list(self.deviations),
            "gaps": self.gaps,
        }

    @classmethod
    def from_json(cls, stored: Table) -> Self:
        names, gaps = stored.get("names"), stored.get("gaps")
        means, deviations = stored.get("means"), stored.get("deviations")
        if not (isinstance(names, list) and isinstance(means, list) and isinstance(deviations, list)):
            raise FormatError(_DAMAGED)
        numbers = [*means, *deviations]
        sound = all(isinstance(name, str) for name in names) and isinstance(gaps, bool)
        sound = sound and all(isinstance(number, float) and math.isfinite(number) for number in numbers)
        if not names or not sound or not len(names) == len(means) == len(deviations) or min(deviations) <= 0:
            raise FormatError(_DAMAGED)
        return cls(tuple(names), tuple(means), tuple(deviations), bool(gaps))

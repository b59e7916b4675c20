"""By how much one model is better than another, how sure that is, and what each line costs: it is resampled from that.

    OUT/results/NAME.npz    arrays [line]: nats, spelling, tokens, bytes

Models with other tokens agree about lines, and no token of theirs crosses the end of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from thereafter.base.config import Table
from thereafter.errors import FormatError
from thereafter.evaluation.bootstrap import Difference
from thereafter.inspection import arrays
from thereafter.text.reading import lines_of
from thereafter.text.tokenizers.base import Tokenizer
from thereafter.text.vocabulary import Spelling

BITS = "bits per byte"
_SHARE = 100.0
_UNITS = {
    BITS: (1.0, BITS),
    "accuracy": (_SHARE, "points of accuracy"),
    "macro_f1": (_SHARE, "points of macro F1"),
    "span_f1": (_SHARE, "points of span F1"),
    "exact": (_SHARE, "points of exact answers"),
    "bleu": (1.0, "BLEU"),
    "chrf": (1.0, "chrF"),
    "mse_standardised": (1.0, "MSE in standard deviations"),
    "mae_standardised": (1.0, "MAE in standard deviations"),
}
"""Figures by name: what they are multiplied by to be read, and what they are then called."""
_COARSE, _FINE = 0.1, 0.005  # widths of an interval that is said with 2 digits, with 3; a smaller one has 4


def unit_of(figure: str) -> str:
    """What a figure is called in a sentence.

    >>> unit_of("macro_f1"), unit_of("exactness")
    ('points of macro F1', 'exactness')
    """
    return _UNITS.get(figure, (1.0, figure))[1]


@dataclass(frozen=True)
class SeedSpread:
    """The seeds of a model, 0 where nothing about it is random, and the standard deviation between them."""

    seeds: int
    deviation: float | None = None


@dataclass(frozen=True)
class Ratio:
    """A quotient of two perplexities, and its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class ModelDifference:
    """By how much one model is better than another in a figure: `difference` is not negative, whatever the figure.

    `unit` says what was resampled. `ratio` is the perplexity of the other over that of the better one, where both have
    the same tokens.
    """

    better: str
    other: str
    figure: str
    unit: str
    difference: Difference
    seeds: tuple[SeedSpread, SeedSpread]
    ratio: Ratio | None = None

    def as_dict(self) -> Table:
        """For JSON, with the sentence."""
        return asdict(self) | {"clear": self.difference.clear, "sentence": str(self)}

    @property
    def amount(self) -> str:
        """How much, in words: "0.021 bits per byte"."""
        return f"{self.number} {unit_of(self.figure)}"

    @property
    def number(self) -> str:
        """The same without its unit."""
        return self._number(self.difference.value)

    @property
    def interval(self) -> str:
        """As in "0.012 to 0.030"."""
        return f"{self._number(self.difference.low)} to {self._number(self.difference.high)}"

    @property
    def method(self) -> str:
        """What was resampled: "paired bootstrap over 3,761 lines in blocks of 16"."""
        block = f" in blocks of {self.difference.block}" if self.difference.block > 1 else ""
        return f"paired bootstrap over {self.difference.examples:,} {self.unit}{block}"

    def __str__(self) -> str:
        unit = unit_of(self.figure)
        share, doubt = "", ""
        if not self.difference.clear:
            share = f"order reversed in {100 * self.difference.reversed:.0f} % of the resamples, "
            doubt = ", which may be chance"
        about = "; ".join([f"95 % interval {self.interval}, {share}{self.method}", *self._seeds()])
        if self.difference.value == 0:
            return f"{self.better} and {self.other} differ by no {unit} ({about})"
        return f"{self.better} is better than {self.other} by {self.amount}{doubt} ({about})"

    def _seeds(self) -> list[str]:
        """What is known about other seeds."""
        if all(one.seeds == 1 for one in self.seeds):
            return ["one seed each"]
        words = []
        for name, one in zip((self.better, self.other), self.seeds, strict=True):
            if one.seeds == 1:
                words.append(f"{name}: one seed")
            elif one.seeds > 1:
                spread = "" if one.deviation is None else f", standard deviation {self._number(one.deviation)}"
                words.append(f"{name}: mean of {one.seeds} seeds{spread}")
        return words

    def _number(self, value: float) -> str:
        factor = _UNITS.get(self.figure, (1.0, ""))[0]
        width = factor * (self.difference.high - self.difference.low)
        return f"{factor * value:.{2 if width > _COARSE else 3 if width > _FINE else 4}f}"


_KEY = "lines"
_NAMES = ("nats", "spelling", "tokens", "bytes")


@dataclass(frozen=True, eq=False)
class LineSums:
    """Sums over the tokens of each line, L lines: -log p, the spelling of unknown forms, tokens, and bytes."""

    nats_L: NDArray[np.float64]
    spelling_L: NDArray[np.float64]
    tokens_L: NDArray[np.float64]
    bytes_L: NDArray[np.float64]

    @classmethod
    def mean(cls, several: Sequence[LineSums]) -> LineSums:
        """The mean over seeds, line by line."""
        columns = zip(*((one.nats_L, one.spelling_L, one.tokens_L, one.bytes_L) for one in several), strict=True)
        return cls(*(np.mean(column, axis=0) for column in columns))

    @property
    def bits_L(self) -> NDArray[np.float64]:
        """All that a line costs, its unknown forms spelled out."""
        bits: NDArray[np.float64] = (self.nats_L + self.spelling_L) / np.log(2)
        return bits

    def save(self, path: Path) -> None:
        """Write as `.npz`."""
        columns = zip(_NAMES, (self.nats_L, self.spelling_L, self.tokens_L, self.bytes_L), strict=True)
        named: dict[str, NDArray[np.generic]] = dict(columns)
        arrays.write(path, _KEY, {"axes": dict.fromkeys(named, ("line",)), "about": {}}, named)

    @classmethod
    def load(cls, path: Path) -> Self:
        """What `save` wrote; FormatError for anything else, FileNotFoundError where there is nothing."""
        try:
            _, stored = arrays.read(path, _KEY)
            columns = [np.asarray(stored[name], np.float64) for name in _NAMES]
            if len({column.shape for column in columns}) != 1 or columns[0].ndim != 1:
                raise FormatError("its columns differ in length")
        except FileNotFoundError:
            raise
        except arrays.UNREADABLE as error:
            raise FormatError(
                f"{path} cannot be read: {arrays.reason(error)}; try removing it: it is made again"
            ) from error
        return cls(*columns)


def sum_lines(tokenizer: Tokenizer, chunks: Iterable[str], log_p_T: NDArray[np.floating]) -> LineSums | None:
    """The log p of all tokens of a text, added up line by line; None where a token of this tokenizer crosses lines."""
    spelling = Spelling.from_forms(tokenizer.ordinary_forms) if tokenizer.unknown_id is not None else None
    counts: list[tuple[int, int, float]] = []
    for line in lines_of(chunks, ends=True):
        pieces = list(tokenizer.measure_stream([line], whole=True))
        unknown = [form for piece in pieces for form in piece.unknown_forms]
        charged = spelling.total(unknown) if spelling is not None and unknown else 0.0
        counts.append((sum(len(piece.ids) for piece in pieces), sum(piece.bytes for piece in pieces), charged))
    tokens_L, bytes_L, spelling_L = np.array(counts, np.float64).reshape(-1, 3).T
    if tokens_L.sum() != len(log_p_T):
        return None
    line_T = np.repeat(np.arange(len(tokens_L)), tokens_L.astype(np.int64))
    nats_L = np.zeros(len(tokens_L))
    np.add.at(nats_L, line_T, -np.asarray(log_p_T, np.float64))
    return LineSums(nats_L, spelling_L, tokens_L, bytes_L)

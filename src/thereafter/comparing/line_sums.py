"""What each line of the test part costs a model: kept beside its result, so that differences can be resampled.

    OUT/results/NAME.npz    arrays [line]: nats, spelling, tokens, bytes

Models with other tokens agree about lines, and no token of theirs crosses the end of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import FormatError
from thereafter.inspection import arrays
from thereafter.text.lines import lines_of
from thereafter.text.spelling import Spelling
from thereafter.text.tokenizers.base import Tokenizer

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

"""The cost of an unknown form in bits per byte: the code length of its bytes and an end mark."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

_SYMBOLS = 257  # 256 bytes and the end mark


class Spelling:
    """A byte unigram model over 257 symbols, add-one, estimated over types: each form counts once.

    `p(symbol) = (count(symbol) + 1) / (N + 257)`, N the bytes and end marks of all forms; a form costs
    `-sum(log p(byte)) - log p(end)` nats, which is finite for any bytes.

    >>> round(Spelling.from_forms(["a"]).nats("a"), 4)  # two symbols, each 2 / (2 + 257)
    9.7274
    """

    def __init__(self, costs: NDArray[np.float64]) -> None:
        self._costs = costs

    @classmethod
    def from_forms(cls, forms: Iterable[str]) -> Spelling:
        """Estimate from the ordinary forms of a vocabulary; the reserved ones are not spelled and are left out."""
        listed = list(forms)
        counts = np.ones(_SYMBOLS)
        counts[:256] += np.bincount(_join_bytes(listed), minlength=256)
        counts[256] += len(listed)
        return cls(-np.log(counts / counts.sum()))

    def nats(self, form: str) -> float:
        """The code length of one form."""
        return self.total([form])

    def total(self, forms: Iterable[str]) -> float:
        """The summed code length of forms, each with its end mark."""
        listed = list(forms)
        counts = np.bincount(_join_bytes(listed), minlength=256)
        return float(counts @ self._costs[:256] + len(listed) * self._costs[256])


def _join_bytes(forms: list[str]) -> NDArray[np.uint8]:
    return np.frombuffer("".join(forms).encode("utf-8"), dtype=np.uint8)

"""What drawing on a GPU is compared over: warpings, distributions with and without ties, a generator of one number."""

from __future__ import annotations

from typing import Any

import numpy as np

from thereafter.decoding.sampling import Warping

V = 300
WARPINGS = [
    Warping(),
    Warping(temperature=0.7),
    Warping(temperature=0.0),
    Warping(temperature=1e-200),
    Warping(top_k=1),
    Warping(top_k=7),
    Warping(top_k=V),
    Warping(top_p=0.3),
    Warping(top_p=0.95, temperature=2.0),
    Warping(top_k=40, top_p=0.8),
    Warping(min_p=0.2),
    Warping(repetition_penalty=1.7),
    Warping(repetition_penalty=0.5, temperature=0.0),
    Warping(temperature=0.9, top_k=50, top_p=0.9, min_p=0.05, repetition_penalty=1.2),
]
SEEN = (1, 2, 3, 40)


def log_probs(rows: int, words: int = V, *, ties: bool = False) -> np.ndarray:
    rng = np.random.default_rng(rows)
    z = rng.normal(size=(rows, words)) * 3
    z = np.round(z) if ties else z
    return (z - np.log(np.exp(z).sum(1, keepdims=True))).astype(np.float32)


class OneNumber(np.random.Generator):
    """A generator of one number."""

    def __init__(self, number: float) -> None:
        super().__init__(np.random.PCG64(0))
        self._number = number

    def random(self, *_: Any, **__: Any) -> Any:
        return self._number

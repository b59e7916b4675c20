"""Whether weights have changed since something was worked out from them."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

Versions = tuple[tuple[int, int], ...]


def versions(weights: Iterable[Tensor]) -> Versions:
    """Where each tensor lies and how often it was written to, by torch's own count.

    What is written through `.data` is not counted; so whoever keeps something by this also forgets it whenever a model
    is set to training or evaluation.
    """
    return tuple((w.data_ptr(), 0 if w.is_inference() else w._version) for w in weights)

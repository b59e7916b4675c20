"""A few tokens through `Recurrent.stream`, while states stay values.

A stream has the weights copied into buffers of its own and keeps its state there. Here it is a tool: the state is put
in, a token or a short prompt is read, the new state is copied out.

Shapes: B rows, T steps, E word vector, H features.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from thereafter.layers.recurrent import Recurrent
from thereafter.layers.stream import Stream
from thereafter.models.versions import Versions, versions

MOST = 4
"""Streams kept, one for each number of rows; the one made first goes first."""


class Streams:
    """Streams of one stack, made when needed and thrown away when its weights have changed."""

    def __init__(self) -> None:
        self._weights: Versions = ()
        self._made: dict[int, Stream] = {}
        self._left: dict[int, Any] = {}
        """The state each stream was left in: whoever goes on from it need not put it in again."""

    def read(self, layers: Recurrent, x_BTE: Tensor, before: Any) -> tuple[Tensor, Any]:
        """Outputs [B, T, H] of some tokens and the state after them."""
        stream = self._stream(layers, len(x_BTE))
        if not _same(before, self._left.get(len(x_BTE))):
            stream.reset(before)
        y_BTH = torch.stack([stream.step(x_BE).clone() for x_BE in x_BTE.unbind(1)], dim=1)
        self._left[len(x_BTE)] = stream.state
        return y_BTH, self._left[len(x_BTE)]

    def _stream(self, layers: Recurrent, rows: int) -> Stream:
        weights = versions(w for w in layers._parameters.values() if w is not None)
        if weights != self._weights:
            self._weights = weights
            self._made, self._left = {}, {}
        if rows not in self._made:
            if len(self._made) >= MOST:
                oldest = next(iter(self._made))
                del self._made[oldest], self._left[oldest]
            self._made[rows] = layers.stream(rows)
        return self._made[rows]

    def __deepcopy__(self, memo: dict[int, Any]) -> Streams:
        return Streams()  # a copy's buffers would not be those its loops write to

    def __reduce__(self) -> tuple[type[Streams], tuple[()]]:
        return Streams, ()


def _same(one: Any, other: Any) -> bool:
    """Whether two states are made of the very same tensors."""
    if isinstance(one, tuple):
        return isinstance(other, tuple) and all(map(_same, one, other))
    return one is other

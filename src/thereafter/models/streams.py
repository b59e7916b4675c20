"""A few tokens through `Recurrent.stream`, while states stay values.

A stream keeps its state in buffers of its own. Here it is a tool: the state is put in, a token or a short prompt is
read, the new state is copied out. A tool is in one hand at a time: whoever reads takes an idle stream and puts
it back, so several threads may read at once. Taking and putting back are single operations on a list, which need no
lock, and one thread always gets back the stream it has just used.

Shapes: B rows, T steps, E word vector, H features.
"""

from __future__ import annotations

from threading import Lock
from typing import Any, NamedTuple

import torch
from torch import Tensor

from thereafter.layers.recurrent import Recurrent
from thereafter.layers.stream import Packed, Stream
from thereafter.models.versions import Versions, versions

MOST = 4
"""Numbers of rows that streams are kept for; the one met first goes first."""
MOST_IDLE = 8
"""Streams kept for one number of rows: so many threads may read at once without making new ones."""


class _Idle(NamedTuple):
    """A stream that nobody uses, and the state it was left in: who goes on from there need not put it in again."""

    stream: Stream
    left: Any


class _IdleStreams:
    """The streams for given weights, by their number of rows; all of them share the weights themselves."""

    def __init__(self, weights: Versions) -> None:
        self.weights = weights
        self.packed: Packed = {}
        self.idle: dict[int, list[_Idle]] = {}
        self._lock = Lock()

    def of(self, rows: int) -> list[_Idle]:
        """Where streams of so many rows lie."""
        idle = self.idle.get(rows)
        if idle is None:
            with self._lock:
                if len(self.idle) >= MOST and rows not in self.idle:
                    del self.idle[next(iter(self.idle))]
                idle = self.idle.setdefault(rows, [])
        return idle


class Streams:
    """Streams of one stack, made when needed and thrown away when its weights have changed."""

    def __init__(self, stored: str | None = None) -> None:
        """`stored`: the form of their weights, see `layers.stream.Stream`."""
        self._streams, self._stored = _IdleStreams(()), stored

    def read(self, layers: Recurrent, x_BTE: Tensor, before: Any) -> tuple[Tensor, Any]:
        """Outputs [B, T, H] of some tokens and the state after them."""
        weights = versions(w for w in layers._parameters.values() if w is not None)
        streams = self._streams
        if weights != streams.weights:
            streams = self._streams = _IdleStreams(weights)
        idle = streams.of(len(x_BTE))
        try:
            stream, left = idle.pop()
        except IndexError:  # the first to ask, or others are reading
            stream, left = Stream(layers, len(x_BTE), streams.packed, self._stored), None
        if not _same(before, left):
            stream.reset(before)
        y_BTH = torch.stack([stream.step(x_BE).clone() for x_BE in x_BTE.unbind(1)], dim=1)
        after = stream.state
        if len(idle) < MOST_IDLE:
            idle.append(_Idle(stream, after))
        return y_BTH, after

    def __deepcopy__(self, memo: dict[int, Any]) -> Streams:
        return Streams(self._stored)  # a copy's buffers would not be those its loops write to

    def __reduce__(self) -> tuple[type[Streams], tuple[str | None]]:
        return Streams, (self._stored,)


def _same(one: Any, other: Any) -> bool:
    """Whether two states are made of the very same tensors."""
    if isinstance(one, tuple):
        return isinstance(other, tuple) and all(map(_same, one, other))
    return one is other

"""Rows of tokens cut at their line ends, for models that start afresh at every line.

Shapes: B rows, T steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from thereafter.models.base import Ids


@dataclass(frozen=True)
class Span:
    """Tokens `begin` to below `end` of a row."""

    row: int
    begin: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.begin


@dataclass(frozen=True)
class Cut:
    """Rows in parts: `first`, one a row, up to its first line end; then whole `lines`; `tails` that have no end."""

    first: list[Span]
    lines: list[Span]
    tails: list[Span]


def cut(tokens_BT: Ids, line_end: int) -> Cut:
    """The spans of every row; a line keeps its end.

    >>> parts = cut(np.array([[5, 0, 6, 7, 0, 8]]), line_end=0)
    >>> [(span.begin, span.end) for span in parts.first + parts.lines + parts.tails]
    [(0, 2), (2, 5), (5, 6)]
    """
    parts = Cut([], [], [])
    steps = tokens_BT.shape[1]
    for row, tokens in enumerate(tokens_BT):
        ends = (np.flatnonzero(tokens == line_end) + 1).tolist()
        borders = [0, *ends] if ends and ends[-1] == steps else [0, *ends, steps]
        spans = [Span(row, begin, end) for begin, end in pairwise(borders)]
        parts.first.append(spans[0])
        finished = len(ends)
        parts.lines.extend(spans[1:finished] if finished else [])
        parts.tails.extend(spans[max(1, finished) :])
    return parts


def by_length(spans: list[Span], most: int, *, alike: bool = False) -> Iterator[list[Span]]:
    """Groups of spans of about one length (`alike`: exactly one), none of more than `most` tokens with its padding."""
    group: list[Span] = []
    for span in sorted(spans, key=lambda span: span.size, reverse=True):
        # the first is the longest
        if group and ((len(group) + 1) * group[0].size > most or (alike and span.size != group[0].size)):
            yield group
            group = []
        group.append(span)
    if group:
        yield group


def padded(tokens_BT: Ids, spans: list[Span], filler: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Spans as rows of one array, filled up on the right, and where they are."""
    steps = max(span.size for span in spans)
    sizes = np.array([span.size for span in spans])
    mask = np.arange(steps) < sizes[:, None]
    rows = np.full((len(spans), steps), filler, dtype=np.int64)
    for row, span in zip(rows, spans, strict=True):
        row[: span.size] = tokens_BT[span.row, span.begin : span.end]
    return rows, mask

"""The order in which training sees a text: a pure function of the settings, the seed and the epoch.

Nothing is remembered between epochs, so a position (epoch, block) is all that a resumed run needs. Targets are the ids
of the text; the input of each is the id before it, `<s>` before the first (and, line by line, before every line).

    stream     row b of a block goes on where row b of the block before stopped; every target exactly once an epoch
    partition  pieces of n tokens from a random offset, shuffled; a fresh state for each
    lines      each line on its own, lines of about one length together; every target exactly once an epoch

Shapes: N targets, R rows of an epoch, K blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thereafter.text.chunks import IdArray

_JITTER, _PARTITION, _LINES = range(3)
_SHORTEST = 5  # no jittered block is shorter
_BUCKET = 32  # so many batches of lines are sorted by length together


@dataclass(frozen=True)
class Plan:
    """The blocks of one epoch. Block k is the rows bounds[k] to bounds[k + 1], each a stretch of the text.

    `starts`: the first target of each row; `lengths`: how many targets it has; `fresh`: whether `<s>` comes before it
    (else the id before it). `carried`: whether a block goes on in the state that the block before it ended in.
    """

    starts_R: NDArray[np.int64]
    lengths_R: NDArray[np.int64]
    fresh_R: NDArray[np.bool_]
    bounds_K1: NDArray[np.int64]
    carried: bool

    def __len__(self) -> int:
        return len(self.bounds_K1) - 1

    def rows(self, k: int) -> slice:
        """The rows of block k."""
        return slice(int(self.bounds_K1[k]), int(self.bounds_K1[k + 1]))

    def width(self, k: int) -> int:
        """The steps of block k: its longest row."""
        return int(self.lengths_R[self.rows(k)].max())

    def count(self, k: int) -> int:
        """The targets of block k."""
        return int(self.lengths_R[self.rows(k)].sum())


def stream(tokens: int, batch: int, steps: int, *, jitter: bool = False, seed: int = 0, epoch: int = 0) -> Plan:
    """`batch` rows side by side through the whole text, `steps` at a time.

    Rows differ in length by one at most: only the last step of an epoch may lack some rows.
    """
    batch = min(batch, tokens)
    long, extra = divmod(tokens, batch)
    sizes_B = np.full(batch, long) + (np.arange(batch) < extra)
    first_B = np.concatenate([[0], np.cumsum(sizes_B)[:-1]])
    cuts = _cuts(int(sizes_B[0]), steps, np.random.default_rng([seed, epoch, _JITTER]) if jitter else None)
    starts_KB = first_B[None, :] + cuts[:-1, None]
    lengths_KB = np.clip(sizes_B[None, :] - cuts[:-1, None], 0, np.diff(cuts)[:, None])
    bounds_K1 = np.arange(len(cuts)) * batch
    return Plan(starts_KB.ravel(), lengths_KB.ravel(), starts_KB.ravel() == 0, bounds_K1, carried=True)


def _cuts(length: int, steps: int, rng: np.random.Generator | None) -> NDArray[np.int64]:
    """Where blocks begin, and the end. Jittered: one in twenty is about half as long, all vary by some five steps."""
    if rng is None:
        return np.append(np.arange(0, length, steps), length)
    cuts = [0]
    while cuts[-1] < length:
        about = steps if rng.random() < 0.95 else steps / 2
        cuts.append(min(length, cuts[-1] + max(_SHORTEST, int(rng.normal(about, 5)))))
    return np.array(cuts)


def partition(tokens: int, batch: int, steps: int, *, seed: int = 0, epoch: int = 0) -> Plan:
    """Pieces of `steps` targets from a random offset of less than that, in random order; what is left over waits."""
    steps = min(steps, tokens)
    rng = np.random.default_rng([seed, epoch, _PARTITION])
    offset = int(rng.integers(0, min(steps - 1, tokens - steps), endpoint=True))
    starts_R = offset + steps * rng.permutation((tokens - offset) // steps)
    bounds_K1 = np.append(np.arange(0, len(starts_R), batch), len(starts_R))
    return Plan(starts_R, np.full(len(starts_R), steps), starts_R == 0, bounds_K1, carried=False)


def lines(
    ids: IdArray, line_end: int, batch: int, longest: int, *, shuffle: bool = True, seed: int = 0, epoch: int = 0
) -> Plan:
    """Each line a row; a line of more than `longest` tokens is cut, and its later pieces begin with the id before."""
    ends = np.flatnonzero(np.asarray(ids) == line_end) + 1
    if not len(ends) or ends[-1] != len(ids):
        ends = np.append(ends, len(ids))
    first = np.concatenate([[0], ends[:-1]])
    pieces = -(-(ends - first) // longest)
    of_line = np.repeat(np.arange(len(first)), pieces)
    piece = np.arange(len(of_line)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    starts_R = first[of_line] + piece * longest
    lengths_R = np.minimum(ends[of_line] - starts_R, longest)
    order, bounds_K1 = _bucket_by_length(
        lengths_R, batch, np.random.default_rng([seed, epoch, _LINES]) if shuffle else None
    )
    return Plan(starts_R[order], lengths_R[order], (piece == 0)[order], bounds_K1, carried=False)


def _bucket_by_length(
    lengths_R: NDArray[np.int64], batch: int, rng: np.random.Generator | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """An order of rows, and the bounds of batches in it, in which a batch holds rows of about one length.

    Shuffled, the rows of some batches at a time are sorted by length, and the batches shuffled again.
    """
    rows = len(lengths_R)
    order = np.arange(rows) if rng is None else rng.permutation(rows)
    span = rows if rng is None else batch * _BUCKET
    order = np.concatenate(
        [part[np.argsort(lengths_R[part], kind="stable")] for part in np.split(order, range(span, rows, span))]
    )
    batches = np.split(order, range(batch, rows, batch))
    if rng is not None:
        batches = [batches[k] for k in rng.permutation(len(batches))]
    return np.concatenate(batches), np.cumsum([0, *(len(rows) for rows in batches)])

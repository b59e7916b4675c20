"""Counting every n-gram of a text, up to order 10, in time that grows linearly with the text.

Shapes: T tokens with `<s>` put in, M_n distinct n-grams of order n.

An n-gram is a path in a trie whose levels are sorted by (parent, word). Level n+1 is made from level n by looking at
each position once, in the order of its next word: the positions of every parent are then already sorted, so no
comparison sort is needed. The suffix of the n-gram that starts at i is the (n-1)-gram that starts at i+1: its link is
one look-up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.base.compiled import available, compiled
from thereafter.errors import EmptyCorpusError, OptionError

Int = NDArray[np.int32]

MAX_ORDER = 10
_MOST_TOKENS = 2**31 - 2  # positions are 32-bit


@dataclass(frozen=True)
class Level:
    """All n-grams of one order, sorted by (context, word).

    `context` and `suffix` are indices into the level below: the n-gram without its last and without its first word.
    """

    word: Int
    count: NDArray[np.int64]
    context: Int
    suffix: Int


@dataclass(frozen=True)
class Counts:
    """The n-grams of a text. `levels[0]` is order 1 and has one row for each word id 0..V, the last one being `<s>`."""

    levels: list[Level]
    vocabulary_size: int
    context: str  # "line" or "stream"
    line_end: int | None

    @property
    def order(self) -> int:
        return len(self.levels)

    def size(self, order: int) -> int:
        """How many n-grams of that order there are; order 0 is the empty one."""
        return len(self.levels[order - 1].word) if order else 1

    def first_starting(self, order: int) -> int:
        """Index of the first n-gram that begins with `<s>`; these are sorted last."""
        first = self.vocabulary_size
        for level in self.levels[1:order]:
            first = int(np.searchsorted(level.context, first))
        return first


def check_order(order: int) -> None:
    """Refuse an order that cannot be counted."""
    if not 1 <= order <= MAX_ORDER:
        raise OptionError(f"order is {order}; expected 1 to {MAX_ORDER}; try order=5")


def count(
    ids: NDArray[np.integer], vocabulary_size: int, order: int, *, context: str = "stream", line_end: int | None = None
) -> Counts:
    """Count the n-grams of orders 1 to `order` in a stream of token ids.

    In `line` context every line is `<s> w ... </s>` on its own, as KenLM reads a file; in `stream` context one `<s>`
    stands before the first token and n-grams run on over line ends.

    >>> bigrams = count(np.array([0, 1, 0, 1]), vocabulary_size=2, order=2).levels[1]
    >>> bigrams.word.tolist(), bigrams.count.tolist()
    ([1, 0, 0], [2, 1, 1])
    """
    check_order(order)
    if len(ids) == 0:
        raise EmptyCorpusError("the text has no tokens; expected at least one; try a text that is not empty")
    if len(ids) > _MOST_TOKENS // 2:
        raise OptionError(
            f"the text has {len(ids):,} tokens; n-grams count at most {_MOST_TOKENS // 2:,}; try a part of it"
        )
    if int(ids.min()) < 0 or int(ids.max()) >= vocabulary_size:
        raise OptionError(f"token ids run from {ids.min()} to {ids.max()}; expected 0 to {vocabulary_size - 1}")
    start = vocabulary_size
    stream = _with_starts(ids, start, line_end if context == "line" else None)
    # In stream context no token ends a line: -1 matches none.
    stop = line_end if context == "line" and line_end is not None else -1

    unigrams = np.bincount(stream, minlength=vocabulary_size + 1).astype(np.int64)
    unigrams[start] = 0  # an input, never predicted
    words = np.arange(vocabulary_size + 1, dtype=np.int32)
    levels = [Level(words, unigrams, np.zeros_like(words), np.zeros_like(words))]
    by_word, extend = (_by_word_loop, _extend_compiled) if available() else (_by_word_plain, _extend_plain)
    positions = by_word(stream, vocabulary_size + 1)
    node = stream.copy()
    with progress.task(f"counting n-grams to order {order}", total=order - 1) as advance:
        for length in range(1, order):
            level, node = extend(stream, positions, node, len(levels[-1].word), length, stop)
            levels.append(level)
            advance(1)
    return Counts(levels, vocabulary_size, context, line_end)


def _with_starts(ids: NDArray[np.integer], start: int, line_end: int | None) -> Int:
    """The stream with `<s>` before its first token and, with a `line_end`, after every line end but the last."""
    if line_end is None:
        return np.concatenate([[start], ids]).astype(np.int32)
    ends = ids == line_end
    shift = np.cumsum(ends, dtype=np.int32)
    lines_before = shift - ends  # line ends before each token
    stream = np.full(len(ids) + 1 + int(lines_before[-1]), start, dtype=np.int32)
    stream[np.arange(len(ids), dtype=np.int64) + lines_before + 1] = ids
    return stream


def _by_word_plain(stream: Int, words: int) -> Int:
    """The same as `_by_word_loop`, in plain numpy: the positions of the stream in the order of their words."""
    return np.argsort(stream, kind="stable").astype(np.int32)


@compiled
def _by_word_loop(stream: Int, words: int) -> Int:
    cursor = np.zeros(words + 1, dtype=np.int32)
    for w in stream:
        cursor[w + 1] += 1
    for w in range(words):
        cursor[w + 1] += cursor[w]
    positions = np.empty(len(stream), dtype=np.int32)
    for i in range(len(stream)):
        positions[cursor[stream[i]]] = i
        cursor[stream[i]] += 1
    return positions


def _extend_plain(stream: Int, by_word: Int, node: Int, nodes: int, length: int, stop: int) -> tuple[Level, Int]:
    """The same as `_extend_compiled`, in plain numpy: sort (context, next word) pairs.

    `node[i]` is the index of the n-gram of `length` words that starts at i, or -1 if a line ends too early.
    """
    head = node[: max(0, len(stream) - length)]  # a text may be shorter than the order
    usable = np.flatnonzero((head >= 0) & (stream[length - 1 : -1] != stop))
    width = int(stream.max()) + 1
    keys = head[usable].astype(np.int64) * width + stream[usable + length]
    distinct, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    longer = np.full_like(node, -1)
    longer[usable] = inverse
    suffix = np.empty(len(distinct), dtype=np.int32)
    suffix[inverse] = node[usable + 1]
    level = Level(
        (distinct % width).astype(np.int32), counts.astype(np.int64), (distinct // width).astype(np.int32), suffix
    )
    return level, longer


def _extend_compiled(stream: Int, by_word: Int, node: Int, nodes: int, length: int, stop: int) -> tuple[Level, Int]:
    word, counts, context, suffix, longer = _extend_loop(stream, by_word, node, nodes, length, stop)
    return Level(word, counts, context, suffix), longer


@compiled
def _extend_loop(
    stream: Int, by_word: Int, node: Int, nodes: int, length: int, stop: int
) -> tuple[Int, NDArray[np.int64], Int, Int, Int]:
    total = len(stream)
    # How many positions continue each context, as places in one array of positions.
    cursor = np.zeros(nodes + 1, dtype=np.int32)
    for i in range(total - length):
        if node[i] >= 0 and stream[i + length - 1] != stop:
            cursor[node[i] + 1] += 1
    for j in range(nodes):
        cursor[j + 1] += cursor[j]
    usable = cursor[nodes]

    # Visiting positions in the order of their next word leaves each context's share sorted by that word.
    sorted_positions = np.empty(usable, dtype=np.int32)
    for p in by_word:
        i = p - length
        if i >= 0 and node[i] >= 0 and stream[i + length - 1] != stop:
            sorted_positions[cursor[node[i]]] = i
            cursor[node[i]] += 1

    word = np.empty(usable, dtype=np.int32)
    count = np.empty(usable, dtype=np.int64)
    context = np.empty(usable, dtype=np.int32)
    suffix = np.empty(usable, dtype=np.int32)
    longer = np.full(total, -1, dtype=np.int32)
    entry = -1
    for k in range(usable):
        i = sorted_positions[k]
        if entry < 0 or context[entry] != node[i] or word[entry] != stream[i + length]:
            entry += 1
            word[entry] = stream[i + length]
            context[entry] = node[i]
            suffix[entry] = node[i + 1]
            count[entry] = 0
        count[entry] += 1
        longer[i] = entry
    size = entry + 1
    return word[:size].copy(), count[:size].copy(), context[:size].copy(), suffix[:size].copy(), longer

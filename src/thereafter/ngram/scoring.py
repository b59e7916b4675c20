"""The log-probability of every token of a stream: a compiled walk along the trie, and its readable twin.

Shapes: T tokens.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thereafter.kernels.compiled import available, compiled
from thereafter.ngram.tables import Float32, Int, Tables

_FEW = 8  # children up to this many are looked through one by one
_PARALLEL_FROM = 20_000  # tokens below which a second thread costs more than it brings


def score(
    tables: Tables, ids: NDArray[np.integer], node: int, *, uniform: bool, line_end: int, start: int
) -> tuple[Float32, Int, int]:
    """Read tokens from a context on: (log p of each [T], the node each was found at [T], the context afterwards).

    `uniform`: what a context leaves is shared evenly (add-alpha) and not handed to its suffix. After the token
    `line_end` (-1: none) the context is `start` again.
    """
    tokens = np.ascontiguousarray(ids, dtype=np.int32).view()
    tokens.flags.writeable = False
    if not available():
        return score_plain(tables, tokens, node, uniform=uniform, line_end=line_end, start=start)

    def walk(part: Int, context: int) -> tuple[Float32, Int, int]:
        arrays = (tables.word, tables.logp, tables.suffix, tables.backoff, tables.first_child)
        return _walk(*arrays, part, context, uniform, line_end, start)

    workers = _workers() if len(tokens) >= _PARALLEL_FROM else 1
    if workers == 1:
        return walk(tokens, node)
    # A context is at most order - 1 words long, so that many tokens before a cut say in which context it stands.
    cuts = [len(tokens) * k // workers for k in range(workers + 1)]
    nodes = [node] + [walk(tokens[max(0, cut - tables.order + 1) : cut], 0)[2] for cut in cuts[1:-1]]
    with ThreadPoolExecutor(workers) as pool:
        parts = list(pool.map(walk, [tokens[a:b] for a, b in pairwise(cuts)], nodes))
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts]), parts[-1][2]


def _workers() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@compiled
def _walk(
    word: Int,
    logp: Float32,
    suffix: Int,
    backoff: Float32,
    first_child: Int,
    ids: Int,
    node: int,
    uniform: bool,
    line_end: int,
    start: int,
) -> tuple[Float32, Int, int]:
    contexts = len(backoff)
    scores = np.empty(len(ids), dtype=np.float32)
    found = np.empty(len(ids), dtype=np.int32)
    context: Any = node
    for t in range(len(ids)):
        w = ids[t]
        here = context
        paid = np.float32(0.0)
        decided = False  # only in the uniform form can the score be known before the word is found
        while here != 0:
            low = np.int64(first_child[here])
            end = np.int64(first_child[here + 1])
            left = end - low
            if left <= _FEW:
                while low < end and word[low] < w:
                    low += 1
            else:
                while left > 1:  # halving without a branch: the processor cannot guess which half
                    half = left >> 1
                    low += half * int(word[low + half - 1] < w)
                    left -= half
            if low < end and word[low] == w:
                break
            if not uniform:
                paid += backoff[here]
            elif not decided and end > first_child[here]:
                paid = backoff[here]
                decided = True
            here = suffix[here]
        child = low if here != 0 else 1 + w
        scores[t] = paid if decided else paid + logp[child]
        found[t] = child
        if w == line_end:
            context = start
        elif child < contexts:
            context = child
        else:
            context = suffix[child]
    return scores, found, context


def score_plain(
    tables: Tables, ids: Int, node: int, *, uniform: bool, line_end: int, start: int
) -> tuple[Float32, Int, int]:
    """Readable twin of `_walk`: the nodes of all n-grams of the stream at once, one order after the other."""
    before = tables.path(node)
    stream, targets = _with_context(before, ids, line_end, tables.path(start))
    order = tables.order
    # nodes[n][i]: the node of the n-gram that starts at i; nodes[0] is the empty one
    nodes = [np.zeros(len(stream), dtype=np.int64)]
    for n in range(1, order + 1):
        longer = np.full(len(stream), -1, dtype=np.int64)
        usable = len(stream) - n + 1
        if usable > 0:
            longer[:usable] = tables.find(nodes[-1][:usable], stream[n - 1 :])
        nodes.append(longer)

    def ending_at(n: int, last: NDArray[np.int64]) -> NDArray[np.int64]:
        first = last - n + 1
        return np.where(first >= 0, nodes[n][np.maximum(first, 0)], -1)

    scores = np.zeros(len(targets), dtype=np.float64)
    found = np.zeros(len(targets), dtype=np.int64)
    for n in range(order, 0, -1):
        child = ending_at(n, targets)
        hit = (found == 0) & (child >= 0)
        found[hit] = child[hit]
    lengths = tables.order_of(found)
    settled = np.zeros(len(targets), dtype=bool)
    for n in range(order - 1, 0, -1):  # contexts longer than the one the word was found after
        context = ending_at(n, targets - 1)
        here = np.maximum(context, 0)
        missed = (context >= 0) & (lengths <= n)
        if not uniform:
            scores[missed] += tables.backoff[here[missed]]
        else:
            fixed = missed & ~settled & (tables.first_child[here + 1] > tables.first_child[here])
            scores[fixed] = tables.backoff[here[fixed]]
            settled |= fixed
    scores[~settled] += tables.logp[found[~settled]]
    if len(targets):
        if ids[-1] == line_end:
            node = start
        else:
            last = int(found[-1])
            node = last if last < tables.contexts else int(tables.suffix[last])
    return scores.astype(np.float32), found.astype(np.int32), node


def _with_context(
    before: list[int], ids: Int, line_end: int, restart: list[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The stream with its left context, the start put in again after every line end, and where the tokens now stand."""
    ends = (ids == line_end).astype(np.int64)
    shift = len(before) + np.arange(len(ids)) + (np.cumsum(ends) - ends) * len(restart)
    room = int(shift[-1]) + 1 if len(ids) else len(before)
    stream = np.full(room, restart[0] if restart else 0, dtype=np.int64)
    stream[: len(before)] = before
    stream[shift] = ids
    return stream, shift

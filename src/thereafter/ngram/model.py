"""The n-gram as a SequenceModel, which gives the log probability of every token of a stream.

It is a compiled walk along the trie, and the same in plain numpy. `estimate` goes from token ids to a model: count,
smooth, flatten.

Shapes: B rows, T steps or tokens, V words that can be predicted, S = T + the words of the context + one `<s>` for each
line that starts inside.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from inspect import signature
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from thereafter.base.compiled import available, compiled, pays
from thereafter.base.processor import usable
from thereafter.errors import OptionError, nearest
from thereafter.models.base import Fields, Ids, ModelFacts, SequenceModel, checked_tokens, rows_at_once
from thereafter.ngram.counts import Counts, check_order, count
from thereafter.ngram.smoothing import SMOOTHINGS, Weights, kept_mask
from thereafter.ngram.tables import Float32, Int, Tables


@dataclass(frozen=True)
class NgramState:
    """The longest known context of each row, as a node of the trie."""

    nodes: NDArray[np.int32]

    def select(self, index: Ids) -> NgramState:
        return NgramState(self.nodes[index])

    def key(self) -> Hashable:
        return tuple(self.nodes.tolist())


class NgramModel(SequenceModel[NgramState]):
    """A smoothed n-gram model over finished tables.

    In `line` context a step over `</s>` returns to the start state; in `stream` context the context continues.
    """

    def __init__(
        self,
        tables: Tables,
        *,
        context: str,
        line_end: int | None,
        smoothing: str,
        uniform: bool = False,
        proper: bool = True,
        discounts: dict[int, tuple[float, ...]] | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self.tables = tables
        self.vocabulary_size = tables.vocabulary_size
        self.order = tables.order
        self.context = context
        self.line_end = line_end
        self.smoothing = smoothing
        self.uniform = uniform
        self.proper = proper
        self.discounts = dict(discounts or {})
        self.notes = list(notes)
        self._restart = line_end if context == "line" and line_end is not None else -1
        self._facts = ModelFacts(
            vocabulary_size=self.vocabulary_size,
            parameters=sum(tables.sizes()),
            restart=line_end if context == "line" else None,
            normalised=proper,
        )
        # <s> is a context only where there are contexts at all
        self._start = 1 + self.vocabulary_size if self.order > 1 else 0

    @property
    def facts(self) -> ModelFacts:
        return self._facts

    def start(self, batch: int) -> NgramState:
        return NgramState(np.full(batch, self._start, dtype=np.int32))

    def predict(self, state: NgramState) -> NDArray[np.float32]:
        logp_BV = np.empty((len(state.nodes), self.vocabulary_size), dtype=np.float32)
        for row, node in zip(logp_BV, state.nodes.tolist(), strict=True):
            self._distribution(node, row)
        return logp_BV

    def step(self, token_B: Ids, state: NgramState) -> tuple[NDArray[np.float32], NgramState]:
        _, after = self.log_probs(np.asarray(token_B).reshape(-1, 1), state)
        return self.predict(after), after

    def stack(self, states: Sequence[NgramState]) -> NgramState:
        return NgramState(np.concatenate([state.nodes for state in states]))

    def log_probs(self, tokens_BT: Ids, state: NgramState) -> tuple[NDArray[np.float32], NgramState]:
        tokens = checked_tokens(tokens_BT, self.vocabulary_size)
        scores = np.empty(tokens.shape, dtype=np.float32)
        nodes = np.empty(len(tokens), dtype=np.int32)
        for b, (row, node) in enumerate(zip(tokens, state.nodes.tolist(), strict=True)):
            scores[b], _, nodes[b] = self._read(row, node)
        return scores, NgramState(nodes)

    def record(self, tokens_T: Ids, state: NgramState) -> Fields:
        """Per step: log p of the token, the order of the n-gram that gave it, the length of the context before it."""
        scores, nodes, before = self._walk(tokens_T, state)
        return {
            "log_prob": (("step",), scores),
            "order": (("step",), self.tables.order_of(nodes).astype(np.int8)),
            "context": (("step",), self.tables.order_of(before).astype(np.int8)),
        }

    def predictions(self, tokens_T: Ids, state: NgramState) -> Iterator[NDArray[np.float32]]:
        _, _, before = self._walk(tokens_T, state)
        size = rows_at_once(self.vocabulary_size)
        return (self.predict(NgramState(before[begin : begin + size])) for begin in range(0, len(before), size))

    def context_sizes(self, tokens_T: Ids) -> NDArray[np.int64]:
        """The words before each token in the longest known n-gram that ends with it: 0 where only it is known."""
        _, nodes, _ = self._walk(tokens_T, self.start(1))
        return self.tables.order_of(nodes) - 1

    def _walk(
        self, tokens_T: Ids, state: NgramState
    ) -> tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.int32]]:
        """log p of each token of a row, the node of its longest known n-gram, and the node of its context."""
        tokens = checked_tokens(tokens_T.reshape(1, -1), self.vocabulary_size)[0]
        scores, nodes, _ = self._read(tokens, int(state.nodes[0]))
        # The context of a token is the node of the token before it, shortened to order - 1 words.
        after = np.where(nodes < self.tables.contexts, nodes, self.tables.suffix[nodes])
        after = np.where(tokens_T == self._restart, self._start, after).astype(np.int32)
        return scores, nodes, np.concatenate([state.nodes[:1], after[:-1]])[: len(nodes)]

    def _read(self, row: Ids, node: int) -> tuple[NDArray[np.float32], NDArray[np.int32], int]:
        return score(self.tables, row, node, uniform=self.uniform, line_end=self._restart, start=self._start)

    def _distribution(self, node: int, out_V: NDArray[np.float32]) -> None:
        """Fill in log p of every word after a context: the unigrams, then each longer context in turn."""
        tables = self.tables
        chain = tables.chain(node)[:-1]
        if self.uniform:
            chain = [c for c in chain if tables.first_child[c + 1] > tables.first_child[c]][:1]
        out_V[:] = tables.logp[1 : 1 + self.vocabulary_size]
        for context in reversed(chain):
            if self.uniform:
                out_V[:] = tables.backoff[context]
            else:
                out_V += tables.backoff[context]
            children = slice(tables.first_child[context], tables.first_child[context + 1])
            out_V[tables.word[children]] = tables.logp[children]


_PARALLEL_FROM = 20_000  # tokens below which a second thread costs more than it brings
_BLOCK = 512  # paths that descend the trie together: enough to keep the memory busy, few enough to stay in the cache

# Indices in the compiled loops are unsigned: signed ones are tested for Python's counting from the end, every time.
_U = np.uint64
_0, _1 = np.uint64(0), np.uint64(1)


def score(
    tables: Tables, ids: NDArray[np.integer], node: int, *, uniform: bool, line_end: int, start: int
) -> tuple[Float32, Int, int]:
    """Score tokens after a context: (log p of each [T], the node of the longest known n-gram of each [T], the context
    afterwards).

    `uniform`: unseen words share the weight of a context evenly (add-alpha) instead of asking its suffix. After the
    token `line_end` (-1: none) the context is `start` again.
    """
    tokens = np.ascontiguousarray(ids, dtype=np.int32).view()
    tokens.flags.writeable = False
    if not len(tokens) or not pays(len(tokens)) or not available():
        return score_plain(tables, tokens, node, uniform=uniform, line_end=line_end, start=start)
    restart = tables.path(start)

    def walk(part: Int, context: int) -> tuple[Float32, Int, int]:
        stream, places = _with_context(tables.path(context), part, line_end, restart)
        arrays = (tables.word, tables.logp, tables.backoff, tables.first_child)
        scores, nodes = _walk(*arrays, stream, places, tables.order, uniform, line_end)
        return scores, nodes, _after(tables, int(part[-1]), int(nodes[-1]), line_end, start)

    workers = usable() if len(tokens) >= _PARALLEL_FROM else 1
    if workers == 1:
        return walk(tokens, node)
    # A context has at most order - 1 words, so that many tokens before a cut determine its context.
    reach = max(1, tables.order - 1)
    cuts = [len(tokens) * k // workers for k in range(workers + 1)]
    nodes = [node] + [walk(tokens[cut - reach : cut], 0)[2] for cut in cuts[1:-1]]
    with ThreadPoolExecutor(workers) as pool:
        parts = list(pool.map(walk, [tokens[a:b] for a, b in pairwise(cuts)], nodes))
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts]), parts[-1][2]


def _after(tables: Tables, token: int, node: int, line_end: int, start: int) -> int:
    """The context after a token whose longest known n-gram is `node`."""
    if token == line_end:
        return start
    return node if node < tables.contexts else int(tables.suffix[node])


def _with_context(before: list[int], ids: Int, line_end: int, restart: list[int]) -> tuple[Int, Int]:
    """The stream with its left context and `<s>` after every line end [S], and the position of each token."""
    ends = (ids == line_end).astype(np.int64)
    places = len(before) + np.arange(len(ids)) + (np.cumsum(ends) - ends) * len(restart)
    room = int(places[-1]) + 1 if len(ids) else len(before)
    stream = np.full(room, restart[0] if restart else 0, dtype=np.int32)
    stream[: len(before)] = before
    stream[places] = ids
    return stream, places.astype(np.int32)


@compiled
def _walk(
    word: Int,
    logp: Float32,
    backoff: Float32,
    first_child: Int,
    stream: Int,
    places: Int,
    order: int,
    uniform: bool,
    line_end: int,
) -> tuple[Float32, Int]:
    """Go down the trie from every position of the stream, a block of positions at a time, all of them in step.

    A path that ends before the token at t is a context in which this token was not seen, so its back-off weight is
    added to log p of t; the longest path that reaches t gives the rest. The paths are independent, so the processor
    loads many entries of the tables at once, while a walk token by token would wait for each.
    """
    total, contexts = _U(len(stream)), _U(len(backoff))
    paid = np.zeros(len(stream), dtype=np.float64)
    settled = np.zeros(len(stream), dtype=np.bool_)  # if `uniform`, the first context with children decides
    longest = np.empty(len(stream), dtype=np.int32)
    lanes = min(_BLOCK, len(stream))
    first, node, place_of = np.empty(lanes, np.uint32), np.empty(lanes, np.uint32), np.empty(lanes, np.uint32)
    size_of, busy, wanted = np.empty(lanes, np.uint32), np.empty(lanes, np.uint32), np.empty(lanes, np.int32)
    # From right to left, short before long: of all paths that reach a token the longest is then written last.
    for block in range((len(stream) - 1) // _BLOCK * _BLOCK, -1, -_BLOCK):
        alive = _0
        for i in range(block, min(block + _BLOCK, len(stream))):
            longest[i] = 1 + stream[i]
            first[alive], node[alive] = i, 1 + stream[i]
            alive += _U(stream[i] != line_end and order > 1)
        for length in range(1, order):
            while alive > _0 and first[alive - _1] + _U(length) >= total:
                alive -= _1
            searching = _0
            for a in range(alive):
                begin, end = first_child[node[a]], first_child[node[a] + _1]
                wanted[a] = stream[first[a] + _U(length)]
                place_of[a], size_of[a] = begin, end - begin
                busy[searching] = a
                searching += _U(end - begin > 1)
            while searching > _0:  # binary search without a branch, which could not be predicted
                unfinished = _0
                for k in range(searching):
                    a = busy[k]
                    place, size = place_of[a], size_of[a]
                    half = size >> _1
                    place_of[a] = place + half if word[place + half - _1] < wanted[a] else place
                    size_of[a] = size - half
                    busy[unfinished] = a
                    unfinished += _U(size - half > _1)
                searching = unfinished
            going_on = _0
            for a in range(alive):
                i, place, w = first[a], place_of[a], wanted[a]
                t = i + _U(length)
                hit = size_of[a] > _0
                if hit:
                    hit = word[place] == w
                if hit:
                    longest[t] = place
                elif not uniform:
                    paid[t] += backoff[node[a]]
                elif size_of[a] > _0:
                    paid[t] = backoff[node[a]]
                    settled[t] = True
                first[going_on], node[going_on] = i, place
                going_on += _U(hit & (w != line_end) & (place < contexts))
            alive = going_on
    scores = np.empty(len(places), dtype=np.float32)
    nodes = np.empty(len(places), dtype=np.int32)
    for k in range(len(places)):
        t = _U(places[k])
        nodes[k] = longest[t]
        scores[k] = paid[t] if settled[t] else paid[t] + logp[nodes[k]]
    return scores, nodes


def score_plain(
    tables: Tables, ids: Int, node: int, *, uniform: bool, line_end: int, start: int
) -> tuple[Float32, Int, int]:
    """The same as `_walk`, in plain numpy: the nodes of all n-grams of the stream at once, order by order."""
    stream, targets = _with_context(tables.path(node), ids, line_end, tables.path(start))
    order = tables.order
    # nodes[n][i]: the node of the n-gram that starts at i; nodes[0] is the empty one
    nodes = [np.zeros(len(stream), dtype=np.int64)]
    for n in range(1, order + 1):
        longer = np.full(len(stream), -1, dtype=np.int64)
        usable = len(stream) - n + 1
        if usable > 0:
            longer[:usable] = tables.find(nodes[-1][:usable], stream[n - 1 :])
        nodes.append(longer)

    def ending_at(n: int, last: Int) -> NDArray[np.int64]:
        first = last - n + 1
        return np.where(first >= 0, nodes[n][np.maximum(first, 0)], -1)

    scores = np.zeros(len(targets), dtype=np.float64)
    longest = np.zeros(len(targets), dtype=np.int64)
    for n in range(order, 0, -1):
        child = ending_at(n, targets)
        hit = (longest == 0) & (child >= 0)
        longest[hit] = child[hit]
    lengths = tables.order_of(longest)
    settled = np.zeros(len(targets), dtype=bool)
    for n in range(order - 1, 0, -1):  # contexts that are longer than the known one
        context = ending_at(n, targets - 1)
        here = np.maximum(context, 0)
        missed = (context >= 0) & (lengths <= n)
        if not uniform:
            scores[missed] += tables.backoff[here[missed]]
        else:
            fixed = missed & ~settled & (tables.first_child[here + 1] > tables.first_child[here])
            scores[fixed] = tables.backoff[here[fixed]]
            settled |= fixed
    scores[~settled] += tables.logp[longest[~settled]]
    if len(targets):
        node = _after(tables, int(ids[-1]), int(longest[-1]), line_end, start)
    return scores.astype(np.float32), longest.astype(np.int32), node


def estimate(
    ids: NDArray[np.integer],
    vocabulary_size: int,
    *,
    order: int = 5,
    smoothing: str = "modified-kneser-ney",
    context: str = "stream",
    line_end: int | None = None,
    cutoffs: Sequence[int] = (),
    **options: float,
) -> NgramModel:
    """Estimate an n-gram model.

    `ids` [T] are token ids 0..V-1. `cutoffs[n-1]`: n-grams of order n seen that often or less are left out (as KenLM's
    `--prune`; words are always kept; the last value is used for all higher orders). `options` are the smoothing's own
    (`alpha=0.1` for add-alpha, `factor=0.4` for stupid-backoff).

    >>> model = estimate(np.array([0, 1, 0, 1, 0]), vocabulary_size=2, order=2, smoothing="mle")
    >>> np.exp(model.predict(model.start(1))).tolist()
    [[1.0, 0.0]]
    """
    smooth = SMOOTHINGS.load(smoothing)
    if context not in ("line", "stream"):
        raise OptionError(f"context is {context!r}; expected 'line' or 'stream'")
    own = list(signature(smooth).parameters)[2:]
    for name in options:
        if name not in own:
            raise OptionError(f"the smoothing {smoothing!r} has no option {name!r}; {nearest(name, own)}")
    check_order(order)
    cuts = complete_cutoffs(cutoffs, order)
    counted = count(ids, vocabulary_size, order, context=context, line_end=line_end)
    weights: Weights = smooth(counted, cuts, **options)
    return NgramModel(
        _flatten(counted, weights, cuts),
        context=context,
        line_end=line_end,
        smoothing=smoothing,
        uniform=weights.spread == "uniform",
        proper=weights.proper,
        discounts=weights.discounts,
        notes=weights.notes,
    )


def complete_cutoffs(cutoffs: Sequence[int], order: int) -> tuple[int, ...]:
    """One cut-off per order, the last one repeated; they must not decrease, or parts of kept n-grams would be lost."""
    cuts = [int(cut) for cut in cutoffs] or [0]
    full = (cuts + [cuts[-1]] * order)[:order]
    if len(cuts) > order:
        raise OptionError(f"got {len(cuts)} cut-offs for order {order}; expected at most one for each order")
    if min(full) < 0 or any(lower > higher for lower, higher in pairwise(full[1:])):
        raise OptionError(f"cut-offs are {full}; expected numbers from 0 that never fall with the order; try 0 0 1")
    return tuple(full)


def _flatten(counts: Counts, weights: Weights, cutoffs: tuple[int, ...]) -> Tables:
    """Flatten counted and smoothed n-grams, leaving out those the cut-offs drop."""
    order = counts.order
    starts = [0, 1]
    word, prob, suffix = [np.zeros(1, np.int32)], [np.ones(1)], [np.zeros(1, np.int32)]
    backoff, first_child = [np.ones(1)], []
    places = np.zeros(1, dtype=np.int64)  # global node of each n-gram of the order below
    for n in range(1, order + 1):
        level = counts.levels[n - 1]
        stays = kept_mask(counts, n, cutoffs)
        here = np.flatnonzero(stays)
        word.append(level.word[here])
        prob.append(weights.prob[n - 1][here])
        suffix.append(places[level.suffix[here]].astype(np.int32))
        # Children per context that stayed, as running ends; contexts that were dropped have none left.
        children = np.bincount(level.context[here], minlength=counts.size(n - 1))[places >= 0]
        first_child.append(starts[-1] + np.cumsum(children) - children)
        places = np.where(stays, np.cumsum(stays) - 1 + starts[-1], -1)
        starts.append(starts[-1] + len(here))
        if starts[-1] >= 2**31:
            raise OptionError(f"{starts[-1]:,} n-grams up to order {n}; 2**31 is the limit; try cutoffs=(0, 1)")
        if n < order:
            backoff.append(weights.backoff[n - 1][here])
    with np.errstate(divide="ignore"):
        logp = np.log(np.concatenate(prob)).astype(np.float32)
        log_backoff = np.log(np.concatenate(backoff)).astype(np.float32)
    return Tables(
        word=np.concatenate(word),
        logp=logp,
        suffix=np.concatenate(suffix),
        backoff=log_backoff,
        first_child=np.concatenate([*first_child, starts[-1:]]).astype(np.int32),
        level_starts=np.array(starts, dtype=np.int64),
    )

"""Chains of tags: a hidden Markov tagger, which counts, and a conditional random field, which is a layer of networks.

The hidden Markov tagger is the row beside which every other tagger is printed: counts, and Viterbi over them.

    best tags = argmax over t_1..t_n of  prod_i p(t_i | t_{i-2}, t_{i-1}) p(w_i | t_i)  x  p(end | t_{n-1}, t_n)

Transitions, by deleted interpolation (Brants 2000):

    p(t3 | t1, t2) = l1 f(t3) + l2 f(t3 | t2) + l3 f(t3 | t1, t2),      f relative frequencies

Each trigram of the training text votes with its count for the order that predicts it best once it is itself taken out:
the largest of (c(t3) - 1) / (N - 1), (c(t2 t3) - 1) / (c(t2) - 1) and (c(t1 t2 t3) - 1) / (c(t1 t2) - 1); a tie goes to
the lower order. Beyond Brants, every l begins with one vote, and a context never seen has the frequencies of the next
shorter one: so no transition is impossible, and all of them sum to 1.

Words: p(w | t) = p(t | w) p(w) / p(t), and p(w) is the same for all tags. A word of the training text has the tags it
had there. Another has those of its ending, from words seen at most 10 times, capitalised ones apart (Brants 2000):

    p(t | l_m..l_1) = (f(t | l_m..l_1) + theta p(t | l_{m-1}..l_1)) / (1 + theta),      theta the deviation of all f(t)

Brants 2000, TnT: a statistical part-of-speech tagger (whose capitals in the transitions are left out).

Shapes: T words, K tags, E endings; K as an index is the border of a sentence, before its first word and after its last.

The linear-chain conditional random field: the tags of a sentence are judged together, not one by one.

    s(x, y)   = start[y_1] + sum_t e_t[y_t] + sum_{t>1} A[y_{t-1}, y_t] + end[y_n]
    log p(y | x) = s(x, y) - log Z(x),      Z(x) = sum over all K^n sequences y' of exp s(x, y')

e_t are scores of the tags from the words (any layer's output), A says which tag likes to follow which. All K^n
sequences are added up in n K^2 steps, forwards: a sequence that ends in tag j comes from one that ended in some i,

    alpha_1[j] = start[j] + e_1[j],      alpha_t[j] = e_t[j] + log sum_i exp(alpha_{t-1}[i] + A[i, j])
    log Z = log sum_j exp(alpha_n[j] + end[j])

and backwards in the same way (beta), so that p(y_t = j | x) = exp(alpha_t[j] + beta_t[j] - log Z). With max in place of
log sum exp the same walk finds the best sequence (Viterbi 1967).

Lafferty, McCallum and Pereira 2001, Conditional random fields: probabilistic models for segmenting and labeling
sequence data.

`kernels/chain.py` is the plain loop. On an NVIDIA GPU each of these is one program for a whole batch where it can be
(`kernels/gpu/crf.py`): up to 128 tags, in float32, bfloat16 or float16. The same input gives the same bits there.

Shapes: B rows, T steps, K tags, n the length of a row. Steps beyond a row's length may hold anything, NaN included.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from thereafter.errors import EmptyCorpusError, OptionError, ShapeError
from thereafter.kernels.chain import Chain, chain_scores, real_steps
from thereafter.kernels.scan import chain_kernel
from thereafter.layers.inputs import Lengths, take_lengths

Floats = NDArray[np.float64]

RARE = 10
ENDING = 10
"""Words seen so often at most lend their endings, of so many characters at most (Brants 2000)."""

_LARGEST = 1 << 27  # transitions as a whole table: 1 GB


class HiddenMarkov:
    """A tagger of order 1 (a tag knows the one before it) or 2 (the two before it).

    >>> tagger = HiddenMarkov().fit([(["the", "dog", "barks"], ["DET", "NOUN", "VERB"])] * 3)
    >>> tagger.tag(["the", "cat", "barks"])
    ['DET', 'NOUN', 'VERB']
    """

    def __init__(self, order: int = 2) -> None:
        if order not in (1, 2):
            raise OptionError(f"order is {order}; expected 1 or 2: how many tags before a tag it depends on")
        self.order = order
        self.tags: list[str] = []
        self.words: dict[str, dict[int, int]] = {}

    def fit(self, sentences: Iterable[tuple[Sequence[str], Sequence[str]]]) -> Self:
        """Count words and their tags, and forget what was counted before; a sentence without words says nothing."""
        self.words = {}
        index: dict[str, int] = {}
        histories: Counter[tuple[int, ...]] = Counter()
        for number, (words, tags) in enumerate(sentences, 1):
            if len(words) != len(tags):
                raise OptionError(
                    f"sentence {number} has {len(words):,} words and {len(tags):,} tags; expected a tag for each word"
                )
            if not words:
                continue
            ids = [index.setdefault(tag, len(index)) for tag in tags]
            for word, tag in zip(words, ids, strict=True):
                seen = self.words.setdefault(word, {})
                seen[tag] = seen.get(tag, 0) + 1
            bordered = [-1] * self.order + ids + [-1]
            histories.update(zip(*(bordered[begin:] for begin in range(self.order + 1)), strict=False))
        if not index:
            raise EmptyCorpusError("there is no word to learn from; expected sentences as (words, tags)")
        self.tags = list(index)
        self._counts = self._table(histories)
        self._estimate()
        return self

    def tag(self, words: Sequence[str]) -> list[str]:
        """The most probable tags of a sentence."""
        return [self.tags[tag] for tag in self._viterbi(self.emissions(words))]

    def emissions(self, words: Sequence[str]) -> Floats:
        """log p(t | w) - log p(t), [T, K]: log p(w | t) but for what all tags share; -inf where never seen."""
        if not self.tags:
            raise OptionError("this tagger has learnt nothing yet; try fit(sentences) first")
        p_TK = np.empty((len(words), len(self.tags)))
        for p_K, word in zip(p_TK, words, strict=True):
            p_K[:] = self.tags_of(word)
        with np.errstate(divide="ignore"):
            return np.log(p_TK) - np.log(self.prior)

    def tags_of(self, word: str) -> Floats:
        """p(t | w) of a word by itself, [K], seen or not."""
        seen = self.words.get(word)
        if seen is None:
            return self._by_ending(word)
        counts_K = np.zeros(len(self.tags))
        for tag, count in seen.items():
            counts_K[tag] += count
        p_K: Floats = counts_K / counts_K.sum()
        return p_K

    def _table(self, histories: Mapping[tuple[int, ...], int]) -> NDArray[np.int64]:
        border = len(self.tags)
        if (border + 1) ** (self.order + 1) > _LARGEST:
            raise OptionError(
                f"{border} tags are too many for a table of order {self.order}; try order=1, or fewer tags"
            )
        counts = np.zeros((border + 1,) * (self.order + 1), dtype=np.int64)
        for place, count in histories.items():
            counts[place] = count  # -1, a border, is the last of each axis
        return counts

    def _estimate(self) -> None:
        seen = np.zeros(len(self.tags))
        for word_tags in self.words.values():
            for tag, count in word_tags.items():
                seen[tag] += count
        self.prior: Floats = seen / seen.sum()
        self.transitions: Floats = _interpolate(self._counts)
        """p(t3 | t1, t2) as [t1, t2, t3], or [t1, t2] for order 1, the border as the last of each axis."""
        self._log_transitions = np.log(self.transitions)
        self._endings, self._p_EK = _endings(self.words, self.prior)

    def _by_ending(self, word: str) -> Floats:
        capital = word[:1].isupper()
        for begin in range(max(0, len(word) - ENDING), len(word) + 1):
            ending = self._endings.get((capital, word[begin:]))
            if ending is not None:
                p_K: Floats = self._p_EK[ending]
                return p_K
        return self.prior

    def _viterbi(self, e_TK: Floats) -> list[int]:
        """The best path through the tags that each word can have."""
        border = np.array([len(self.tags)])
        able = [border] * self.order + [np.flatnonzero(e_K > -np.inf) for e_K in e_TK] + [border]
        best = np.zeros((1,) * self.order)  # of all ways to the last one or two tags
        came_from = []
        for t in range(len(e_TK) + 1):
            # the earliest tag of a history is the one that is chosen here and then forgotten
            ways = best[..., None] + self._log_transitions[np.ix_(*able[t : t + self.order + 1])]
            came_from.append(ways.argmax(0))
            best = ways.max(0)
            if t < len(e_TK):
                best = best + e_TK[t, able[t + self.order]]
        chosen = [int(i) for i in np.unravel_index(best.argmax(), best.shape)][::-1]
        for back in reversed(came_from):
            chosen.append(int(back[tuple(chosen[: -self.order - 1 : -1])]))  # by the tags behind it, the nearest first
        chosen.reverse()
        return [int(able[t][chosen[t]]) for t in range(self.order, len(able) - 1)]


def _interpolate(counts: NDArray[np.int64]) -> Floats:
    """Deleted interpolation of all orders up to that of the counts."""
    levels = [counts]
    while levels[0].ndim > 1:
        levels.insert(0, levels[0].sum(0))
    smooth: list[Floats] = []
    deleted = []
    for level in levels:
        total = level.sum(-1, keepdims=True)
        shorter = smooth[-1] if smooth else 0.0
        smooth.append(np.where(total > 0, level / np.maximum(total, 1), shorter))
        deleted.append(np.broadcast_to(np.where(total > 1, (level - 1) / np.maximum(total - 1, 1), 0.0), counts.shape))
    elected = np.argmax(deleted, axis=0)  # the first of equals: the lowest order
    votes = np.array([1.0 + counts[elected == order].sum() for order in range(len(levels))])
    shares = votes / votes.sum()
    return sum((share * f for share, f in zip(shares, smooth, strict=True)), np.zeros(counts.shape))


def _endings(words: Mapping[str, Mapping[int, int]], prior: Floats) -> tuple[dict[tuple[bool, str], int], Floats]:
    """The endings of rare words, capitalised or not, and p(t | ending) of each, [E, K]."""
    index: dict[tuple[bool, str], int] = {}
    places: list[tuple[int, int, int]] = []
    for word, seen in words.items():
        if sum(seen.values()) > RARE:
            continue
        capital = word[:1].isupper()
        for begin in range(max(0, len(word) - ENDING), len(word) + 1):
            ending = index.setdefault((capital, word[begin:]), len(index))
            places += [(ending, tag, count) for tag, count in seen.items()]
    p_EK = np.zeros((len(index), len(prior)))
    if not index:
        return index, p_EK
    ending_N, tag_N, count_N = np.array(places).T
    np.add.at(p_EK, (ending_N, tag_N), count_N)
    p_EK /= p_EK.sum(1, keepdims=True)
    theta = float(prior.std(ddof=1)) if len(prior) > 1 else 0.0
    shorter = np.array([index[capital, ending[1:]] for capital, ending in index])  # the empty one is its own
    length = np.array([len(ending) for _, ending in index])
    for characters in range(int(length.max()) + 1):
        rows = np.flatnonzero(length == characters)
        before = prior if characters == 0 else p_EK[shorter[rows]]
        p_EK[rows] = (p_EK[rows] + theta * before) / (1 + theta)
    return index, p_EK


class Crf(nn.Module):
    """Scores of tag sequences, their probabilities, and the best of them. All scores of transitions begin at 0.

    >>> crf = Crf(2)
    >>> with torch.no_grad():
    ...     _ = crf.transition_KK.copy_(torch.tensor([[3.0, 0.0], [0.0, 3.0]]))  # tags like to stay
    >>> crf.decode(torch.tensor([[[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]]), [3])
    [[0, 0, 0]]
    """

    def __init__(self, tags: int) -> None:
        super().__init__()
        if tags < 1:
            raise OptionError(f"there are {tags} tags; expected at least 1")
        self.tags = tags
        self.start_K = nn.Parameter(torch.zeros(tags))
        self.end_K = nn.Parameter(torch.zeros(tags))
        self.transition_KK = nn.Parameter(torch.zeros(tags, tags))

    def nll(
        self,
        emissions_BTK: Tensor,
        tags_BT: Tensor,
        lengths: Lengths | None = None,
        counted_B: Tensor | None = None,
    ) -> Tensor:
        """The sum over rows of -log p(tags | emissions). `counted_B`: a weight for each row, numbers or true and false;
        a row of the weight 0 fills a batch: it may be empty, and adds nothing to the sum or to any gradient."""
        chain = self._take(emissions_BTK, lengths, filling=counted_B is not None)
        if counted_B is not None and counted_B.shape != chain.lengths_B.shape:
            raise ShapeError(f"counted_B has the shape {tuple(counted_B.shape)}; expected {len(emissions_BTK)} weights")
        chain = chain._replace(counted_B=counted_B)
        chain = chain._replace(tags_BT=self._take_tags(chain, tags_BT))
        return chain_kernel(chain).values(chain).sum()

    def score(self, emissions_BTK: Tensor, tags_BT: Tensor, lengths: Lengths | None = None) -> Tensor:
        """s(x, y) of each row, [B]: the logarithm of its weight, not yet divided by Z."""
        chain = self._take(emissions_BTK, lengths)
        return chain_scores(chain, self._take_tags(chain, tags_BT))

    def log_partition(self, emissions_BTK: Tensor, lengths: Lengths | None = None) -> Tensor:
        """log Z of each row, [B]."""
        chain = self._take(emissions_BTK, lengths)
        return chain_kernel(chain).values(chain)

    def marginals(self, emissions_BTK: Tensor, lengths: Lengths | None = None) -> Tensor:
        """p(y_t = j | x), [B, T, K]: sums to 1 over the tags of each real step, and is 0 beyond."""
        chain = self._take(emissions_BTK, lengths)
        return chain_kernel(chain).marginals(chain)

    def best(self, emissions_BTK: Tensor, lengths: Lengths | None = None) -> Tensor:
        """The tags of the highest score of each row, [B, T], where the emissions are; 0 beyond a row's end."""
        chain = self._take(emissions_BTK, lengths)
        return chain_kernel(chain).path(chain)

    def decode(self, emissions_BTK: Tensor, lengths: Lengths | None = None) -> list[list[int]]:
        """The tags of the highest score of each row, as long as the row."""
        chain = self._take(emissions_BTK, lengths)
        paths = chain_kernel(chain).path(chain).tolist()
        return [tags[:n] for tags, n in zip(paths, chain.lengths_B.tolist(), strict=True)]

    def _take(self, emissions_BTK: Tensor, lengths: Lengths | None, *, filling: bool = False) -> Chain:
        """The chain, checked. Where a CUDA graph is captured lengths on a GPU are not looked at."""
        if emissions_BTK.dim() != 3 or emissions_BTK.shape[2] != self.tags:
            raise ShapeError(
                f"emissions have the shape {tuple(emissions_BTK.shape)}; expected [rows, steps, {self.tags}], a score "
                f"for each of {self.tags} tags; try unsqueeze(0) for a single row"
            )
        if not emissions_BTK.is_floating_point():
            raise ShapeError(f"emissions have the type {emissions_BTK.dtype}; expected scores; try emissions.float()")
        batch, steps, _ = emissions_BTK.shape
        device = emissions_BTK.device
        if lengths is None:
            empty_row = 0 if batch and not steps else None
            lengths_B = torch.full((batch,), steps, device=device)
        else:
            lengths_B = take_lengths(lengths, batch, steps)
            looked_at = batch and not filling and lengths_B.device.type == "cpu"
            empty_row = int(lengths_B.argmin()) if looked_at and int(lengths_B.min()) == 0 else None
            # those that are on the GPU already need no way back
            lengths_B = (lengths.detach() if isinstance(lengths, Tensor) else lengths_B).to(device, torch.int64)
        if empty_row is not None:
            raise ShapeError(
                f"row {empty_row} has the length 0; expected at least 1 step, since an empty row has no "
                "tags; try leaving such rows out"
            )
        return Chain(emissions_BTK, self.start_K, self.transition_KK, self.end_K, lengths_B)

    def _take_tags(self, chain: Chain, tags_BT: Tensor) -> Tensor:
        """Tags, checked. A GPU is not asked: it would have to stop and answer. The loss of a tag that is none is NaN
        there, or torch complains."""
        shape = chain.emissions_BTK.shape[:2]
        if tags_BT.shape != shape or tags_BT.is_floating_point() or tags_BT.dtype == torch.bool:
            raise ShapeError(
                f"tags are {tags_BT.dtype} of the shape {tuple(tags_BT.shape)}; expected integers of the shape "
                f"{tuple(shape)}, one for each step of the emissions"
            )
        if tags_BT.device.type == "cpu" and tags_BT.numel():
            real_BT = tags_BT.masked_fill(~real_steps(chain), 0)
            if not 0 <= int(real_BT.min()) <= int(real_BT.max()) < self.tags:
                raise ShapeError(
                    f"tags run from {int(real_BT.min())} to {int(real_BT.max())}; expected 0 to {self.tags - 1}; "
                    "try lengths= that end before the padding"
                )
        return tags_BT

    def extra_repr(self) -> str:
        return str(self.tags)

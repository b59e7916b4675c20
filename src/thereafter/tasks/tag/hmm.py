"""A hidden Markov tagger, the row beside which every other tagger is printed: counts, and Viterbi over them.

    best tags = argmax over t_1..t_n of  prod_i p(t_i | t_{i-2}, t_{i-1}) p(w_i | t_i)  x  p(end | t_{n-1}, t_n)

Transitions, smoothing="interpolated" (deleted interpolation, Brants 2000):

    p(t3 | t1, t2) = l1 f(t3) + l2 f(t3 | t2) + l3 f(t3 | t1, t2),      f relative frequencies

Each trigram of the training text votes with its count for the order that predicts it best once it is itself taken out:
the largest of (c(t3) - 1) / (N - 1), (c(t2 t3) - 1) / (c(t2) - 1) and (c(t1 t2 t3) - 1) / (c(t1 t2) - 1); a tie goes to
the lower order. Beyond Brants, every l begins with one vote, and a context never seen has the frequencies of the next
shorter one: so no transition is impossible, and all of them sum to 1. With smoothing="add" they are
(c(t1 t2 t3) + k) / (c(t1 t2) + k (K + 1)).

Words: p(w | t) = p(t | w) p(w) / p(t), and p(w) is the same for all tags. A word of the training text has the tags it
had there. Another has those of its ending, from words seen at most 10 times, capitalised ones apart (Brants 2000):

    p(t | l_m..l_1) = (f(t | l_m..l_1) + theta p(t | l_{m-1}..l_1)) / (1 + theta),      theta the deviation of all f(t)

Brants 2000, TnT: a statistical part-of-speech tagger (whose capitals in the transitions are left out).

Shapes: T words, K tags, E endings; K as an index is the border of a sentence, before its first word and after its last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from thereafter.base.config import Table
from thereafter.errors import EmptyCorpusError, FormatError, OptionError

Floats = NDArray[np.float64]

RARE = 10
ENDING = 10
"""Words seen so often at most lend their endings, of so many characters at most (Brants 2000)."""

_FORMAT = "thereafter-hmm"
_LARGEST = 1 << 27  # transitions as a whole table: 1 GB


class HiddenMarkov:
    """A tagger of order 1 (a tag knows the one before it) or 2 (the two before it).

    >>> tagger = HiddenMarkov().fit([(["the", "dog", "barks"], ["DET", "NOUN", "VERB"])] * 3)
    >>> tagger.tag(["the", "cat", "barks"])
    ['DET', 'NOUN', 'VERB']
    """

    def __init__(self, order: int = 2, smoothing: str = "interpolated", *, k: float = 0.1) -> None:
        if order not in (1, 2):
            raise OptionError(f"order is {order}; expected 1 or 2: how many tags before a tag it depends on")
        if smoothing not in ("interpolated", "add"):
            raise OptionError(f"smoothing is {smoothing!r}; expected 'interpolated' or 'add'")
        if not k > 0:
            raise OptionError(f"k is {k}; expected more than 0, or what was never seen would be impossible; try 0.1")
        self.order, self.smoothing, self.k = order, smoothing, k
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
        self._check_fitted()
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

    def state(self) -> Table:
        """Plain JSON values: options and counts, from which all else follows."""
        self._check_fitted()
        places = np.argwhere(self._counts)
        return {
            "format": _FORMAT,
            "order": self.order,
            "smoothing": self.smoothing,
            "k": self.k,
            "tags": self.tags,
            "transitions": [[*place, int(self._counts[tuple(place)])] for place in places.tolist()],
            "words": {word: [[tag, count] for tag, count in seen.items()] for word, seen in self.words.items()},
        }

    @classmethod
    def from_state(cls, stored: Table) -> Self:
        """The tagger whose `state` this is."""
        if stored.get("format") != _FORMAT:
            raise FormatError(f"the format is {stored.get('format')!r}; expected {_FORMAT!r}: a hidden Markov tagger")
        try:
            made = cls(stored["order"], stored["smoothing"], k=stored["k"])
            made.tags = [str(tag) for tag in stored["tags"]]
            made.words = {word: {int(tag): int(c) for tag, c in seen} for word, seen in stored["words"].items()}
            histories = {tuple(map(int, place)): int(c) for *place, c in stored["transitions"]}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FormatError(f"a hidden Markov tagger is damaged: {error!r}; try to train it again") from None
        known, border = set(range(len(made.tags))), len(made.tags)
        fits = all(len(place) == made.order + 1 and known.issuperset({*place} - {border}) for place in histories)
        if not fits or not made.words or not all(seen and known.issuperset(seen) for seen in made.words.values()):
            raise FormatError(
                f"a hidden Markov tagger is damaged: it speaks of tags beyond its {border}; train it again"
            )
        if min(histories.values(), default=0) < 1 or min(min(seen.values()) for seen in made.words.values()) < 1:
            raise FormatError("a hidden Markov tagger is damaged: expected counts of at least 1; try to train it again")
        made._counts = made._table(histories)
        made._estimate()
        return made

    def _check_fitted(self) -> None:
        if not self.tags:
            raise OptionError("this tagger has learnt nothing yet; try fit(sentences) first")

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
        made = _interpolate(self._counts) if self.smoothing == "interpolated" else _add(self._counts, self.k)
        self.transitions: Floats = made
        """p(t3 | t1, t2) as [t1, t2, t3], or [t1, t2] for order 1, the border as the last of each axis."""
        self._log_transitions = np.log(made)
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


def _add(counts: NDArray[np.int64], k: float) -> Floats:
    p: Floats = (counts + k) / (counts.sum(-1, keepdims=True) + k * counts.shape[-1])
    return p


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

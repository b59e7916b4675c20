"""n-grams once more, in plain dictionaries, written from the papers' formulas: the truth the library is held against.

Nothing here is fast and nothing is shared with the library. An n-gram is a tuple of word ids, `<s>` being the id V.
Longer n-grams that were seen no oftener than the cut-off of their order are not in the model; what they held goes to
the order below.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import cache

Gram = tuple[int, ...]


def sentences(ids: Sequence[int], start: int, line_end: int | None) -> list[list[int]]:
    """The stretches n-grams may not cross: lines where `line_end` is given, else the whole; each begins with `<s>`."""
    if line_end is None:
        return [[start, *ids]]
    made: list[list[int]] = []
    fresh = True
    for token in ids:
        if fresh:
            made.append([start])
        made[-1].append(token)
        fresh = token == line_end
    return made


def count_grams(ids: Sequence[int], start: int, order: int, line_end: int | None) -> list[Counter[Gram]]:
    """Counters of orders 1, 2, ...; the bare `<s>` is fed and not counted."""
    counters: list[Counter[Gram]] = [Counter() for _ in range(order)]
    for sentence in sentences(ids, start, line_end):
        for n, counter in enumerate(counters, start=1):
            counter.update(tuple(sentence[i : i + n]) for i in range(len(sentence) - n + 1))
    del counters[0][(start,)]
    return counters


class Brute:
    """A smoothed model over counted n-grams; `p(w, h)` is the probability of w after the words h."""

    def __init__(
        self,
        ids: Sequence[int],
        vocabulary_size: int,
        order: int,
        smoothing: str,
        line_end: int | None = None,
        cutoffs: Sequence[int] = (),
        alpha: float = 0.1,
        factor: float = 0.4,
        normalise: bool = True,
    ) -> None:
        self.v, self.order, self.smoothing = vocabulary_size, order, smoothing
        self.alpha, self.factor, self.normalise = alpha, factor, normalise
        self.counts = count_grams(ids, vocabulary_size, order, line_end)
        full = list(cutoffs) or [0]
        self.cutoffs = (full + [full[-1]] * order)[:order]
        self.after: dict[Gram, dict[int, int]] = defaultdict(dict)  # h -> {w: c(hw)}
        for counter in self.counts:
            for gram, times in counter.items():
                self.after[gram[:-1]][gram[-1]] = times
        self.left: dict[Gram, set[int]] = defaultdict(set)  # g -> {v: c(vg) > 0}
        for counter in self.counts[1:]:
            for gram in counter:
                self.left[gram[1:]].add(gram[0])
        self.p = cache(self._p)
        self.score = cache(self._score)
        self.sum_of_scores = cache(lambda h: sum(self.score(w, h) for w in range(self.v)))
        self.room = cache(self._room)
        self.discounts: dict[int, tuple[float, ...]] = {}
        if smoothing in ("absolute", "kneser-ney", "modified-kneser-ney"):
            three = smoothing == "modified-kneser-ney"
            for n in range(1, order + 1):
                values = Counter(self.value(gram) for gram in self.counts[n - 1])
                self.discounts[n] = three_discounts(values) if three else one_discount(values)
        self.ratios = {n: turing_ratios(Counter(self.counts[n - 1].values())) for n in range(1, order + 1)}

    def stays(self, gram: Gram) -> bool:
        """Whether an n-gram is in the model: all words are, longer ones when seen oftener than the cut-off."""
        return len(gram) <= 1 or self.counts[len(gram) - 1][gram] > self.cutoffs[len(gram) - 1]

    def known(self, words: Sequence[int]) -> Gram:
        """The longest end of `words`, at most order - 1 long, that is in the model."""
        words = tuple(words)
        for length in range(min(len(words), self.order - 1), 0, -1):
            if self.stays(words[-length:]):
                return words[-length:]
        return ()

    def match(self, word: int, words: Sequence[int]) -> int:
        """The length of the longest n-gram of the model that ends `words` + `word`."""
        words = tuple(words)
        for length in range(min(len(words), self.order - 1), 0, -1):
            if self.stays((*words[-length:], word)):
                return length + 1
        return 1

    def distribution(self, words: Sequence[int]) -> list[float]:
        return [self.p(word, self.known(words)) for word in range(self.v)]

    def value(self, gram: Gram) -> int:
        """c, or for Kneser-Ney below the highest order N1+(. gram); what begins with `<s>` has nothing before it."""
        times = self.counts[len(gram) - 1][gram]
        if self.smoothing == "absolute" or len(gram) == self.order or gram[0] == self.v:
            return times
        return len(self.left[gram])

    def _p(self, word: int, h: Gram) -> float:
        rules = {
            "mle": self._mle,
            "add-alpha": self._add_alpha,
            "stupid-backoff": self._stupid,
            "katz": self._katz,
            "witten-bell": self._witten_bell,
        }
        if h and not (self.stays(h) and self.after[h]) and self.smoothing != "stupid-backoff":
            return self.p(word, h[1:])  # nothing is known after h
        return rules.get(self.smoothing, self._discounted)(word, h)

    def _below(self, word: int, h: Gram) -> float:
        return self.p(word, h[1:]) if h else 1 / self.v

    def _mle(self, word: int, h: Gram) -> float:
        seen = {w: c for w, c in self.after[h].items() if self.stays((*h, w))}
        if h and not seen:
            return self.p(word, h[1:])
        return seen.get(word, 0) / sum(seen.values())

    def _add_alpha(self, word: int, h: Gram) -> float:
        """Lidstone: (c + alpha) / (sum c + alpha V)."""
        seen = {w: c for w, c in self.after[h].items() if self.stays((*h, w))}
        if h and not seen:
            return self.p(word, h[1:])
        return (seen.get(word, 0) + self.alpha) / (sum(seen.values()) + self.alpha * self.v)

    def _score(self, word: int, h: Gram) -> float:
        """Brants and others 2007, equation 5, ending in the uniform distribution."""
        if word in self.after[h] and self.stays((*h, word)):
            return self.after[h][word] / sum(self.after[h].values())
        return self.factor * (self.score(word, h[1:]) if h else 1 / self.v)

    def _stupid(self, word: int, h: Gram) -> float:
        if not self.normalise:
            return self.score(word, h)
        return self.score(word, h) / self.sum_of_scores(h)

    def _witten_bell(self, word: int, h: Gram) -> float:
        """(c(hw) + T(h) p(w | h')) / (c(h) + T(h)), with the counts that were cut off added to T in the numerator."""
        after = self.after[h]
        cut = sum(c for w, c in after.items() if not self.stays((*h, w)))
        own = after.get(word, 0) if self.stays((*h, word)) else 0
        return (own + (len(after) + cut) * self._below(word, h)) / (sum(after.values()) + len(after))

    def _discounted(self, word: int, h: Gram) -> float:
        """Chen and Goodman 1998: (a - D(a)) / sum a, and what was taken from all of them, spread as one order lower."""
        steps = self.discounts[len(h) + 1]
        total = taken = own = 0.0
        for w in self.after[h]:
            a = self.value((*h, w))
            d = steps[min(a, len(steps)) - 1] if self.stays((*h, w)) else a
            total += a
            taken += d
            if w == word:
                own = a - d
        return own / total + taken / total * self._below(word, h)

    def _katz(self, word: int, h: Gram) -> float:
        """Katz 1987: discounted if seen, else alpha(h) p(w | h'); the three corners as the library's docstring says."""
        after = self.after[h]
        seen = {w: c for w, c in after.items() if self.stays((*h, w))}
        if not seen:
            return self._below(word, h)
        ratio = self.ratios[len(h) + 1]
        total = sum(after.values())
        lowered = {w: c * ratio(c) for w, c in seen.items()}
        if sum(lowered.values()) >= total * (1 - 1e-12):
            total += 1
        unseen = self.room(h)
        if len(seen) == self.v or unseen <= 1e-12:
            return lowered.get(word, 0.0) / sum(lowered.values())
        if word in seen:
            return lowered[word] / total
        return (1 - sum(lowered.values()) / total) / unseen * self._below(word, h)

    def _room(self, h: Gram) -> float:
        """What the order below gives to all the words that were not seen after h."""
        return sum(self._below(w, h) for w in range(self.v) if not (w in self.after[h] and self.stays((*h, w))))


def one_discount(values: Counter[int]) -> tuple[float, ...]:
    """Ney, Essen and Kneser: n1 / (n1 + 2 n2); one half where that cannot be said."""
    if not values[1] or not values[2]:
        return (0.5,)
    return (values[1] / (values[1] + 2 * values[2]),)


def three_discounts(values: Counter[int]) -> tuple[float, ...]:
    """Chen and Goodman, equation 26; 0.5, 1, 1.5 where it cannot be said or leaves its range."""
    n1, n2, n3, n4 = (values[k] for k in (1, 2, 3, 4))
    if not (n1 and n2 and n3 and n4):
        return (0.5, 1.0, 1.5)
    y = n1 / (n1 + 2 * n2)
    found = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
    inside = 0 <= found[0] <= 1 and 0 <= found[1] <= 2 and 0 <= found[2] <= 3 and any(found)
    return found if inside else (0.5, 1.0, 1.5)


def turing_ratios(n: Counter[int]) -> Callable[[int], float]:
    """d(r) of Katz with k = 5; (r - 0.5) / r for all r where one of them is not between 0 and 1."""
    ratios: dict[int, float] = {}
    if all(n[r] for r in range(1, 6)) and 6 * n[6] < n[1]:
        common = 6 * n[6] / n[1]
        ratios = {r: ((r + 1) * n[r + 1] / n[r] / r - common) / (1 - common) for r in range(1, 6)}
    if ratios and all(0 < d < 1 for d in ratios.values()):
        return lambda r: ratios.get(r, 1.0)
    return lambda r: (r - 0.5) / r

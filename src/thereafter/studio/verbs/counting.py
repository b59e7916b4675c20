"""Counting: the bigram table of a text as it is read, in counts and in probabilities, and a sentence drawn from it.

Counts, smoothings and draws are the library's own: every line is `<s> w ... </s>`, and the model at a position is the
one estimated from the tokens up to there. At the end of a sentence it is what
`train(text=..., tokens="word", order=2, smoothing=..., min_count=1)` gives for the sentences so far.

Shapes: T tokens read, V words that can be predicted, C = V + 1 contexts.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thereafter.decoding.generation import GenerationSettings, Prompted, generate
from thereafter.errors import EmptyCorpusError
from thereafter.models.base import Ids
from thereafter.ngram.counts import Level, count
from thereafter.ngram.estimate import estimate
from thereafter.ngram.model import NgramModel
from thereafter.text.sources import Source
from thereafter.text.tokenizers.word import WordTokenizer
from thereafter.text.vocabulary import START

FOUR = "the cat sat on the mat\nthe cat ate the fish\nthe dog sat on the mat\nthe dog ate the bone\n"
"""The corpus of four sentences that the books count."""
SENTENCES = 100
"""How many of the ready sentences are counted."""
MOST_WORDS = 18
"""Rows and columns of the table: the most frequent words, and those that follow them most."""
LONGEST = 30
"""Tokens of a drawn sentence."""
_AROUND = 60  # tokens of the text that are shown on either side of the position


def first_lines(path: Path, most: int = SENTENCES) -> str:
    """The beginning of a text file."""
    with open(path, encoding="utf-8") as lines:
        return "".join(islice(lines, most))


def counted(text: str, at: int, smoothing: str, *, alpha: float = 1.0, seed: int | None = None) -> dict[str, Any]:
    """The table after the first `at` tokens of a text, a sentence end being one; beyond the text means all of it.

    `smoothing`: mle, add-alpha (by `alpha`) or kneser-ney. With a `seed` a sentence is drawn from the table. Lines
    without a word are left out: they are no sentences.
    """
    tokenizer, ids = _tokenized(text)
    at = min(at, len(ids))
    forms = tokenizer.vocabulary.forms
    first = max(0, at - _AROUND) if len(ids) > 2 * _AROUND else 0
    ends = (np.flatnonzero(ids == tokenizer.line_end_id) + 1).tolist()
    read = bisect_right(ends, at)
    found: dict[str, Any] = {
        "at": at,
        "length": len(ids),
        "sentences": len(ends),
        "sentences_read": read,
        "next_end": ends[min(read, len(ends) - 1)],
        "first": first,
        "around": [forms[token] for token in ids[first : first + 2 * _AROUND].tolist()],
    }
    if not at:
        return found | _nothing(seed)
    table = _Table.of(tokenizer.decode(ids[:at]), at, smoothing, alpha)
    return found | table.facts() | {"drawn": None if seed is None else table.draw(seed)}


def _tokenized(text: str) -> tuple[WordTokenizer, Ids]:
    lines = [line for line in Source.of_text(text).text().split("\n") if line.split()]
    if not lines:
        raise EmptyCorpusError("the text holds no words; expected at least one; try a line such as 'the cat sat'")
    whole = "\n".join(lines)
    return WordTokenizer.fit_encode(lambda: [whole], min_count=1)


def _nothing(seed: int | None) -> dict[str, Any]:
    """The table before the first word."""
    empty = {"steps": [], "ended": "dead end", "after": START, "p": 1.0}
    return {
        "pair": None,
        "columns": [],
        "rows": [],
        "words": 0,
        "pairs_shown": 0,
        "vocabulary": 0,
        "discount": None,
        "drawn": None if seed is None else empty,
    }


@dataclass(frozen=True)
class _Table:
    """The tokens read, and the library's counts and model of them. `sums_C`: how often each context 0 .. V was followed
    by something, the last of them being `<s>`."""

    tokenizer: WordTokenizer
    ids_T: Ids
    pairs: Level
    sums_C: NDArray[np.int64]
    model: NgramModel

    @classmethod
    def of(cls, text: str, tokens: int, smoothing: str, alpha: float) -> _Table:
        """`text` is what was read. The tokenizer closes its last line; an end that was not read is not counted."""
        tokenizer, ids = WordTokenizer.fit_encode(lambda: [text], min_count=1)
        ids_T, size = ids[:tokens], len(tokenizer.vocabulary)
        lines: dict[str, Any] = {"context": "line", "line_end": tokenizer.line_end_id}
        options: dict[str, Any] = {"alpha": alpha} if smoothing == "add-alpha" else {}
        pairs = count(ids_T, size, 2, **lines).levels[1]
        sums_C = np.bincount(pairs.context, weights=pairs.count, minlength=size + 1).astype(np.int64)
        model = estimate(ids_T, size, order=2, smoothing=smoothing, **lines, **options)
        return cls(tokenizer, ids_T, pairs, sums_C, model)

    @property
    def _start(self) -> int:
        return self.tokenizer.start_id

    def facts(self) -> dict[str, Any]:
        """Rows, columns and what is left out of them."""
        met, (before, word) = self._met(), self._last_ids()
        rows = [self._start, *_kept(met, np.bincount(self.ids_T, minlength=self._start), before)]
        columns = [*_kept(met, self._followed(rows), word), self.tokenizer.line_end_id]
        filled = [self._row(row, columns) for row in rows]
        discount = self.model.discounts.get(2)
        return {
            "pair": self._last_pair(),
            "columns": [self._form(column) for column in columns],
            "rows": filled,
            "words": len(met),
            "pairs_shown": sum(sum(row["counts"]) for row in filled),
            "vocabulary": len(self.tokenizer.vocabulary),
            "discount": None if discount is None else discount[0],
        }

    def _row(self, row: int, columns: list[int]) -> dict[str, Any]:
        """`other` is what belongs to words without a column; a row that nothing was counted in may have no `p`."""
        counts_V, p_V = self._followed([row]), self._probabilities(row)
        hidden_V = np.ones(len(counts_V), dtype=bool)
        hidden_V[columns] = False
        return {
            "word": self._form(row),
            "counts": counts_V[columns].tolist(),
            "other_count": int(counts_V[hidden_V].sum()),
            "sum": int(self.sums_C[row]),
            "p": None if p_V is None else p_V[columns].tolist(),
            "other_p": None if p_V is None else float(p_V[hidden_V].sum()),
        }

    def _probabilities(self, row: int) -> NDArray[np.float32] | None:
        """p of each word after a context, [V]; without smoothing none where nothing was counted."""
        if self._is_dead(row):
            return None
        start = self.model.start(1)
        logp_1V = self.model.predict(start) if row == self._start else self.model.step(np.array([row]), start)[0]
        return _plain(logp_1V[0])

    def _is_dead(self, row: int) -> bool:
        """Whether nothing can follow: the library's mle would go on from the plain word counts, which are no part of
        the table."""
        return self.model.smoothing == "mle" and not self.sums_C[row]

    def _met(self) -> list[int]:
        """The words read so far in the order they were first met."""
        words, places = np.unique(self.ids_T[self.ids_T != self.tokenizer.line_end_id], return_index=True)
        ordered: list[int] = words[np.argsort(places)].tolist()
        return ordered

    def _followed(self, rows: list[int]) -> NDArray[np.int64]:
        """How often each word followed one of these contexts, [V]."""
        own = np.isin(self.pairs.context, rows)
        weights = self.pairs.count[own]
        return np.bincount(self.pairs.word[own], weights=weights, minlength=self._start).astype(np.int64)

    def _last_ids(self) -> tuple[int, int]:
        """The pair that was counted last."""
        before, last = [self._start, *self.ids_T.tolist()][-2:]
        return (self._start if before == self.tokenizer.line_end_id else before), last

    def _last_pair(self) -> dict[str, Any]:
        before, word = self._last_ids()
        return {"before": self._form(before), "word": self._form(word), "count": int(self._followed([before])[word])}

    def draw(self, seed: int) -> dict[str, Any]:
        """A sentence, each word with its probability in its row; `ended` says how: "sentence", "dead end", "length"."""
        unknown = self.tokenizer.unknown_id
        forbidden = [] if unknown is None else [unknown]
        begin = Prompted(self.model, self.tokenizer, "", self.ids_T[:0], self.model.start(1), forbidden)
        settings = GenerationSettings(max_new_tokens=LONGEST, stop_strings="\n", seed=seed)
        drawn = generate(begin, settings)[0]
        steps: list[dict[str, Any]] = []
        before = self._start
        for token, p in zip(drawn.tokens, _plain(np.array(drawn.log_probs)).tolist(), strict=True):
            if self._is_dead(before):
                break
            steps.append({"before": self._form(before), "word": self._form(token), "p": p})
            before = token
        whole = before == self.tokenizer.line_end_id
        ended = "sentence" if whole else "length" if len(steps) == LONGEST else "dead end"
        product = math.prod(step["p"] for step in steps)
        return {"steps": steps, "ended": ended, "after": self._form(before), "p": product}

    def _form(self, token: int) -> str:
        """`<s>`, `</s>` and `<unk>` by their names."""
        return START if token == self._start else self.tokenizer.vocabulary.forms[token]


def _kept(words: list[int], often_V: NDArray[np.int64], always: int) -> list[int]:
    """The most frequent of some words, in their own order; one of them is always among them."""
    ranked = sorted(words, key=lambda word: (word != always, -int(often_V[word])))
    kept = set(ranked[:MOST_WORDS])
    return [word for word in words if word in kept]


def _plain(logp: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """Probabilities rounded as `lm.next` rounds them: 0.25 is 0.25."""
    return np.exp(logp.astype(np.float64)).astype(np.float32)

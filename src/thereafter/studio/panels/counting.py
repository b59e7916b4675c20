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
from functools import partial
from itertools import islice
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from thereafter.base.config import Table
from thereafter.decoding.generation import GenerationSettings, Prompted, generate
from thereafter.errors import EmptyCorpusError
from thereafter.models.base import Ids
from thereafter.ngram import counts
from thereafter.ngram.counts import Level
from thereafter.ngram.model import NgramModel, estimate
from thereafter.ready import models as ready
from thereafter.serving.schema import Answer, Asked
from thereafter.serving.shelf import READY
from thereafter.studio.asking import TheStudio, of_studio
from thereafter.text.sources import Source
from thereafter.text.tokenizers.base import START
from thereafter.text.tokenizers.word import WordTokenizer

FOUR = "the cat sat on the mat\nthe cat ate the fish\nthe dog sat on the mat\nthe dog ate the bone\n"
"""The corpus of four sentences that the books count."""
SENTENCES = 100
"""How many of the ready sentences are counted."""
MOST_WORDS = 18
"""Rows and columns of the table: the most frequent words, and those that follow them most."""
LONGEST = 30
"""Tokens of a drawn sentence."""
_AROUND = 60  # tokens of the text that are shown on either side of the position
COUNTED_LIMIT = 4_000
"""Characters of a pasted text: as many as an address of the page holds, so that a link shows the same again."""


class PairAnswer(Answer):
    """The pair that was counted last, and how often it was seen by now."""

    before: str
    word: str
    count: int


class CountRowAnswer(Answer):
    """What followed a word: `counts` and `p` by column, `other_...` in words without a column, `sum` of all counts.
    Without smoothing a row that nothing was counted in has no probabilities."""

    word: str
    counts: list[int]
    other_count: int
    sum: int
    p: list[float] | None
    other_p: float | None


class DrawAnswer(Answer):
    before: str
    word: str
    p: float


class DrawnAnswer(Answer):
    """A drawn sentence: `p` is the product of its steps; a dead end is a word (`after`) that nothing can follow."""

    steps: list[DrawAnswer]
    ended: Literal["sentence", "dead end", "length"]
    after: str
    p: float


class CountAnswer(Answer):
    """`around` are the tokens of the text from number `first` on; `next_end` is the end of the sentence being read.
    `words` were met so far; `pairs_shown` of the `at` pairs stand in the table. `vocabulary` is how many words the
    smoothing takes there to be; `discount` is Kneser-Ney's."""

    at: int
    length: int
    sentences: int
    sentences_read: int
    next_end: int
    first: int
    around: list[str]
    pair: PairAnswer | None
    columns: list[str]
    rows: list[CountRowAnswer]
    words: int
    pairs_shown: int
    vocabulary: int
    discount: float | None
    drawn: DrawnAnswer | None


class CountAsked(Asked):
    """`corpus`: the four sentences of the books, some of the ready sentences, or the `text` given. `at`: tokens read,
    a sentence end being one; more than there are means all. `alpha` is that of add-alpha. With a `seed` a sentence is
    drawn."""

    corpus: Literal["four", "sentences", "text"] = "four"
    text: Annotated[str, Field(max_length=COUNTED_LIMIT, examples=["the cat sat\nthe dog ate"])] = ""
    at: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    smoothing: Literal["mle", "add-alpha", "kneser-ney"] = "mle"
    alpha: Annotated[float, Field(ge=0.001, le=100)] = 1.0
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None


def count_pairs(text: str, at: int, smoothing: str, *, alpha: float = 1.0, seed: int | None = None) -> CountAnswer:
    """The table after the first `at` tokens of a text, a sentence end being one; beyond the text means all of it.

    `smoothing`: mle, add-alpha (by `alpha`) or kneser-ney. With a `seed` a sentence is drawn from the table. Lines
    without a word are left out: they are no sentences.
    """
    lines = [line for line in Source.of_text(text).text().split("\n") if line.split()]
    if not lines:
        raise EmptyCorpusError("the text holds no words; expected at least one; try a line such as 'the cat sat'")
    tokenizer, ids = WordTokenizer.fit_encode(lambda: ["\n".join(lines)], min_count=1)
    at = min(at, len(ids))
    forms = tokenizer.vocabulary.forms
    first = max(0, at - _AROUND) if len(ids) > 2 * _AROUND else 0
    ends = (np.flatnonzero(ids == tokenizer.line_end_id) + 1).tolist()
    read = bisect_right(ends, at)
    table = _PairTable.of(tokenizer.decode(ids[:at]), at, smoothing, alpha) if at else None
    shown: Table = {"pair": None, "columns": [], "rows": [], "words": 0} if table is None else table.shown()
    drawn = None
    if seed is not None:
        drawn = DrawnAnswer(steps=[], ended="dead end", after=START, p=1.0) if table is None else table.draw(seed)
    return CountAnswer(
        at=at,
        length=len(ids),
        sentences=len(ends),
        sentences_read=read,
        next_end=ends[min(read, len(ends) - 1)],
        first=first,
        around=[forms[token] for token in ids[first : first + 2 * _AROUND].tolist()],
        **shown,
        pairs_shown=sum(sum(row.counts) for row in shown["rows"]),
        vocabulary=0 if table is None else len(table.tokenizer.vocabulary),
        discount=None if table is None else table.discount,
        drawn=drawn,
    )


@dataclass(frozen=True)
class _PairTable:
    """The tokens read, and the library's counts and model of them. `sums_C`: how often each context 0 .. V was followed
    by something, the last of them being `<s>`."""

    tokenizer: WordTokenizer
    ids_T: Ids
    pairs: Level
    sums_C: NDArray[np.int64]
    model: NgramModel

    @classmethod
    def of(cls, text: str, tokens: int, smoothing: str, alpha: float) -> _PairTable:
        """`text` is what was read. The tokenizer closes its last line; an end that was not read is not counted."""
        tokenizer, ids = WordTokenizer.fit_encode(lambda: [text], min_count=1)
        ids_T, size = ids[:tokens], len(tokenizer.vocabulary)
        end = tokenizer.line_end_id
        pairs = counts.count(ids_T, size, 2, context="line", line_end=end).levels[1]
        sums_C = np.bincount(pairs.context, weights=pairs.count, minlength=size + 1).astype(np.int64)
        bigrams = partial(estimate, ids_T, size, order=2, smoothing=smoothing, context="line", line_end=end)
        model = bigrams(alpha=alpha) if smoothing == "add-alpha" else bigrams()
        return cls(tokenizer, ids_T, pairs, sums_C, model)

    @property
    def discount(self) -> float | None:
        """What Kneser-Ney takes from every count of a pair."""
        discounts = self.model.discounts.get(2)
        return None if discounts is None else discounts[0]

    def shown(self) -> Table:
        """The rows and columns there is room for, the last pair, and how many words were met: fields of the answer."""
        words, places = np.unique(self.ids_T[self.ids_T != self.tokenizer.line_end_id], return_index=True)
        met: list[int] = words[np.argsort(places)].tolist()  # the words read so far, in the order they were first met
        before, word = [self.tokenizer.start_id, *self.ids_T.tolist()][-2:]  # the pair that was counted last
        before = self.tokenizer.start_id if before == self.tokenizer.line_end_id else before
        rows = [
            self.tokenizer.start_id,
            *_most_frequent(met, np.bincount(self.ids_T, minlength=self.tokenizer.start_id), before),
        ]
        columns = [*_most_frequent(met, self._followers(rows), word), self.tokenizer.line_end_id]
        names = [self._form(column) for column in columns]
        times = int(self._followers([before])[word])
        pair = PairAnswer(before=self._form(before), word=self._form(word), count=times)
        table = [self._row(row, columns) for row in rows]
        return {"pair": pair, "columns": names, "rows": table, "words": len(met)}

    def _row(self, row: int, columns: list[int]) -> CountRowAnswer:
        counts_V, p_V = self._followers([row]), self._probabilities(row)
        hidden_V = np.ones(len(counts_V), dtype=bool)
        hidden_V[columns] = False
        return CountRowAnswer(
            word=self._form(row),
            counts=counts_V[columns].tolist(),
            other_count=int(counts_V[hidden_V].sum()),
            sum=int(self.sums_C[row]),
            p=None if p_V is None else p_V[columns].tolist(),
            other_p=None if p_V is None else float(p_V[hidden_V].sum()),
        )

    def _probabilities(self, row: int) -> NDArray[np.float32] | None:
        """p of each word after a context, [V]; without smoothing none where nothing was counted."""
        if self._is_dead(row):
            return None
        start = self.model.start(1)
        logp_1V = (
            self.model.predict(start) if row == self.tokenizer.start_id else self.model.step(np.array([row]), start)[0]
        )
        return _probabilities(logp_1V[0])

    def _is_dead(self, row: int) -> bool:
        """Whether nothing can follow: the library's mle would go on from the plain word counts, which are no part of
        the table."""
        return self.model.smoothing == "mle" and not self.sums_C[row]

    def _followers(self, rows: list[int]) -> NDArray[np.int64]:
        """How often each word followed one of these contexts, [V]."""
        own = np.isin(self.pairs.context, rows)
        weights = self.pairs.count[own]
        return np.bincount(self.pairs.word[own], weights=weights, minlength=self.tokenizer.start_id).astype(np.int64)

    def draw(self, seed: int) -> DrawnAnswer:
        """A sentence, each word with its probability in its row, and how the drawing ended."""
        unknown = self.tokenizer.unknown_id
        forbidden = [] if unknown is None else [unknown]
        begin = Prompted(self.model, self.tokenizer, "", self.ids_T[:0], self.model.start(1), forbidden)
        settings = GenerationSettings(max_new_tokens=LONGEST, stop_strings="\n", seed=seed)
        sentence = generate(begin, settings)[0]
        steps: list[DrawAnswer] = []
        before = self.tokenizer.start_id
        for token, p in zip(sentence.tokens, _probabilities(np.array(sentence.log_probs)).tolist(), strict=True):
            if self._is_dead(before):
                break
            steps.append(DrawAnswer(before=self._form(before), word=self._form(token), p=p))
            before = token
        ended: Literal["sentence", "dead end", "length"] = "length" if len(steps) == LONGEST else "dead end"
        if before == self.tokenizer.line_end_id:
            ended = "sentence"
        return DrawnAnswer(steps=steps, ended=ended, after=self._form(before), p=math.prod(step.p for step in steps))

    def _form(self, token: int) -> str:
        """`<s>`, `</s>` and `<unk>` by their names."""
        return START if token == self.tokenizer.start_id else self.tokenizer.vocabulary.forms[token]


def _most_frequent(words: list[int], often_V: NDArray[np.int64], always: int) -> list[int]:
    """The most frequent of some words, in their own order; one of them is always among them."""
    ranked = sorted(words, key=lambda word: (word != always, -int(often_V[word])))
    kept = set(ranked[:MOST_WORDS])
    return [word for word in words if word in kept]


def _probabilities(logp: NDArray[np.floating]) -> NDArray[np.float32]:
    """Probabilities rounded as `lm.next` rounds them: 0.25 is 0.25."""
    return np.exp(logp.astype(np.float64)).astype(np.float32)


@of_studio("POST", "/count")
def count(asked: CountAsked, studio: TheStudio) -> CountAnswer:
    """The table of word pairs after the first words of a text."""
    text = asked.text if asked.corpus == "text" else FOUR
    if asked.corpus == "sentences":
        with open(ready.sentences(studio.shelf.folders[READY])["train"], encoding="utf-8") as lines:
            text = "".join(islice(lines, SENTENCES))
    return count_pairs(text, asked.at, asked.smoothing, alpha=asked.alpha, seed=asked.seed)

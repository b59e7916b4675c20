"""Beam search: look for the likeliest continuations with a few hypotheses at a time.

    score = sum of log p / length^length_penalty

where length is the number of new tokens. A penalty of 0 compares sums, which favours short texts; 1 compares means;
above 1 favours long ones. A hypothesis ends early only at a stop string or at the token that ends a text (its `Writing`
decides); without them all have the same length.

Any number of texts are searched for at once, each after its own prompt or source: the hypotheses of all texts are one
batch for the model.

Shapes: R hypotheses of all texts together, V words that can be predicted, C candidates of a hypothesis, M = R C.

What a model finds likeliest: of several texts, or as the next token.

Texts are the candidates of a speech recogniser or a spell checker:

    log p(candidate | context) = sum of log p of its tokens - spelling of its unknown forms

Without the spelling a candidate full of unknown words would win, since `<unk>` is a likely token.

Next tokens are listed as the text to append. With most tokens a space belongs to the word after it. So after "I went
to " the space is given back: the tokens listed are those that begin with a space after "I went to", with their shares
among these, and the space is not appended again.

Shapes: B candidates of one length, T tokens each, V words that can be predicted.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress, islice
from typing import Generic, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from thereafter.decoding.sampling import Floats, largest, penalise
from thereafter.decoding.writing import Writing
from thereafter.errors import OptionError, UnknownNameError
from thereafter.models.base import Ids, Logs, S, SequenceModel
from thereafter.text.tokenizers.base import Spelling, Tokenizer

PER = ("sentence", "token", "char")
_TOKENS_AT_ONCE = 1 << 14


@dataclass(frozen=True)
class Candidate:
    """A text to score: its ids, the nats that spelling its unknown forms costs, its number of characters."""

    ids: Ids
    spelling_nats: float
    chars: int

    def size(self, per: str) -> int:
        """What its log probability is divided by."""
        return {"sentence": 1, "token": len(self.ids), "char": self.chars}[per]


def check_per(per: str) -> None:
    """Refuse an unknown measure."""
    if per not in PER:
        raise UnknownNameError("measure to rank by", per, PER)


def read_candidates(texts: Iterable[str], tokenizer: Tokenizer, spelling: Spelling | None) -> list[Candidate]:
    """Tokenize the candidates. One without tokens is refused: the empty text would always be the likeliest."""
    candidates = []
    for number, text in enumerate(texts, start=1):
        parts = list(tokenizer.measure_stream([text], whole=False))
        ids = np.concatenate([part.ids for part in parts]) if parts else np.empty(0, np.int32)
        if not len(ids):
            raise OptionError(f"candidate {number} is {text!r}, which holds no tokens; expected text; leave it out")
        unknown = [form for part in parts for form in part.unknown_forms]
        nats = spelling.total(unknown) if spelling is not None and unknown else 0.0
        candidates.append(Candidate(ids, nats, sum(part.chars for part in parts)))
    return candidates


def log_probs(model: SequenceModel[S], state: S, candidates: Sequence[Candidate], per: str) -> list[float]:
    """log p of each candidate after a state of one row, whole or by token or character; equal lengths go together."""
    check_per(per)
    by_length: defaultdict[int, list[int]] = defaultdict(list)
    for place, candidate in enumerate(candidates):
        by_length[len(candidate.ids)].append(place)
    totals = [0.0] * len(candidates)
    for length, places in by_length.items():
        rows = max(1, _TOKENS_AT_ONCE // length)
        for begin in range(0, len(places), rows):
            batch = places[begin : begin + rows]
            tokens_BT = np.stack([candidates[place].ids for place in batch])
            logp_BT, _ = model.log_probs(tokens_BT, state.select(np.zeros(len(batch), dtype=np.int64)))
            for place, total in zip(batch, np.asarray(logp_BT).sum(axis=1, dtype=np.float64).tolist(), strict=True):
                totals[place] = total - candidates[place].spelling_nats
    return [total / candidate.size(per) for total, candidate in zip(totals, candidates, strict=True)]


@dataclass(frozen=True)
class NextToken:
    """A token with its probability; `text` is what it adds to the text so far."""

    token: int
    text: str
    p: float


class NextTokens:
    """Lists the likeliest next tokens of a tokenizer, those that are `forbidden` left out. Made once for many texts."""

    def __init__(self, tokenizer: Tokenizer, forbidden: Sequence[int] = ()) -> None:
        self._tokenizer, self._forbidden = tokenizer, forbidden

    @cached_property
    def _spaced(self) -> NDArray[np.int64]:
        """The tokens that begin with a space."""
        pieces = (self._tokenizer.piece(number) for number in range(self._tokenizer.size))
        spaced = (number for number, piece in enumerate(pieces) if piece.startswith(" ") and piece.strip())
        return np.array([number for number in spaced if number not in self._forbidden], dtype=np.int64)

    def after(self, model: SequenceModel[S], text: str, k: int) -> list[NextToken]:
        """The k likeliest tokens after a text."""
        if k < 1:
            raise OptionError(f"k is {k}; expected at least 1; try k=5")
        if text.endswith(" ") and not text[-2:-1].isspace() and len(self._spaced):
            spaced = self._after_space(self._predict(model, text[:-1]), k)
            if spaced:
                return spaced
        likeliest = rank_tokens(self._predict(model, text), k, self._forbidden)
        return [NextToken(token, self._tokenizer.piece(token), p) for token, p in likeliest]

    def _after_space(self, logp_V: NDArray[np.floating], k: int) -> list[NextToken]:
        """The likeliest of the tokens that begin with a space; none where none of them can come."""
        p_N = np.exp(logp_V[self._spaced].astype(np.float64))
        mass = float(p_N.sum())
        ranked = largest(p_N, k).tolist() if mass > 0 else []
        tokens = self._spaced[ranked].tolist()
        shares = (p_N[ranked] / (mass or 1.0)).tolist()
        pieces = (self._tokenizer.piece(token).removeprefix(" ") for token in tokens)
        return [NextToken(*row) for row in zip(tokens, pieces, shares, strict=True)]

    def _predict(self, model: SequenceModel[S], text: str) -> NDArray[np.floating]:
        ids, state = self._tokenizer.encode(text), model.start(1)
        if len(ids):
            state = model.read(np.asarray(ids).reshape(1, -1), state)
        logp_V: NDArray[np.floating] = np.asarray(model.predict(state))[0]
        return logp_V


def rank_tokens(logp_V: NDArray[np.floating], k: int, forbidden: Sequence[int] = ()) -> list[tuple[int, float]]:
    """The k likeliest tokens of a prediction with their probabilities, those that are forbidden left out."""
    ranked = largest(logp_V, k + len(forbidden)).tolist()
    tokens = [token for token in ranked if token not in forbidden][:k]
    p_K = np.exp(logp_V[tokens].astype(np.float64)).astype(np.float32).tolist()
    return list(zip(tokens, p_K, strict=True))


SPARSE = 0.75
"""If no more than this share of the rows of a batch is needed, the others are removed."""


@dataclass(frozen=True)
class Search:
    """The settings of a search with `num_beams` hypotheses and at most `max_new_tokens` tokens.

    `best`: how many texts to return, by default as many as there are beams. An extension that finishes a text counts if
    it is among the `num_beams` likeliest of its step. The search stops when no running hypothesis can still beat the
    best finished ones or, with `early_stopping`, as soon as enough are finished. `forbidden` tokens are never chosen.

    `narrowing`: a finished hypothesis is not replaced, so the search continues with one beam less (Sutskever, Vinyals
    and Le 2014), and every hypothesis that can no longer win is dropped.
    """

    num_beams: int
    max_new_tokens: int
    length_penalty: float = 1.0
    early_stopping: bool = False
    repetition_penalty: float = 1.0
    forbidden: Sequence[int] = ()
    narrowing: bool = False
    best: int | None = None

    @property
    def kept(self) -> int:
        """How many texts are returned at most."""
        return self.num_beams if self.best is None else min(self.best, self.num_beams)


@dataclass(slots=True)  # never changed, yet not frozen: thousands are made a second, and freezing doubles the cost
class Hypothesis:
    """A continuation: its last token, the hypothesis before that token, and the sum that the search compares."""

    written: Writing
    before: Hypothesis | None = None
    token: int = -1
    log_prob: float = 0.0
    piece: str = ""
    length: int = 0
    total: float = 0.0
    """Sum of log p, with the repetition penalty where there is one."""

    @property
    def tokens(self) -> tuple[int, ...]:
        return tuple(part.token for part in self._parts())

    @property
    def log_probs(self) -> tuple[float, ...]:
        """log p of each token under the model."""
        return tuple(part.log_prob for part in self._parts())

    @property
    def text(self) -> str:
        """The text that is certain."""
        return "".join(part.piece for part in self._parts())

    def score(self, length_penalty: float) -> float:
        """The sum divided by length^length_penalty; an empty text counts as one token."""
        return self.total / math.pow(max(1, self.length), length_penalty)

    def then(self, token: int, log_prob: float, total: float) -> Hypothesis:
        """This hypothesis with one more token."""
        piece, written = self.written.add(token)
        return Hypothesis(written, self, token, log_prob, piece, self.length + 1, total)

    def _parts(self) -> list[Hypothesis]:
        parts = []
        part = self
        while part.before is not None:
            parts.append(part)
            part = part.before
        return parts[::-1]


def beam_search(
    model: SequenceModel[S], state: S, written: Writing, search: Search, prompt: Ids | None = None
) -> list[Hypothesis]:
    """The best continuations of a state of one row, best first; of equal ones the first that was reached."""
    return beam_searches(model, state, [written], search, prompt)[0]


def beam_searches(
    model: SequenceModel[S], state: S, written: Sequence[Writing], search: Search, prompt: Ids | None = None
) -> list[list[Hypothesis]]:
    """The best continuations of each row of a state, each with its own `written`; see `beam_search`.

    `prompt`: ids that pay the repetition penalty from the beginning.
    """
    read = np.empty(0, dtype=np.int64) if prompt is None else np.asarray(prompt)
    beams = [_Beam(one, search) for one in written]
    batch = beams
    ranking: Ranking[S] | None = model if isinstance(model, Ranking) and search.repetition_penalty == 1 else None
    after: Dense | Ranked[S]
    after = Ranked(ranking, state) if ranking else _dense(model.predict(state), batch, read, search)
    for left in range(search.max_new_tokens, 0, -1):
        # all hypotheses, each extended by every token; idle rows have no extensions
        total_R = np.array([-np.inf if one is None else one.total for one in _hypotheses(batch)])
        first = np.cumsum([0, *(beam.rows for beam in batch)])
        extensions = Extensions(after, total_R, first, search.forbidden, search.num_beams + 1)
        for text, beam in enumerate(batch):
            beam.grow(extensions, text, left)
        running = sum(len(beam.running) for beam in batch)
        if not running or left == 1:
            break
        rows = sum(beam.rows for beam in batch)
        if running <= SPARSE * rows or any(len(beam.running) > beam.rows for beam in batch):
            for beam in batch:
                beam.rows = len(beam.running)
            batch = [beam for beam in batch if beam.rows]
        tokens = np.array([token for beam in batch for token in beam.tokens()])
        state = state.select(np.array([row for beam in batch for row in beam.parents()]))
        if ranking is None:
            logp, state = model.step(tokens, state)
            after = _dense(logp, batch, read, search)
        else:
            state = ranking.read(tokens[:, None], state)
            after = Ranked(ranking, state)
    return [beam.best() for beam in beams]


class _Beam:
    """The hypotheses of one text: the running ones, by falling sum, and the best finished ones.

    It owns `rows` rows of the batch. Rows that no hypothesis needs any more stay idle for a while: as long as the rows
    of a batch belong to the same sources, only states have to be moved.
    """

    def __init__(self, written: Writing, search: Search) -> None:
        self._search, self._kept = search, search.kept
        self._places = search.num_beams
        self.rows = 1
        self.running = [Hypothesis(written)]
        self._ended: list[Hypothesis] = []
        self._parents: list[int] = []
        self._first = 0

    def tokens(self) -> list[int]:
        """The token that each row reads next."""
        return [*(one.token for one in self.running), *[0] * (self.rows - len(self.running))]

    def parents(self) -> list[int]:
        """The row of the previous batch that each row continues."""
        return [*self._parents, *[self._first] * (self.rows - len(self._parents))]

    def grow(self, extensions: Extensions[S], text: int, left: int) -> None:
        """Extend by the likeliest tokens of this text; `left` tokens may still come, this one included."""
        search, before, places = self._search, self.running, self._places
        self._ended += [before[which] for which in extensions.dead_ends(text)]
        going: list[Hypothesis] = []
        parents: list[int] = []
        first = self._first = extensions.first_row(text)
        for rank, (row, token, log_prob, total) in enumerate(extensions.falling(text)):
            grown = before[row - first].then(token, log_prob, total)
            if not grown.written.ended:
                going.append(grown)
                parents.append(row)
                if len(going) == places:
                    break
            elif rank < places:
                self._ended.append(grown)
                self._places -= search.narrowing
        if len(self._ended) > 1:
            self._ended.sort(key=lambda hypothesis: -hypothesis.score(search.length_penalty))  # stable
            del self._ended[self._kept :]
        self.running = going[: self._places]
        if left > 1 and self.running and len(self._ended) == self._kept:
            alive = self._alive(left - 1)
            self.running = list(compress(self.running, alive))
            parents = list(compress(parents, alive))
        self._parents = parents[: len(self.running)]

    def best(self) -> list[Hypothesis]:
        """The best texts, best first."""
        texts = [*self._ended, *self.running]
        texts.sort(key=lambda hypothesis: -hypothesis.score(self._search.length_penalty))
        return texts[: self._search.kept]

    def _alive(self, left: int) -> list[bool]:
        """Which running hypotheses can still beat the worst kept text: all or none of them, unless it is narrowing.

        A sum only falls as tokens are added, at most `left` of them. Divided by length^penalty it is best at the
        greatest length if the penalty is above 0, else at the next token.
        """
        search, length = self._search, self.running[0].length
        if search.early_stopping:
            return [False] * len(self.running)
        reached = length + left if search.length_penalty > 0 else length + 1
        divisor, worst = math.pow(reached, search.length_penalty), self._ended[-1].score(search.length_penalty)
        alive = [one.total / divisor > worst for one in self.running]
        return alive if search.narrowing else [any(alive)] * len(alive)


def _hypotheses(batch: Sequence[_Beam]) -> list[Hypothesis | None]:
    """The hypothesis of each row of the batch, None in an idle row."""
    return [one for beam in batch for one in (*beam.running, *[None] * (beam.rows - len(beam.running)))]


def _dense(logp: Logs, batch: Sequence[_Beam], read: Ids, search: Search) -> Dense:
    """log p of all tokens after the hypotheses, with the repetition penalty where there is one."""
    logp_RV = np.asarray(logp)
    penalty = search.repetition_penalty
    if penalty == 1:
        return Dense(logp_RV, logp_RV)
    rows = zip(logp_RV, _hypotheses(batch), strict=True)
    seen = ((logp_V, np.union1d(read, () if one is None else one.tokens).astype(np.int64)) for logp_V, one in rows)
    return Dense(logp_RV, np.stack([penalise(logp_V, penalty, ids) for logp_V, ids in seen]))


@runtime_checkable
class Ranking(Protocol[S]):
    """A `SequenceModel` that ranks words on its own device, so that only a few numbers have to leave it."""

    vocabulary_size: int

    def read(self, tokens_BT: Ids, state: S) -> S:
        """The state after tokens."""

    def ranked(self, state: S, count: int) -> tuple[Ids, Logs]:
        """The likeliest words after each row, likeliest first, and their log p: [B, count] each."""


@dataclass(frozen=True)
class Dense:
    """The distribution of the next token after each hypothesis: all log p, [R, V].

    `score_RV` are the scores that are summed.
    """

    logp_RV: Logs
    score_RV: Logs

    @property
    def words(self) -> int:
        """How many tokens there are."""
        return int(self.score_RV.shape[1])

    def top(self, count: int) -> tuple[Ids, Logs, Logs]:
        """The likeliest tokens of each row, likeliest first; their log p; the scores that are summed: [R, count]."""
        token_RC = largest(self.score_RV, count)
        score_RC = np.take_along_axis(self.score_RV, token_RC, 1)
        same = self.score_RV is self.logp_RV
        return token_RC, score_RC if same else np.take_along_axis(self.logp_RV, token_RC, 1), score_RC

    def part(self, first: int, end: int) -> Dense:
        """Those of the rows `first` to `end`."""
        return Dense(self.logp_RV[first:end], self.score_RV[first:end])


class Ranked(Generic[S]):
    """The same after a state whose tokens the model ranks itself."""

    def __init__(self, model: Ranking[S], state: S) -> None:
        self._model, self._state = model, state

    @property
    def words(self) -> int:
        return self._model.vocabulary_size

    def top(self, count: int) -> tuple[Ids, Logs, Logs]:
        token_RC, logp_RC = self._model.ranked(self._state, count)
        return token_RC, logp_RC, logp_RC

    def part(self, first: int, end: int) -> Ranked[S]:
        return Ranked(self._model, self._state.select(np.arange(first, end)))


class Extensions(Generic[S]):
    """The hypotheses of several texts, each extended by one token, by falling sums; ties by hypothesis, then by token.

    Only the `count` likeliest tokens of each hypothesis are ranked, which is far less work than ranking all of them.
    One more than there are beams is enough if a single token ends a text. If a caller walks past the last extension
    whose rank is certain, more tokens are ranked, for that text alone.

    `total_R`: the sums so far, -inf in a row without a hypothesis; `first`: the first row of each text, and the end of
    all rows.
    """

    def __init__(
        self, after: Dense | Ranked[S], total_R: Floats, first: NDArray[np.int64], forbidden: Sequence[int], count: int
    ) -> None:
        self._after, self._total_R = after, total_R
        self._first, self._forbidden, self._count = first, forbidden, count
        self._candidates = min(after.words, count + len(forbidden))
        token_RC, logp_RC, score_RC = after.top(self._candidates)
        total_RC = total_R[:, None] + score_RC
        for token in forbidden:
            total_RC[token_RC == token] = -np.inf
        possible_RC = ~np.isneginf(total_RC)
        possible_R = possible_RC.any(axis=1)
        self._dead_R: NDArray[np.bool_] = np.logical_not(possible_R | np.isneginf(total_R))
        self._some_dead = bool(self._dead_R.any())
        last_RC = np.zeros(token_RC.shape, dtype=bool)
        if self._candidates < after.words:
            last_R = self._candidates - 1 - possible_RC[:, ::-1].argmax(axis=1)
            last_RC[np.arange(len(last_RC)), last_R] = possible_R
        self._ranked = self._by_text(token_RC, logp_RC, total_RC, last_RC)

    def _by_text(
        self, token_RC: Ids, logp_RC: Logs, total_RC: Floats, last_RC: NDArray[np.bool_]
    ) -> list[list[tuple[int, int, float, float, bool]]]:
        """The best extensions of each text, best first."""
        sizes = np.diff(self._first)
        text_R = np.repeat(np.arange(len(sizes)), sizes)
        row_TW = np.zeros((len(sizes), int(sizes.max())), dtype=np.int64)
        total_TWC = np.full((*row_TW.shape, self._candidates), -np.inf)
        slot_R = np.arange(len(text_R)) - self._first[text_R]
        row_TW[text_R, slot_R], total_TWC[text_R, slot_R] = np.arange(len(text_R)), total_RC
        # no more than two for each beam are looked at, unless more than one token of a hypothesis can end it
        order_TM = np.argsort(-total_TWC.reshape(len(sizes), -1), axis=1, kind="stable")[:, : 2 * self._count]
        row_TM = np.take_along_axis(row_TW, order_TM // self._candidates, 1)
        column_TM = order_TM % self._candidates
        last_TM = last_RC[row_TM, column_TM]
        last_TM[:, -1] |= order_TM.shape[1] < total_TWC[0].size
        columns = (
            token_RC[row_TM, column_TM],
            logp_RC[row_TM, column_TM],
            np.take_along_axis(total_TWC.reshape(len(sizes), -1), order_TM, 1),
        )
        listed = (array.tolist() for array in (row_TM, *columns, last_TM))
        return [list(zip(*text, strict=True)) for text in zip(*listed, strict=True)]

    def first_row(self, text: int) -> int:
        """Where the hypotheses of a text begin."""
        return int(self._first[text])

    def dead_ends(self, text: int) -> list[int]:
        """The hypotheses of a text that no token can follow."""
        if not self._some_dead:
            return []
        dead: list[int] = np.flatnonzero(self._dead_R[self._first[text] : self._first[text + 1]]).tolist()
        return dead

    def falling(self, text: int) -> Iterator[tuple[int, int, float, float]]:
        """The extensions of a text, best first: row, token, its log p, the new sum."""
        for number, (row, token, log_prob, total, last) in enumerate(self._ranked[text], start=1):
            if total == -np.inf:
                return
            yield row, token, log_prob, total
            if last:
                yield from islice(self._further(text), number, None)
                return

    def _further(self, text: int) -> Iterator[tuple[int, int, float, float]]:
        """As `falling`, with more tokens of each hypothesis ranked."""
        first, end = self._first[text : text + 2].tolist()
        alone = np.array([0, end - first])
        after, total_R = self._after.part(first, end), self._total_R[first:end]
        wider = Extensions(after, total_R, alone, self._forbidden, 4 * self._count)
        for row, token, log_prob, total in wider.falling(0):
            yield first + row, token, log_prob, total

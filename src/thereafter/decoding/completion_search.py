"""Completion over pieces (`char`, `byte`, `bpe`): the half-typed word is given back, then the likeliest goes first.

    p(text begins with b | context) = sum of p(pieces | context) over all sequences of pieces that spell b,
                                      the last of which may go beyond b

Two steps. The half-typed word is spelled in every way that the pieces allow: each of them ends in a piece that covers
the rest of it. From there on a beginning of a word waits in a queue with its probability, and the likeliest is taken
out: the model says how likely the word ends there, and which pieces may follow. A word's probability is the sum over
its spellings. What still waits when the search stops is not covered.

A piece is any token that is not a whole form: a character, a byte, a byte pair. Its bytes may be part of a character,
so a beginning of a word is bytes, too, and is read as far as its characters are complete.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from thereafter.decoding.completion_typed import Completion, Completions, Typed, is_word, split_forms
from thereafter.models.base import S, SequenceModel
from thereafter.text.tokenizers.base import Tokenizer
from thereafter.text.tokenizers.prose import script_forms

EXPANSIONS = 256
"""How often the model is asked for what follows a beginning, in each of the two steps."""
_AT_ONCE = 32  # beginnings that are followed together, since a model reads many rows as quickly as one
_UNHEARD = 1e-9  # of the sum so far: a way to spell what is typed that need not be followed
_NEGLIGIBLE = 0.01  # of the last word shown: a beginning below that cannot change what is shown by much


class PieceCompleter:
    """Words that begin as typed, spelled piece by piece; `expansions` bounds the search."""

    def __init__(self, tokenizer: Tokenizer, expansions: int = EXPANSIONS) -> None:
        self._index = PieceIndex(tokenizer)
        self._expansions = expansions

    def split(self, text: str) -> Typed | None:
        """Where the last word of a text begins."""
        return split_forms(text, script_forms)

    def complete(self, model: SequenceModel[S], state: S, typed: Typed, k: int) -> Completions:
        """The likeliest words that begin as typed, after the context whose state is given."""
        search = _WordSearch(model, self._index, typed)
        search.cover(state, self._expansions)
        search.finish(k, self._expansions)
        total = search.total
        if total <= 0:
            return Completions(typed.begun, (), 0.0, covered=0.0)
        share = {word: p / total for word, p in search.words.items()}
        ranked = sorted(share, key=lambda word: (-share[word], word))[:k]
        words = tuple(Completion(word, word[len(typed.word) :], share[word]) for word in ranked)
        covered = min(1.0, sum(search.words.values()) / total)
        return Completions(typed.begun, words, min(1.0, total), covered, share.get(typed.word, 0.0))


@dataclass(frozen=True)
class _Branch(Generic[S]):
    """A piece after a row of a state: what is spelled with it, and log p of all that since the context."""

    state: S
    row: int
    piece: int
    spelled: bytes
    logp: float


@dataclass(frozen=True)
class _Fork(Generic[S]):
    """A row of a state, what is spelled up to it, and the pieces that may follow, likeliest first, with log p."""

    state: S
    row: int
    spelled: bytes
    pieces: NDArray[np.int64]
    logp: NDArray[np.float64]


class _WordSearch(Generic[S]):
    """The search for one half-typed word. `words` are the finished ones with their probabilities after the context."""

    def __init__(self, model: SequenceModel[S], index: PieceIndex, typed: Typed) -> None:
        self._model, self._index = model, index
        self._typed = typed.begun.encode()
        self._spaced = typed.begun.startswith(" ")
        self._queue: list[tuple[float, int, _Fork[S], int]] = []
        self._number = count()  # ties are taken in the order they came
        self.words: defaultdict[str, float] = defaultdict(float)
        self.total = 0.0
        """The probability of all words that begin as typed, as far as it is known."""

    def cover(self, state: S, expansions: int) -> None:
        """Spell what is typed in every way, the likeliest first. Ways that are not followed count as not covered."""
        if self._index.unique:
            self._cover_once(state)
            return
        if not self._typed:
            self.total = 1.0
            self._open(b"", state, 0, 0.0, self._predict(state))
            return
        ways: list[tuple[float, int, _Branch[S]]] = []
        whole = self._cover_rest(b"", state, 0, 0.0, self._predict(state), ways)
        while ways:
            branches: list[_Branch[S]] = []
            while ways and len(branches) < _AT_ONCE:
                less, _, branch = heapq.heappop(ways)
                if expansions <= 0 or math.exp(-less) < _UNHEARD * self.total:
                    self.total += math.exp(-less)
                else:
                    branches.append(branch)
                    expansions -= 1
            for branch, after, row, logp_V in self._ask(branches):
                whole += self._cover_rest(branch.spelled, after, row, branch.logp, logp_V, ways)
        for branch, after, row, logp_V in self._ask(whole):
            self._open(branch.spelled, after, row, branch.logp, logp_V)

    def _cover_once(self, state: S) -> None:
        """The only way to spell what is typed, read in one pass."""
        pieces = self._index.spell(self._typed)
        if pieces is None:
            return
        logp, after = 0.0, state
        if pieces:
            logp_BT, after = self._model.log_probs(np.array([pieces]), state)
            logp = float(np.asarray(logp_BT).sum(dtype=np.float64))
        self.total = math.exp(logp)
        if self.total > 0:
            self._open(self._typed, after, 0, logp, self._predict(after))

    def _cover_rest(
        self,
        spelled: bytes,
        state: S,
        row: int,
        logp: float,
        logp_V: NDArray[np.float64],
        ways: list[tuple[float, int, _Branch[S]]],
    ) -> list[_Branch[S]]:
        """Pieces that go beyond what is typed begin words, those that end before it are ways; those in between."""
        rest = self._typed[len(spelled) :]
        covering = self._words_among(self._index.pieces_that_cover(rest), spelled)
        total_V = logp + logp_V
        self.total += float(np.exp(total_V[covering]).sum())
        exact = [piece for piece in covering.tolist() if self._index.spelled[piece] == rest]
        self._fork(state, row, spelled, covering[~np.isin(covering, exact)], total_V)
        for piece in self._index.pieces_within(rest):
            if np.isfinite(total_V[piece]):
                longer = spelled + self._index.spelled[piece]
                way = _Branch(state, row, piece, longer, float(total_V[piece]))
                heapq.heappush(ways, (-way.logp, next(self._number), way))
        # how likely the word ends here is asked for in any case
        return [
            _Branch(state, row, piece, self._typed, float(total_V[piece]))
            for piece in exact
            if np.isfinite(total_V[piece])
        ]

    def finish(self, k: int, expansions: int) -> None:
        """Follow the likeliest beginnings to the ends of words, until those left cannot matter to the first k words."""
        while self._queue and expansions > 0:
            branches = self._take(k, min(expansions, _AT_ONCE))
            if not branches:
                return
            expansions -= len(branches)
            for branch, after, row, logp_V in self._ask(branches):
                self._open(branch.spelled, after, row, branch.logp, logp_V)

    def _take(self, k: int, most: int) -> list[_Branch[S]]:
        """The likeliest beginnings that wait and matter; words that end with their last piece are counted at once."""
        branches: list[_Branch[S]] = []
        while self._queue and len(branches) < most and math.exp(-self._queue[0][0]) >= self._least(k):
            less, _, fork, rank = heapq.heappop(self._queue)
            self._wait(fork, rank + 1)
            piece = int(fork.pieces[rank])
            spelled = fork.spelled + self._index.spelled[piece]
            begun = read_beginning(spelled, self._spaced)
            if begun.ended:
                self._end(begun.word, math.exp(-less))
            else:
                branches.append(_Branch(fork.state, fork.row, piece, spelled, -less))
        return branches

    def _ask(self, branches: list[_Branch[S]]) -> Iterator[tuple[_Branch[S], S, int, NDArray[np.float64]]]:
        """What follows each branch: the state, the row of it, log p of every piece; rows of one state go together."""
        groups: defaultdict[int, list[_Branch[S]]] = defaultdict(list)
        for branch in branches:
            groups[id(branch.state)].append(branch)
        for group in groups.values():
            rows = np.array([branch.row for branch in group])
            tokens = np.array([branch.piece for branch in group])
            logp_BV, after = self._model.step(tokens, group[0].state.select(rows))
            for row, (branch, logp_V) in enumerate(zip(group, np.asarray(logp_BV), strict=True)):
                yield branch, after, row, logp_V.astype(np.float64)

    def _words_among(self, covering: NDArray[np.int64], spelled: bytes) -> NDArray[np.int64]:
        """The pieces that a word may begin with; only where no letter of it is typed can there be others."""
        if self._typed.strip():
            return covering
        read = [read_beginning(spelled + self._index.spelled[piece], self._spaced) for piece in covering.tolist()]
        words: NDArray[np.int64] = covering[[begun.word != "" or not begun.ended for begun in read]]
        return words

    def _least(self, k: int) -> float:
        """The probability below which a beginning is of no interest."""
        if len(self.words) < k:
            return 0.0
        last = heapq.nlargest(k, self.words.values())[-1]
        # where a text has one spelling, a beginning below the last word cannot become a word above it
        return last if self._index.unique else _NEGLIGIBLE * last

    def _open(self, spelled: bytes, state: S, row: int, logp: float, logp_V: NDArray[np.float64]) -> None:
        """A beginning of a word: it may end here, or go on with a piece."""
        begun = read_beginning(spelled, self._spaced)
        pieces = self._index.ids
        total_V = logp + logp_V
        if not begun.partial:
            ends_V = self._index.endings(begun.word)
            self._end(begun.word, float(np.exp(total_V[ends_V]).sum()))
            pieces = pieces[~ends_V[pieces]]
        self._fork(state, row, spelled, pieces, total_V)

    def _end(self, word: str, p: float) -> None:
        if word:
            self.words[word] += p
        else:  # something else than a word begins
            self.total -= p

    def _fork(
        self, state: S, row: int, spelled: bytes, pieces: NDArray[np.int64], total_V: NDArray[np.float64]
    ) -> None:
        logp = total_V[pieces]
        order = np.argsort(-logp, kind="stable")
        self._wait(_Fork(state, row, spelled, pieces[order], logp[order]), 0)

    def _wait(self, fork: _Fork[S], rank: int) -> None:
        """Queue the piece of this rank; those behind it are less likely and come when it is taken out."""
        if rank < len(fork.pieces) and fork.logp[rank] > -np.inf:
            heapq.heappush(self._queue, (-float(fork.logp[rank]), next(self._number), fork, rank))

    def _predict(self, state: S) -> NDArray[np.float64]:
        logp_V: NDArray[np.float64] = np.asarray(self._model.predict(state))[0].astype(np.float64)
        return logp_V


_BROKEN = "\ufffd"  # stands for bytes that are no character; it ends a word


@dataclass(frozen=True)
class Beginning:
    """Bytes read as the beginning of a word: its characters so far, and how it stands.

    `ended`: a character follows that does not belong to the word. `partial`: the last character is not complete.
    """

    word: str
    ended: bool
    partial: bool


def read_beginning(spelled: bytes, spaced: bool) -> Beginning:
    """Read the first word of some bytes; `spaced`: they begin with the space before it.

    >>> read_beginning(b" monster.", spaced=True)
    Beginning(word='monster', ended=True, partial=False)
    """
    text, partial = _read_characters(spelled)
    body = text[1:] if spaced else text
    form = first_form(body)
    word = form if is_word(form) and not form.startswith(" ") else ""
    return Beginning(word, ended=len(word) < len(body), partial=partial)


def _read_characters(spelled: bytes) -> tuple[str, bool]:
    """The characters of some bytes up to the first broken one, and whether the last is not complete."""
    try:
        return spelled.decode(), False
    except UnicodeDecodeError as error:
        text = spelled[: error.start].decode()
        return (text, True) if error.reason == "unexpected end of data" else (text + _BROKEN, False)


def first_form(text: str) -> str:
    """The first of the forms of a text."""
    forms = script_forms(text)
    return forms[0] if forms else ""


class PieceIndex:
    """The pieces of a tokenizer by the bytes they spell, in order. The unknown token spells nothing that is known."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.spelled = [tokenizer.bytes_of(number) for number in range(tokenizer.size)]
        if tokenizer.unknown_id is not None:
            self.spelled[tokenizer.unknown_id] = b""
        numbered = sorted((spelled, number) for number, spelled in enumerate(self.spelled) if spelled)
        self._sorted = [spelled for spelled, _ in numbered]
        self._longest = max(map(len, self._sorted), default=0)
        self._ids = np.array([number for _, number in numbered], dtype=np.int64)
        self.unique = not any(later.startswith(earlier) for earlier, later in pairwise(self._sorted))
        """Whether a text can be spelled in one way only: no piece begins with another."""
        self._by_first = self._group_by_first()
        self._endings: dict[str, NDArray[np.bool_]] = {}

    def pieces_that_cover(self, rest: bytes) -> NDArray[np.int64]:
        """The pieces that spell these bytes and maybe more."""
        low = bisect_left(self._sorted, rest)
        high = bisect_right(self._sorted, rest, lo=low, key=lambda spelled: spelled[: len(rest)])
        return self._ids[low:high]

    def pieces_within(self, rest: bytes) -> list[int]:
        """The pieces that spell the beginning of these bytes, but not all of them."""
        pieces: list[int] = []
        for size in range(1, min(len(rest), self._longest + 1)):
            low = bisect_left(self._sorted, rest[:size])
            high = bisect_right(self._sorted, rest[:size], lo=low)
            pieces += self._ids[low:high].tolist()
        return pieces

    def spell(self, spelled: bytes) -> list[int] | None:
        """The pieces that spell these bytes, if there is one way to do so at most; None if there is none."""
        pieces: list[int] = []
        while spelled:
            place = bisect_right(self._sorted, spelled) - 1
            if place < 0 or not spelled.startswith(self._sorted[place]):
                return None
            pieces.append(int(self._ids[place]))
            spelled = spelled[len(self._sorted[place]) :]
        return pieces

    @property
    def ids(self) -> NDArray[np.int64]:
        """All pieces that spell something, in the order of their bytes."""
        return self._ids

    def endings(self, word: str) -> NDArray[np.bool_]:
        """Which pieces end a word, [V]: their first character does not belong to it. Of "": no word begins so."""
        kind = _kind(word[-1:])
        if kind not in self._endings:
            ends_V = np.zeros(len(self.spelled), dtype=bool)
            for first, pieces in self._by_first.items():
                ends_V[pieces] = not is_word(first) if kind == "" else len(script_forms(kind + first)) > 1
            self._endings[kind] = ends_V
        return self._endings[kind]

    def _group_by_first(self) -> dict[str, list[int]]:
        """Pieces by their first character; those that begin with a part of one are in no group."""
        groups: dict[str, list[int]] = {}
        for number, spelled in enumerate(self.spelled):
            first = _read_characters(spelled[:4])[0][:1]
            if first:
                groups.setdefault(first, []).append(number)
        return groups


def _kind(last: str) -> str:
    """A character that stands for all those that go on like this one: an "a" for letters, a "0" for digits."""
    same = (kind for kind in ("a", "0") if last and len(script_forms(kind + last)) == 1)
    return next(same, last)

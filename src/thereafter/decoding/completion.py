"""Half-typed words: which words begin as the last word of a text does, and how likely each of them is.

    p(word | typed) = p(word after the context) / sum of p(all words that begin as typed)

The context is the text without its last word. A word is what `word` finds between white space; for all other tokens it
is a run of letters or of digits. How the sum is taken depends on the tokens:

- Forms (`word`, `prose`): exactly, over the forms of the vocabulary that begin so. The unknown word is none of them.
- Pieces (`char`, `byte`, `bpe` and all others): the pieces of the half-typed word are given back, and every sequence of
  pieces whose bytes begin as typed counts. A character that cannot belong to the word ends it:

    p(text begins with b | context) = sum of p(pieces | context) over all sequences of pieces that spell b,
                                      the last of which may go beyond b

Pieces are searched in two steps. The half-typed word is spelled in every way that the pieces allow: each of them ends
in a piece that covers the rest of it. From there on a beginning of a word waits in a queue with its probability, and
the likeliest is taken out: the model says how likely the word ends there, and which pieces may follow. A word's
probability is the sum over its spellings. What still waits when the search stops is not `covered`.

A piece is any token that is not a whole form: a character, a byte, a byte pair. Its bytes may be part of a character,
so a beginning of a word is bytes, too, and is read as far as its characters are complete.
"""

from __future__ import annotations

import heapq
import math
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from thereafter.base.tabular import Row, Tabular
from thereafter.decoding.sampling import largest
from thereafter.errors import OptionError
from thereafter.models.base import S, SequenceModel
from thereafter.text.tokenizers.base import Tokenizer
from thereafter.text.tokenizers.forms import FormTokenizer, ProseTokenizer, script_forms

_TAIL = 1_000  # characters at the end of a long text that are cut into forms; the last form is all that is asked for
_SURE = 3  # forms of such a tail after which the last one cannot depend on where the tail begins
_WORD = re.compile(r" ?(?:[^\W\d_]+|\d+)?|[^\S\n]+|\n")
_LAST = re.compile(r"\S*\Z")

Cut = Callable[[str], list[str]]
"""Cuts a text into forms, as `prose` does: a space belongs to the word after it."""


@dataclass(frozen=True)
class Typed:
    """A text, split where its last word begins: `begun` is what is typed of it, with the space that belongs to it.

    `begun` is empty where a new word begins, and a space where the space is all there is of the word.
    """

    context: str
    begun: str

    @property
    def word(self) -> str:
        """What is typed, without the space."""
        return self.begun.removeprefix(" ")


def split_at_space(text: str) -> Typed:
    """The last word is what follows the last white space.

    >>> split_at_space("I beheld the mon")
    Typed(context='I beheld the ', begun='mon')
    """
    last = _LAST.search(text)
    begin = last.start() if last else len(text)
    return Typed(text[:begin], text[begin:])


def split_forms(text: str, cut: Cut) -> Typed | None:
    """The last word is the last form, if that is of letters or digits; None after anything but a word or white space.

    >>> from thereafter.text.tokenizers.forms import prose_forms
    >>> split_forms("I beheld the mon", prose_forms), split_forms("Alas!", prose_forms)
    (Typed(context='I beheld the', begun=' mon'), None)
    """
    last = _last_form(text, cut)
    if not _WORD.fullmatch(last):
        return None
    if last != " " and last.isspace():  # a token of its own, before a word that has no space
        last = ""
    return Typed(text[: len(text) - len(last)], last)


def is_word(form: str) -> bool:
    """Whether a form is a run of letters or digits, with or without a space before it.

    >>> is_word(" monster"), is_word(" ("), is_word(" ")
    (True, False, False)
    """
    return not form.isspace() and form != "" and _WORD.fullmatch(form) is not None


def _last_form(text: str, cut: Cut) -> str:
    if len(text) > _TAIL:
        forms = cut(text[-_TAIL:])
        if len(forms) >= _SURE:
            return forms[-1]
    forms = cut(text)
    return forms[-1] if forms else ""


@dataclass(frozen=True)
class Completion:
    """A word that begins as typed, the text to append to have it, its probability among all such words."""

    word: str
    append: str
    p: float


@dataclass(frozen=True)
class Completions(Tabular):
    """Words that begin as the last word of a text does, likeliest first.

    `typed`: what the text has of its last word, with the space before it where that belongs to the word's token.
    `mass`: the model's probability of going on so after the context; the `p` of the words are shares of it.
    `covered`: the share of the mass that the search has followed to the ends of words; 1 where the sum is exact.
    `ending`: the share of the word as it stands, ended where the text ends; 0 where that is no word of the vocabulary.
    """

    typed: str
    words: tuple[Completion, ...]
    mass: float
    covered: float = 1.0
    ending: float = 0.0

    @property
    def half_typed(self) -> bool:
        """Whether a word is begun that the model expects to go on: other words that begin so are likelier than it."""
        return self.typed.strip() != "" and bool(self.words) and self.ending < 0.5

    def to_rows(self) -> list[Row]:
        """A row a word."""
        return [{"word": one.word, "append": one.append, "p": one.p} for one in self.words]

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[Completion]:
        return iter(self.words)

    def __getitem__(self, place: int) -> Completion:
        return self.words[place]


class FormCompleter:
    """Words that begin as typed, from the forms of a vocabulary in alphabetical order: two bisections find them.

    The reserved forms are left out. Case counts as it is typed. Where nothing of a word is typed, all words begin so.
    """

    def __init__(self, tokenizer: FormTokenizer) -> None:
        self._prose = tokenizer if isinstance(tokenizer, ProseTokenizer) else None
        first = len(tokenizer.reserved)
        numbered = sorted(zip(tokenizer.ordinary_forms, range(first, tokenizer.size), strict=True))
        self._forms = [form for form, _ in numbered]
        self._ids = np.array([number for _, number in numbered], dtype=np.int64)
        # in `word` every form is a word; in `prose` some are spaces and punctuation
        self._words = np.array([self._prose is None or is_word(form) for form in self._forms], dtype=bool)

    def split(self, text: str) -> Typed | None:
        """Where the last word of a text begins."""
        return split_at_space(text) if self._prose is None else split_forms(text, self._prose.pieces)

    def complete(self, model: SequenceModel[S], state: S, typed: Typed, k: int) -> Completions:
        """The likeliest words that begin as typed, after the context whose state is given."""
        places = self.places(typed.begun)
        logp_V = np.asarray(model.predict(state))[0]
        p_N = np.exp(logp_V[self._ids[places]].astype(np.float64))
        mass = float(p_N.sum())
        share_N = p_N / mass if mass > 0 else p_N
        ranked = largest(share_N, k).tolist() if mass > 0 else []
        words = []
        for rank in ranked:
            form = self._forms[places[rank]]
            word = form.removeprefix(" ") if typed.begun[:1] == " " else form
            words.append(Completion(word, form[len(typed.begun) :], float(share_N[rank])))
        # the typed form itself, where it is one, is the first in alphabetical order
        whole = len(places) > 0 and self._forms[places[0]] == typed.begun
        return Completions(typed.begun, tuple(words), mass, ending=float(share_N[0]) if whole else 0.0)

    def places(self, begun: str) -> NDArray[np.int64]:
        """Where the words that begin so stand in alphabetical order."""
        low = bisect_left(self._forms, begun)
        high = bisect_right(self._forms, begun, lo=low, key=lambda form: form[: len(begun)])
        places: NDArray[np.int64] = np.arange(low, high)
        if begun.strip() or self._prose is None:
            return places
        words: NDArray[np.int64] = places[self._words[low:high]]
        if begun:
            return words
        bare = [place for place in words.tolist() if not self._forms[place].startswith(" ")]
        return np.array(bare, dtype=np.int64)


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
    form = next(iter(script_forms(body)), "")
    word = form if is_word(form) and not form.startswith(" ") else ""
    return Beginning(word, ended=len(word) < len(body), partial=partial)


def _read_characters(spelled: bytes) -> tuple[str, bool]:
    """The characters of some bytes up to the first broken one, and whether the last is not complete."""
    try:
        return spelled.decode(), False
    except UnicodeDecodeError as error:
        text = spelled[: error.start].decode()
        return (text, True) if error.reason == "unexpected end of data" else (text + _BROKEN, False)


class PieceIndex:
    """The pieces of a tokenizer by the bytes they spell, in order. The unknown token spells nothing that is known."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.spelled = [tokenizer.bytes_of(number) for number in range(tokenizer.size)]
        if tokenizer.unknown_id is not None:
            self.spelled[tokenizer.unknown_id] = b""
        numbered = sorted((spelled, number) for number, spelled in enumerate(self.spelled) if spelled)
        self._sorted = [spelled for spelled, _ in numbered]
        self._longest = max(map(len, self._sorted), default=0)
        self.ids = np.array([number for _, number in numbered], dtype=np.int64)
        """All pieces that spell something, in the order of their bytes."""
        self.unique = not any(later.startswith(earlier) for earlier, later in pairwise(self._sorted))
        """Whether a text can be spelled in one way only: no piece begins with another."""
        self._by_first: dict[str, list[int]] = {}
        """Pieces by their first character; those that begin with a part of one are in no group."""
        for number, spelled in enumerate(self.spelled):
            if first := _read_characters(spelled[:4])[0][:1]:
                self._by_first.setdefault(first, []).append(number)
        self._endings: dict[str, NDArray[np.bool_]] = {}

    def pieces_that_cover(self, rest: bytes) -> NDArray[np.int64]:
        """The pieces that spell these bytes and maybe more."""
        low = bisect_left(self._sorted, rest)
        high = bisect_right(self._sorted, rest, lo=low, key=lambda spelled: spelled[: len(rest)])
        return self.ids[low:high]

    def pieces_within(self, rest: bytes) -> list[int]:
        """The pieces that spell the beginning of these bytes, but not all of them."""
        pieces: list[int] = []
        for size in range(1, min(len(rest), self._longest + 1)):
            low = bisect_left(self._sorted, rest[:size])
            high = bisect_right(self._sorted, rest[:size], lo=low)
            pieces += self.ids[low:high].tolist()
        return pieces

    def spell(self, spelled: bytes) -> list[int] | None:
        """The pieces that spell these bytes, if there is one way to do so at most; None if there is none."""
        pieces: list[int] = []
        while spelled:
            place = bisect_right(self._sorted, spelled) - 1
            if place < 0 or not spelled.startswith(self._sorted[place]):
                return None
            pieces.append(int(self.ids[place]))
            spelled = spelled[len(self._sorted[place]) :]
        return pieces

    def endings(self, word: str) -> NDArray[np.bool_]:
        """Which pieces end a word, [V]: their first character does not belong to it. Of "": no word begins so."""
        last = word[-1:]
        # a character that stands for all those that go on like the last one: an "a" for letters, a "0" for digits
        same = (kind for kind in ("a", "0") if last and len(script_forms(kind + last)) == 1)
        kind = next(same, last)
        if kind not in self._endings:
            ends_V = np.zeros(len(self.spelled), dtype=bool)
            for first, pieces in self._by_first.items():
                ends_V[pieces] = not is_word(first) if kind == "" else len(script_forms(kind + first)) > 1
            self._endings[kind] = ends_V
        return self._endings[kind]


Completer = FormCompleter | PieceCompleter
"""Completes words over one family of tokenizers. It is made once for a tokenizer and used for many texts."""


def completer_of(tokenizer: Tokenizer) -> Completer:
    """The completer of a tokenizer, by its family."""
    return FormCompleter(tokenizer) if isinstance(tokenizer, FormTokenizer) else PieceCompleter(tokenizer)


def complete(
    model: SequenceModel[S], tokenizer: Tokenizer, text: str, k: int = 5, *, completer: Completer | None = None
) -> Completions:
    """The k likeliest words that begin as the last word of a text does; none after punctuation."""
    if k < 1:
        raise OptionError(f"k is {k}; expected at least 1; try k=5")
    by = completer_of(tokenizer) if completer is None else completer
    typed = by.split(text)
    if typed is None:
        return Completions("", (), 0.0)
    ids = tokenizer.encode(typed.context)
    state = model.start(1)
    if len(ids):
        state = model.read(np.asarray(ids).reshape(1, -1), state)
    return by.complete(model, state, typed, k)

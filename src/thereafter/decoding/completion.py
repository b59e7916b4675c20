"""Half-typed words: which words begin as the last word of a text does, and how likely each of them is.

    p(word | typed) = p(word after the context) / sum of p(all words that begin as typed)

The context is the text without its last word. How the sum is taken depends on the tokens:

- Forms (`word`, `prose`): exactly, over the forms of the vocabulary that begin so. The unknown word is none of them.
- Pieces (`char`, `byte`, `bpe` and all others): the pieces of the half-typed word are given back, and every sequence of
  pieces whose bytes begin as typed counts. A character that cannot belong to the word ends it. The likeliest beginnings
  are followed first (`completion_search`), and `covered` says what share of the sum they have reached.

A word is what `word` finds between white space; for all other tokens it is a run of letters or of digits.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from thereafter.decoding.completion_search import PieceCompleter
from thereafter.decoding.completion_typed import Completion, Completions, Typed, is_word, split_at_space, split_forms
from thereafter.decoding.warping import largest
from thereafter.errors import OptionError
from thereafter.models.base import S, SequenceModel
from thereafter.text.tokenizers.base import Tokenizer
from thereafter.text.tokenizers.forms import FormTokenizer
from thereafter.text.tokenizers.prose import ProseTokenizer


class Completer(Protocol):
    """Completes words over one family of tokenizers. It is made once for a tokenizer and used for many texts."""

    def split(self, text: str, /) -> Typed | None:
        """Where the last word of a text begins; None after a character that no word begins with or goes on from."""

    def complete(self, model: SequenceModel[S], state: S, typed: Typed, k: int, /) -> Completions:
        """The likeliest words that begin as typed, after the context whose state is given."""


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
        words = [_completion(self._forms[places[rank]], typed, float(share_N[rank])) for rank in ranked]
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


def _completion(form: str, typed: Typed, p: float) -> Completion:
    return Completion(form.removeprefix(" ") if typed.begun[:1] == " " else form, form[len(typed.begun) :], p)

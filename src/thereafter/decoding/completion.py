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

from typing import Protocol

import numpy as np

from thereafter.decoding.completion_forms import FormCompleter
from thereafter.decoding.completion_search import PieceCompleter
from thereafter.decoding.completion_table import Completions
from thereafter.decoding.completion_typed import Typed
from thereafter.errors import OptionError
from thereafter.models.base import S, SequenceModel
from thereafter.text.tokenizers.base import Tokenizer
from thereafter.text.tokenizers.forms import FormTokenizer


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

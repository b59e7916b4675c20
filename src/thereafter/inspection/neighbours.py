"""Which tokens are alike for a model: those whose embeddings point the same way.

    cosine(a, b) = a . b / (|a| |b|)

Shapes: V words that can be predicted, E numbers an embedding.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from thereafter.decoding.sampling import largest
from thereafter.errors import OptionError
from thereafter.text.tokenizers.base import Tokenizer


def nearest_rows(
    embedding_VE: NDArray[np.floating], row: int, k: int, left_out: Sequence[int] = ()
) -> list[tuple[int, float]]:
    """The k rows of greatest cosine with one row, greatest first, ties to the lower id; itself is not among them."""
    vectors_VE = np.asarray(embedding_VE, dtype=np.float64)
    lengths_V = np.linalg.norm(vectors_VE, axis=1)
    # a row of zeros points nowhere: its cosine with all is 0
    cosines_V = vectors_VE @ vectors_VE[row] / np.maximum(lengths_V * lengths_V[row], np.finfo(np.float64).tiny)
    others = np.setdiff1d(np.arange(len(vectors_VE)), [row, *left_out])
    chosen = others[largest(cosines_V[others], k)]
    return [(int(place), float(cosines_V[place])) for place in chosen]


def find_token(word: str, tokenizer: Tokenizer, normal: Callable[[str], str] = str) -> int:
    """The id of a word, with or without the space that `prose` and `bpe` write before it, whichever came first.

    Ids fall with frequency, so that "cat" is the " cat" inside of lines unless lines begin with it more often.
    `normal` reads a word as the training text was read.
    """
    if not word:
        raise OptionError("the word is empty; expected one token of the model; try 'the'")
    ways = [word] if word[:1].isspace() else [word, f" {word}"]
    cut = [tokenizer.encode(normal(way)).tolist() for way in ways]
    known = [ids[0] for ids in cut if len(ids) == 1 and ids[0] != tokenizer.unknown_id]
    if known:
        return int(min(known))
    if max(map(len, cut)) > 1 and not any(tokenizer.unknown_id in ids for ids in cut if len(ids) == 1):
        shown = ", ".join(repr(tokenizer.piece(part)) for part in min(cut, key=len)[:8])
        raise OptionError(
            f"{word!r} is more than one of the model's {tokenizer.name} tokens; expected one; try one of {shown}"
        )
    stripped = {form.strip(): None for form in tokenizer.ordinary_forms}
    close = difflib.get_close_matches(normal(word).strip(), stripped, n=3, cutoff=0.6)
    hint = (
        "did you mean " + " or ".join(map(repr, close)) + "?" if close else "try a word of the text it was trained on"
    )
    raise OptionError(
        f"{word!r} is not among the model's {len(tokenizer.vocabulary):,} {tokenizer.name} tokens; {hint}"
    )

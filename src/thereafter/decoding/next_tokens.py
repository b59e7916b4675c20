"""The likeliest next tokens after a text, each as the text to append.

With most tokens a space belongs to the word after it. So after "I went to " the space is given back: the tokens listed
are those that begin with a space after "I went to", with their shares among these, and the space is not appended again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from thereafter.decoding.warping import largest
from thereafter.errors import OptionError
from thereafter.models.base import S, SequenceModel
from thereafter.text.tokenizers.base import Tokenizer


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

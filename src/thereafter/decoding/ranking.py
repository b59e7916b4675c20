"""What a model finds likeliest: of several texts, or as the next token.

Texts are the candidates of a speech recogniser or a spell checker:

    log p(candidate | context) = sum of log p of its tokens - spelling of its unknown forms

Without the spelling a candidate full of unknown words would win, since `<unk>` is a likely token.

Next tokens are listed as the text to append. With most tokens a space belongs to the word after it. So after "I went
to " the space is given back: the tokens listed are those that begin with a space after "I went to", with their shares
among these, and the space is not appended again.

Shapes: B candidates of one length, T tokens each, V words that can be predicted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from thereafter.decoding.sampling import largest
from thereafter.errors import OptionError, UnknownNameError
from thereafter.models.base import Ids, S, SequenceModel
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

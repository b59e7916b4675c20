"""Which of several texts a model finds likeliest: the candidates of a speech recogniser or a spell checker.

    log p(candidate | context) = sum of log p of its tokens - spelling of its unknown forms

Without the spelling a candidate full of unknown words would win, since `<unk>` is a likely token.

Shapes: B candidates of one length, T tokens each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from thereafter.errors import OptionError, UnknownNameError
from thereafter.models.base import Ids, S, SequenceModel
from thereafter.text.tokenizers.base import Tokenizer
from thereafter.text.vocabulary import Spelling

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

"""Beam search: the likeliest continuations a model has, as far as a few hypotheses at a time can find them.

    score = sum of log p / length^length_penalty

length the number of new tokens. A penalty of 0 compares sums, which favours short texts; 1 compares means; above 1
favours long ones. Only a stop string ends a hypothesis early, so without one all are of one length.

Shapes: K hypotheses, V words that can be predicted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from thereafter.decoding.warping import Floats, largest, penalised
from thereafter.decoding.writing import Written
from thereafter.models.base import Ids, Logs, SequenceModel


@dataclass(frozen=True)
class Hypothesis:
    """A continuation: its tokens, their log probabilities, their text, and the sum that the search compares."""

    written: Written
    tokens: tuple[int, ...] = ()
    log_probs: tuple[float, ...] = ()
    text: str = ""
    total: float = 0.0
    """Sum of log p, with the repetition penalty where there is one."""

    def score(self, length_penalty: float) -> float:
        """The sum over length^length_penalty; nothing written at all counts as one token."""
        return self.total / math.pow(max(1, len(self.tokens)), length_penalty)

    def then(self, token: int, log_prob: float, total: float) -> Hypothesis:
        """The same with one token more."""
        piece, written = self.written.add(token)
        return Hypothesis(written, (*self.tokens, token), (*self.log_probs, log_prob), self.text + piece, total)


def beam_search(
    model: SequenceModel[Any],
    state: Any,
    written: Written,
    *,
    num_beams: int,
    max_new_tokens: int,
    length_penalty: float = 1.0,
    early_stopping: bool = False,
    repetition_penalty: float = 1.0,
    prompt: Ids | None = None,
    forbidden: Sequence[int] = (),
) -> list[Hypothesis]:
    """The best `num_beams` continuations found, best first, ties to the one found first.

    All hypotheses are one batch to the model. An extension that ends counts if it is among the `num_beams` likeliest of
    its step; the search stops when no running hypothesis can still beat those that ended, or, with `early_stopping`,
    as soon as `num_beams` have.
    """
    running: list[Hypothesis] = [Hypothesis(written)]
    ended: list[Hypothesis] = []
    read = np.empty(0, dtype=np.int64) if prompt is None else np.asarray(prompt)
    logp_KV = np.asarray(model.predict(state))
    for left in range(max_new_tokens, 0, -1):
        total_KV = _totals(running, logp_KV, read, repetition_penalty, forbidden)
        ended += [
            hypothesis
            for hypothesis, best in zip(running, total_KV.max(axis=1).tolist(), strict=True)
            if best == -np.inf
        ]  # nothing can follow them
        going: list[Hypothesis] = []
        parents: list[int] = []
        for rank, place in enumerate(_falling(total_KV.ravel(), 2 * num_beams)):
            parent, token = divmod(place, total_KV.shape[1])
            grown = running[parent].then(token, float(logp_KV[parent, token]), float(total_KV[parent, token]))
            if grown.written.ended:
                ended += [grown] if rank < num_beams else []
            else:
                going.append(grown)
                parents.append(parent)
            if len(going) == num_beams:
                break
        running = going
        ended.sort(key=lambda hypothesis: -hypothesis.score(length_penalty))  # stable
        del ended[num_beams:]
        if not running or left == 1:
            break
        if len(ended) == num_beams and (early_stopping or _settled(running, ended, left - 1, length_penalty)):
            running = []
            break
        tokens = np.array([hypothesis.tokens[-1] for hypothesis in running])
        logp, state = model.step(tokens, state.select(np.array(parents)))
        logp_KV = np.asarray(logp)
    found = sorted([*ended, *running], key=lambda hypothesis: -hypothesis.score(length_penalty))
    return found[:num_beams]


def _totals(
    running: list[Hypothesis], logp_KV: Logs, read: Ids, repetition_penalty: float, forbidden: Sequence[int]
) -> Floats:
    """The sums of all hypotheses with each token after them, [K, V]."""
    total_KV = np.empty(logp_KV.shape)
    for total_V, logp_V, hypothesis in zip(total_KV, logp_KV, running, strict=True):
        seen = np.union1d(read, hypothesis.tokens).astype(np.int64) if repetition_penalty != 1 else None
        total_V[:] = hypothesis.total + penalised(logp_V, repetition_penalty, seen)
    total_KV[:, list(forbidden)] = -np.inf
    return total_KV


def _falling(totals: Floats, first: int) -> Iterator[int]:
    """The places of all possible extensions from the best down; more are sorted only when they are asked for."""
    done, wanted = 0, first
    while done < len(totals):
        places = largest(totals, wanted)
        for place in places[done:].tolist():
            if np.isneginf(totals[place]):
                return
            yield place
        done, wanted = len(places), wanted * 4


def _settled(running: list[Hypothesis], ended: list[Hypothesis], left: int, length_penalty: float) -> bool:
    """Whether nothing that still runs can beat the worst that ended.

    A sum only falls as tokens come, of which `left` may. Divided by length^penalty it is best at the greatest length
    where the penalty is above 0, at the next token where it is not.
    """
    best = max(hypothesis.total for hypothesis in running)
    length = len(running[0].tokens)
    reached = length + left if length_penalty > 0 else length + 1
    return best / math.pow(reached, length_penalty) <= ended[-1].score(length_penalty)

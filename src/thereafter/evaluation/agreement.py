"""How often a model prefers the form that a distant word requires: "the keys to the cabinet are", not "is".

Any sentence with an annotated pair of words will do: verbs, reflexive pronouns, objects that a filler leaves out. It is
read from a fresh start up to the word that must agree; the model is right where

    log p(right form | words before) > log p(wrong form | words before)

and half right where the two are equal, so that guessing is right half the time (Linzen, Dupoux and Goldberg 2016). A
form is a whole word: where tokens are smaller than words, the probability that the word ends there belongs to it, or
"walk" would be as likely as all words that begin with it.

`Verdicts` are right answers of a model, counted: by the distance from the word that decides an answer, and by other
groups.

Shapes: B sentences, V words that can be predicted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.errors import EmptyCorpusError
from thereafter.models.any_model import AnyModel
from thereafter.models.base import Ids, Logs, SequenceModel, State
from thereafter.text.agreement import Sentence
from thereafter.text.tokenizers.base import Tokenizer

K = TypeVar("K", bound=Hashable)

DISTANCE = "distance"
Group = Mapping[int, "Tally"] | Mapping[str, "Tally"]
Stored = dict[str, dict[str, list[float]]]
"""Verdicts as JSON: right and total by group and key."""


@dataclass(frozen=True)
class Tally:
    """The number of right answers and their total; ties are half right."""

    right: float = 0.0
    total: int = 0

    @property
    def accuracy(self) -> float:
        """The share that is right; nan without answers."""
        return self.right / self.total if self.total else math.nan

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.right + other.right, self.total + other.total)


@dataclass(frozen=True)
class Verdicts:
    """The answers to many questions: by distance, and in further groups, each under its name.

    >>> near_and_far = Verdicts({0: Tally(9, 10), 7: Tally(5, 10)}, {"nouns": {0: Tally(14, 20)}})
    >>> near_and_far.overall.accuracy, near_and_far.between(5, 10).accuracy, near_and_far.among("nouns", 0, 3).total
    (0.7, 0.5, 20)
    """

    distance: Mapping[int, Tally]
    groups: Mapping[str, Group] = field(default_factory=dict)

    @property
    def overall(self) -> Tally:
        return sum(self.distance.values(), Tally())

    @property
    def longest(self) -> int:
        """The largest distance of any question."""
        return max(self.distance)

    def between(self, shortest: int, longest: int) -> Tally:
        """All answers over distances from `shortest` to `longest`."""
        return sum((tally for distance, tally in self.distance.items() if shortest <= distance <= longest), Tally())

    def among(self, group: str, lowest: int, highest: int) -> Tally:
        """Those of a further group whose keys are numbers from `lowest` to `highest`."""
        keys = self.groups[group].items()
        return sum((tally for key, tally in keys if isinstance(key, int) and lowest <= key <= highest), Tally())

    def under(self, group: str, key: str) -> Tally:
        """Those of a further group under one key."""
        return sum((tally for name, tally in self.groups[group].items() if name == key), Tally())

    def all_groups(self) -> dict[str, Group]:
        """Every group by its name, the distances first."""
        return {DISTANCE: self.distance, **self.groups}

    def as_dict(self) -> Stored:
        """Plain JSON values: right and total of every group."""
        return {
            name: {str(key): [tally.right, tally.total] for key, tally in group.items()}
            for name, group in self.all_groups().items()
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Mapping[str, Iterable[float]]]) -> Self:
        """What `as_dict` gave."""
        distance = {int(key): _tally(pair) for key, pair in stored[DISTANCE].items()}
        return cls(distance, {name: _group(group) for name, group in stored.items() if name != DISTANCE})


def count_by(keys: Iterable[K], marks: Iterable[float]) -> dict[K, Tally]:
    """A tally for each key, in the order of the keys' first use; a mark is 1 for right, 0 for wrong."""
    tallies: dict[K, Tally] = {}
    for key, mark in zip(keys, marks, strict=True):
        tallies[key] = tallies.get(key, Tally()) + Tally(mark, 1)
    return tallies


def _group(stored: Mapping[str, Iterable[float]]) -> Group:
    """Keys that are all numbers become numbers again."""
    tallies = {key: _tally(pair) for key, pair in stored.items()}
    if all(key.isdecimal() for key in tallies):
        return {int(key): tally for key, tally in tallies.items()}
    return tallies


def _tally(pair: Iterable[float]) -> Tally:
    right, total = pair
    return Tally(right, int(total))


S = TypeVar("S", bound=State)

BINS = ((0, 0), (1, 2), (3, 5), (6, 10), (11, 20), (21, 30), (31, 40))
"""Distances that are shown together, both ends included."""

ATTRACTORS, CONGRUENT = "attractors", "congruence"
"""The names of the further groups of the verdicts in files."""
CONGRUENCE = {True: "congruent", False: "incongruent", None: "no attractor"}
NO_NUMBER = "no number"
_WHOLE_WORDS = ("word", "prose")  # one token is one word: the next token never continues it
MOST_ROWS = 512
_NUMBERS = 8_000_000  # predictions in memory at once: rows times vocabulary


def measure_agreement(
    model: AnyModel,
    tokenizer: Tokenizer,
    sentences: Iterable[Sentence],
    *,
    context: str,
    prepare: Callable[[str], str] | None = None,
) -> Verdicts:
    """The verdicts of a model over sentences, each from a fresh start: by words between the two, by nouns between them
    (`attractors`), and by whether the last of these nouns has the subject's number (`congruence`).

    In `stream` context a line end is read first, since that is how lines begin for such a model. `prepare` preprocesses
    a sentence as the training text was.
    """
    cases = list(sentences)
    if not cases:
        raise EmptyCorpusError("there are no sentences to judge agreement by; expected at least one")
    marks: list[float] = verdicts(model, tokenizer, cases, context=context, prepare=prepare).tolist()
    distance = count_by((case.distance for case in cases), marks)
    attractors = count_by((len(case.attractors) for case in cases), marks)
    # by the last attractor; a group of its own where the opener has no number to agree with
    groups = (NO_NUMBER if case.number is None and case.attractors else CONGRUENCE[case.congruent] for case in cases)
    congruence = count_by(groups, marks)
    return Verdicts(
        dict(sorted(distance.items())),
        {ATTRACTORS: dict(sorted(attractors.items())), CONGRUENT: dict(sorted(congruence.items()))},
    )


def verdicts(
    model: AnyModel,
    tokenizer: Tokenizer,
    sentences: Sequence[Sentence],
    *,
    context: str,
    prepare: Callable[[str], str] | None = None,
) -> NDArray[np.float64]:
    """For each sentence 1 where the right form is likelier, 0 where the wrong one is, 0.5 where neither is."""
    begin = "" if context == "line" else "\n"
    prepared = prepare or (lambda text: text)
    pairs = [
        _Pair.of(*(tokenizer.encode(begin + prepared(text)) for text in (sentence.right, sentence.wrong)))
        for sentence in sentences
    ]
    goes_on_V: NDArray[np.bool_] | None = None  # the tokens that continue the word before: they begin with a letter
    if tokenizer.name not in _WHOLE_WORDS:
        goes_on_V = np.array([tokenizer.piece(token)[:1].isalpha() for token in range(len(tokenizer.vocabulary))])
    marks = np.empty(len(pairs))
    with progress.task("agreement", total=len(pairs), unit="sentences") as advance:
        for rows in _batches(pairs, max(1, min(MOST_ROWS, _NUMBERS // model.vocabulary_size))):
            batch = [pairs[row] for row in rows]
            state = model.start(len(rows))
            if len(batch[0].shared):
                state = model.read(np.stack([pair.shared for pair in batch]), state)
            first_BV = np.asarray(model.predict(state))
            right_B, wrong_B = (
                _log_p(model, first_BV, state, tails, goes_on_V)
                for tails in ([pair.right for pair in batch], [pair.wrong for pair in batch])
            )
            marks[rows] = np.where(right_B == wrong_B, 0.5, right_B > wrong_B)
            advance(len(rows))
    return marks


@dataclass(frozen=True)
class _Pair:
    """What both versions of a sentence share, and how each ends."""

    shared: Ids
    right: Ids
    wrong: Ids

    @classmethod
    def of(cls, right: Ids, wrong: Ids) -> _Pair:
        short = min(len(right), len(wrong))
        differ = np.flatnonzero(right[:short] != wrong[:short])
        alike = int(differ[0]) if len(differ) else short
        return cls(right[:alike], right[alike:], wrong[alike:])


def _batches(pairs: Sequence[_Pair], most: int) -> Iterator[list[int]]:
    """Numbers of sentences whose shared beginnings are equally long."""
    by_length = sorted(range(len(pairs)), key=lambda row: len(pairs[row].shared))
    for _, rows in groupby(by_length, key=lambda row: len(pairs[row].shared)):
        alike = list(rows)
        yield from (alike[at : at + most] for at in range(0, len(alike), most))


def _log_p(
    model: SequenceModel[S], logp_BV: Logs, state: S, tails: Sequence[Ids], goes_on_V: NDArray[np.bool_] | None
) -> NDArray[np.float64]:
    """log p of each row's tail as the end of a word, after the state with the prediction `logp_BV`."""
    length_B = np.array([len(tail) for tail in tails])
    longest = int(length_B.max())
    tokens_BT = np.zeros((len(tails), longest + 1), dtype=np.int64)
    for row, tail in zip(tokens_BT, tails, strict=True):
        row[: len(tail)] = tail
    total_B = np.zeros(len(tails))
    for t in range(longest + 1):
        ended_B, more_B = length_B == t, length_B > t
        if goes_on_V is not None and ended_B.any():
            p_BV = np.exp(logp_BV[ended_B].astype(np.float64))
            with np.errstate(divide="ignore"):  # a word that cannot end here has the probability 0
                total_B[ended_B] += np.log(p_BV[:, ~goes_on_V].sum(axis=1))
        if not more_B.any():
            break
        total_B[more_B] += logp_BV[more_B, tokens_BT[more_B, t]]
        if t + 1 < longest or goes_on_V is not None:
            # rows that have ended read anything: their output is not used
            logp, state = model.step(tokens_BT[:, t], state)
            logp_BV = np.asarray(logp)
    return total_B

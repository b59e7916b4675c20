"""What a comparison found, before anybody shows it: one row a model, the mean and spread over its seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from thereafter.comparing.trials import Trial
from thereafter.errors import UnknownNameError
from thereafter.evaluation.agreement import BINS, CONGRUENCE, Agreement, Tally
from thereafter.models.base import NOT_NORMALISED

NOUNS = ((0, 0), (1, 1), (2, 2), (3, 5), (6, 99))
"""Numbers of nouns between that are shown together, both ends included."""


@dataclass(frozen=True)
class Figure:
    """The mean over seeds and the standard deviation between them, None where there is one seed."""

    mean: float
    spread: float | None = None

    @classmethod
    def of(cls, values: Iterable[float]) -> Figure:
        found = list(values)
        if not found:
            return cls(math.nan)
        finite = len(found) > 1 and all(map(math.isfinite, found))
        return cls(sum(found) / len(found), statistics.stdev(found) if finite else None)


@dataclass(frozen=True)
class Row:
    """One model of a comparison with all its seeds."""

    name: str
    trials: tuple[Trial, ...]

    @property
    def first(self) -> Trial:
        return self.trials[0]

    @property
    def normalised(self) -> bool:
        """Whether its scores are probabilities; those of others are compared with nobody's."""
        return all(trial.score.get("normalised", True) for trial in self.trials)

    def figure(self, of: Callable[[Trial], float]) -> Figure:
        """The mean and spread of any figure of its trials."""
        return Figure.of(of(trial) for trial in self.trials)

    @property
    def bits_per_byte(self) -> Figure:
        return self.figure(lambda trial: trial.bits_per_byte)

    @property
    def perplexity(self) -> Figure:
        return self.figure(lambda trial: trial.perplexity)

    @property
    def tokens_per_second(self) -> float:
        return self.figure(lambda trial: trial.tokens_per_second or math.nan).mean

    @property
    def latency(self) -> float:
        """Seconds from one token to the next."""
        return statistics.median(trial.latency for trial in self.trials)

    @property
    def seconds(self) -> float:
        """Seconds of training, of one seed."""
        return self.figure(lambda trial: trial.seconds).mean

    @property
    def seen(self) -> float:
        """Tokens it was trained on, each as often as it was read, of one seed."""
        return self.figure(lambda trial: trial.seen).mean

    @cached_property
    def agreements(self) -> list[Agreement]:
        """The verdicts on agreement, one for each seed; none where the text is another."""
        return [Agreement.from_dict(trial.agreement) for trial in self.trials if trial.agreement is not None]

    def agreement(self, of: Callable[[Agreement], Tally]) -> Figure:
        """The mean and spread of an accuracy."""
        return Figure.of(of(found).accuracy for found in self.agreements)

    def as_dict(self) -> dict[str, Any]:
        first = self.first
        found: dict[str, Any] = {"name": self.name, "model": first.model, "tokens": first.tokens}
        found |= {"bits_per_byte": asdict(self.bits_per_byte), "perplexity": asdict(self.perplexity)}
        if not self.normalised:
            found["reason"] = NOT_NORMALISED
        found |= {"parameters": first.parameters, "tokens_per_second": self.tokens_per_second}
        found |= {"latency": self.latency, "size": first.size, "seconds": self.seconds, "seen": self.seen}
        if self.agreements:
            found["agreement"] = {
                label: asdict(self.agreement(of)) for group in agreement_groups([self]) for label, of in group.items()
            }
        return found | {"trials": [trial.as_dict() for trial in self.trials]}


@dataclass(frozen=True)
class Compared:
    """Models compared on one text.

    `about` says how: source, detail, sizes of the parts, budget, seeds, match, command, date, machine, versions.
    `notes` are sentences about what was done, failures among them.
    """

    rows: tuple[Row, ...]
    about: dict[str, Any]
    notes: tuple[str, ...] = ()
    folder: Path | None = field(default=None, compare=False)
    """Where the runs are, if they were kept: `thereafter.load(folder / "runs" / trial.run)`."""

    def row(self, name: str) -> Row:
        """The row of a model, named as it was given."""
        found = {row.name: row for row in self.rows}
        if name not in found:
            raise UnknownNameError("model of this comparison", name, found)
        return found[name]


Group = dict[str, Callable[[Agreement], Tally]]
"""Columns of an agreement table: what each is called, and which sentences it counts."""


def agreement_groups(rows: Sequence[Row]) -> tuple[Group, Group]:
    """The columns agreement is shown by: words between the two; nouns between them, and the number of the last."""
    known = [found for row in rows for found in row.agreements]
    words = max((key for found in known for key in found.distance), default=0)
    nouns = max((key for found in known for key in found.attractors), default=0)
    by_words: Group = {_span(low, high): _by_distance(low, high) for low, high in BINS if low <= words}
    by_nouns: Group = {"all": lambda found: found.overall}
    by_nouns |= {
        f"{_span(low, min(high, nouns))} noun{'s' * (high != 1)}": _by_attractors(low, high)
        for low, high in NOUNS
        if low <= nouns
    }
    return by_words, by_nouns | {name: _by_congruence(name) for same, name in CONGRUENCE.items() if same is not None}


def _span(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}-{high}"


def _by_distance(low: int, high: int) -> Callable[[Agreement], Tally]:
    return lambda found: found.between(low, high)


def _by_attractors(low: int, high: int) -> Callable[[Agreement], Tally]:
    return lambda found: sum((one for key, one in found.attractors.items() if low <= key <= high), Tally())


def _by_congruence(name: str) -> Callable[[Agreement], Tally]:
    return lambda found: found.congruence.get(name, Tally())


def left_out(rows: Sequence[Row]) -> list[str]:
    """A sentence for the models whose scores compare with nobody's; none where there are no such models."""
    names = [row.name for row in rows if not row.normalised]
    return [f"{', '.join(names)}: {NOT_NORMALISED}; compared with nothing."] if names else []


def seeds_of(rows: Sequence[Row]) -> int:
    """The most seeds a row has."""
    return max((len(row.trials) for row in rows), default=0)

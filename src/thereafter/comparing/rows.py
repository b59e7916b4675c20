"""The results of a comparison, before anybody shows them: one row a model, the mean and spread over its seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path

from thereafter.base.config import Table
from thereafter.comparing.mean_spread import MeanSpread as MeanSpread
from thereafter.comparing.model_difference import ModelDifference
from thereafter.comparing.pair_verdicts import PairTable
from thereafter.comparing.trial import Trial
from thereafter.errors import UnknownNameError
from thereafter.evaluation.corpus_probe import Column, CorpusProbe
from thereafter.evaluation.offered import PROBES
from thereafter.evaluation.verdicts import Tally, Verdicts
from thereafter.models.base import NOT_NORMALISED


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

    def average(self, of: Callable[[Trial], float]) -> MeanSpread:
        """The mean and spread of any figure of its trials."""
        return MeanSpread.of(of(trial) for trial in self.trials)

    @property
    def bits_per_byte(self) -> MeanSpread:
        return self.average(lambda trial: trial.bits_per_byte)

    @property
    def perplexity(self) -> MeanSpread:
        return self.average(lambda trial: trial.perplexity)

    @property
    def tokens_per_second(self) -> float:
        return self.average(lambda trial: trial.tokens_per_second or math.nan).mean

    @property
    def latency(self) -> float:
        """Seconds from one token to the next."""
        return statistics.median(trial.latency for trial in self.trials)

    @property
    def seconds(self) -> float:
        """Seconds of training, of one seed."""
        return self.average(lambda trial: trial.seconds).mean

    @property
    def seen(self) -> float:
        """Tokens it was trained on, each as often as it was read, of one seed."""
        return self.average(lambda trial: trial.seen).mean

    @cached_property
    def probed(self) -> dict[str, list[Verdicts]]:
        """The answers to each probe of the corpus, one for each seed; none where the corpus offers no probe."""
        results: dict[str, list[Verdicts]] = {}
        for trial in self.trials:
            for name, stored in trial.probes.items():
                results.setdefault(name, []).append(Verdicts.from_dict(stored))
        return results

    def accuracy(self, probe: str, count: Callable[[Verdicts], Tally]) -> MeanSpread:
        """The mean and spread of an accuracy: `count` picks the answers that count."""
        return MeanSpread.of(count(verdicts).accuracy for verdicts in self.probed.get(probe, ()))

    def as_dict(self) -> Table:
        first = self.first
        values: Table = {"name": self.name, "model": first.model, "tokens": first.tokens}
        values |= {"bits_per_byte": asdict(self.bits_per_byte), "perplexity": asdict(self.perplexity)}
        if not self.normalised:
            values["reason"] = NOT_NORMALISED
        values |= {"parameters": first.parameters, "tokens_per_second": self.tokens_per_second}
        values |= {"latency": self.latency, "size": first.size, "seconds": self.seconds, "seen": self.seen}
        for name, results in self.probed.items():
            columns = _columns(PROBES[name], results)
            values[name] = {one.label: asdict(self.accuracy(name, one.count)) for one in columns}
        return values | {"trials": [trial.as_dict() for trial in self.trials]}


@dataclass(frozen=True)
class Compared:
    """Models compared on one text.

    `about` says how: source, detail, sizes of the parts, budget, seeds, match, command, date, machine, versions.
    `notes` are sentences about what was done, failures among them. `differences` are those from the best model, with
    their intervals; none where they could not be resampled.
    """

    rows: tuple[Row, ...]
    about: Table
    notes: tuple[str, ...] = ()
    folder: Path | None = field(default=None, compare=False)
    """Where the runs are, if they were kept: `thereafter.load(folder / "runs" / trial.run)`."""
    differences: tuple[ModelDifference, ...] = ()
    pairs: PairTable | None = None
    """The answers to minimal pairs, where they were asked for."""

    def row(self, name: str) -> Row:
        """The row of a model, named as it was given."""
        rows = {row.name: row for row in self.rows}
        if name not in rows:
            raise UnknownNameError("model of this comparison", name, rows)
        return rows[name]

    def measured(self) -> Table:
        """What was measured beside the rows, for JSON: differences with their intervals, and minimal pairs."""
        pairs = {} if self.pairs is None else {"pairs": self.pairs.as_dict()}
        return {"differences": [one.as_dict() for one in self.differences], **pairs}

    def probes(self) -> list[ProbeRows]:
        """The probes that at least one model was asked, each with the rows of these models."""
        return [
            ProbeRows(probe, rows)
            for name, probe in PROBES.items()
            if (rows := [row for row in self.rows if row.probed.get(name)])
        ]


@dataclass(frozen=True)
class ProbeRows:
    """A probe of the corpus, and the rows of the models that were asked."""

    probe: CorpusProbe
    rows: list[Row]

    @property
    def results(self) -> list[Verdicts]:
        """All answers, model by model and seed by seed."""
        return [verdicts for row in self.rows for verdicts in row.probed[self.probe.name]]

    @property
    def longest(self) -> int:
        """The largest distance that was asked about."""
        return max(verdicts.longest for verdicts in self.results)

    def accuracy(self, row: Row, count: Callable[[Verdicts], Tally]) -> MeanSpread:
        """The mean and spread of an accuracy of a model."""
        return row.accuracy(self.probe.name, count)


def _columns(probe: CorpusProbe, results: Sequence[Verdicts]) -> list[Column]:
    return [column for table in probe.tables(results) for column in table.columns]


def left_out(rows: Sequence[Row]) -> list[str]:
    """A sentence for the models whose scores compare with nobody's; none where there are no such models."""
    names = [row.name for row in rows if not row.normalised]
    return [f"{', '.join(names)}: {NOT_NORMALISED}; compared with nothing."] if names else []


def seeds_of(rows: Sequence[Row]) -> int:
    """The most seeds a row has."""
    return max((len(row.trials) for row in rows), default=0)

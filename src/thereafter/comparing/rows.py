"""The results of a comparison, before anybody shows them.

A `Trial` is one model trained once with one seed, as files keep it. A `Row` is a model with all its seeds: the mean and
the spread over them. `Compared` has all rows, as tables of numbers as well. Minimal pairs are put to every model.

OUT/results/NAME.pairs.json    the answers of one model with one seed, and which pairs they are about
"""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np

from thereafter.base.config import Table
from thereafter.base.storage import write_text
from thereafter.base.tabular import Row as TableRow
from thereafter.base.tabular import Tabular, finite
from thereafter.comparing.differences import (
    LineSums,
    MeanSpread,
    ModelDifference,
    ModelLines,
    SeedSpread,
    against_best,
    line_differences,
)
from thereafter.comparing.probes import ALWAYS_STORED, PROBES, Column, CorpusProbe
from thereafter.errors import FormatError, UnknownNameError
from thereafter.evaluation.agreement import Stored, Tally, Verdicts
from thereafter.evaluation.bootstrap import LEAST, resample_sums, wilson
from thereafter.evaluation.conditions import ITEM
from thereafter.inspection.pairs import FIGURES, Pair, PairFiles, PairScores, read_pair_files, score_each
from thereafter.inspection.sentence_reader import SentenceReader
from thereafter.inspection.surprisal import column_marks
from thereafter.models.base import NOT_NORMALISED
from thereafter.training.kinds import Trained

_FIGURES = ("total", "judged", "accuracy", "unknown", "same")


@dataclass(frozen=True)
class AskedPairs:
    """Pairs to be put to models, and what they are called."""

    name: str
    pairs: tuple[Pair, ...]

    @classmethod
    def read(cls, files: PairFiles) -> Self:
        """The pairs of files: a path, a folder, a glob, or several of them."""
        pairs = read_pair_files(files)
        names = list(dict.fromkeys(pair.file for pair in pairs))
        return cls(names[0] if len(names) == 1 else f"{len(names):,} files", tuple(pairs))

    @property
    def sha256(self) -> str:
        """Of all that decides the answers."""
        texts = [[pair.good, pair.bad, sorted(pair.groups.items())] for pair in self.pairs]
        return hashlib.sha256(json.dumps(texts).encode()).hexdigest()

    def ask(self, trained: Trained) -> PairVerdicts:
        """How often a model finds the good sentence likelier: over all pairs, and in each group."""
        reader = SentenceReader.of(trained.model, trained.tokenizer, trained.config)
        scores = score_each(reader, self.pairs, name=self.name)
        arrays = scores.measurement().arrays
        keys = zip(arrays["by"].tolist(), arrays["group"].tolist(), strict=True)
        figures = zip(*(arrays[name].tolist() for name in _FIGURES), strict=True)
        return PairVerdicts(self.sha256, {key: PairGroup(*one) for key, one in zip(keys, figures, strict=True)})


@dataclass(frozen=True)
class PairGroup:
    """The answers to one group of pairs: `accuracy` is over those that are `judged`, not a number where none is.

    Not judged are pairs whose difference is an `unknown` word, and those that become the `same` tokens.
    """

    total: int
    judged: int
    accuracy: float
    unknown: int
    same: int


@dataclass(frozen=True)
class PairVerdicts:
    """The answers of one model with one seed, by group: what it is a group of, and its name; `("", "all")` first."""

    sha256: str
    groups: Mapping[tuple[str, str], PairGroup]

    def save(self, path: Path) -> None:
        """Write as JSON."""
        rows = [{"by": by, "group": name, **asdict(group)} for (by, name), group in self.groups.items()]
        write_text(path, json.dumps(finite({"sha256": self.sha256, "groups": rows}), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Self | None:
        """What `save` wrote; None where there is nothing that can be read: it is measured again."""
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            groups = {
                (str(row["by"]), str(row["group"])): PairGroup(**{name: row[name] for name in _FIGURES})
                for row in stored["groups"]
            }
            for group in groups.values():
                float(group.accuracy if group.judged else 0.0)
            return cls(str(stored["sha256"]), groups)
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None


@dataclass(frozen=True)
class PairMean:
    """A group over the seeds of a model, and the 95 % interval (Wilson) of its mean over so many judged pairs."""

    accuracy: MeanSpread
    low: float
    high: float
    judged: int
    total: int


@dataclass(frozen=True, repr=False)
class ComparedPairs(Tabular):
    """The same pairs under several models; a row a pair, columns for each model."""

    scores: tuple[PairScores, ...]

    def to_rows(self) -> list[TableRow]:
        marks = column_marks([str(scores.about["model"]) for scores in self.scores])
        tables = [scores.to_rows() for scores in self.scores]
        rows = [{name: value for name, value in row.items() if name not in FIGURES} for row in tables[0]]
        for mark, table in zip(marks, tables, strict=True):
            for row, own in zip(rows, table, strict=True):
                row |= {f"{name}{mark}": own[name] for name in FIGURES}
        return rows

    @property
    def differences(self) -> tuple[ModelDifference, ...]:
        """Every model against the most accurate, over the pairs that all of them judge: a paired bootstrap.

        Over pairs; over items, where a column `item` says which pairs belong together. None for too few of them.
        """
        judged_K = np.logical_and.reduce([scores.judged_K for scores in self.scores])
        pairs = [pair for pair, judged in zip(self.scores[0].pairs, judged_K.tolist(), strict=True) if judged]
        item_K = [str(pair.columns.get(ITEM, place)) for place, pair in enumerate(pairs)]
        names, places_K = np.unique(np.array(item_K, dtype=str), return_inverse=True)
        if len(names) < LEAST:
            return ()
        counted_KS = np.stack([np.ones(len(pairs)), *(scores.right_K[judged_K] for scores in self.scores)], axis=1)
        sums_IS = np.zeros((len(names), counted_KS.shape[1]))
        np.add.at(sums_IS, places_K, counted_KS)
        sums_RS = np.vstack([sums_IS.sum(axis=0), resample_sums(sums_IS)])  # first the whole
        shares_SR = (sums_RS[:, 1:] / sums_RS[:, :1]).T
        unit = "items" if len(names) < len(pairs) else "pairs"
        ranked = [
            (str(self.scores[place].about["model"]), shares_SR[place], SeedSpread(0))
            for place in sorted(range(len(self.scores)), key=lambda place: -shares_SR[place, 0])
        ]
        return against_best("accuracy", unit, ranked, examples=len(names))


@dataclass(frozen=True)
class PairTable:
    """The answers of all models, by name, one for each seed."""

    name: str
    total: int
    models: Mapping[str, Sequence[PairVerdicts]]

    def group_names(self) -> list[tuple[str, str]]:
        """All groups, `("", "all")` first."""
        return list(next(iter(self.models.values()))[0].groups)

    def mean(self, model: str, key: tuple[str, str] = ("", "all")) -> PairMean:
        """One group of one model."""
        several = [verdicts.groups[key] for verdicts in self.models[model]]
        judged = several[0].judged
        accuracy = MeanSpread.of(group.accuracy for group in several if group.judged)
        low, high = wilson(accuracy.mean, judged)
        return PairMean(accuracy, float(low), float(high), judged, several[0].total)

    def row_of(self, model: str) -> TableRow:
        """The columns of a model in a table, empty where it could not be asked."""
        names = ("pairs_accuracy", "pairs_accuracy_spread", "pairs_low", "pairs_high", "pairs_judged")
        if model not in self.models:
            return dict.fromkeys(names)
        mean = self.mean(model)
        figures = (mean.accuracy.mean, mean.accuracy.spread, mean.low, mean.high, mean.judged)
        return dict(zip(names, figures, strict=True))

    def as_dict(self) -> Table:
        """For JSON: every group of every model."""
        models = {
            name: [
                {"by": by, "group": group, **asdict(self.mean(name, (by, group)))} for by, group in self.group_names()
            ]
            for name in self.models
        }
        return {"pairs": self.name, "total": self.total, "models": models}


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
            tables = PROBES[name].tables(results)
            values[name] = {
                one.label: asdict(self.accuracy(name, one.count)) for table in tables for one in table.columns
            }
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

    def left_out(self) -> list[str]:
        """A sentence for the models whose scores compare with nobody's; none where there are no such models."""
        names = [row.name for row in self.rows if not row.normalised]
        return [f"{', '.join(names)}: {NOT_NORMALISED}; compared with nothing."] if names else []

    def measured(self) -> Table:
        """What was measured beside the rows, for JSON: differences with their intervals, and minimal pairs."""
        pairs = {} if self.pairs is None else {"pairs": self.pairs.as_dict()}
        return {"differences": [one.as_dict() for one in self.differences], **pairs}

    def to_rows(self) -> list[TableRow]:
        """A row a model: means over its seeds, each with its spread, and what the corpus asked it.

        The figures of a probe are empty for models that were not asked.
        """

        def figure(name: str, value: MeanSpread) -> TableRow:
            return {name: value.mean, f"{name}_spread": value.spread}

        rows = [
            {"model": one.name, "tokens": one.first.tokens, "seeds": len(one.trials)}
            | figure("bits_per_byte", one.bits_per_byte)
            | figure("perplexity", one.perplexity)
            | {"parameters": one.first.parameters, "tokens_per_second": one.tokens_per_second}
            | {"seconds_to_next_token": one.latency, "bytes_of_files": one.first.size}
            | {"seconds_of_training": one.seconds, "tokens_seen": one.seen}
            for one in self.rows
        ]
        for probed in self.probes():
            for column in probed.columns:
                name = f"{probed.probe.name}_{column.label}"
                shares = {one.name: probed.accuracy(one, column.count) for one in probed.rows}
                for row in rows:
                    row |= figure(name, shares.get(str(row["model"]), MeanSpread(math.nan)))
        if self.pairs is not None:
            for row in rows:
                row |= self.pairs.row_of(str(row["model"]))
        return rows

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
    def columns(self) -> list[Column]:
        """Those of all tables of the probe."""
        return [column for table in self.probe.tables(self.results) for column in table.columns]

    @property
    def longest(self) -> int:
        """The largest distance that was asked about."""
        return max(verdicts.longest for verdicts in self.results)

    def accuracy(self, row: Row, count: Callable[[Verdicts], Tally]) -> MeanSpread:
        """The mean and spread of an accuracy of a model."""
        return row.accuracy(self.probe.name, count)


_PROBES = "probes"
_NO_NUMBER_IN_JSON = ("bits_per_byte", "perplexity", "validation")


@dataclass(frozen=True)
class Trial:
    """What came of one model with one seed (None where nothing is random), as plain values.

    `validation` is the bits per byte that chose the weights, `latency` the seconds from token to token, `size` the
    bytes of the files that using the model takes. `curve` has a point for each validation: seconds of training, tokens
    trained on, bits per byte. `probes` are the answers to what the corpus asks, by the name of the probe; in a file
    each stands under that name beside the other values.
    """

    name: str
    model: str
    tokens: str
    seed: int | None
    bits_per_byte: float
    perplexity: float
    validation: float
    parameters: int
    tokens_per_second: float | None
    latency: float
    size: int
    seconds: float
    seen: int
    score: Table
    settings: Table
    training: Table
    run: str
    prompt: str = ""
    sample: str = ""
    curve: list[list[float]] = field(default_factory=list)
    probes: dict[str, Stored] = field(default_factory=dict)

    def as_dict(self) -> Table:
        """For JSON: numbers that are none or infinite become null."""
        values = asdict(self)
        probes = dict.fromkeys(ALWAYS_STORED) | values.pop(_PROBES)
        return {name: finite(value) for name, value in (values | probes).items()}

    @classmethod
    def from_dict(cls, stored: Table) -> Self:
        """What `as_dict` gave; FormatError for anything else."""
        try:
            values = {one.name: stored[one.name] for one in fields(cls) if one.name != _PROBES}
            probes = {name: stored[name] for name in ALWAYS_STORED} | {name: stored.get(name) for name in PROBES}
            no_number = math.inf if values["score"].get("normalised", True) else math.nan
            values |= {name: no_number for name in _NO_NUMBER_IN_JSON if values[name] is None}
            return cls(**values, probes={name: result for name, result in probes.items() if result is not None})
        except (KeyError, TypeError, AttributeError) as error:
            raise FormatError(f"the result of a comparison is incomplete or damaged ({error!r}); remove it") from error


def model_differences(rows: Sequence[Row], lines: Mapping[str, Sequence[LineSums]]) -> tuple[ModelDifference, ...]:
    """Every model against the best, in bits per byte; `lines` has the sums of each seed by the name of the model.

    Left out: models without probabilities, without sums, or with an infinite score; all of them where there are too few
    lines.
    """
    models: list[ModelLines] = []
    running = False
    for row in rows:
        if row.normalised and lines.get(row.name) and math.isfinite(row.bits_per_byte.mean):
            seeds = SeedSpread(sum(trial.seed is not None for trial in row.trials), row.bits_per_byte.spread)
            tokens = row.first.tokens, row.first.score.get("vocabulary")
            models.append(ModelLines(row.name, LineSums.mean(lines[row.name]), seeds, tokens))
            running |= row.first.score.get("context") == "stream"
    return line_differences(models, running=running)

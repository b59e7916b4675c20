"""Minimal pairs put to every model of a comparison: what is kept of a model's answers, and the means over its seeds.

OUT/results/NAME.pairs.json    the answers of one model with one seed, and which pairs they are about
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import numpy as np

from thereafter.base.config import Table
from thereafter.base.storage import write_text
from thereafter.base.tabular import Row, Tabular, finite
from thereafter.comparing.differences import MeanSpread, ModelDifference, SeedSpread, against_best
from thereafter.evaluation.bootstrap import LEAST, resample_sums, wilson
from thereafter.evaluation.conditions import ITEM
from thereafter.inspection.pair_files import Pair, PairFiles, read_pair_files
from thereafter.inspection.pairs import FIGURES, PairScores, score_each
from thereafter.inspection.sentence_reader import SentenceReader
from thereafter.inspection.surprisal import column_marks
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

    def to_rows(self) -> list[Row]:
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

    def row_of(self, model: str) -> Row:
        """The columns of a model in a table, empty where it could not be asked."""
        known = self.mean(model) if model in self.models else None
        return {
            "pairs_accuracy": None if known is None else known.accuracy.mean,
            "pairs_accuracy_spread": None if known is None else known.accuracy.spread,
            "pairs_low": None if known is None else known.low,
            "pairs_high": None if known is None else known.high,
            "pairs_judged": None if known is None else known.judged,
        }

    def as_dict(self) -> Table:
        """For JSON: every group of every model."""
        models = {
            name: [
                {"by": by, "group": group, **asdict(self.mean(name, (by, group)))} for by, group in self.group_names()
            ]
            for name in self.models
        }
        return {"pairs": self.name, "total": self.total, "models": models}

"""Differences between the models of a comparison: how large, how sure, and what other seeds would change.

Each model is compared with the best, the networks of a task in each figure. The interval is that of a paired bootstrap
over the lines of the test part, or over the examples of a task; where a model has several seeds its figures are the
mean over them, and the spread between seeds stands beside: the one says what another test part could change, the other
what another training could.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Self

import numpy as np

from thereafter.base.tabular import Row as TableRow
from thereafter.base.tabular import Tabular, text_table
from thereafter.comparing.mean_spread import MeanSpread
from thereafter.comparing.model_difference import BITS, LineSums, ModelDifference, Ratio, SeedSpread
from thereafter.comparing.rows import Row
from thereafter.evaluation.bootstrap import (
    LEAST,
    Floats,
    Resampled,
    block_length,
    interval,
    paired_difference,
    resample_sums,
)
from thereafter.evaluation.surprisal import Surprisals

NO_INTERVALS = f"no intervals of differences: they take at least {LEAST} lines and two finite scores"


def model_differences(rows: Sequence[Row], lines: Mapping[str, Sequence[LineSums]]) -> tuple[ModelDifference, ...]:
    """Every model against the best, in bits per byte; `lines` has the sums of each seed by the name of the model.

    Left out: models without probabilities, without sums, or with an infinite score; all of them where there are too few
    lines.
    """
    means = {row.name: LineSums.mean(lines[row.name]) for row in rows if row.normalised and lines.get(row.name)}
    able = [row for row in rows if row.name in means and math.isfinite(row.bits_per_byte.mean)]
    running = any(row.first.score.get("context") == "stream" for row in able)
    models = [ModelLines(row.name, means[row.name], _seeds(row), _tokens(row)) for row in able]
    return line_differences(models, running=running)


@dataclass(frozen=True)
class ModelLines:
    """What each line costs a model. `tokens`: what must be the same for two perplexities to compare."""

    name: str
    sums: LineSums
    seeds: SeedSpread
    tokens: Hashable

    @property
    def bits_per_byte(self) -> float:
        """Of all lines."""
        return float(self.sums.bits_L.sum() / self.sums.bytes_L.sum())


def line_differences(models: Sequence[ModelLines], *, running: bool) -> tuple[ModelDifference, ...]:
    """Every model against the best; `running`: neighbouring lines continue each other for some of them.

    None where fewer than two have finite scores on the same lines, or there are too few lines.
    """
    able = sorted((one for one in models if math.isfinite(one.bits_per_byte)), key=lambda one: one.bits_per_byte)
    ranked = [one for one in able if np.array_equal(one.sums.bytes_L, able[0].sums.bytes_L)]
    if len(ranked) < 2 or len(ranked[0].sums.bytes_L) < LEAST:
        return ()
    best, *others = ranked
    lines = len(best.sums.bytes_L)
    block = block_length(lines) if running else 1
    columns = [column for one in ranked for column in (one.sums.bits_L, one.sums.nats_L, one.sums.tokens_L)]
    statistics_LS = np.stack([best.sums.bytes_L, *columns], axis=1)
    sums_RS = np.vstack([statistics_LS.sum(axis=0), resample_sums(statistics_LS, block=block)])  # first the whole
    bytes_R, per_model = sums_RS[:, 0], {one.name: sums_RS[:, 1 + 3 * at : 4 + 3 * at] for at, one in enumerate(ranked)}

    def against_best(model: ModelLines) -> ModelDifference:
        own, other = per_model[best.name], per_model[model.name]
        better_R, worse_R = own[:, 0] / bytes_R, other[:, 0] / bytes_R
        difference = paired_difference(worse_R[0], better_R[0], worse_R[1:], better_R[1:], examples=lines, block=block)
        alike = model.tokens == best.tokens and np.array_equal(own[0, 2], other[0, 2])
        ratio = _ratio((other[:, 1] - own[:, 1]) / own[:, 2]) if alike else None
        return ModelDifference(best.name, model.name, BITS, "lines", difference, (best.seeds, model.seeds), ratio)

    return tuple(map(against_best, others))


@dataclass(frozen=True, repr=False)
class ComparedRuns(Tabular):
    """Models that were trained before, on one text: bits per byte, and every model against the best; a row a model.

    Bytes are the same for every model: those of the text as all of them read it, else as it is written.
    """

    text: str
    context: str
    rows: tuple[TableRow, ...]
    differences: tuple[ModelDifference, ...]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, lines: Surprisals, seeds: Sequence[SeedSpread]) -> Self:
        """From the surprisal of the lines under each model, and the seeds that each was trained with."""
        bytes_L, models, rows = lines.line_bytes(), list[ModelLines](), list[TableRow]()
        remarks: dict[str, list[str]] = {}
        for number, reading in enumerate(lines.readings):
            tokens_L = np.diff(lines.units[number].first_U1).astype(np.float64)
            nats_L, spelling_L = lines.bits(number) * math.log(2), lines.spelling_bits(number) * math.log(2)
            sums = LineSums(nats_L, spelling_L, tokens_L, bytes_L)
            tokens = (reading.tokenizer.name, len(reading.tokenizer.vocabulary))
            model = ModelLines(reading.model, sums, seeds[number], tokens)
            row: TableRow = {"model": model.name, "tokenizer": tokens[0], "vocabulary": tokens[1]}
            row |= {"tokens": int(tokens_L.sum()), "unknown": int(reading.costs.unknown_T.sum())}
            row |= {"bytes": int(bytes_L.sum()), "bits_per_byte": None, "perplexity": None}
            if reading.normalised:
                models.append(model)
                with np.errstate(over="ignore"):
                    perplexity = float(np.exp(nats_L.sum() / tokens_L.sum()))
                row |= {"bits_per_byte": model.bits_per_byte, "perplexity": perplexity}
            rows.append(row)
            for note in reading.notes:
                remarks.setdefault(note, []).append(model.name)
        first = lines.readings[0]
        running = first.before is None and any(reading.context == "stream" for reading in lines.readings)
        differences = line_differences(models, running=running)
        notes = [f"{', '.join(names)}: {note}" for note, names in remarks.items()]
        notes += [] if differences else [NO_INTERVALS]
        return cls(first.text, lines.context, tuple(rows), differences, tuple(notes))

    def to_rows(self) -> list[TableRow]:
        """Figures of each model, and by how much the best is better, with the ends of the 95 % interval."""
        against = {one.other: asdict(one.difference) for one in self.differences}
        names = {"worse_by": "value", "worse_by_low": "low", "worse_by_high": "high", "reversed": "reversed"}
        return [
            row | {name: against.get(str(row["model"]), {}).get(part) for name, part in names.items()}
            for row in self.rows
        ]

    def table(self) -> str:
        """The figures for a terminal, and how sure the differences are."""
        plain = [{name: round(v, 4) if isinstance(v, float) else v for name, v in row.items()} for row in self.rows]
        return "\n".join([f"text: {self.text}", text_table(plain), self.context, *map(str, self.differences)])

    __str__ = table


def _seeds(row: Row) -> SeedSpread:
    seeds = sum(trial.seed is not None for trial in row.trials)
    return SeedSpread(seeds, row.bits_per_byte.spread)


def _tokens(row: Row) -> Hashable:
    """What must be the same for two perplexities to compare."""
    return row.first.tokens, row.first.score.get("vocabulary")


def _ratio(nats_R: Floats) -> Ratio:
    """From nats a token that one model needs more than the other: on the whole first, then over resamples."""
    low, high = interval(nats_R[1:])
    return Ratio(*(float(value) for value in np.exp([nats_R[0], low, high])))


_UNIT = "examples"


def task_differences(networks: Mapping[str, Sequence[Resampled]]) -> tuple[ModelDifference, ...]:
    """Every network against the best of each figure; `networks` has the answers of each seed by name.

    A figure of a network is the mean over its seeds, in every resample. The draws are the same for all.
    """
    able = {name: several for name, several in networks.items() if several}
    examples = min((len(one.statistics_NS) for several in able.values() for one in several), default=0)
    if len(able) < 2 or examples < LEAST:
        return ()
    figures = {name: [_figures(one) for one in several] for name, several in able.items()}
    first = next(iter(figures.values()))[0]
    return tuple(
        difference
        for figure in first
        if all(figure in one for several in figures.values() for one in several)
        for difference in _against_best(
            figure, {name: np.stack([one[figure] for one in several]) for name, several in figures.items()}, examples
        )
    )


def _figures(one: Resampled) -> dict[str, Floats]:
    """Each figure of one training, [1 + R]: of the whole first, then of the resamples."""
    statistics_NS = one.statistics_NS
    return dict(one.figures(np.vstack([statistics_NS.sum(axis=0), resample_sums(statistics_NS)])))


def _against_best(figure: str, values: Mapping[str, Floats], examples: int) -> list[ModelDifference]:
    """`values` has an array [seeds, 1 + R] for each network; more is better."""
    means = {name: value.mean(axis=0) for name, value in values.items()}
    best, *others = sorted(means, key=lambda name: -float(means[name][0]))
    return [
        ModelDifference(
            best,
            other,
            figure,
            _UNIT,
            paired_difference(means[best][0], means[other][0], means[best][1:], means[other][1:], examples=examples),
            (_spread(values[best]), _spread(values[other])),
        )
        for other in others
    ]


def _spread(values: Floats) -> SeedSpread:
    return SeedSpread(len(values), MeanSpread.of(values[:, 0].tolist()).spread)

"""Differences between models: how large, how sure, and what other seeds would change.

Each model is compared with the best, the networks of a task in each figure. The interval is that of a paired bootstrap
over the lines of the test part, over the examples of a task, or over minimal pairs. Where a model has several seeds its
figures are the mean over them, and the spread between seeds stands beside: the one says what another test part could
change, the other what another training could.

Lines are resampled from what each of them costs, which a comparison keeps:

    OUT/results/NAME.npz    arrays [line]: nats, spelling, tokens, bytes

Models with other tokens agree about lines, and no token of theirs crosses the end of one.

Shapes: L lines, R resamples, N examples, S statistics.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from thereafter.base.config import Table
from thereafter.base.tabular import Row as TableRow
from thereafter.base.tabular import Tabular, text_table
from thereafter.errors import FormatError
from thereafter.evaluation.bootstrap import (
    LEAST,
    Difference,
    Floats,
    Resampled,
    block_length,
    interval,
    paired_difference,
    resample_sums,
)
from thereafter.evaluation.scores import spelling_of
from thereafter.inspection import arrays
from thereafter.inspection.surprisal import Surprisals
from thereafter.text.reading import lines_of
from thereafter.text.tokenizers.base import Tokenizer

NO_INTERVALS = f"no intervals of differences: they take at least {LEAST} lines and two finite scores"
BITS = "bits per byte"
_SHARE = 100.0
_UNITS = {
    BITS: (1.0, BITS),
    "accuracy": (_SHARE, "points of accuracy"),
    "macro_f1": (_SHARE, "points of macro F1"),
    "span_f1": (_SHARE, "points of span F1"),
    "exact": (_SHARE, "points of exact answers"),
    "bleu": (1.0, "BLEU"),
    "chrf": (1.0, "chrF"),
    "mse_standardised": (1.0, "MSE in standard deviations"),
    "mae_standardised": (1.0, "MAE in standard deviations"),
}
"""Figures by name: what they are multiplied by to be read, and what they are then called."""
_COARSE, _FINE = 0.1, 0.005  # widths of an interval that is said with 2 digits, with 3; a smaller one has 4


def unit_of(figure: str) -> str:
    """What a figure is called in a sentence.

    >>> unit_of("macro_f1"), unit_of("exactness")
    ('points of macro F1', 'exactness')
    """
    return _UNITS.get(figure, (1.0, figure))[1]


@dataclass(frozen=True)
class SeedSpread:
    """The seeds of a model, 0 where nothing about it is random, and the standard deviation between them."""

    seeds: int
    deviation: float | None = None


@dataclass(frozen=True)
class Ratio:
    """A quotient of two perplexities, and its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class ModelDifference:
    """By how much one model is better than another in a figure: `difference` is not negative, whatever the figure.

    `unit` says what was resampled. `ratio` is the perplexity of the other over that of the better one, where both have
    the same tokens.
    """

    better: str
    other: str
    figure: str
    unit: str
    difference: Difference
    seeds: tuple[SeedSpread, SeedSpread]
    ratio: Ratio | None = None

    def as_dict(self) -> Table:
        """For JSON, with the sentence."""
        return asdict(self) | {"clear": self.difference.clear, "sentence": str(self)}

    @property
    def amount(self) -> str:
        """How much, in words: "0.021 bits per byte"."""
        return f"{self.number} {unit_of(self.figure)}"

    @property
    def number(self) -> str:
        """The same without its unit."""
        return self._number(self.difference.value)

    @property
    def interval(self) -> str:
        """As in "0.012 to 0.030"."""
        return f"{self._number(self.difference.low)} to {self._number(self.difference.high)}"

    @property
    def method(self) -> str:
        """What was resampled: "paired bootstrap over 3,761 lines in blocks of 16"."""
        block = f" in blocks of {self.difference.block}" if self.difference.block > 1 else ""
        return f"paired bootstrap over {self.difference.examples:,} {self.unit}{block}"

    def __str__(self) -> str:
        unit = unit_of(self.figure)
        share, doubt = "", ""
        if not self.difference.clear:
            share = f"order reversed in {100 * self.difference.reversed:.0f} % of the resamples, "
            doubt = ", which may be chance"
        about = "; ".join([f"95 % interval {self.interval}, {share}{self.method}", *self._seeds()])
        if self.difference.value == 0:
            return f"{self.better} and {self.other} differ by no {unit} ({about})"
        return f"{self.better} is better than {self.other} by {self.amount}{doubt} ({about})"

    def _seeds(self) -> list[str]:
        """What is known about other seeds."""
        if all(one.seeds == 1 for one in self.seeds):
            return ["one seed each"]
        words = []
        for name, one in zip((self.better, self.other), self.seeds, strict=True):
            if one.seeds == 1:
                words.append(f"{name}: one seed")
            elif one.seeds > 1:
                spread = "" if one.deviation is None else f", standard deviation {self._number(one.deviation)}"
                words.append(f"{name}: mean of {one.seeds} seeds{spread}")
        return words

    def _number(self, value: float) -> str:
        factor = _UNITS.get(self.figure, (1.0, ""))[0]
        width = factor * (self.difference.high - self.difference.low)
        return f"{factor * value:.{2 if width > _COARSE else 3 if width > _FINE else 4}f}"


@dataclass(frozen=True)
class MeanSpread:
    """The mean over seeds and the standard deviation between them, None where there is one seed."""

    mean: float
    spread: float | None = None

    @classmethod
    def of(cls, values: Iterable[float]) -> MeanSpread:
        """Of one figure, a value for each seed."""
        samples = list(values)
        if not samples:
            return cls(math.nan)
        has_spread = len(samples) > 1 and all(map(math.isfinite, samples))
        return cls(sum(samples) / len(samples), statistics.stdev(samples) if has_spread else None)


def against_best(
    figure: str, unit: str, ranked: Sequence[tuple[str, Floats, SeedSpread]], *, examples: int, block: int = 1
) -> tuple[ModelDifference, ...]:
    """Every model against the first: `ranked` has name, figure and seeds of each, best first; more is better.

    A figure is an array [1 + R]: that of the whole first, then those of its resamples.
    """
    (best, best_R, best_seeds), *others = ranked
    return tuple(
        ModelDifference(
            best,
            other,
            figure,
            unit,
            paired_difference(best_R[0], other_R[0], best_R[1:], other_R[1:], examples=examples, block=block),
            (best_seeds, seeds),
        )
        for other, other_R, seeds in others
    )


_KEY = "lines"
_NAMES = ("nats", "spelling", "tokens", "bytes")


@dataclass(frozen=True, eq=False)
class LineSums:
    """Sums over the tokens of each line, L lines: -log p, the spelling of unknown forms, tokens, and bytes."""

    nats_L: NDArray[np.float64]
    spelling_L: NDArray[np.float64]
    tokens_L: NDArray[np.float64]
    bytes_L: NDArray[np.float64]

    @classmethod
    def mean(cls, several: Sequence[LineSums]) -> LineSums:
        """The mean over seeds, line by line."""
        return cls(*(np.mean(column, axis=0) for column in zip(*(one.columns for one in several), strict=True)))

    @property
    def columns(self) -> tuple[NDArray[np.float64], ...]:
        """All sums, in the order of `_NAMES`."""
        return self.nats_L, self.spelling_L, self.tokens_L, self.bytes_L

    @property
    def bits_L(self) -> NDArray[np.float64]:
        """All that a line costs, its unknown forms spelled out."""
        bits: NDArray[np.float64] = (self.nats_L + self.spelling_L) / np.log(2)
        return bits

    def save(self, path: Path) -> None:
        """Write as `.npz`."""
        named: dict[str, NDArray[np.generic]] = dict(zip(_NAMES, self.columns, strict=True))
        arrays.write(path, _KEY, {"axes": dict.fromkeys(named, ("line",)), "about": {}}, named)

    @classmethod
    def load(cls, path: Path) -> Self:
        """What `save` wrote; FormatError for anything else, FileNotFoundError where there is nothing."""
        try:
            _, stored = arrays.read(path, _KEY)
            columns = [np.asarray(stored[name], np.float64) for name in _NAMES]
            if len({column.shape for column in columns}) != 1 or columns[0].ndim != 1:
                raise FormatError("its columns differ in length")
        except FileNotFoundError:
            raise
        except arrays.UNREADABLE as error:
            raise FormatError(
                f"{path} cannot be read: {arrays.reason(error)}; try removing it: it is made again"
            ) from error
        return cls(*columns)


def sum_lines(tokenizer: Tokenizer, chunks: Iterable[str], log_p_T: NDArray[np.floating]) -> LineSums | None:
    """The log p of all tokens of a text, added up line by line; None where a token of this tokenizer crosses lines."""
    spelling = spelling_of(tokenizer)
    counts: list[tuple[int, int, float]] = []
    for line in lines_of(chunks, ends=True):
        pieces = list(tokenizer.measure_stream([line], whole=True))
        unknown = [form for piece in pieces for form in piece.unknown_forms]
        charged = spelling.total(unknown) if spelling is not None and unknown else 0.0
        counts.append((sum(len(piece.ids) for piece in pieces), sum(piece.bytes for piece in pieces), charged))
    tokens_L, bytes_L, spelling_L = np.array(counts, np.float64).reshape(-1, 3).T
    if tokens_L.sum() != len(log_p_T):
        return None
    line_T = np.repeat(np.arange(len(tokens_L)), tokens_L.astype(np.int64))
    nats_L = np.zeros(len(tokens_L))
    np.add.at(nats_L, line_T, -np.asarray(log_p_T, np.float64))
    return LineSums(nats_L, spelling_L, tokens_L, bytes_L)


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
    lines = len(ranked[0].sums.bytes_L)
    block = block_length(lines) if running else 1
    columns = [column for one in ranked for column in (one.sums.bits_L, one.sums.nats_L, one.sums.tokens_L)]
    statistics_LS = np.stack([ranked[0].sums.bytes_L, *columns], axis=1)
    sums_RS = np.vstack([statistics_LS.sum(axis=0), resample_sums(statistics_LS, block=block)])  # first the whole
    bytes_R, bits, nats, tokens = sums_RS[:, 0], sums_RS[:, 1::3], sums_RS[:, 2::3], sums_RS[:, 3::3]
    fewer_bits = [(one.name, -(bits[:, at] / bytes_R), one.seeds) for at, one in enumerate(ranked)]
    differences = against_best(BITS, "lines", fewer_bits, examples=lines, block=block)

    def perplexity_ratio(at: int) -> Ratio | None:
        if ranked[at].tokens != ranked[0].tokens or not np.array_equal(tokens[0, 0], tokens[0, at]):
            return None
        nats_R = (nats[:, at] - nats[:, 0]) / tokens[:, 0]
        low, high = interval(nats_R[1:])
        return Ratio(*(float(value) for value in np.exp([nats_R[0], low, high])))

    return tuple(replace(one, ratio=perplexity_ratio(at)) for at, one in enumerate(differences, start=1))


def task_differences(networks: Mapping[str, Sequence[Resampled]]) -> tuple[ModelDifference, ...]:
    """Every network against the best of each figure; `networks` has the answers of each seed by name.

    A figure of a network is the mean over its seeds, in every resample. The draws are the same for all.
    """
    able = {name: several for name, several in networks.items() if several}
    examples = min((len(one.statistics_NS) for several in able.values() for one in several), default=0)
    if len(able) < 2 or examples < LEAST:
        return ()

    def resampled_figures(one: Resampled) -> dict[str, Floats]:
        """Each figure of one training, [1 + R]."""
        statistics_NS = one.statistics_NS
        return dict(one.figures(np.vstack([statistics_NS.sum(axis=0), resample_sums(statistics_NS)])))

    figures = {name: [resampled_figures(one) for one in several] for name, several in able.items()}
    differences: list[ModelDifference] = []
    for figure in next(iter(figures.values()))[0]:
        if all(figure in one for several in figures.values() for one in several):
            means: list[tuple[str, Floats, SeedSpread]] = []
            for name, several in figures.items():
                values = np.stack([one[figure] for one in several])
                spread = MeanSpread.of(values[:, 0].tolist()).spread
                means.append((name, values.mean(axis=0), SeedSpread(len(values), spread)))
            ranked = sorted(means, key=lambda mean: -float(mean[1][0]))
            differences += against_best(figure, "examples", ranked, examples=examples)
    return tuple(differences)


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

"""The task `classify-series`: one label for a whole series of numbers, of one or several channels.

`--task classify` leads here where the source holds series of numbers. Explained answers have the evidence of each step.
Shapes: B series, T steps, C channels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from thereafter.base import progress
from thereafter.base.config import Table
from thereafter.data.codecs import ChannelScaler
from thereafter.data.finding import FileKind
from thereafter.errors import EmptyCorpusError, OptionError
from thereafter.series.classifying.network import SeriesBatch, SeriesClassifier, SeriesClassifierSettings
from thereafter.series.labelled import SERIES_FILES, read_labelled_series, read_questions
from thereafter.series.labelled_series import LabelColumns, LabelledSeries, is_one_series, series_of, with_channels
from thereafter.series.times import Floats, Integers
from thereafter.tasks import labelling
from thereafter.tasks.answers import Fields, LabelProbabilities, Shown, bar_of
from thereafter.tasks.labelling import LabelCodecs, LabelTask, label_lexicon, most_frequent, numbered_labels, ranked
from thereafter.tasks.task import AskingFiles, Preparing


class SeriesLabelCodecs(LabelCodecs):
    """What numbers the parts of an example."""

    channels: ChannelScaler


class SeriesClassifying(
    Preparing[LabelledSeries, SeriesLabelCodecs],
    AskingFiles[LabelledSeries, SeriesLabelCodecs],
    LabelTask[SeriesClassifierSettings, LabelledSeries, SeriesBatch, SeriesClassifier, SeriesLabelCodecs],
):
    """See `task.Task`."""

    name = "classify-series"
    typed = "series.csv"
    kind = "labelled-series"
    unit = "series"
    settings = SeriesClassifierSettings
    defaults: ClassVar[Mapping[str, object]] = {"epochs": 60.0, "batch": 16, "rate": 3e-3, "steps": 1024}
    file_kind: ClassVar[FileKind] = SERIES_FILES
    reads: ClassVar[Mapping[str, tuple[str, str]]] = {"reader": ("", "step")}

    @property
    def label_columns(self) -> LabelColumns:
        """The columns that the settings name."""
        chosen = self.chosen
        channels = tuple(name.strip() for name in chosen.channels.split(",") if name.strip())
        return LabelColumns(chosen.label, chosen.series, chosen.time, channels)

    def read(self, files: Sequence[Path]) -> list[LabelledSeries]:
        return read_labelled_series(files, self.label_columns)

    def hold_out(
        self, examples: Sequence[LabelledSeries], share: float
    ) -> tuple[list[LabelledSeries], list[LabelledSeries], str]:
        """The last series of every label, so that a file that is sorted by label has all of them on both sides."""
        return labelling.hold_out_by_label(examples, share)

    def codecs(self, examples: Sequence[LabelledSeries]) -> SeriesLabelCodecs:
        names = examples[0].channels
        values = [with_channels(one, names).values_TC for one in examples]
        return {"channels": ChannelScaler.fit(values, names), "labels": label_lexicon(examples)}

    def check(self, examples: Sequence[LabelledSeries], codecs: SeriesLabelCodecs, name: str) -> None:
        labelling.require_known_labels(
            self.unit, ((one.name, one.label) for one in examples), codecs["labels"].forms, name
        )
        for one in examples:
            with_channels(one, codecs["channels"].names)

    def build(self, settings: SeriesClassifierSettings, codecs: SeriesLabelCodecs) -> SeriesClassifier:
        scaler = codecs["channels"]
        return SeriesClassifier(settings, channels=len(scaler.names), labels=len(codecs["labels"]), gaps=scaler.gaps)

    def lengths(self, examples: Sequence[LabelledSeries], codecs: SeriesLabelCodecs) -> Integers:
        return np.array([len(one) for one in examples], np.int64)

    def batch(self, examples: Sequence[LabelledSeries], codecs: SeriesLabelCodecs) -> SeriesBatch:
        scaler = codecs["channels"]
        lengths_B = self.lengths(examples, codecs)
        values_BTC = np.full((len(examples), int(lengths_B.max()), len(scaler.names)), np.nan, np.float32)
        for row, one in enumerate(examples):
            values_BTC[row, : len(one)] = scaler.encode(with_channels(one, scaler.names).values_TC)
        seen_BTC = ~np.isnan(values_BTC)
        arrays = np.where(seen_BTC, values_BTC, np.float32(0.0)), seen_BTC, lengths_B
        values, seen, lengths = map(torch.from_numpy, arrays)
        return SeriesBatch(values, seen, lengths, numbered_labels(examples, codecs["labels"]))

    def chances(self, net: SeriesClassifier, batch: SeriesBatch) -> Tensor:
        return net.decide(batch)

    def explain(
        self, net: SeriesClassifier, batch: SeriesBatch, examples: Sequence[LabelledSeries], codecs: SeriesLabelCodecs
    ) -> list[SeriesExplained]:
        """The label of every series with the probability of all labels, and how much each step supports it."""
        names = codecs["labels"].forms
        p_BK, weights_BT = net.decide_with_weights(batch)
        best_B = p_BK.argmax(-1)
        evidence_BT = net.evidence(batch, best_B)
        explained = []
        for row, one in enumerate(examples):
            explained.append(
                SeriesExplained(
                    names[int(best_B[row])],
                    ranked(names, p_BK[row].tolist()),
                    tuple(map(tuple, one.values_TC.tolist())),
                    tuple(evidence_BT[row, : len(one)].tolist()),
                    tuple(weights_BT[row, : len(one)].tolist()),
                )
            )
        return explained

    def shown(
        self, net: SeriesClassifier, batch: SeriesBatch, example: LabelledSeries, codecs: SeriesLabelCodecs
    ) -> Shown:
        (explained,) = self.explain(net, batch, [example], codecs)
        fields: Fields = {
            "value": (("step", "channel"), example.values_TC.astype(np.float32)),
            "evidence": (("step",), np.array(explained.evidence, np.float32)),
            "weight": (("step",), np.array(explained.weights, np.float32)),
        }
        about = {"answer": explained.label, "probabilities": explained.probabilities}
        steps = [", ".join(f"{x:.4g}" for x in values) for values in explained.values]
        return Shown(steps, list(codecs["labels"].forms), fields, about)

    def is_one(self, given: object) -> bool:
        """An array or a list of numbers is one series."""
        return is_one_series(given)

    def example(self, given: object) -> LabelledSeries:
        """An array, a list of numbers or a line of them; or a `LabelledSeries`, whose label is ignored."""
        return series_of(given)

    def prepare(self, given: object, codecs: SeriesLabelCodecs) -> LabelledSeries:
        """With the channels of the run."""
        return with_channels(self.example(given), codecs["channels"].names)

    def ask(self, files: Sequence[Path], codecs: SeriesLabelCodecs) -> Iterator[tuple[int, str, LabelledSeries]]:
        """The series of files; labels that stand in them are passed over."""
        names = codecs["channels"].names
        questions = read_questions(files, self.label_columns, names, codecs["labels"].forms)
        for number, one in enumerate(questions, start=1):
            yield number, one.name, with_channels(one, names)

    def beside(
        self, learned: Sequence[LabelledSeries], asked: Sequence[LabelledSeries]
    ) -> Mapping[str, Callable[[], list[str]]]:
        """The nearest neighbour by the distance that the lengths of the series allow, and the most frequent label."""
        scaler, labels = self.codecs(learned)["channels"], [one.label for one in learned]

        def scaled(series: Sequence[LabelledSeries]) -> list[Floats]:
            return [scaler.encode(with_channels(one, scaler.names).values_TC).astype(np.float64) for one in series]

        neighbour, questions = NearestNeighbour.fit(scaled(learned), labels), scaled(asked)
        return {
            f"nearest neighbour ({neighbour.measure_of(questions)})": lambda: neighbour.predict(questions),
            "most frequent label": lambda: [most_frequent(labels)] * len(asked),
        }


CLASSIFYING_SERIES = SeriesClassifying()


_SHOWN = 10  # steps that are printed


@dataclass(frozen=True)
class SeriesExplained(LabelProbabilities):
    """A label, the probability of all labels (the likeliest first), and how much each step supports the label.

    `evidence` is the gradient of the label's score in the scaled values of a step, times these: above 0 the step
    supports the label, below 0 it speaks against it. `weights`: the share of each step in the pooled vector.
    """

    values: tuple[tuple[float, ...], ...]
    evidence: tuple[float, ...]
    weights: tuple[float, ...]

    def as_dict(self) -> Table:
        """Plain JSON values; a missing value is None."""
        listed = zip(self.values, self.evidence, self.weights, strict=True)
        steps = [
            {"values": [x if x == x else None for x in values], "evidence": evidence, "weight": weight}
            for values, evidence, weight in listed
        ]
        return super().as_dict() | {"steps": steps}

    def __str__(self) -> str:
        lines = [super().__str__()]
        order = sorted(range(len(self.evidence)), key=lambda step: -abs(self.evidence[step]))[:_SHOWN]
        most = max((abs(self.evidence[step]) for step in order), default=0.0)
        for step in sorted(order):
            value, evidence = ", ".join(f"{x:.4g}" for x in self.values[step]), self.evidence[step]
            lines.append(f"  step {step + 1:>5}  {value:>10} {evidence:+8.3f} {bar_of(evidence, most)}".rstrip())
        return "\n".join(lines)


BAND = 0.1
_NUMBERS = 1 << 18  # in one array of pairs: what the caches hold
Series = Floats


@dataclass(frozen=True)
class NearestNeighbour:
    """The label of the nearest series, of equally near ones the first."""

    series: tuple[Series, ...]
    labels: tuple[str, ...]
    band: float = BAND

    @classmethod
    def fit(cls, series: Sequence[Series], labels: Sequence[str], band: float = BAND) -> Self:
        """Keep all series [T, C], scaled alike."""
        if len(series) != len(labels):
            raise OptionError(f"there are {len(series):,} series and {len(labels):,} labels, expected one for each")
        if not series:
            raise EmptyCorpusError("there are no series to learn from; expected at least one")
        return cls(tuple(series), tuple(labels), band)

    def measure_of(self, questions: Sequence[Series]) -> str:
        """Which distance these questions are answered by, in words."""
        return "Euclidean" if self._equal(questions) else f"DTW, band {self.band:.0%}".replace("%", " %")

    def predict(self, questions: Sequence[Series]) -> list[str]:
        """The label of each."""
        if not questions:
            return []
        distances_QN = self.distances(questions)
        return [self.labels[at] for at in distances_QN.argmin(1)]

    def distances(self, questions: Sequence[Series]) -> Floats:
        """The distance of every question from every series, [Q, N]."""
        if self._equal(questions):
            return euclidean(questions, self.series)
        return warped(questions, self.series, self.band)

    def _equal(self, questions: Sequence[Series]) -> bool:
        return len({len(one) for one in (*self.series, *questions)}) == 1


def euclidean(questions: Sequence[Series], series: Sequence[Series]) -> Floats:
    """Euclidean distances of series of one length, [Q, N]; over the values that both have, scaled up to all."""
    a_QX = np.stack([one.reshape(-1) for one in questions])
    b_NX = np.stack([one.reshape(-1) for one in series])
    seen_QX, seen_NX = (~np.isnan(one) for one in (a_QX, b_NX))
    a_QX, b_NX = np.nan_to_num(a_QX), np.nan_to_num(b_NX)
    squares_QN = (a_QX**2) @ seen_NX.T + seen_QX @ (b_NX**2).T - 2 * a_QX @ b_NX.T
    count_QN = seen_QX.astype(np.float64) @ seen_NX.T.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled_QN = np.where(count_QN > 0, squares_QN * a_QX.shape[1] / count_QN, np.inf)
    return np.sqrt(np.maximum(scaled_QN, 0.0))


def warped(questions: Sequence[Series], series: Sequence[Series], band: float = BAND) -> Floats:
    """Distances by dynamic time warping, [Q, N]: many pairs at once."""
    a_TCQ, length_Q = _stacked(questions)
    b_TCN, length_N = _stacked(series)
    pairs = len(questions) * len(series)
    size = max(1, _NUMBERS // (max(len(a_TCQ), len(b_TCN)) * a_TCQ.shape[1]))
    distance_P = np.empty(pairs)
    with progress.task("comparing series", total=pairs) as advance:
        for begin in range(0, pairs, size):
            pair_P = np.arange(begin, min(pairs, begin + size))
            q_P, n_P = pair_P // len(series), pair_P % len(series)
            distance_P[pair_P] = _warped_pairs(a_TCQ[..., q_P], b_TCN[..., n_P], length_Q[q_P], length_N[n_P], band)
            advance(len(pair_P))
    return distance_P.reshape(len(questions), len(series))


def _stacked(series: Sequence[Series]) -> tuple[Floats, Integers]:
    """Series side by side [T, C, N], and their lengths [N]; 0 behind the end, where nothing is read."""
    length_N = np.array([len(one) for one in series], np.int64)
    stacked_TCN = np.zeros((int(length_N.max()), series[0].shape[1], len(series)))
    for at, one in enumerate(series):
        stacked_TCN[: len(one), :, at] = one
    return stacked_TCN, length_N


def _warped_pairs(a_TCP: Floats, b_TCP: Floats, n_P: Integers, m_P: Integers, band: float) -> Floats:
    """D(n, m) of every pair, row by row of D; a row has a column for each step of b, and one before the first."""
    width_P = np.maximum(np.ceil(band * np.maximum(n_P, m_P)), np.abs(n_P - m_P)).astype(np.int64)
    width, steps, pairs = int(width_P.max()), len(b_TCP), a_TCP.shape[2]
    before_TP = np.full((steps + 1, pairs), np.inf)
    before_TP[0] = 0.0
    distance_P = np.empty(pairs)
    gaps, narrower = bool(np.isnan(a_TCP).any() or np.isnan(b_TCP).any()), bool((width_P < width).any())
    for i in range(int(n_P.max())):
        low, high = max(0, i - width), min(steps, i + width + 1)
        row_TP = np.full((steps + 1, pairs), np.inf)
        if low < high:
            cost_WP = _costs(a_TCP[i], b_TCP[low:high], gaps)
            if narrower:
                cost_WP[np.abs(i - np.arange(low, high))[:, None] > width_P] = np.inf
            reach_WP = np.minimum(before_TP[low:high], before_TP[low + 1 : high + 1])
            for k, j in enumerate(range(low, high)):
                row_TP[j + 1] = cost_WP[k] + np.minimum(reach_WP[k], row_TP[j])
        ending = np.flatnonzero(n_P == i + 1)
        distance_P[ending] = row_TP[m_P[ending], ending]
        before_TP = row_TP
    return np.sqrt(distance_P)


def _costs(a_CP: Floats, b_WCP: Floats, gaps: bool) -> Floats:
    """What it costs to meet at a step, [W, P]."""
    squares_WCP = np.square(a_CP - b_WCP)
    if not gaps:
        costs_WP: Floats = squares_WCP.sum(1) if len(a_CP) > 1 else squares_WCP[:, 0]
        return costs_WP
    seen_WP = (~np.isnan(squares_WCP)).sum(1)
    scaled_WP: Floats = np.nansum(squares_WCP, 1) * (a_CP.shape[0] / np.maximum(seen_WP, 1))
    return scaled_WP

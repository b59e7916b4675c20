"""The task `classify-series`: one label for a whole series of numbers, of one or several channels.

`--task classify` leads here where the source holds series of numbers.
Shapes: B series, T steps, C channels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray

from thereafter.data.finding import FileKind
from thereafter.data.scaler import ChannelScaler
from thereafter.series.classifying.answers import SeriesExplained, SeriesPrediction
from thereafter.series.classifying.network import SeriesBatch, SeriesClassifier, SeriesClassifierSettings
from thereafter.series.labelled import (
    SERIES_FILES,
    read_labelled_series,
    read_questions,
    require_known_series_labels,
)
from thereafter.series.labelled_series import LabelColumns, LabelledSeries, is_number, series_of, with_channels
from thereafter.tasks.classify.measures import Classes, measure_classes
from thereafter.tasks.lexicon import Lexicon
from thereafter.tasks.shown import Fields, Shown
from thereafter.tasks.task import Task


class SeriesLabelCodecs(TypedDict):
    """What numbers the parts of an example."""

    channels: ChannelScaler
    labels: Lexicon


class SeriesClassifying(
    Task[SeriesClassifierSettings, LabelledSeries, SeriesBatch, SeriesClassifier, str, SeriesLabelCodecs]
):
    """See `task.Task`. `columns` are those that the settings name."""

    name = "classify-series"
    kind = "labelled-series"
    settings = SeriesClassifierSettings
    defaults: ClassVar[Mapping[str, object]] = {"epochs": 60.0, "batch": 16, "rate": 3e-3, "steps": 1024}
    file_kind: ClassVar[FileKind] = SERIES_FILES
    reads: ClassVar[Mapping[str, tuple[str, str]]] = {"reader": ("", "step")}
    asks_files = True

    def __init__(self, columns: LabelColumns | None = None) -> None:
        self.columns = columns or LabelColumns()

    def configured(self, settings: SeriesClassifierSettings) -> SeriesClassifying:
        channels = tuple(name.strip() for name in settings.channels.split(",") if name.strip())
        return SeriesClassifying(LabelColumns(settings.label, settings.series, settings.time, channels))

    def read(self, files: Sequence[Path]) -> list[LabelledSeries]:
        return read_labelled_series(files, self.columns)

    def hold_out(
        self, examples: Sequence[LabelledSeries], share: float
    ) -> tuple[list[LabelledSeries], list[LabelledSeries], str]:
        """The last series of every label, so that a file that is sorted by label has all of them on both sides."""
        by_label: dict[str, list[int]] = {}
        for at, one in enumerate(examples):
            by_label.setdefault(one.label, []).append(at)
        last = {at for places in by_label.values() for at in places[len(places) - round(share * len(places)) :]}
        if not last:  # a few of each label: at least one is held out, of the most frequent
            last = {max(by_label.values(), key=len)[-1]}
        learned = [one for at, one in enumerate(examples) if at not in last]
        return learned, [examples[at] for at in sorted(last)], ", of each label its share,"

    def codecs(self, examples: Sequence[LabelledSeries]) -> SeriesLabelCodecs:
        names = examples[0].channels
        values = [with_channels(one, names).values_TC for one in examples]
        labels = sorted({one.label for one in examples})
        return {"channels": ChannelScaler.fit(values, names), "labels": Lexicon(labels, opened=False)}

    def check(self, examples: Sequence[LabelledSeries], codecs: SeriesLabelCodecs, name: str) -> None:
        require_known_series_labels(examples, codecs["labels"].forms, name)
        for one in examples:
            with_channels(one, codecs["channels"].names)

    def build(self, settings: SeriesClassifierSettings, codecs: SeriesLabelCodecs) -> SeriesClassifier:
        scaler = codecs["channels"]
        return SeriesClassifier(settings, channels=len(scaler.names), labels=len(codecs["labels"]), gaps=scaler.gaps)

    def lengths(self, examples: Sequence[LabelledSeries], codecs: SeriesLabelCodecs) -> NDArray[np.int64]:
        return np.array([len(one) for one in examples], np.int64)

    def targets(self, examples: Sequence[LabelledSeries], codecs: SeriesLabelCodecs) -> int:
        return len(examples)

    def batch(self, examples: Sequence[LabelledSeries], codecs: SeriesLabelCodecs) -> SeriesBatch:
        scaler = codecs["channels"]
        lengths_B = self.lengths(examples, codecs)
        values_BTC = np.full((len(examples), int(lengths_B.max()), len(scaler.names)), np.nan, np.float32)
        for row, one in enumerate(examples):
            values_BTC[row, : len(one)] = scaler.encode(with_channels(one, scaler.names).values_TC)
        seen_BTC = ~np.isnan(values_BTC)
        labels = None
        if all(one.label for one in examples):
            labels = torch.from_numpy(codecs["labels"].encode(one.label for one in examples))
        return SeriesBatch(
            torch.from_numpy(np.where(seen_BTC, values_BTC, np.float32(0.0))),
            torch.from_numpy(seen_BTC),
            torch.from_numpy(lengths_B),
            labels,
        )

    def answers(self, net: SeriesClassifier, batch: SeriesBatch, codecs: SeriesLabelCodecs) -> list[str]:
        return [codecs["labels"].forms[best] for best in net.decide(batch).argmax(-1).tolist()]

    def tabulate(
        self,
        net: SeriesClassifier,
        batch: SeriesBatch,
        texts: Sequence[str],
        examples: Sequence[LabelledSeries],
        codecs: SeriesLabelCodecs,
        options: Mapping[str, object],
    ) -> list[SeriesPrediction]:
        """The label of every series with the probability of all labels."""
        names = codecs["labels"].forms
        p_BK = net.decide(batch)
        rows = zip(texts, p_BK.argmax(-1).tolist(), p_BK.tolist(), strict=True)
        return [SeriesPrediction(text, names[best], dict(zip(names, p_K, strict=True))) for text, best, p_K in rows]

    def choices(self, codecs: SeriesLabelCodecs) -> list[str]:
        return codecs["labels"].forms

    def explain_probabilities(self, net: SeriesClassifier) -> str:
        return "probabilities are those of the softmax over all labels"

    def explain(
        self,
        net: SeriesClassifier,
        batch: SeriesBatch,
        examples: Sequence[LabelledSeries],
        codecs: SeriesLabelCodecs,
    ) -> list[SeriesExplained]:
        """The label of every series with the probability of all labels, and how much each step supports it."""
        names = codecs["labels"].forms
        p_BK, weights_BT = net.decide_with_weights(batch)
        best_B = p_BK.argmax(-1)
        evidence_BT = net.evidence(batch, best_B)
        explained = []
        for row, one in enumerate(examples):
            p_K = p_BK[row].tolist()
            explained.append(
                SeriesExplained(
                    names[int(best_B[row])],
                    {names[k]: p_K[k] for k in sorted(range(len(names)), key=lambda k: -p_K[k])},
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
        if not isinstance(given, list | tuple):
            return True
        return bool(given) and all(map(is_number, given))

    def example(self, given: object) -> LabelledSeries:
        """An array, a list of numbers or a line of them; or a `LabelledSeries`, whose label is ignored."""
        return series_of(given)

    def prepare(self, given: object, codecs: SeriesLabelCodecs) -> LabelledSeries:
        """With the channels of the run."""
        return with_channels(self.example(given), codecs["channels"].names)

    def ask(self, files: Sequence[Path], codecs: SeriesLabelCodecs) -> Iterator[tuple[int, str, LabelledSeries]]:
        """The series of files; labels that stand in them are passed over."""
        names = codecs["channels"].names
        questions = read_questions(files, self.columns, names, codecs["labels"].forms)
        for number, one in enumerate(questions, start=1):
            yield number, one.name, with_channels(one, names)

    def measure(self, examples: Sequence[LabelledSeries], answers: Sequence[str], codecs: SeriesLabelCodecs) -> Classes:
        return measure_classes([one.label for one in examples], answers, codecs["labels"].forms)


CLASSIFYING_SERIES = SeriesClassifying()

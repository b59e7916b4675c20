"""The answers of a task ready to be resampled, so that differences between networks get intervals.

A task that is not in the table has figures without intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from thereafter.series.forecasting.answers import Forecast
from thereafter.series.forecasting.scoring import actual_values, deviations_of
from thereafter.series.labelled_series import LabelledSeries
from thereafter.series.scales import SeriesScales
from thereafter.series.windows import Window
from thereafter.tasks.batching import Codecs
from thereafter.tasks.classify.measures import ResampledLabels
from thereafter.tasks.lexicon import ColumnLexicons, Lexicon
from thereafter.tasks.resampled import (
    Floats,
    Resampled,
    ResampledCaptions,
    ResampledClasses,
    ResampledForecasts,
    ResampledTags,
    ResampledTranslations,
)
from thereafter.tasks.wording import Wording
from thereafter.text.conll import TaggedSentence
from thereafter.text.labelled import LabelledText
from thereafter.text.pairs import SentencePair
from thereafter.vision.acting.task import games_won
from thereafter.vision.captioning.reading import CaptionedPicture
from thereafter.vision.clips.answers import ClipLabels, figures_of
from thereafter.vision.clips.reading import Clip
from thereafter.vision.drawing.task import drawing_figures
from thereafter.vision.measures import resampled_catches, resampled_drawings, resampled_frames
from thereafter.vision.pictures.labelled_pictures import LabelledPicture

Answers = Sequence[object]


def resampled_answers(task: str, examples: Sequence[object], answers: Answers, codecs: Codecs) -> Resampled | None:
    """What is summed over examples, and the figures of the sums; None for a task that has none."""
    known = _RESAMPLED.get(task)
    return None if known is None else known(examples, answers, codecs)


def _classes(examples: Sequence[object], answers: Answers, codecs: Codecs) -> Resampled:
    labels = codecs["labels"]
    gold = [one.label for one in examples if isinstance(one, LabelledText | LabelledSeries | LabelledPicture)]
    predicted = [str(answer) for answer in answers]
    names = labels.forms if isinstance(labels, Lexicon) else sorted({*gold, *predicted})
    return ResampledClasses.of(gold, predicted, names)


def _tags(examples: Sequence[object], answers: Answers, codecs: Codecs) -> Resampled:
    gold = [list(one.tags) for one in examples if isinstance(one, TaggedSentence)]
    return ResampledTags.of(gold, [list(map(str, answer)) for answer in answers if isinstance(answer, list | tuple)])


def _translations(examples: Sequence[object], answers: Answers, codecs: Codecs) -> Resampled:
    target = codecs["target"]
    references = [one.target for one in examples if isinstance(one, SentencePair)]
    lowercase = isinstance(target, Wording) and target.lower
    return ResampledTranslations.of(list(map(str, answers)), references, lowercase=lowercase)


def _captions(examples: Sequence[object], answers: Answers, codecs: Codecs) -> Resampled:
    references = [one.captions for one in examples if isinstance(one, CaptionedPicture)]
    return ResampledCaptions.of(list(map(str, answers)), references)


@dataclass(frozen=True, eq=False)
class _Standardised:
    """Errors of forecasts in standard deviations of the training part of each series."""

    errors: ResampledForecasts

    @property
    def statistics_NS(self) -> Floats:
        return self.errors.statistics_NS

    def figures(self, sums_RS: Floats) -> dict[str, Floats]:
        return {f"{name}_standardised": values for name, values in self.errors.figures(sums_RS).items()}


def _forecasts(examples: Sequence[object], answers: Answers, codecs: Codecs) -> Resampled | None:
    """A horizon of windows that follow each other is one example: they overlap, and err together."""
    scales = codecs["series"]
    if not isinstance(scales, SeriesScales):
        return None
    windows = [one for one in examples if isinstance(one, Window)]
    means = np.stack([one.mean_HD for one in answers if isinstance(one, Forecast)])
    deviation_W1D = deviations_of(windows, scales)[:, None]
    actual_WHD = actual_values(windows, means.shape[1])
    return _Standardised(ResampledForecasts.of(actual_WHD / deviation_W1D, means / deviation_W1D, block=means.shape[1]))


def _several_labels(examples: Sequence[object], answers: Answers, codecs: Codecs) -> Resampled | None:
    labels = codecs["labels"]
    if not isinstance(labels, ColumnLexicons):
        return None
    gold = [dict(one.labels) for one in examples if isinstance(one, Clip)]
    return ResampledLabels.of(gold, [one.labels for one in answers if isinstance(one, ClipLabels)], labels.names)


def _frames(examples: Sequence[object], answers: Answers, codecs: Codecs) -> Resampled:
    nats_NK, errors_NK, _ = figures_of(answers)
    return resampled_frames(nats_NK, errors_NK)


def _drawings(examples: Sequence[object], answers: Answers, codecs: Codecs) -> Resampled:
    return resampled_drawings(*drawing_figures(answers))


def _games(examples: Sequence[object], answers: Answers, codecs: Codecs) -> Resampled:
    return resampled_catches(games_won(answers))


_RESAMPLED: Mapping[str, Callable[[Sequence[object], Answers, Codecs], Resampled | None]] = {
    "classify": _classes,
    "classify-series": _classes,
    "classify-pictures": _classes,
    "glimpse": _classes,
    "tag": _tags,
    "translate": _translations,
    "forecast": _forecasts,
    "caption": _captions,
    "video": _several_labels,
    "next-frames": _frames,
    "draw": _drawings,
    "act": _games,
}

"""The task `classify-pictures`: one label for a picture, which is read step by step as a series is.

`--task classify` leads here where the source holds pictures. An answer is a row of a table, or has the evidence of each
pixel. Shapes: B pictures, C channels, H rows, W columns, T steps, K numbers of a step, L labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray

from thereafter.base.config import Table
from thereafter.base.tabular import Row
from thereafter.data.files import Files, Parts
from thereafter.data.finding import FileKind
from thereafter.errors import OptionError
from thereafter.series.classifying.network import PictureClassifierSettings, SeriesBatch, SeriesClassifier
from thereafter.tasks.classify.measures import Classes, measure_classes
from thereafter.tasks.lexicon import Lexicon
from thereafter.tasks.shown import Fields, Shown
from thereafter.tasks.task import Task
from thereafter.vision.pictures.as_series import PixelOrder
from thereafter.vision.pictures.codec import PictureCodec
from thereafter.vision.pictures.labelled_pictures import (
    LABELLED_FILES,
    LabelledPicture,
    asked_pictures_of,
    hold_out_pictures,
    part_of_pictures,
    read_pictures,
    require_known_picture_labels,
)
from thereafter.vision.pictures.sources import picture_of

_BLOCKS = 64  # that a trace looks into


class PictureLabelCodecs(TypedDict):
    """What numbers the parts of an example."""

    pictures: PictureCodec
    order: PixelOrder
    labels: Lexicon


class PictureClassifying(
    Task[PictureClassifierSettings, LabelledPicture, SeriesBatch, SeriesClassifier, str, PictureLabelCodecs]
):
    """See `task.Task`. `chosen` says how pictures are read."""

    name = "classify-pictures"
    kind = "pictures"
    settings = PictureClassifierSettings
    defaults: ClassVar[Mapping[str, object]] = {"epochs": 10.0, "batch": 128, "rate": 2e-3, "steps": 1 << 16}
    file_kind: ClassVar[FileKind] = LABELLED_FILES
    reads: ClassVar[Mapping[str, tuple[str, str]]] = {
        "reader": ("", "step"),
        **{f"reader.blocks.{at}.recurrent": (f"block {at}.", "step") for at in range(_BLOCKS)},
    }
    asks_files = True

    def __init__(self, chosen: PictureClassifierSettings | None = None) -> None:
        self.chosen = chosen or PictureClassifierSettings()

    def configured(self, settings: PictureClassifierSettings) -> PictureClassifying:
        return PictureClassifying(settings)

    def part(self, given: Parts, part: str) -> Files | None:
        """The pictures of a part, and the file of their labels where there is one."""
        return part_of_pictures(given, part)

    def read(self, files: Sequence[Path]) -> list[LabelledPicture]:
        return read_pictures(files)

    def hold_out(
        self, examples: Sequence[LabelledPicture], share: float
    ) -> tuple[list[LabelledPicture], list[LabelledPicture], str]:
        """The last pictures, at most 5,000; of each label its share where the last ones have not all of them."""
        return hold_out_pictures(examples, share)

    def codecs(self, examples: Sequence[LabelledPicture]) -> PictureLabelCodecs:
        pictures = PictureCodec.fit([one.picture for one in examples], self.chosen.size)
        order = PixelOrder.fit(pictures, self.chosen.read, self.chosen.permutation)
        labels = sorted({one.label for one in examples})
        return {"pictures": pictures, "order": order, "labels": Lexicon(labels, opened=False)}

    def codec_notes(self, codecs: PictureLabelCodecs) -> list[str]:
        return [codecs["pictures"].describe(), codecs["order"].describe()]

    def check(self, examples: Sequence[LabelledPicture], codecs: PictureLabelCodecs, name: str) -> None:
        """Decode all pictures, so that a damaged one is an error now."""
        require_known_picture_labels(examples, codecs["labels"].forms, name)
        codecs["pictures"].keep([one.picture for one in examples])

    def build(self, settings: PictureClassifierSettings, codecs: PictureLabelCodecs) -> SeriesClassifier:
        return SeriesClassifier(settings, channels=codecs["order"].numbers, labels=len(codecs["labels"]), gaps=False)

    def lengths(self, examples: Sequence[LabelledPicture], codecs: PictureLabelCodecs) -> NDArray[np.int64]:
        return np.full(len(examples), codecs["order"].steps, np.int64)

    def targets(self, examples: Sequence[LabelledPicture], codecs: PictureLabelCodecs) -> int:
        return len(examples)

    def batch(self, examples: Sequence[LabelledPicture], codecs: PictureLabelCodecs) -> SeriesBatch:
        pictures, order = codecs["pictures"], codecs["order"]
        encoded = pictures.batch([one.picture for one in examples])
        values = torch.from_numpy(order.encode_batch(scaled(encoded, pictures)))
        labels = None
        if all(one.label for one in examples):
            labels = torch.from_numpy(codecs["labels"].encode(one.label for one in examples))
        seen = torch.ones((), dtype=torch.bool).expand(values.shape)
        return SeriesBatch(values, seen, torch.full((len(examples),), order.steps), labels)

    def answers(self, net: SeriesClassifier, batch: SeriesBatch, codecs: PictureLabelCodecs) -> list[str]:
        return [codecs["labels"].forms[best] for best in net.decide(batch).argmax(-1).tolist()]

    def tabulate(
        self,
        net: SeriesClassifier,
        batch: SeriesBatch,
        texts: Sequence[str],
        examples: Sequence[LabelledPicture],
        codecs: PictureLabelCodecs,
        options: Mapping[str, object],
    ) -> list[PicturePrediction]:
        """The label of every picture with the probability of all labels."""
        names = codecs["labels"].forms
        p_BL = net.decide(batch)
        rows = zip(texts, p_BL.argmax(-1).tolist(), p_BL.tolist(), strict=True)
        return [PicturePrediction(text, names[best], dict(zip(names, p_L, strict=True))) for text, best, p_L in rows]

    def choices(self, codecs: PictureLabelCodecs) -> list[str]:
        return codecs["labels"].forms

    def explain_probabilities(self, net: SeriesClassifier) -> str:
        return "probabilities are those of the softmax over all labels"

    def explain(
        self,
        net: SeriesClassifier,
        batch: SeriesBatch,
        examples: Sequence[LabelledPicture],
        codecs: PictureLabelCodecs,
    ) -> list[PictureExplained]:
        """The label of every picture with the probability of all labels, and how much each pixel supports it."""
        names, order = codecs["labels"].forms, codecs["order"]
        p_BL, weights_BT = net.decide_with_weights(batch)
        best_B = p_BL.argmax(-1)
        evidence_BTK = net.evidence_by_value(batch, best_B).float().cpu().numpy()
        seen = codecs["pictures"].batch([one.picture for one in examples])
        explained = []
        for row in range(len(examples)):
            p_L = p_BL[row].tolist()
            explained.append(
                PictureExplained(
                    names[int(best_B[row])],
                    {names[k]: p_L[k] for k in sorted(range(len(names)), key=lambda k: -p_L[k])},
                    seen[row].reshape(order.channels, order.height, order.width),
                    np.asarray(order.decode(evidence_BTK[row]), np.float32).sum(0),
                    tuple(weights_BT[row].tolist()),
                )
            )
        return explained

    def shown(
        self, net: SeriesClassifier, batch: SeriesBatch, example: LabelledPicture, codecs: PictureLabelCodecs
    ) -> Shown:
        (explained,) = self.explain(net, batch, [example], codecs)
        order = codecs["order"]
        evidence_TK = net.evidence_by_value(batch, net.decide(batch).argmax(-1))[0].float().cpu().numpy()
        fields: Fields = {
            "value": (("step", "channel"), np.asarray(order.encode(explained.values_CHW), np.float32)),
            "evidence": (("step",), evidence_TK.sum(-1)),
            "weight": (("step",), np.array(explained.weights, np.float32)),
        }
        about = {"answer": explained.label, "probabilities": explained.probabilities}
        return Shown([order.name_of(step) for step in range(order.steps)], codecs["labels"].forms, fields, about)

    def example(self, given: object) -> LabelledPicture:
        """A path, an array of pixels or features, a PIL image; or a `LabelledPicture`, whose label is ignored."""
        if isinstance(given, str) and not given.strip():
            raise OptionError("the path of a picture is empty; expected a file such as digit.png")
        return LabelledPicture(given.picture if isinstance(given, LabelledPicture) else picture_of(given))

    def ask(self, files: Sequence[Path], codecs: PictureLabelCodecs) -> Iterator[tuple[int, str, LabelledPicture]]:
        """The pictures of files; labels that stand in them are passed over."""
        for number, picture in enumerate(asked_pictures_of(files), start=1):
            yield number, picture.name, LabelledPicture(picture)

    def measure(
        self, examples: Sequence[LabelledPicture], answers: Sequence[str], codecs: PictureLabelCodecs
    ) -> Classes:
        return measure_classes([one.label for one in examples], answers, codecs["labels"].forms)


def scaled(encoded: NDArray[np.generic], pictures: PictureCodec) -> NDArray[np.float32]:
    """Encoded pictures with mean 0 and deviation 1 by channel, as measured on the training pictures."""
    mean, deviation = np.array(pictures.mean, np.float32), np.array(pictures.deviation, np.float32)
    if pictures.kind == "pixels":
        mean, deviation = 255.0 * mean[:, None, None], 255.0 * deviation[:, None, None]
    values: NDArray[np.float32] = (encoded.astype(np.float32) - mean) / deviation
    return values


CLASSIFYING_PICTURES = PictureClassifying()


_WIDEST = 56  # characters of the map that is printed
_FAINT = 0.1  # of the largest evidence: what is printed as nothing


@dataclass(frozen=True)
class PicturePrediction:
    """A picture by its name, with its label and the probability of every label, in the order of the labels."""

    picture: str
    label: str
    probabilities: dict[str, float]

    def rows(self) -> list[Row]:
        row: Row = {"picture": self.picture, "label": self.label, "probability": self.probabilities[self.label]}
        return [row | {f"p_{label}": p for label, p in self.probabilities.items()}]

    def __str__(self) -> str:
        return self.label


@dataclass(frozen=True, eq=False)
class PictureExplained:
    """A label, the probability of all labels (the likeliest first), and how much each pixel supports the label.

    `evidence_HW` is the gradient of the label's score in the scaled pixels, times these: above 0 a pixel supports the
    label, below 0 it speaks against it. `values_CHW`: the picture as the network saw it, before scaling. `weights`: the
    share of each step in the pooled vector.
    """

    label: str
    probabilities: dict[str, float]
    values_CHW: NDArray[np.generic]
    evidence_HW: NDArray[np.float32]
    weights: tuple[float, ...]

    def as_dict(self) -> Table:
        """Plain JSON values."""
        evidence = [[round(float(value), 6) for value in row] for row in self.evidence_HW]
        return {"label": self.label, "probabilities": self.probabilities, "evidence": evidence}

    def __str__(self) -> str:
        lines = [", ".join(f"{label} {p:.1%}".replace("%", " %") for label, p in self.probabilities.items())]
        height, width = self.evidence_HW.shape
        every = -(-width // _WIDEST)
        tall, wide = -(-height // every), -(-width // every)
        padded = np.zeros((tall * every, wide * every))
        padded[:height, :width] = self.evidence_HW
        shown = padded.reshape(tall, every, wide, every).sum((1, 3))
        most = float(np.abs(shown).max()) or 1.0
        for row in shown:
            signs = ("+" if value > _FAINT * most else "-" if value < -_FAINT * most else "." for value in row)
            lines.append("  " + "".join(signs))
        return "\n".join(lines)

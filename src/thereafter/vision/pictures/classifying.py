"""The task `classify-pictures`: one label for a picture, which is read step by step as a series is.

`--task classify` leads here where the source holds pictures. An answer is a row of a table, or has the evidence of each
pixel. Shapes: B pictures, C channels, H rows, W columns, T steps, K numbers of a step, L labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from thereafter.base.config import Table
from thereafter.errors import OptionError
from thereafter.models.settings import check_choice
from thereafter.series.classifying.network import ReaderSettings, SeriesBatch, SeriesClassifier
from thereafter.tasks.answers import Fields, LabelProbabilities, Shown
from thereafter.tasks.labelling import label_lexicon, numbered_labels, ranked
from thereafter.vision.pictures.codec import PERMUTATION, READINGS, PictureCodec, PixelOrder
from thereafter.vision.pictures.labelled_pictures import LabelledPicture
from thereafter.vision.task import LabelledPictures, PixelCodecs

_BLOCKS = 64  # that a trace looks into


@dataclass(frozen=True)
class PictureClassifierSettings(ReaderSettings):
    """Those of `ReaderSettings`, with one layer that reads in one direction and answers from its last state."""

    encoder: str = "lstm"
    hidden: int = 128
    bidirectional: bool = False
    pooling: str = "last"
    dropout: float = 0.0
    read: str = "rows"
    """What a step is: a row of pixels ("rows"), a pixel, row by row ("pixels"), or a pixel in one random order for
    all pictures ("permuted")."""
    permutation: int = PERMUTATION
    """The seed of that random order."""
    size: int = 0
    """Pixels a side to which pictures are brought (0: their own where all are equal and at most 256, else 64)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("read", self.read, READINGS)
        if not 0 <= self.permutation < 2**32:
            raise OptionError(f"permutation is {self.permutation}; expected a seed from 0 to {2**32 - 1}")
        if self.size < 0:
            raise OptionError(f"size is {self.size}; expected pixels a side, or 0 for that of the pictures")


class PictureLabelCodecs(PixelCodecs):
    """What numbers the parts of an example; `order` is that in which pixels are read."""

    order: PixelOrder


class PictureClassifying(
    LabelledPictures[PictureClassifierSettings, SeriesBatch, SeriesClassifier, PictureLabelCodecs]
):
    """See `task.Task`. `chosen` says how pictures are read."""

    name = "classify-pictures"
    typed = "picture.png"
    settings = PictureClassifierSettings
    defaults: ClassVar[Mapping[str, object]] = {"epochs": 10.0, "batch": 128, "rate": 2e-3, "steps": 1 << 16}
    reads: ClassVar[Mapping[str, tuple[str, str]]] = {
        "reader": ("", "step"),
        **{f"reader.blocks.{at}.recurrent": (f"block {at}.", "step") for at in range(_BLOCKS)},
    }

    def codecs(self, examples: Sequence[LabelledPicture]) -> PictureLabelCodecs:
        pictures = PictureCodec.fit([one.picture for one in examples], self.chosen.size)
        order = PixelOrder.fit(pictures, self.chosen.read, self.chosen.permutation)
        return {"pictures": pictures, "order": order, "labels": label_lexicon(examples)}

    def codec_notes(self, codecs: PictureLabelCodecs) -> list[str]:
        return [codecs["pictures"].describe(), codecs["order"].describe()]

    def build(self, settings: PictureClassifierSettings, codecs: PictureLabelCodecs) -> SeriesClassifier:
        return SeriesClassifier(settings, channels=codecs["order"].numbers, labels=len(codecs["labels"]), gaps=False)

    def lengths(self, examples: Sequence[LabelledPicture], codecs: PictureLabelCodecs) -> NDArray[np.int64]:
        return np.full(len(examples), codecs["order"].steps, np.int64)

    def batch(self, examples: Sequence[LabelledPicture], codecs: PictureLabelCodecs) -> SeriesBatch:
        pictures, order = codecs["pictures"], codecs["order"]
        encoded = pictures.batch([one.picture for one in examples])
        values = torch.from_numpy(order.encode_batch(scaled(encoded, pictures)))
        seen = torch.ones((), dtype=torch.bool).expand(values.shape)
        lengths_B = torch.full((len(examples),), order.steps)
        return SeriesBatch(values, seen, lengths_B, numbered_labels(examples, codecs["labels"]))

    def chances(self, net: SeriesClassifier, batch: SeriesBatch) -> Tensor:
        return net.decide(batch)

    def explain(
        self, net: SeriesClassifier, batch: SeriesBatch, examples: Sequence[LabelledPicture], codecs: PictureLabelCodecs
    ) -> list[PictureExplained]:
        """The label of every picture with the probability of all labels, and how much each pixel supports it."""
        names, order = codecs["labels"].forms, codecs["order"]
        p_BL, weights_BT = net.decide_with_weights(batch)
        best_B = p_BL.argmax(-1)
        evidence_BTK = net.evidence_by_value(batch, best_B).float().cpu().numpy()
        seen = codecs["pictures"].batch([one.picture for one in examples])
        rows = zip(
            (ranked(names, p_L) for p_L in p_BL.tolist()),
            seen.reshape(-1, order.channels, order.height, order.width),
            (np.asarray(order.decode(evidence_TK), np.float32).sum(0) for evidence_TK in evidence_BTK),
            map(tuple, weights_BT.tolist()),
            strict=True,
        )
        return [PictureExplained(names[best], *row) for best, row in zip(best_B.tolist(), rows, strict=True)]

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


@dataclass(frozen=True, eq=False)
class PictureExplained(LabelProbabilities):
    """A label, the probability of all labels (the likeliest first), and how much each pixel supports the label.

    `evidence_HW` is the gradient of the label's score in the scaled pixels, times these: above 0 a pixel supports the
    label, below 0 it speaks against it. `values_CHW`: the picture as the network saw it, before scaling. `weights`: the
    share of each step in the pooled vector.
    """

    values_CHW: NDArray[np.generic]
    evidence_HW: NDArray[np.float32]
    weights: tuple[float, ...]

    def as_dict(self) -> Table:
        """Plain JSON values."""
        evidence = [[round(float(value), 6) for value in row] for row in self.evidence_HW]
        return super().as_dict() | {"evidence": evidence}

    def __str__(self) -> str:
        lines = [super().__str__()]
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

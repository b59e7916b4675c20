"""The task `glimpse`: one label for a picture of which the network sees small parts, at places that it chooses.

An answer is a label with the path of glimpses that led to it.
Shapes: B pictures, T glimpses, C channels, H rows, W columns, L labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from thereafter import figures
from thereafter.base.config import Table
from thereafter.errors import OptionError
from thereafter.inspection.measurement import DrawnFigure
from thereafter.inspection.trace import Trace
from thereafter.tasks.answers import Fields, LabelProbabilities, Shown, percent
from thereafter.tasks.labelling import label_lexicon, numbered_labels, ranked
from thereafter.tasks.task import Picturing
from thereafter.vision.glimpsing import network
from thereafter.vision.glimpsing.network import Glimpser, GlimpserSettings, PictureReader, PixelBatch
from thereafter.vision.pictures.codec import PictureCodec
from thereafter.vision.pictures.glyphs import ClutteredPictures
from thereafter.vision.pictures.labelled_pictures import LabelledPicture
from thereafter.vision.task import LabelledPictures, PixelCodecs


class Glimpsing(Picturing[PictureReader], LabelledPictures[GlimpserSettings, PixelBatch, PictureReader, PixelCodecs]):
    """See `task.Task`. `chosen`: its size is that of the pictures."""

    name = "glimpse"
    typed = "picture.png"
    settings = GlimpserSettings
    defaults: ClassVar[Mapping[str, object]] = {"epochs": 20.0, "batch": 64, "rate": 1e-3, "steps": 1024}
    reads: ClassVar[Mapping[str, tuple[str, str]]] = {"reader": ("", "glimpse")}
    probabilities = "probabilities are those of the softmax over all labels, after the last glimpse"
    chooses = "places"

    def kinds(self) -> Sequence[str]:
        return network.PLACES

    def codecs(self, examples: Sequence[LabelledPicture]) -> PixelCodecs:
        pictures = PictureCodec.fit([one.picture for one in examples], self.chosen.size)
        if pictures.kind != "pixels":
            raise OptionError(
                f"the pictures are {pictures.kind} of features; expected pixels, to look at parts of them"
            )
        return {"pictures": pictures, "labels": label_lexicon(examples)}

    def check(self, examples: Sequence[LabelledPicture], codecs: PixelCodecs, name: str) -> None:
        """Those of a rule are not decoded: they cannot be damaged."""
        super().check([one for one in examples if not isinstance(one.picture.source, ClutteredPictures)], codecs, name)

    def build(self, settings: GlimpserSettings, codecs: PixelCodecs) -> PictureReader:
        return network.build_reader(settings, labels=len(codecs["labels"]), **codecs["pictures"].sizes)

    def batch(self, examples: Sequence[LabelledPicture], codecs: PixelCodecs) -> PixelBatch:
        pixels_BCHW = codecs["pictures"].batch([one.picture for one in examples])
        return PixelBatch(torch.from_numpy(pixels_BCHW), numbered_labels(examples, codecs["labels"]))

    def chances(self, net: PictureReader, batch: PixelBatch) -> Tensor:
        return net.decide(batch)

    def explain(
        self, net: PictureReader, batch: PixelBatch, examples: Sequence[LabelledPicture], codecs: PixelCodecs
    ) -> list[GlimpsesExplained]:
        """The label of every picture, where the glimpses were, and what was believed after each."""
        return _explained(net.looked(batch), batch, codecs["labels"].forms)

    def shown(self, net: PictureReader, batch: PixelBatch, example: LabelledPicture, codecs: PixelCodecs) -> Shown:
        looked = net.looked(batch)
        (explained,) = _explained(looked, batch, codecs["labels"].forms)
        if isinstance(net, Glimpser):
            with net.quietly():
                net.reader(looked.inputs_BTU)  # all glimpses in one call: what is recorded of a layer is its last
        patches_TKCgg = looked.patches_BTKCgg[0].float().cpu().numpy()
        fields: Fields = {
            "place": (("glimpse", "coordinate"), explained.places_T2),
            "belief": (("glimpse", "label"), explained.beliefs_TL),
            "patches": (("glimpse", "scale", "channel", "row", "column"), patches_TKCgg),
        }
        about = {"answer": explained.label, "probabilities": explained.probabilities, "labels": list(explained.names)}
        glimpses = range(1, len(explained.places_T2) + 1)
        names = ["the picture"] if self.chosen.places == network.WHOLE else [f"glimpse {number}" for number in glimpses]
        return Shown(names, codecs["labels"].forms, fields, about)

    def figure(
        self, net: PictureReader, explained: object, given: object, name: str, trace: Callable[[object], Trace]
    ) -> DrawnFigure:
        """The path of glimpses over the picture."""
        if not isinstance(net, Glimpser) or not isinstance(explained, GlimpsesExplained):
            raise OptionError("the run sees all of a picture at once; expected glimpses; try leaving --figure out")
        sensor = net.sensor
        measured = figures.measured_glimpses(explained, patch=sensor.patch, scales=sensor.scales, text=name)
        return figures.glimpse_path(measured)

    def variants(self, learned: Sequence[LabelledPicture]) -> Mapping[str, Mapping[str, object]]:
        """Glimpses at random places, at the centre; convolutions of as many parameters."""
        return {
            "glimpses at random": {"places": "random"},
            "glimpses at the centre": {"places": "centre"},
            "convolutions, all pixels": {"places": "all"},
        }


def _explained(looked: network.Looked, batch: PixelBatch, names: Sequence[str]) -> list[GlimpsesExplained]:
    pixels_BCHW = batch.pixels_BCHW.cpu().numpy()
    height, width = pixels_BCHW.shape[2:]
    places_BT2 = (looked.places_BT2.float().cpu().numpy() + 1) / 2 * np.array((width, height), np.float32)
    beliefs_BTL = looked.beliefs_BTL.float().cpu().numpy()
    explained = []
    for places_T2, beliefs_TL, pixels_CHW in zip(places_BT2, beliefs_BTL, pixels_BCHW, strict=True):
        chances = ranked(names, beliefs_TL[-1].tolist())
        label = next(iter(chances))
        explained.append(GlimpsesExplained(label, chances, tuple(names), places_T2, beliefs_TL, pixels_CHW))
    return explained


GLIMPSING = Glimpsing()


@dataclass(frozen=True, eq=False)
class GlimpsesExplained(LabelProbabilities):
    """A label, the probability of all labels (the likeliest first), and each glimpse: where, and what was believed.

    `places_T2`: column and row of the middle of each glimpse, in pixels from the upper left corner. `beliefs_TL`:
    p(label | the glimpses so far), the labels in the order of `names`. `pixels_CHW`: the picture.
    """

    names: tuple[str, ...]
    places_T2: NDArray[np.float32]
    beliefs_TL: NDArray[np.float32]
    pixels_CHW: NDArray[np.uint8]

    def best(self, glimpse: int) -> tuple[str, float]:
        """The likeliest label after a glimpse, counted from 0, and its probability."""
        at = int(self.beliefs_TL[glimpse].argmax())
        return self.names[at], float(self.beliefs_TL[glimpse, at])

    def as_dict(self) -> Table:
        """Plain JSON values."""
        glimpses = [
            {
                "column": round(float(column), 3),
                "row": round(float(row), 3),
                "probabilities": dict(zip(self.names, belief_L.tolist(), strict=True)),
            }
            for (column, row), belief_L in zip(self.places_T2, self.beliefs_TL, strict=True)
        ]
        return super().as_dict() | {"glimpses": glimpses}

    def __str__(self) -> str:
        lines = [super().__str__()]
        for glimpse, (column, row) in enumerate(self.places_T2):
            label, p = self.best(glimpse)
            lines.append(f"  glimpse {glimpse + 1} at column {column:.1f}, row {row:.1f}: {label} {percent(p)}")
        return "\n".join(lines)

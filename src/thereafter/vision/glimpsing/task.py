"""The task `glimpse`: one label for a picture of which the network sees small parts, at places that it chooses.

An answer is a label with the path of glimpses that led to it.
Shapes: B pictures, T glimpses, C channels, H rows, W columns, L labels.
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
from thereafter.data.files import Files, Parts
from thereafter.data.finding import FileKind
from thereafter.errors import OptionError
from thereafter.tasks.classify.measures import Classes, measure_classes
from thereafter.tasks.lexicon import Lexicon
from thereafter.tasks.shown import Fields, Shown
from thereafter.tasks.task import Task
from thereafter.vision.classifying.task import CLASSIFYING_PICTURES, PicturePrediction
from thereafter.vision.glimpsing.cluttered import ClutteredPictures
from thereafter.vision.glimpsing.network import (
    PLACES,
    WHOLE,
    Glimpser,
    GlimpserSettings,
    Looked,
    PictureReader,
    PixelBatch,
    build_reader,
)
from thereafter.vision.pictures.codec import PictureCodec
from thereafter.vision.pictures.labelled_pictures import (
    LABELLED_FILES,
    LabelledPicture,
    asked_pictures_of,
    hold_out_pictures,
    read_pictures,
    require_known_picture_labels,
)


class GlimpseCodecs(TypedDict):
    """What numbers the parts of an example."""

    pictures: PictureCodec
    labels: Lexicon


class Glimpsing(Task[GlimpserSettings, LabelledPicture, PixelBatch, PictureReader, str, GlimpseCodecs]):
    """See `task.Task`. `chosen`: its size is that of the pictures."""

    name = "glimpse"
    kind = "pictures"
    settings = GlimpserSettings
    defaults: ClassVar[Mapping[str, object]] = {"epochs": 20.0, "batch": 64, "rate": 1e-3, "steps": 1024}
    file_kind: ClassVar[FileKind] = LABELLED_FILES
    reads: ClassVar[Mapping[str, tuple[str, str]]] = {"reader": ("", "glimpse")}
    asks_files = True
    chooses = "places"

    def __init__(self, chosen: GlimpserSettings | None = None) -> None:
        self.chosen = chosen or GlimpserSettings()

    def configured(self, settings: GlimpserSettings) -> Glimpsing:
        return Glimpsing(settings)

    def kinds(self) -> Sequence[str]:
        return PLACES

    def peers(self) -> Sequence[str]:
        return PLACES

    def part(self, given: Parts, part: str) -> Files | None:
        """The pictures of a part, and the file of their labels where a corpus has one."""
        return CLASSIFYING_PICTURES.part(given, part)

    def read(self, files: Sequence[Path]) -> list[LabelledPicture]:
        return read_pictures(files)

    def hold_out(
        self, examples: Sequence[LabelledPicture], share: float
    ) -> tuple[list[LabelledPicture], list[LabelledPicture], str]:
        """The last pictures, at most 5,000; of each label its share where the last ones have not all of them."""
        return hold_out_pictures(examples, share)

    def codecs(self, examples: Sequence[LabelledPicture]) -> GlimpseCodecs:
        pictures = PictureCodec.fit([one.picture for one in examples], self.chosen.size)
        if pictures.kind != "pixels":
            raise OptionError(
                f"the pictures are {pictures.kind} of features; expected pixels, to look at parts of them"
            )
        labels = sorted({one.label for one in examples})
        return {"pictures": pictures, "labels": Lexicon(labels, opened=False)}

    def check(self, examples: Sequence[LabelledPicture], codecs: GlimpseCodecs, name: str) -> None:
        """Decode all pictures, so that a damaged one is an error now; those of a rule cannot be damaged."""
        require_known_picture_labels(examples, codecs["labels"].forms, name)
        pictures = [one.picture for one in examples]
        codecs["pictures"].keep([one for one in pictures if not isinstance(one.source, ClutteredPictures)])

    def build(self, settings: GlimpserSettings, codecs: GlimpseCodecs) -> PictureReader:
        pictures = codecs["pictures"]
        return build_reader(
            settings,
            channels=pictures.channels,
            height=pictures.height,
            width=pictures.width,
            labels=len(codecs["labels"]),
        )

    def lengths(self, examples: Sequence[LabelledPicture], codecs: GlimpseCodecs) -> NDArray[np.int64]:
        return np.ones(len(examples), np.int64)

    def targets(self, examples: Sequence[LabelledPicture], codecs: GlimpseCodecs) -> int:
        return len(examples)

    def batch(self, examples: Sequence[LabelledPicture], codecs: GlimpseCodecs) -> PixelBatch:
        pixels_BCHW = codecs["pictures"].batch([one.picture for one in examples])
        labels_B = None
        if all(one.label for one in examples):
            labels_B = torch.from_numpy(codecs["labels"].encode(one.label for one in examples))
        return PixelBatch(torch.from_numpy(pixels_BCHW), labels_B)

    def answers(self, net: PictureReader, batch: PixelBatch, codecs: GlimpseCodecs) -> list[str]:
        return [codecs["labels"].forms[best] for best in net.decide(batch).argmax(-1).tolist()]

    def tabulate(
        self,
        net: PictureReader,
        batch: PixelBatch,
        texts: Sequence[str],
        examples: Sequence[LabelledPicture],
        codecs: GlimpseCodecs,
        options: Mapping[str, object],
    ) -> list[PicturePrediction]:
        """The label of every picture with the probability of all labels."""
        names = codecs["labels"].forms
        p_BL = net.decide(batch)
        rows = zip(texts, p_BL.argmax(-1).tolist(), p_BL.tolist(), strict=True)
        return [PicturePrediction(text, names[best], dict(zip(names, p_L, strict=True))) for text, best, p_L in rows]

    def choices(self, codecs: GlimpseCodecs) -> list[str]:
        return codecs["labels"].forms

    def explain_probabilities(self, net: PictureReader) -> str:
        return "probabilities are those of the softmax over all labels, after the last glimpse"

    def explain(
        self, net: PictureReader, batch: PixelBatch, examples: Sequence[LabelledPicture], codecs: GlimpseCodecs
    ) -> list[GlimpsesExplained]:
        """The label of every picture, where the glimpses were, and what was believed after each."""
        return _explained(net.looked(batch), batch, codecs["labels"].forms)

    def shown(self, net: PictureReader, batch: PixelBatch, example: LabelledPicture, codecs: GlimpseCodecs) -> Shown:
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
        names = ["the picture"] if self.chosen.places == WHOLE else [f"glimpse {number}" for number in glimpses]
        return Shown(names, codecs["labels"].forms, fields, about)

    def example(self, given: object) -> LabelledPicture:
        """A path, an array of pixels, a PIL image; or a `LabelledPicture`, whose label is ignored."""
        return CLASSIFYING_PICTURES.example(given)

    def ask(self, files: Sequence[Path], codecs: GlimpseCodecs) -> Iterator[tuple[int, str, LabelledPicture]]:
        """The pictures of files; labels that stand in them are passed over."""
        for number, picture in enumerate(asked_pictures_of(files), start=1):
            yield number, picture.name, LabelledPicture(picture)

    def measure(self, examples: Sequence[LabelledPicture], answers: Sequence[str], codecs: GlimpseCodecs) -> Classes:
        return measure_classes([one.label for one in examples], answers, codecs["labels"].forms)


def _explained(looked: Looked, batch: PixelBatch, names: Sequence[str]) -> list[GlimpsesExplained]:
    pixels_BCHW = batch.pixels_BCHW.cpu().numpy()
    height, width = pixels_BCHW.shape[2:]
    places_BT2 = (looked.places_BT2.float().cpu().numpy() + 1) / 2 * np.array((width, height), np.float32)
    beliefs_BTL = looked.beliefs_BTL.float().cpu().numpy()
    explained = []
    for places_T2, beliefs_TL, pixels_CHW in zip(places_BT2, beliefs_BTL, pixels_BCHW, strict=True):
        p_L = beliefs_TL[-1].tolist()
        order = np.argsort(-beliefs_TL[-1], kind="stable").tolist()
        chances = {names[at]: p_L[at] for at in order}
        explained.append(GlimpsesExplained(names[order[0]], chances, tuple(names), places_T2, beliefs_TL, pixels_CHW))
    return explained


GLIMPSING = Glimpsing()


@dataclass(frozen=True, eq=False)
class GlimpsesExplained:
    """A label, the probability of all labels (the likeliest first), and each glimpse: where, and what was believed.

    `places_T2`: column and row of the middle of each glimpse, in pixels from the upper left corner. `beliefs_TL`:
    p(label | the glimpses so far), the labels in the order of `names`. `pixels_CHW`: the picture.
    """

    label: str
    probabilities: dict[str, float]
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
        return {"label": self.label, "probabilities": self.probabilities, "glimpses": glimpses}

    def __str__(self) -> str:
        lines = [", ".join(f"{label} {_percent(p)}" for label, p in self.probabilities.items())]
        for glimpse, (column, row) in enumerate(self.places_T2):
            label, p = self.best(glimpse)
            lines.append(f"  glimpse {glimpse + 1} at column {column:.1f}, row {row:.1f}: {label} {_percent(p)}")
        return "\n".join(lines)


def _percent(p: float) -> str:
    return f"{p:.1%}".replace("%", " %")

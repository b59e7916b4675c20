"""What a captioner has to beat: captions that were written without a look at the picture, or by looks alone.

one sentence       the training caption that fits all training pictures best
nearest picture    the first caption of the training picture with the nearest pixels, or features
other pictures     what the network says of another picture, by a fixed rotation of the test pictures: as good as its
                   captions are without saying anything of this one

Shapes: P pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from thereafter.vision.captioning.reading import CaptionedPicture
from thereafter.vision.captioning.score import constant_caption, nearest_captions
from thereafter.vision.classifying.baselines import comparing_codec

OTHER_PICTURES = "this model, other pictures"
"""What the row is called that asks the network itself."""


def caption_rows(
    learned: Sequence[CaptionedPicture], asked: Sequence[CaptionedPicture]
) -> Mapping[str, Callable[[], list[str]]]:
    """The rows that need no network."""
    pictures = [one.picture for one in learned]

    def constant() -> list[str]:
        return [constant_caption([one.captions for one in learned])] * len(asked)

    def nearest() -> list[str]:
        codec = comparing_codec(pictures)
        before, after = codec.batch(pictures), codec.batch([one.picture for one in asked])
        return nearest_captions(before, after, [one.captions for one in learned])

    kind = "pixels" if pictures[0].source.kind == "pixels" else "features"
    return {"one sentence for all": constant, f"nearest picture ({kind})": nearest}

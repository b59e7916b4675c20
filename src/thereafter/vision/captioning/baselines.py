"""What a captioner has to beat: captions that were written without a look at the picture, or by looks alone.

one sentence       the training caption that fits all training pictures best
nearest picture    the first caption of the training picture with the nearest pixels, or features
other pictures     what the network says of another picture, by a fixed rotation of the test pictures: as good as its
                   captions are without saying anything of this one

Shapes: P pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from thereafter.tasks.answering import answers
from thereafter.tasks.finding import Part
from thereafter.tasks.fitting import Fitted
from thereafter.vision.captioning.reading import CaptionedPicture
from thereafter.vision.captioning.score import constant_caption, nearest_captions
from thereafter.vision.classifying.baselines import comparing_codec
from thereafter.vision.pictures.picture import Picture

OTHER_PICTURES = "this model, other pictures"
"""What the row is called that asks the network itself."""


def caption_rows(train: Part, test: Part) -> Mapping[str, Callable[[Part, Part], Sequence[object]]]:
    """The rows that need no network."""
    kind = _pictures(train)[0].source.kind
    return {
        "one sentence for all": _constant,
        f"nearest picture ({'pixels' if kind == 'pixels' else 'features'})": _nearest,
    }


def rotated_answers(fitted: Fitted, test: Part) -> list[object]:
    """The captions of the network, each given to the picture half the part further on."""
    given = answers(fitted, test.examples)
    half = max(1, len(given) // 2) if len(given) > 1 else 0
    return [*given[half:], *given[:half]]


def _constant(train: Part, test: Part) -> list[str]:
    return [constant_caption([one.captions for one in _examples(train)])] * len(test.examples)


def _nearest(train: Part, test: Part) -> list[str]:
    learned = _examples(train)
    codec = comparing_codec(_pictures(train))
    return nearest_captions(
        codec.batch(_pictures(train)), codec.batch(_pictures(test)), [one.captions for one in learned]
    )


def _examples(part: Part) -> list[CaptionedPicture]:
    return [one for one in part.examples if isinstance(one, CaptionedPicture)]


def _pictures(part: Part) -> list[Picture]:
    return [one.picture for one in _examples(part)]

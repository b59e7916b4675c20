"""What the arrays mean of measurements over pictures and clips: a part of `meanings`."""

from __future__ import annotations

from thereafter.inspection.kind_of_measurement import KindOfMeasurement

PICTURE_KINDS: dict[str, KindOfMeasurement] = {
    "caption-attention": KindOfMeasurement(
        "weight",
        {
            "word": "word of the caption",
            "probability": "probability of the word given those before it",
            "weight": "attention of the word to a place of the picture",
            "pixel": "pixels of the picture, 0 to 255; none where it was given as features",
        },
    ),
    "clip-belief": KindOfMeasurement(
        "belief",
        {
            "frame": "pixels of each frame, 0 to 255",
            "column": "what the label is of",
            "label": "label",
            "right": "1 where it is the right one, as far as that is known",
            "belief": "probability of the label given the frames so far",
        },
    ),
    "frames-ahead": KindOfMeasurement(
        "nats",
        {
            "read": "pixels of the frames that were read, 0 to 255",
            "came": "pixels of the frames that came",
            "predicted": "the chance of each pixel to be lit, as 0 to 255",
            "nats": "cross-entropy of the pixels of the frame, in nats",
        },
    ),
    "frame-nats": KindOfMeasurement(
        "nats",
        {
            "step": "frames ahead",
            "nats": "cross-entropy of the pixels of a frame, in nats, mean over clips",
            "squared_error": "squared error of a frame, summed over its pixels",
        },
    ),
}

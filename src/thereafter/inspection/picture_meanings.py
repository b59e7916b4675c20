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
    "glimpse-path": KindOfMeasurement(
        "belief",
        {
            "pixel": "pixels of the picture, 0 to 255",
            "place": "column and row of the middle of each glimpse, in pixels",
            "side": "pixels on the side of the square of each scale",
            "label": "label",
            "right": "1 where it is the right one, as far as that is known",
            "belief": "probability of the label given the glimpses so far",
        },
    ),
    "drawn-strokes": KindOfMeasurement(
        "latent",
        {
            "pixel": "pixels of the picture, 0 to 255",
            "canvas": "the chance of each pixel to be lit after the stroke, as 0 to 255",
            "latent": "nats of the stroke's z: its KL from the prior",
            "window": "row and column of the middle of a window, and its side, in pixels; none without attention",
        },
    ),
}

"""Pixels as they go over the wire: pictures, and the frames of clips."""

from __future__ import annotations

from thereafter.serving.schema import Answer


class PixelsAnswer(Answer):
    """`count` pictures of one size. `data`: a byte for each channel of each pixel, in base64, picture by picture and
    row by row; grey where `channels` is 1, red, green, blue where it is 3."""

    count: int
    height: int
    width: int
    channels: int
    data: str

"""Pixels fitted into one shape: the middle of the picture, resized, grey or coloured.

Shapes: H rows, W columns, C channels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thereafter.images.decoding import pillow

_LUMA = np.array([0.299, 0.587, 0.114])
"""ITU-R BT.601, as Pillow and most cameras have it."""


def fit_in(pixels_HWC: NDArray[np.uint8], height: int, width: int, channels: int) -> NDArray[np.uint8]:
    """The pixels as uint8 [C, H, W]: cut to the aspect around the middle, then resized by Lanczos' filter if the size
    is another.

    >>> fit_in(np.full((2, 2, 1), 7, np.uint8), 2, 2, 3).shape
    (3, 2, 2)
    """
    pixels_HWC = crop_to_aspect(pixels_HWC, height, width)
    if pixels_HWC.shape[:2] != (height, width):
        pixels_HWC = resize(pixels_HWC, height, width)
    return np.ascontiguousarray(np.moveaxis(in_channels(pixels_HWC, channels), 2, 0))


def crop_to_aspect(pixels_HWC: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """The largest middle part whose sides are as height to width."""
    rows, columns = pixels_HWC.shape[:2]
    if rows * width > columns * height:  # too high
        kept = max(1, round(columns * height / width))
        top = (rows - kept) // 2
        return pixels_HWC[top : top + kept]
    kept = max(1, round(rows * width / height))
    left = (columns - kept) // 2
    return pixels_HWC[:, left : left + kept]


def resize(pixels_HWC: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Another size, by Pillow's filter of Lanczos."""
    library = pillow()
    grey = pixels_HWC.shape[2] == 1
    image = library.fromarray(np.ascontiguousarray(pixels_HWC[:, :, 0] if grey else pixels_HWC))
    resized: NDArray[np.uint8] = np.asarray(image.resize((width, height), library.Resampling.LANCZOS), np.uint8)
    return resized[:, :, None] if grey else resized


def in_channels(pixels_HWC: NDArray[np.uint8], channels: int) -> NDArray[np.uint8]:
    """Grey as three equal channels, colours as their brightness."""
    if pixels_HWC.shape[2] == channels:
        return pixels_HWC
    if channels == 3:
        return np.repeat(pixels_HWC, 3, axis=2)
    return grey(pixels_HWC)[:, :, None]


def grey(pixels_C: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Pixels [..., 1] or [..., 3] without their last axis; colours by their luma.

    >>> grey(np.array([[255, 0, 0], [255, 255, 255]], np.uint8)).tolist()
    [76, 255]
    """
    if pixels_C.shape[-1] == 1:
        return np.asarray(pixels_C[..., 0], np.uint8)
    return np.asarray(np.rint(pixels_C @ _LUMA), np.uint8)

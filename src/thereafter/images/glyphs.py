"""Digits drawn by rule: strokes with a slant, width, size and shaking hand of their own, 28 x 28 as MNIST's.

A digit is a pure function of some random numbers, so that nothing needs to be stored. Shapes: N digits, P points,
S segments, K random numbers, 2 for x and y.

>>> glyph(7, np.random.default_rng(1)).shape
(28, 28)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thereafter.errors import OptionError
from thereafter.images.draws import uniforms
from thereafter.images.strokes import written

SIDE = 28
"""Pixels from edge to edge."""
SEED = 20_261_117
_TRAITS = 8  # way, slant, turn, height, breadth, width of the pen, shift to the right, shift down
_SHAKE = 0.05
_AT_ONCE = 64


def glyph(digit: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """One digit, 0 (paper) to 255 (ink), anti-aliased."""
    return np.asarray(draw(np.array([digit]), rng.random((1, draws_a_glyph())))[0], np.uint8)


def numbered_glyphs(numbers: ArrayLike) -> NDArray[np.uint8]:
    """The digits of these numbers, [N, 28, 28]: number n is always the same digit n % 10.

    >>> bool((numbered_glyphs([3, 1])[0] == numbered_glyphs([3])[0]).all())
    True
    """
    numbers_N = np.asarray(numbers, np.int64)
    return draw(numbers_N % 10, uniforms(SEED, numbers_N, draws_a_glyph()))


def draws_a_glyph() -> int:
    """The random numbers that one digit takes."""
    return _TRAITS + 2 * int(written().points_VP2.shape[1])


def draw(digits_N: NDArray[np.int64], uniforms_NK: NDArray[np.float64]) -> NDArray[np.uint8]:
    """The pictures of digits, [N, 28, 28], by random numbers in [0, 1)."""
    if not ((digits_N >= 0) & (digits_N <= 9)).all():
        raise OptionError(f"digits are 0 to 9, got {digits_N.min()} to {digits_N.max()}")
    pictures_NHW = np.empty((len(digits_N), SIDE, SIDE), np.uint8)
    for at in range(0, len(digits_N), _AT_ONCE):  # so many that the distances stay in the cache of a processor
        here = slice(at, at + _AT_ONCE)
        begin_NS2, end_NS2 = _segments(digits_N[here], uniforms_NK[here])
        pen_N = 1.7 + 2.1 * uniforms_NK[here, 5]
        pictures_NHW[here] = _inked(begin_NS2, end_NS2, pen_N)
    return pictures_NHW


def _segments(
    digits_N: NDArray[np.int64], uniforms_NK: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where the segments of each digit begin and end, in pixels."""
    ways = written()
    way_N = ways.first[digits_N] + (uniforms_NK[:, 0] * ways.count[digits_N]).astype(np.int64)
    shaken = uniforms_NK[:, _TRAITS:].reshape(len(way_N), -1, 2) - 0.5
    points_NP2 = ways.points_VP2[way_N] + 2 * _SHAKE * shaken
    ends_N2S2 = np.stack([ways.begin_VSP[way_N] @ points_NP2, ways.end_VSP[way_N] @ points_NP2], 1)
    _, slant_N, turn_N, height_N, breadth_N, _, right_N, down_N = uniforms_NK[:, :_TRAITS].T
    x = (0.62 + 0.38 * breadth_N)[:, None, None] * ends_N2S2[..., 0]
    y = ends_N2S2[..., 1] - 0.5
    x = x - (0.5 * slant_N - 0.1)[:, None, None] * y
    angle = (0.24 * (turn_N - 0.5))[:, None, None]
    x, y = x * np.cos(angle) - y * np.sin(angle), x * np.sin(angle) + y * np.cos(angle)
    tall_N, wide_N = (np.ptp(part, axis=(1, 2)) for part in (y, x))
    scale_N = (16 + 3 * height_N) / np.maximum(tall_N, wide_N)
    middle = (SIDE - 1) / 2
    for part, shift_N in ((x, right_N), (y, down_N)):
        part -= ((part.max((1, 2)) + part.min((1, 2))) / 2)[:, None, None]
        part *= scale_N[:, None, None]
        part += (middle + 2 * (shift_N - 0.5))[:, None, None]
    ends = np.stack([x, y], -1)
    return ends[:, 0], ends[:, 1]


def _inked(
    begin_NS2: NDArray[np.float64], end_NS2: NDArray[np.float64], pen_N: NDArray[np.float64]
) -> NDArray[np.uint8]:
    """Ink where a pixel is nearer to a segment than half the pen: 255 min(1, max(0, pen / 2 + 1 / 2 - distance)).

    With a the pixel and b the end of a segment, both from its begin, the nearest place is
    s b, s = clip(a.b / b.b, 0, 1).
    """
    pixel_Z = np.arange(SIDE, dtype=np.float32)
    begin, along = begin_NS2.astype(np.float32), (end_NS2 - begin_NS2).astype(np.float32)
    x_NS1W = pixel_Z - begin[:, :, 0, None, None]
    y_NSH1 = pixel_Z[:, None] - begin[:, :, 1, None, None]
    b_x, b_y = along[:, :, 0, None, None], along[:, :, 1, None, None]
    length = np.maximum(b_x**2 + b_y**2, np.float32(1e-6))
    share = x_NS1W * (b_x / length) + y_NSH1 * (b_y / length)  # a.b / b.b
    nearest = np.minimum(np.maximum(share, np.float32(0)), np.float32(1))
    share *= np.float32(-2)
    share += nearest
    share *= nearest
    share *= length
    share += x_NS1W**2  # |a - s b|^2 = a.a + b.b s (s - 2 a.b / b.b)
    share += y_NSH1**2
    distance_NHW = np.sqrt(np.maximum(share.min(1), np.float32(0)))
    ink = np.clip(pen_N.astype(np.float32)[:, None, None] / 2 + np.float32(0.5) - distance_NHW, 0, 1)
    return np.asarray(np.rint(255 * ink), np.uint8)

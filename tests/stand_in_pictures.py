"""Small generated pictures in the place of MNIST and Flickr8k: the same files, parts and formats."""

from __future__ import annotations

import io
import struct
import zipfile

import numpy as np

from thereafter.vision.pictures.glyphs import glyph

COLOURS = {"red": (220, 30, 30), "green": (30, 200, 40), "blue": (40, 60, 220), "white": (235, 235, 235)}
PLACES = {"left": (16, 6), "right": (16, 26), "top": (6, 16), "bottom": (26, 16)}
SENTENCES = ("a {0} ball on the {1} .", "A {0} ball .", "there is a ball on the {1}", "the ball is {0}", "{0} ball {1}")
DIGITS = {"train": 300, "test": 100}
SPLIT = {"train": range(64), "valid": range(64, 80), "test": range(80, 96)}
SIDE = 32
GONE = "97_gone.jpg"
"""It has captions, one of them under another name, and no picture: as one of Flickr8k."""


def digits_file(part: str) -> bytes:
    """An idx file of digits that are drawn by rule, or of their labels."""
    name, _, labels = part.partition(".")
    count = DIGITS[name]
    digits = [number % 10 for number in range(count)]
    if labels:
        return struct.pack(">4BI", 0, 0, 8, 1, count) + bytes(digits)
    rng = np.random.default_rng(list(DIGITS).index(name))
    drawn = np.stack([glyph(digit, rng) for digit in digits])
    return struct.pack(">4B3I", 0, 0, 8, 3, count, 28, 28) + drawn.tobytes()


def name_of(number: int) -> str:
    return f"{number:02}_ball.jpg"


def words_of(number: int) -> tuple[str, str]:
    """The colour and the place of the ball in a picture."""
    return list(COLOURS)[number % 4], list(PLACES)[number // 4 % 4]


def captioned_file(part: str) -> bytes:
    """A file of the corpus of balls: the captions, the archive of pictures, or the names of one part."""
    if part == "pictures":
        return _archive()
    name, _, names = part.partition(".")
    if names:
        return "".join(f"{name_of(number)}\n" for number in SPLIT[name]).encode()
    lines = [
        f"{name_of(number)}#{k}\t{sentence.format(*words_of(number))}\n"
        for number in range(97)  # one more than the parts have
        for k, sentence in enumerate(SENTENCES)
    ]
    return "".join([*lines, f"{GONE}.1#0\ta ball is gone\n", f"{GONE}#1\tno ball\n"]).encode()


def _archive() -> bytes:
    from PIL import Image  # here: most tests need no pictures

    rng = np.random.default_rng(0)
    row, column = np.mgrid[:SIDE, :SIDE]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for number in range(97):
            colour, place = words_of(number)
            pixels = rng.integers(60, 90, (SIDE, SIDE, 3), dtype=np.uint8)
            at = PLACES[place]
            pixels[(row - at[0]) ** 2 + (column - at[1]) ** 2 < 36] = COLOURS[colour]
            content = io.BytesIO()
            Image.fromarray(pixels).save(content, "JPEG", quality=85)
            archive.writestr(zipfile.ZipInfo(f"images/{name_of(number)}"), content.getvalue())
    return packed.getvalue()

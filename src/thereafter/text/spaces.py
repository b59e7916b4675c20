"""Where words end in a text as it is written: at white space, and at every line end; and scripts without spaces.

Positions are counted in characters (code points), or in bytes of UTF-8, which tokens smaller than a character need.
Han, Hiragana, Katakana, Thai, Lao, Khmer and Myanmar have no spaces: their characters are found here, each with the
marks that stand on it, and where a stream of such text can be cut.

Shapes: C characters, W words and line ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.uint32]
Places = NDArray[np.int64]

_LAST_SPACE = 0x3000  # no character beyond it is white space
_NEWLINE = 10


def code_points(text: str) -> Points:
    """The characters of a text as numbers, [C]."""
    return np.frombuffer(text.encode("utf-32-le"), dtype="<u4")


def is_space(points_C: Points) -> NDArray[np.bool_]:
    """Which characters are white space, as `str.split` and `\\s` see it."""
    flags: NDArray[np.bool_] = _space_table()[np.minimum(points_C, _LAST_SPACE + 1)]
    return flags


def byte_ends(points_C: Points) -> Places:
    """Where each character ends, in bytes of UTF-8 from the beginning."""
    sizes = 1 + (points_C > 0x7F).astype(np.int64) + (points_C > 0x7FF) + (points_C > 0xFFFF)
    ends: Places = np.cumsum(sizes)
    return ends


def word_ends(points_C: Points) -> Places:
    """The place after the last character of every word, and after every newline, in characters: [W].

    >>> word_ends(code_points("two  words\\n\\n")).tolist()
    [3, 10, 11, 12]
    """
    space = is_space(points_C)
    last = ~space
    last[:-1] &= space[1:]
    ends: Places = np.flatnonzero(last | (points_C == _NEWLINE)).astype(np.int64) + 1
    return ends


@cache
def _space_table() -> NDArray[np.bool_]:
    return np.array([chr(point).isspace() for point in range(_LAST_SPACE + 2)], dtype=bool)


# Blocks, generous: digits and signs in them are told apart by the classes of Python's `re`.
_HAN = r"\u3005\u3007\u3021-\u3029\u3038-\u303B\u3400-\u4DBF\u4E00-\u9FFF\uF900-\uFAFF\U00020000-\U0003FFFD"
_KANA = r"\u3041-\u3096\u309D-\u309F\u30A1-\u30FA\u30FC-\u30FF\u31F0-\u31FF\uFF66-\uFF9F\U0001AFF0-\U0001B16F"
_THAI_LAO = r"\u0E01-\u0E7F\u0E81-\u0EFF"
_KHMER_MYANMAR = r"\u1780-\u17FF\u1000-\u109F\uA9E0-\uA9FF\uAA60-\uAA7F"
_SCRIPTS = _HAN + _KANA + _THAI_LAO + _KHMER_MYANMAR
# Marks that stay with their base: vowel signs and tones, voicing marks, the variation selectors of Han.
_LETTER_MARKS = r"\u0E33\u0EB3\uFF9E\uFF9F"  # letters to `re`, and yet written onto the character before them
_MARKS = (
    _LETTER_MARKS
    + r"\u0E31\u0E34-\u0E3A\u0E47-\u0E4E\u0EB1\u0EB4-\u0EBC\u0EC8-\u0ECE"
    + r"\u17B4-\u17D3\u17DD\u102B-\u103E\u1056-\u1059\u105E-\u1060\u1062-\u1064\u1067-\u106D\u1071-\u1074"
    + r"\u1082-\u108D\u108F\u109A-\u109D\uA9E5\uAA7B-\uAA7D\u302A-\u302F\u3099\u309A\uFE00-\uFE0F\U000E0100-\U000E01EF"
)
_STACKERS = r"\u17D2\u1039"  # write the next consonant below the one before
_BASE = rf"(?=[^\W\d_])[{_SCRIPTS}]"

CHARACTER = rf"{_BASE}(?:[{_STACKERS}]{_BASE}|[{_MARKS}])*"
"""One character of such a script with its marks."""
OTHER_LETTERS = rf"[^\W\d_{_SCRIPTS}]+"
"""A word of any other script."""
SCRIPT_TAIL = (  # a long pattern: compiled where it is needed, not at every start
    rf"(?:(?:[^\w\s]|[{_LETTER_MARKS}])*{_BASE}(?:[{_STACKERS}](?:[^\w\s]|[{_LETTER_MARKS}])*{_BASE})*"
    rf"|{OTHER_LETTERS}|\d+|[^\w\s]+|_+)?[^\S\n]*"
)
"""What may still be part of an unfinished token, as `chunks.PROSE_TAIL`: the last character may get another mark."""

_ANY = re.compile(_BASE)
SPACELESS = re.compile(rf"[{_SCRIPTS}\u3099-\u309C\u30A0\u30FB]")
"""Any sign of such a script: digits, vowel signs and the dots between words of Katakana too."""
MANY = 1 / 3
"""From this share of a text on, its script is worth a word to the user."""


def has_characters(text: str) -> bool:
    """Whether a text has any character of such a script.

    >>> has_characters("so long"), has_characters("さようなら")
    (False, True)
    """
    return not text.isascii() and _ANY.search(text) is not None


def share_of_characters(counts: Iterable[tuple[str, int]]) -> float:
    """The share of such characters among all, in forms with their counts; white space does not count.

    >>> share_of_characters([("漢", 3), ("the", 1)])
    0.5
    """
    spaceless = total = 0
    for form, count in counts:
        total += count * len(form.strip())
        if not form.isascii():
            spaceless += count * len(_ANY.findall(form))
    return spaceless / total if total else 0.0


def advice(share: float) -> str | None:
    """A note for a text of which that share has no spaces between words; None if it is small."""
    if share <= MANY:
        return None
    return (
        f"{100 * share:.0f} % of the text is in a script without spaces between words: each character is a token; "
        "--tokens bpe learns pieces of several characters, --tokens char takes every character alike"
    )

"""What two forms of one text have in common, in time that grows with their length.

Both are read from left to right. Where they differ, the nearest point is looked for from which they agree again, first
among the next few characters, then among twice as many, and so on; what lies before it is compared closely if it is
short. Capitals and the shapes of quotes make no difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

Block = tuple[int, int, int]

_SURE = 4  # characters that agree where two texts are taken to meet again
_NEAR = 32  # characters that are looked through first
_CLOSELY = 64  # characters of a difference that is compared closely
_STEP = 64
_FEW = ((0, 1), (1, 0), (1, 1))
_SHAPES = str.maketrans("‘’“”„", '\'\'"""')


def match_blocks(one: str, other: str) -> Iterator[Block]:
    """Equal parts of two texts, in order: where each begins in both, and its length. The last is where both end.

    >>> list(match_blocks("Hesaid,well", "hesaidwell"))
    [(0, 0, 6), (7, 6, 4), (11, 10, 0)]
    """
    a, b = _plain(one), _plain(other)
    i = j = 0
    while i < len(a) and j < len(b):
        size = _common_length(a, i, b, j)
        yield i, j, size
        i, j = i + size, j + size
        if i < len(a) and j < len(b):
            skipped, other_skipped = _next_match(a, i, b, j)
            yield from _within(a[i : i + skipped], i, b[j : j + other_skipped], j)
            i, j = i + skipped, j + other_skipped
    yield len(a), len(b), 0


def are_alike(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether two texts have the same words, but for capitals and for the shapes of quotes and dashes.

    >>> are_alike(["Don’t", "go—no"], ["don't", "go--no"])
    True
    """
    return len(one) == len(other) and _in_one_shape(one) == _in_one_shape(other)


def _in_one_shape(words: Sequence[str]) -> str:
    return "\0".join(words).translate(_SHAPES).replace("—", "--").lower()


def _plain(text: str) -> str:
    """A text of the same length, in which characters that mean the same are the same."""
    text = text.translate(_SHAPES)
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def _common_length(a: str, i: int, b: str, j: int) -> int:
    """How many characters agree from two places on."""
    most = min(len(a) - i, len(b) - j)
    size, step = 0, _STEP
    while size + step <= most and a[i + size : i + size + step] == b[j + size : j + size + step]:
        size, step = size + step, 2 * step
    while step:
        if size + step <= most and a[i + size : i + size + step] == b[j + size : j + size + step]:
            size += step
        else:
            step //= 2
    return size


def _next_match(a: str, i: int, b: str, j: int) -> tuple[int, int]:
    """How many characters of both to leave out until they agree again: the fewest; all where they never do."""
    for skipped in _FEW:  # a mark more or less, or another one
        ahead_in_a = a[i + skipped[0] : i + skipped[0] + _SURE]
        if len(ahead_in_a) == _SURE and b.startswith(ahead_in_a, j + skipped[1]):
            return skipped
    window, longest = _NEAR, max(len(a) - i, len(b) - j)
    while True:
        ahead: dict[str, int] = {}
        for place in range(min(window, len(b) - j - _SURE + 1)):
            ahead.setdefault(b[j + place : j + place + _SURE], place)
        nearest: tuple[int, int] | None = None
        for place in range(min(window, len(a) - i - _SURE + 1)):
            other = ahead.get(a[i + place : i + place + _SURE])
            if other is not None and (nearest is None or place + other < sum(nearest)):
                nearest = place, other
        if nearest is not None:
            return nearest
        if window >= longest:
            return len(a) - i, len(b) - j
        window *= 2


def _within(a: str, i: int, b: str, j: int) -> Iterator[Block]:
    """What two short parts have in common, compared closely."""
    if 0 < len(a) <= _CLOSELY and 0 < len(b) <= _CLOSELY:
        for block in SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks():
            if block.size:
                yield i + block.a, j + block.b, block.size

"""The words, sentences and lines of a text as written, the tokens that make up each, and the same for several models.

A *word* is what stands between white space; in scripts that have none between words, such as Chinese, it is a
character. A token goes to the word that holds its last character which is not white space; white space alone goes to
what comes after it on its line. A line end is a unit of its own among the words, and belongs to the line and the
sentence that it ends. Where one token reaches over several words these are one unit.

Models may read a text in different forms: in lower case, with punctuation set off by spaces, one sentence per line.
`align_units` brings their words onto the same borders. A border between words is kept where all of them have one; what
lies between two kept borders is one unit for all. A line end that only some of them read belongs to the word before it.

What two forms have in common is found from left to right, in time that grows with their length. Where they differ, the
nearest point is looked for from which they agree again, first among the next few characters, then among twice as many,
and so on; what lies before it is compared closely if it is short. Capitals and the shapes of quotes make no difference.

Shapes: T tokens, U units.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import OptionError, nearest
from thereafter.text.reading import CHARACTER, Places, code_points, has_characters, word_ends
from thereafter.text.sentences import find_sentences

UNITS = ("word", "token", "sentence", "line")
LINE_END = "\n"
_WORDS = re.compile(r"\S+|\n")


@dataclass(frozen=True)
class TextUnits:
    """The units of a text in order. `first_U1` [U + 1]: the first token of each, and the number of tokens."""

    texts: list[str]
    lines_U: NDArray[np.int64]
    first_U1: Places

    def __len__(self) -> int:
        return len(self.texts)

    def sums(self, values_T: NDArray[np.float64]) -> NDArray[np.float64]:
        """The sum over the tokens of each unit, 0 where it has none."""
        sums: NDArray[np.float64] = np.add.reduceat(np.append(values_T, 0.0), self.first_U1[:-1])
        sums[np.diff(self.first_U1) == 0] = 0.0
        return sums


def check_unit(by: str, name: str = "by") -> None:
    if by not in UNITS:
        raise OptionError(f"{name} is {by!r}; {nearest(by, list(UNITS))}")


def cut_units(text: str, places_T: Places, by: str, *, sentence_a_line: bool = False) -> TextUnits:
    """Cut a text into words, sentences or lines; `places_T` are the characters by which its tokens are found."""
    points = code_points(text)
    by_spaces = True
    if by == "word":
        ends, by_spaces = _word_ends(text, points)
    elif by == "line" or sentence_a_line:
        ends = np.flatnonzero(points == ord(LINE_END)).astype(np.int64) + 1
    else:
        ends = np.array([sentence.begin for sentence in find_sentences([text])][1:], dtype=np.int64)
    ends = ends if len(ends) and ends[-1] == len(text) else np.concatenate((ends, [len(text)]))
    label_T = np.searchsorted(ends, places_T, side="right")
    first = np.flatnonzero(np.concatenate(([True], label_T[1:] != label_T[:-1])))
    unit_ends = ends[label_T[first]]
    # what has no tokens of its own belongs to the unit after it
    if by == "word" and by_spaces and len(first) == len(ends):
        texts = _WORDS.findall(text)
        texts += [""] * (len(first) - len(texts))  # white space at the end
    else:
        begins = np.concatenate(([0], unit_ends[:-1]))
        texts = [_written(text[begin:end]) for begin, end in zip(begins.tolist(), unit_ends.tolist(), strict=True)]
    newlines = np.flatnonzero(points == ord(LINE_END))
    lines_U = 1 + np.searchsorted(newlines, places_T[first])
    return TextUnits(texts, lines_U, np.concatenate((first, [len(places_T)])))


def count_words(text: str) -> int:
    """The number of words of a text, without line ends.

    >>> count_words("It is a truth\\n\\nuniversally acknowledged.")
    6
    """
    if not has_characters(text):
        return len(text.split())
    ends, _ = _word_ends(text, code_points(text))
    return len(ends) - text.count(LINE_END)


def words_alone(text: str) -> TextUnits:
    """The words of a text that no model has read: each is a unit of one token."""
    points = code_points(text)
    ends, _ = _word_ends(text, points)
    begins = np.concatenate(([0], ends[:-1]))
    texts = [_written(text[begin:end]) for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
    newlines = np.flatnonzero(points == ord(LINE_END))
    return TextUnits(texts, 1 + np.searchsorted(newlines, ends - 1), np.arange(len(ends) + 1))


def last_characters(text: str) -> Places:
    """The place of the last character of each of `words_alone`."""
    ends, _ = _word_ends(text, code_points(text))
    return ends - 1


def _word_ends(text: str, points: NDArray[np.uint32]) -> tuple[Places, bool]:
    """Where the words of a text end, and whether white space alone says so."""
    ends = word_ends(points)
    if not has_characters(text):
        return ends, True
    borders = np.unique([place for match in re.finditer(CHARACTER, text) for place in match.span()])
    inside = np.array([place for place in borders.tolist() if place and not text[place - 1].isspace()], dtype=np.int64)
    return np.union1d(ends, inside), False


def _written(text: str) -> str:
    """A unit without the white space around it; a line end alone stays one."""
    return text.strip() or (LINE_END if LINE_END in text else "")


def align_units(parts: Sequence[TextUnits], reference: int | None = None) -> list[TextUnits]:
    """The same units for all: the same number, of the same text.

    `reference`: the part whose texts and line numbers they have; by default the one with the fewest units.
    """
    if all(part.texts == parts[0].texts for part in parts[1:]):
        return list(parts)
    closed = any(part.texts[-1] == LINE_END for part in parts)
    parts = [_with_line_end(part) if closed and part.texts[-1] != LINE_END else part for part in parts]
    chosen = min(range(len(parts)), key=lambda number: len(parts[number])) if reference is None else reference
    if all(are_alike(part.texts, parts[0].texts) for part in parts[1:]):
        return [TextUnits(parts[chosen].texts, parts[chosen].lines_U, part.first_U1) for part in parts]
    keys = [[LINE_END if text == LINE_END else "".join(text.split()) for text in part.texts] for part in parts]
    ends = [np.cumsum([len(key) for key in listed]) for listed in keys]
    borders = _common_borders(["".join(listed) for listed in keys], ends)
    # the last unit with that end: white space alone has no characters of its own
    after = [np.searchsorted(own, places, side="right") for own, places in zip(ends, borders, strict=True)]
    begins = np.concatenate(([0], after[chosen][:-1]))
    spans = list(zip(begins.tolist(), after[chosen].tolist(), strict=True))
    texts = [_joined(parts[chosen].texts[begin:end]) for begin, end in spans]
    lines = parts[chosen].lines_U[begins]
    return [
        TextUnits(texts, lines, np.concatenate(([0], part.first_U1[places])))
        for part, places in zip(parts, after, strict=True)
    ]


def _with_line_end(units: TextUnits) -> TextUnits:
    """A last line end that others read and this model does not: a unit without tokens."""
    return TextUnits(
        [*units.texts, LINE_END],
        np.append(units.lines_U, units.lines_U[-1:]),
        np.append(units.first_U1, units.first_U1[-1]),
    )


def _joined(texts: list[str]) -> str:
    return LINE_END if texts == [LINE_END] else " ".join(text for text in texts if text and text != LINE_END)


def _common_borders(flat: Sequence[str], ends: Sequence[Places]) -> list[Places]:
    """The places of the common borders in each of the texts without white space."""
    if all(text == flat[0] for text in flat[1:]):
        common = ends[0]
        for own in ends[1:]:
            common = np.intersect1d(common, own)
        return [np.unique(common)] * len(flat)
    matches = [_borders_of_pair(flat[0], ends[0], text, own) for text, own in zip(flat[1:], ends[1:], strict=True)]
    common_first = sorted(set(matches[0]).intersection(*matches[1:]))
    places = [common_first, *([match[place] for place in common_first] for match in matches)]
    return [np.array(listed, dtype=np.int64) for listed in places]


def _borders_of_pair(text: str, ends: Places, other: str, other_ends: Places) -> dict[int, int]:
    """Places that are borders in both texts and stand at the same point of them; the last of several that do.

    The ends of both texts are always among them.
    """
    matched: dict[int, int] = {}
    other_borders = set(other_ends.tolist())
    distinct = np.unique(ends).tolist()
    for at, other_at, size in _blocks(text, other):
        for number in range(bisect_left(distinct, at), bisect_right(distinct, at + size)):
            place = distinct[number] - at + other_at
            if place in other_borders:
                matched[distinct[number]] = place
    firsts = {other_place: place for place, other_place in matched.items()}  # the last of several again
    return {place: other_place for other_place, place in firsts.items()}


def _blocks(text: str, other: str) -> Iterator[tuple[int, int, int]]:
    """Parts that two texts have in common, in order: where each begins in both, and its length.

    Line by line if they have the same number of lines, so that no match crosses a line.
    """
    lines, others = text.split(LINE_END), other.split(LINE_END)
    if len(lines) != len(others):
        yield from match_blocks(text, other)
        return
    at = other_at = 0
    for line, other_line in zip(lines, others, strict=True):
        for begin, other_begin, size in match_blocks(line, other_line):
            yield at + begin, other_at + other_begin, size
        at, other_at = at + len(line) + 1, other_at + len(other_line) + 1
        yield at, other_at, 0  # the line end


Block = tuple[int, int, int]

_SURE = 4  # characters that must agree for two texts to be in step again
_NEAR = 32  # characters that are searched first
_CLOSELY = 64  # characters of a difference that is compared closely
_STEP = 64
_FEW = ((0, 1), (1, 0), (1, 1))
_SHAPES = str.maketrans("‘’“”„", '\'\'"""')


def match_blocks(text: str, other: str) -> Iterator[Block]:
    """Equal parts of two texts, in order: where each begins in both, and its length. The last is where both end.

    >>> list(match_blocks("Hesaid,well", "hesaidwell"))
    [(0, 0, 6), (7, 6, 4), (11, 10, 0)]
    """
    a, b = _plain(text), _plain(other)
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


def are_alike(words: Sequence[str], others: Sequence[str]) -> bool:
    """Whether two texts have the same words, but for capitals and for the shapes of quotes and dashes.

    >>> are_alike(["Don’t", "go—no"], ["don't", "go--no"])
    True
    """
    return len(words) == len(others) and _in_one_shape(words) == _in_one_shape(others)


def _in_one_shape(words: Sequence[str]) -> str:
    return "\0".join(words).translate(_SHAPES).replace("—", "--").lower()


def _plain(text: str) -> str:
    """A text of the same length, with equivalent characters made equal."""
    text = text.translate(_SHAPES)
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def _common_length(a: str, i: int, b: str, j: int) -> int:
    """The number of characters that agree from two places on."""
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
    """How many characters of both to leave out until they agree again: the fewest; all if they never do."""
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

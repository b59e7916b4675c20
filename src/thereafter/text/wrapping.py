"""Hard-wrapped prose: recognised by where its lines end, and joined into paragraphs, one a line.

A line break of wrapped prose lies where the line was full: the first word of the next line had no room in it,

    len(line) + 1 + len(next word) > width.

Verse, code, lists and one sentence a line break elsewhere. Prose also goes on in the middle of a sentence after most
breaks, and ends sentences in the middle of lines; a table or a log of even lines does neither.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from thereafter.text.spaces import SPACELESS

_ENOUGH_FULL = 0.8  # of the breaks; wrapped books have 0.98 and more, verse and lists below 0.5
_RAGGED = 0.88  # of the width: how short a full line may be, for texts that were wrapped by hand
_WIDTHS = range(40, 131)
_WIDTHS_WITHOUT_SPACES = range(16, 131)
_FEWEST_BREAKS = 6
_WORDS_A_LINE = 4
_WIDEST = 0.98  # the share of lines that are no longer than the width; a few long ones are no evidence
# a sentence that ends inside a line
_INSIDE = re.compile(r"[.!?؟]['\"”’»)]*[ \t]+\S|[。！？]\S")
_SENTENCE_END = tuple(".!?:;\"”'’»)]…。！？؟")
_LIST_MARK = re.compile(r"(?:[-*•·]|\d{1,3}[.)]|\(?[a-z]\))[ \t]")
_DIVIDED = re.compile(r"(?<![^\W\d_])([^\W\d_]+)-$")  # from the beginning of a word: a line may be endless
_FIRST_LETTERS = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True)
class Wrapping:
    """How the lines of a text break. `width` is that of a full line; `wrapped` says whether it is wrapped prose."""

    wrapped: bool
    width: int
    full: float
    """The share of line breaks that lie where the line was full."""
    reason: str
    divided: bool = False
    """Whether hyphens at line ends divide words."""
    compounds: frozenset[str] = frozenset()
    """Words that are written with a hyphen inside lines too: they keep it."""


def measure_wrapping(text: str) -> Wrapping:
    """How the lines of a text break, by a sample of it.

    >>> measure_wrapping("one sentence a line.\\nanother one.\\n").wrapped
    False
    """
    lines = [line.rstrip() for line in text.split("\n")]
    written = [line for line in lines if line]
    breaks = [(line, after) for line, after in pairwise(lines) if _inside_paragraph(line, after)]
    if len(breaks) < _FEWEST_BREAKS or len(breaks) < 0.3 * len(written):
        return Wrapping(False, 0, 0.0, "most lines are paragraphs of their own")
    spaceless = not text.isascii() and len(SPACELESS.findall(text)) > len(text) / 3
    width = _width_of(written)
    full = sum(_is_full(line, after, width) for line, after in breaks) / len(breaks)
    wrapped, reason = _decide(written, breaks, width, full, spaceless)
    if not wrapped:
        return Wrapping(False, width, full, reason)
    divided, compounds = _read_hyphens(text, breaks)
    return Wrapping(True, width, full, reason, divided, compounds)


def _decide(
    written: list[str], breaks: list[tuple[str, str]], width: int, full: float, spaceless: bool
) -> tuple[bool, str]:
    """Whether the lines are those of wrapped prose, and why."""
    if full < _ENOUGH_FULL:
        return False, f"only {full * 100:.0f} % of the line breaks lie where a line was full"
    if width not in (_WIDTHS_WITHOUT_SPACES if spaceless else _WIDTHS):
        return False, f"lines of {width} characters are too {'short' if width < _WIDTHS.start else 'long'} for a page"
    if not spaceless and sum(len(line.split()) for line in written) < _WORDS_A_LINE * len(written):
        return False, "its lines have too few words to be prose"
    inside = sum(_INSIDE.search(line) is not None for line in written) / len(written)
    if inside < 0.04:
        return False, "no sentence ends inside a line"
    small = sum(after.lstrip()[0].islower() for _, after in breaks) / len(breaks)
    open_ends = sum(not line.endswith(_SENTENCE_END) for line, _ in breaks) / len(breaks)
    if not (small >= 0.3 if _has_case(written) else open_ends >= 0.5):
        return False, "most lines begin anew instead of going on in a sentence"
    return True, f"{full * 100:.0f} % of the line breaks lie where a line of {width} characters was full"


def unwrap(lines: Iterable[str], wrapping: Wrapping) -> Iterator[str]:
    """Paragraphs, one a line without its newline; blank lines are left out.

    A line that was not full keeps its end: headings, verse and addresses inside a book stay lines of their own.
    """
    paragraph: list[str] = []
    before = ""
    for line in lines:
        line = line.rstrip()
        if paragraph and line and _inside_paragraph(before, line) and _is_full(before, line, wrapping.width):
            _join(paragraph, line.lstrip(), wrapping)
        else:
            if paragraph:
                yield "".join(paragraph)
            paragraph = [line.lstrip()] if line else []
        before = line
    if paragraph:
        yield "".join(paragraph)


def _join(paragraph: list[str], line: str, wrapping: Wrapping) -> None:
    """Append a line to a paragraph: with a space, without one, or in the place of a hyphen."""
    last = paragraph[-1]
    if last.endswith(("--", "—")) or line.startswith(("--", "—")):
        paragraph.append(line)
    elif division := _DIVIDED.search(last):
        rest = _FIRST_LETTERS.match(line)
        word = f"{division[1]}-{rest[0]}".lower() if rest else ""
        if rest and wrapping.divided and rest[0].islower() and word not in wrapping.compounds:
            paragraph[-1] = last[:-1]
        paragraph.append(line)
    elif SPACELESS.match(last[-1]) or SPACELESS.match(line[0]) or last[-1] in "。、，！？":
        paragraph.append(line)
    else:
        paragraph += [" ", line]


def _read_hyphens(text: str, breaks: list[tuple[str, str]]) -> tuple[bool, frozenset[str]]:
    """Whether hyphens at line ends divide words, and which words have one inside lines too.

    They divide where the word without the hyphen is known from inside the lines more often than the one with it. In
    books that were proof-read into files, such as Project Gutenberg's, most are compounds, and stay.
    """
    words = Counter(re.findall(r"[^\W\d_]+(?:-[^\W\d_]+)*", text.lower()))
    whole = hyphened = 0
    for line, after in breaks:
        division, rest = _DIVIDED.search(line), _FIRST_LETTERS.match(after.lstrip())
        if division and rest:
            whole += f"{division[1]}{rest[0]}".lower() in words
            hyphened += f"{division[1]}-{rest[0]}".lower() in words
    if whole <= hyphened:
        return False, frozenset()
    return True, frozenset(word for word in words if "-" in word)


def _has_case(lines: list[str]) -> bool:
    """Whether the script knows small and capital letters."""
    letters = [letter for letter in "".join(lines[:200]) if letter.isalpha()]
    return sum(letter.lower() != letter.upper() for letter in letters) > len(letters) / 2


def _width_of(lines: list[str]) -> int:
    lengths = sorted(map(len, lines))
    return lengths[int(_WIDEST * (len(lengths) - 1))]


def _inside_paragraph(line: str, after: str) -> bool:
    """Whether the break between two lines may lie inside a paragraph: neither is blank, and none begins there."""
    if not line or not after:
        return False
    return _indent(after) <= _indent(line) and _LIST_MARK.match(after.lstrip()) is None


def _is_full(line: str, after: str, width: int) -> bool:
    first = after.split(maxsplit=1)[0]
    room = 1 if SPACELESS.match(first) else 1 + len(first)
    return len(line) + room > _RAGGED * width


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())

"""The words of one text as several models read it, brought onto the same borders.

Models may read a text in different forms: in lower case, or with punctuation set off by spaces. A border between words
is kept where all of them have one; what lies between two kept borders is one unit for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

import numpy as np

from thereafter.errors import OptionError
from thereafter.evaluation.text_units import LINE_END, TextUnits
from thereafter.text.spaces import Places

_LONGEST = 4000  # characters of a line whose differences are looked for; a longer one is one unit where it differs


def align_units(parts: Sequence[TextUnits]) -> list[TextUnits]:
    """The same units for all: as many, of the same text."""
    if all(part.texts == parts[0].texts for part in parts[1:]):
        return list(parts)
    closed = any(part.texts[-1] == LINE_END for part in parts)
    parts = [_with_line_end(part) if closed and part.texts[-1] != LINE_END else part for part in parts]
    keys = [[_key(text) for text in part.texts] for part in parts]
    ends = [np.cumsum([len(key) for key in listed]) for listed in keys]
    borders = _common_borders(["".join(listed) for listed in keys], ends)
    # the last unit with that end: white space alone has no characters of its own
    after = [np.searchsorted(own, places, side="right") for own, places in zip(ends, borders, strict=True)]
    fewest = min(range(len(parts)), key=lambda number: len(parts[number]))
    begins = np.concatenate(([0], after[fewest][:-1]))
    spans = list(zip(begins.tolist(), after[fewest].tolist(), strict=True))
    texts = [_joined(parts[fewest].texts[begin:end]) for begin, end in spans]
    lines = parts[fewest].lines_U[begins]
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


def _key(text: str) -> str:
    return LINE_END if text == LINE_END else "".join(text.split())


def _joined(texts: list[str]) -> str:
    return LINE_END if texts == [LINE_END] else " ".join(text for text in texts if text and text != LINE_END)


def _common_borders(flat: Sequence[str], ends: Sequence[Places]) -> list[Places]:
    """The places of the common borders in each of the texts without white space."""
    if all(one == flat[0] for one in flat[1:]):
        common = ends[0]
        for own in ends[1:]:
            common = np.intersect1d(common, own)
        return [np.unique(common)] * len(flat)
    matches = [dict(_borders_of_pair(flat[0], ends[0], one, own)) for one, own in zip(flat[1:], ends[1:], strict=True)]
    common_first = sorted(set(matches[0]).intersection(*matches[1:]))
    places = [common_first, *([match[place] for place in common_first] for match in matches)]
    return [np.array(listed, dtype=np.int64) for listed in places]


def _borders_of_pair(one: str, ends: Places, other: str, other_ends: Places) -> Iterator[tuple[int, int]]:
    """Pairs of places that are borders in both texts and stand at the same point of them."""
    lines, others = one.split(LINE_END), other.split(LINE_END)
    if len(lines) != len(others):
        raise OptionError(
            f"the models read {len(lines):,} and {len(others):,} lines of this text, so their words cannot stand side "
            "by side; expected models that read lines alike; try one model at a time"
        )
    known, other_known = set(ends.tolist()), set(other_ends.tolist())
    at = other_at = 0
    for line, other_line in zip(lines, others, strict=True):
        for place, other_place in _same_points(line, other_line):
            if at + place in known and other_at + other_place in other_known:
                yield at + place, other_at + other_place
        at, other_at = at + len(line) + 1, other_at + len(other_line) + 1
        if at - 1 < len(one):
            yield at, other_at  # the line end


def _same_points(line: str, other: str) -> Iterator[tuple[int, int]]:
    """Points that correspond to each other in two lines, beyond their beginning."""
    if line == other:
        yield from ((place, place) for place in range(1, len(line) + 1))
        return
    if max(len(line), len(other)) <= _LONGEST:
        for block in SequenceMatcher(None, line, other, autojunk=False).get_matching_blocks():
            yield from ((block.a + step, block.b + step) for step in range(block.size + 1))
    elif line and other:
        yield len(line), len(other)

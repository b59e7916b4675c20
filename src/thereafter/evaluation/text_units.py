"""The words, sentences and lines of a text as it is written, and which tokens make up each of them.

A *word* is what stands between white space; in scripts that have none between words, such as Chinese, it is a
character. A token goes to the word that holds its last character which is no white
space; white space alone goes to what comes after it on its line. A line end is a unit of its own among the words, and
belongs to the line and the sentence that it ends. Where one token reaches over several words these are one unit.

Shapes: T tokens, U units.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import OptionError, nearest
from thereafter.text.sentences import find_sentences
from thereafter.text.spaces import CHARACTER, Places, code_points, has_characters, word_ends

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
        ends = _line_ends(points)
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
    """How many words a text has; line ends are none.

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
    """Where the last character of each of `words_alone` stands."""
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


def _line_ends(points: NDArray[np.uint32]) -> Places:
    ends: Places = np.flatnonzero(points == ord(LINE_END)).astype(np.int64) + 1
    return ends


def _written(text: str) -> str:
    """A unit without the white space around it; a line end alone stays one."""
    return text.strip() or (LINE_END if LINE_END in text else "")

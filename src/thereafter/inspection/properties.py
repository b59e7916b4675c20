"""Properties of a text, one value for each character: what a unit of a model may or may not follow.

A value says what is known after the character has been read, as a state does: "inside quotes" begins with the opening
quote and ends before the closing one. Strings and comments are those of Python. The scanner never fails: a string in
single quotes that is not closed ends with its line, one in triple quotes with the text. The classes of words are those
of the lexicon of `agreement`.

Shapes: N characters, T tokens.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import OptionError, UnknownNameError
from thereafter.text.agreement import words
from thereafter.text.agreement.lexicon import lexicon
from thereafter.text.tokenizers.base import UNKNOWN, Tokenizer

Values = NDArray[np.bool_] | NDArray[np.float64]
"""Booleans for a property that holds or does not, else numbers."""

_TAB = 8
_PYTHON = re.compile(
    r"(?P<comment>\#[^\n]*)"
    r"|(?P<triple>'''(?:\\.|[^\\])*?(?:'''|\Z)|\"\"\"(?:\\.|[^\\])*?(?:\"\"\"|\Z))"
    r"|(?P<single>'(?:\\.|[^'\\\n])*'?|\"(?:\\.|[^\"\\\n])*\"?)",
    re.DOTALL,
)
_SPEECH = re.compile(r'"[^"]*?(?:"|(?=\n\s*\n)|\Z)|“[^”]*?(?:”|(?=\n\s*\n)|\Z)', re.DOTALL)
_AFTER_KEYWORD = re.compile(r"(?<!\w)(?:" + "|".join(keyword.kwlist) + r")(?!\w)([^\w\n]*)")


@dataclass(frozen=True)
class Property:
    """`values(text)` gives a boolean or a number for each character; `meaning` is one line for a table."""

    name: str
    meaning: str
    values: Callable[[str], Values]

    def of(self, text: str) -> Values:
        """The values of a text, [N], checked: booleans, or float64."""
        values_N = np.asarray(self.values(text))
        if values_N.shape != (len(text),) or values_N.dtype.kind not in "biuf":
            raise OptionError(
                f"the property {self.name!r} gave {values_N.dtype} of the shape {values_N.shape} for a text of "
                f"{len(text):,} characters; expected one boolean or number for each"
            )
        if values_N.dtype.kind == "b":
            return np.asarray(values_N, dtype=np.bool_)
        if not np.isfinite(values_N).all():
            raise OptionError(f"the property {self.name!r} gave values that are no numbers; expected finite ones")
        return values_N.astype(np.float64)


def quotes(text: str) -> Values:
    """Inside a Python string, from its opening quote to the character before its last one.

    >>> "".join("x" if inside else "." for inside in quotes("a = 'b' # 'c'"))
    '....xx.......'
    """
    return _mark(len(text), [(begin, end) for kind, begin, end in _scan(text) if kind != "comment"])


def comment(text: str) -> Values:
    """Inside a Python comment, from its # to the end of its line."""
    spans = [(begin, end) for kind, begin, end in _scan(text) if kind == "comment"]
    return _mark(len(text), spans)


def quotes_or_comment(text: str) -> Values:
    """Inside a Python string or comment: what is written for people, or at least not as code."""
    return np.logical_or(quotes(text), comment(text))


def speech(text: str) -> Values:
    """Inside the double quotes of prose, straight or curved; an apostrophe is none, a blank line ends them."""
    spans = []
    for match in _SPEECH.finditer(text):
        closed = match.end() - match.start() > 1 and match.group()[-1] in '"”'
        spans.append((match.start(), match.end() - closed))
    return _mark(len(text), spans)


def line_position(text: str) -> Values:
    """Characters read since the last line end; 0 at the line end itself.

    >>> line_position("ab\\nc").tolist()
    [1.0, 2.0, 0.0, 1.0]
    """
    places = np.arange(len(text))
    ends = np.where(_characters(text) == ord("\n"), places, -1)
    return (places - np.maximum.accumulate(ends)).astype(np.float64) if len(text) else np.zeros(0)


def indentation(text: str) -> Values:
    """Columns of white space at the beginning of the line, as far as they are read; a blank line keeps the last."""
    columns_N = np.empty(len(text))
    begin, before = 0, 0
    for line in text.split("\n"):
        body = line.lstrip(" \t")
        width, depth = len(line) - len(body), 0
        for at in range(width):
            depth = depth + 1 if line[at] == " " else depth // _TAB * _TAB + _TAB
            columns_N[begin + at] = depth
        before = depth if body else before
        columns_N[begin + width : begin + len(line) + 1] = before
        begin += len(line) + 1
    return columns_N


def bracket_depth(text: str) -> Values:
    """How many brackets ( [ { are open, those in strings and comments not counted; never under 0.

    >>> bracket_depth("f(a[0])").tolist()
    [0.0, 1.0, 1.0, 2.0, 2.0, 1.0, 0.0]
    """
    points = _characters(text)
    change = np.isin(points, [ord(c) for c in "([{"]).astype(np.int64) - np.isin(points, [ord(c) for c in ")]}"])
    for _, begin, end in _scan(text):
        change[begin:end] = 0
    depth = np.cumsum(change)
    # what closes more than was open counts for nothing from there on
    return (depth - np.minimum(0, np.minimum.accumulate(depth))).astype(np.float64) if len(text) else np.zeros(0)


def after_keyword(text: str) -> Values:
    """Between a Python keyword and the next word of its line, strings and comments left out."""
    inside_N = _mark(len(text), [match.span(1) for match in _AFTER_KEYWORD.finditer(text)])
    for _, begin, end in _scan(text):
        inside_N[begin:end] = False
    return inside_N


def word_boundary(text: str) -> Values:
    """The first character after a word: letters, digits and _ are a word's, this character is not.

    >>> word_boundary("to be.").tolist()
    [False, False, True, False, False, True]
    """
    inside = np.fromiter((c.isalnum() or c == "_" for c in text), dtype=bool, count=len(text))
    first_N = ~inside
    first_N[1:] &= inside[:-1]
    first_N[:1] = False
    return first_N


PROPERTIES = {
    one.name: one
    for one in (
        Property("quotes", "inside a Python string", quotes),
        Property("comment", "inside a Python comment", comment),
        Property("quotes-or-comment", "inside a Python string or comment", quotes_or_comment),
        Property("speech", "inside the double quotes of prose", speech),
        Property("line-position", "characters since the last line end", line_position),
        Property("indentation", "columns the line is indented by", indentation),
        Property("brackets", "how many brackets are open", bracket_depth),
        Property("keyword", "between a Python keyword and the next word", after_keyword),
        Property("boundary", "the first character after a word", word_boundary),
    )
}


def named(name: str) -> Property:
    """A property by its name."""
    if name not in PROPERTIES:
        raise UnknownNameError("property", name, PROPERTIES)
    return PROPERTIES[name]


def of_regex(pattern: str) -> Property:
    r"""Inside a match of a regular expression of the user's; ^ and $ are those of lines.

    >>> of_regex(r"\d+").of("a 12 b").tolist()
    [False, False, True, True, False, False]
    """
    try:
        compiled = re.compile(pattern, re.MULTILINE)
    except re.error as error:
        raise OptionError(f"{pattern!r} is not a regular expression: {error}; try one such as '[0-9]+'") from None
    return Property(
        f"/{pattern}/",
        "inside a match",
        lambda text: _mark(len(text), [match.span() for match in compiled.finditer(text)]),
    )


def of_function(function: Callable[[str], Sequence[bool] | Sequence[float] | Values], name: str = "") -> Property:
    """What a function of the user's says: it gets the whole text and returns a boolean or number per character."""
    called = name or getattr(function, "__name__", "function")
    return Property(called, "what the function says", lambda text: np.asarray(function(text)))


def token_ends(text: str, tokenizer: Tokenizer) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The ids of a text [T], and for each the place of its last character [T], whose value the token takes."""
    if tokenizer.name == "char":
        return tokenizer.encode(text), np.arange(len(text))
    measured = list(tokenizer.measure_stream([text], whole=False))
    ids = np.concatenate([part.ids for part in measured]) if measured else np.empty(0, np.int32)
    if tokenizer.name in ("byte", "bpe", "wordpiece", "unigram"):  # forms are written with a character for each byte
        lengths = np.array([len(form) for form in tokenizer.vocabulary.forms], dtype=np.int64)
        sizes = np.ones(len(ids)) if tokenizer.name == "byte" else lengths[ids]
        char_of_byte = np.repeat(np.arange(len(text)), [len(c.encode("utf-8")) for c in text])
        return ids, char_of_byte[np.cumsum(sizes).astype(np.int64) - 1]
    unknown = iter([form for part in measured for form in part.unknown_forms])
    return ids, _find_ends(text, ids, tokenizer, unknown)


def _find_ends(text: str, ids: NDArray[np.int32], tokenizer: Tokenizer, unknown: Iterator[str]) -> NDArray[np.int64]:
    """Forms looked for one after the other, since white space between words may not be kept."""
    ends, cursor = np.empty(len(ids), dtype=np.int64), 0
    for step, token in enumerate(ids.tolist()):
        if token == tokenizer.line_end_id:
            form = "\n"
        elif token != tokenizer.unknown_id:
            form = tokenizer.vocabulary.forms[token]
        else:  # a literal <unk> is spelled by itself and is not among the forms that were not known
            form = UNKNOWN if text[cursor:].lstrip()[: len(UNKNOWN)] == UNKNOWN else next(unknown)
        at = text.find(form, cursor)
        cursor = cursor if at < 0 else at + len(form)
        ends[step] = max(cursor - 1, 0)
    return ends


def _scan(text: str) -> list[tuple[str, int, int]]:
    """Comments and strings as (kind, first place, place after the last), the closing quote not among them."""
    spans = []
    for match in _PYTHON.finditer(text):
        kind, begin, end = str(match.lastgroup), match.start(), match.end()
        if kind != "comment":
            closing = text[begin] * (3 if kind == "triple" else 1)
            closed = end - begin >= 2 * len(closing) and text.endswith(closing, begin, end)
            end -= closed
        spans.append((kind, begin, end))
    return spans


def _mark(size: int, spans: Sequence[tuple[int, int]]) -> Values:
    inside_N = np.zeros(size, dtype=bool)
    for begin, end in spans:
        inside_N[begin:end] = True
    return inside_N


def _characters(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le"), dtype="<u4")


CLASSES = ("noun", "verb", "auxiliary", "adjective", "adverb", "determiner", "preposition", "connective", "punctuation")


@cache
def word_classes() -> dict[str, str]:
    """Word to class. Words that can be of two classes there, such as `inside`, are left out."""
    groups = word_groups()
    every = [word for group in groups.values() for word in group]
    return {word: name for name, group in groups.items() for word in group if every.count(word) == 1}


def word_groups() -> dict[str, set[str]]:
    """The words of the lexicon by their class."""
    known = lexicon()
    return {
        "noun": {form for noun in known.all_nouns for form in (noun.singular, noun.plural)},
        "verb": {form for verb in known.all_verbs for form in verb},
        "auxiliary": {form for pair in words.AUXILIARIES for form in pair} | {"had", *words.MODALS},
        "adjective": {word for group in (known.adjectives, known.states) for forms in group.values() for word in forms},
        "adverb": {
            *known.often,
            *words.HERE,
            *words.INTENSIFIERS,
            *(w for forms in known.manner.values() for w in forms),
        },
        "determiner": set(words.SUBJECT_DETERMINERS),
        "preposition": {
            word
            for group in (words.BESIDE, words.WITH, words.AMONG_THINGS, words.IN_PLACES)
            for phrase in group
            for word in phrase
        },
        "connective": {"and", "but", "who", "that", "which"},
        "punctuation": {".", ","},
    }

"""Running text cut into sentences, by rules and without a model; each sentence has its place in the text.

A mark such as `.`, `!`, `?` or `…`, with the quotes and brackets that close after it, ends a sentence if a space and a
beginning follow. It does not where

- the next word is in lower case (`"Stop!" he cried.`), unless the whole line is,
- the word before the point is a title or another abbreviation that something follows (`Mr. Darcy`, `p. 12`), an initial
  (`J. R. Smith`), or the number of a list (`1. Rise early`); one that may also be the last word of a sentence, such as
  `etc.` or `U.S.`, ends it before a word that often begins one (`The`, `He`),
- a question or an exclamation in quotes is followed by who said it (`"Why?" Mary asked.`),
- dots stand for a pause before `I`.

Full stops of scripts without spaces need none after them. A line end is a border too, since the lines of a text in its
form are paragraphs.

Abbreviations are in small letters and without their point, which ends a word and maybe no sentence. Cutters of words
take their sets from here and add their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from thereafter.text.reading import lines_of


def forms_of(listed: str) -> frozenset[str]:
    """The words of a list that is written with spaces between them."""
    return frozenset(listed.split())


TITLES = forms_of(
    "mr mrs ms mx dr prof rev fr st ste sra mme mlle mgr messrs hon capt cpt col gen lt maj sgt cpl adm cmdr gov "
    "sen rep pres supt insp esqr"
)
"""Before names: something always follows."""
NUMBERED = forms_of("no nos nr p pp vol fig ch sec art")
"""Before numbers; before anything else the point ends a sentence."""
COMPANIES = forms_of("inc ltd co corp bros jr")
"""After names: they may be the last word of a sentence."""
PLACES = forms_of("ave blvd dept univ")
CALENDAR = forms_of("jan feb mar apr jun jul aug sept sep oct nov dec mon tue wed thu fri")
"""With a capital: small letters make other words of some of them."""


_FOLLOWED = TITLES | forms_of("sr vs cf e.g i.e eg viz al ca approx hrsg z.b d.h bzw ibid op n.b")
"""Abbreviations that something always follows."""
_NUMBERED = NUMBERED | forms_of("vols figs chap par ver v bk ed eq tab pl col l ll")
"""Abbreviations before a number; before anything else their point ends the sentence."""
_AMBIGUOUS = (
    COMPANIES | PLACES | forms_of("etc esq a.m p.m b.c a.d b.c.e u.s u.k u.s.a u.n e.u d.c ph.d m.d b.a m.a r.i.p")
)
"""Abbreviations that may be the last word of a sentence."""
_CALENDAR = frozenset(map(str.capitalize, CALENDAR)) | forms_of("Tues Thurs Sat Sun Mt")
"""The same, where only a capital tells them from words."""
STARTERS = forms_of(
    "the a an he she it we they you i this that these those there here what when where who why how but and or so if in "
    "on at for from with by as then now after before while my his her its our their your one no not yes some all "
    "however nor yet perhaps even"
)
"""Words that often begin a sentence and are seldom part of a name."""
_SPEECH = (
    "said|says|cried|asked|replied|answered|exclaimed|whispered|shouted|murmured|returned|continued|added|inquired|"
    "enquired|demanded|called|repeated|observed|muttered|began|interrupted|screamed|sighed|thought|responded"
)
_MARKS = ".!?…‽؟۔।॥。！？｡"
_CLOSING = "\"'”’»›)\\]}_*"
_END = re.compile(
    # runs are taken whole, and begin where they begin: a long one is looked at once
    rf"(?P<wide>(?<![。！？｡])[。！？｡]++[」』”’）〉》]*+)(?=\S)"  # no space follows in such scripts
    rf"|(?P<marks>(?:\.(?:[ \u00a0]\.)+)|(?<![{_MARKS}])[{_MARKS}]++)(?P<closed>[{_CLOSING}」』）]*+)(?=\s)"
)
_BEGINNING = re.compile(r"[\s\"'“‘«‹(\[{_*—–¿¡-]*")
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_BEFORE = re.compile(r"[^\s\"'“”‘’«»()\[\]{}_*—–]*\Z")
_SPEAKER = re.compile(rf"(?:(?:Mrs?|Miss|Ms|Dr|Sir|Lady|Lord|St)\.? )?[^\W\d_]+\s+(?:{_SPEECH})\b")
_LONGEST = 24  # characters of an abbreviation
_VOLUMES = forms_of("vol vols bk ch chap")  # before these "I" is a number too
_ROMAN = re.compile(r"[IVXLCDM]+\b")


@dataclass(frozen=True)
class SentenceSpan:
    """A sentence as it stood: `text` is the whole text from `begin` to `end`, counted in characters."""

    text: str
    begin: int

    @property
    def end(self) -> int:
        return self.begin + len(self.text)


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, without the space between them.

    >>> split_sentences('Mr. Darcy met J. R. Smith at 3.30 p.m. He bowed. "Why?" she asked.')
    ['Mr. Darcy met J. R. Smith at 3.30 p.m.', 'He bowed.', '"Why?" she asked.']
    """
    return [sentence.text for sentence in find_sentences([text])]


def find_sentences(chunks: Iterable[str]) -> Iterator[SentenceSpan]:
    """The sentences of a text that comes in pieces, which may end anywhere; at most a paragraph is in memory beside
    the current piece.

    >>> [(one.text, one.begin) for one in find_sentences(["So long. See", " you!\\n"])]
    [('So long.', 0), ('See you!', 9)]
    """
    begin = 0
    for paragraph in lines_of(chunks, ends=True):
        for start, end in _spans(paragraph):
            yield SentenceSpan(paragraph[start:end], begin + start)
        begin += len(paragraph)


def _spans(paragraph: str) -> Iterator[tuple[int, int]]:
    """Begin and end of each sentence of a paragraph, space left out."""
    cased = any(map(str.isupper, paragraph))
    begin = len(paragraph) - len(paragraph.lstrip())
    last = len(paragraph.rstrip())
    for match in _END.finditer(paragraph, begin, last):
        end = match.end()
        if end < last and _ends(paragraph, begin, match, cased):
            yield begin, end
            begin = end
            while paragraph[begin].isspace():
                begin += 1
    if begin < last:
        yield begin, last


def _ends(text: str, begin: int, match: re.Match[str], cased: bool) -> bool:
    """Whether a mark, with more text after it, ends its sentence."""
    if match["wide"]:
        return True
    marks, closed = match["marks"], match["closed"]
    opening = _BEGINNING.match(text, match.end())
    at = match.end() if opening is None else opening.end()
    if at == len(text):
        return True
    follower = text[at]
    if cased and follower.islower():
        return False
    next_word = _WORD.match(text, at)
    following = "" if next_word is None else next_word[0].lower()
    if marks == ".":
        return not _abbreviates(text, begin, match.start(), follower, following)
    if set(marks) & set("!?") and any(mark in "\"'”’»" for mark in closed):
        return _SPEAKER.match(text, at) is None
    pausing = "…" in marks or marks.count(".") > 1
    return not (pausing and not set(marks) & set("!?") and following.split("'")[0].split("’")[0] == "i")


def _abbreviates(text: str, begin: int, point: int, follower: str, following: str) -> bool:
    """Whether the point at this place belongs to the word before it alone."""
    before = _BEFORE.search(text[max(begin, point - _LONGEST) : point])
    word = "" if before is None else before[0]
    lower = word.lower().rstrip(".")
    first = point - len(word) == begin  # the sentence has nothing before it
    if lower in _FOLLOWED:
        return lower not in ("st", "fr", "col") or follower.isupper()
    if lower in _NUMBERED:
        roman = _ROMAN.match(text, text.find(follower, point))
        if follower.isdigit() or (roman is not None and (following[:2] not in ("i", "i'", "i’") or lower in _VOLUMES)):
            return True
    if first and (word.isdigit() or (len(word) == 1 and word.isalpha())):
        return True  # the number of a list
    if len(word) == 1 and word.isupper() and follower.isupper():
        return following not in STARTERS  # an initial, unless it is "I" or "plan B"
    if lower in _AMBIGUOUS or word in _CALENDAR or ("." in lower and all(len(part) == 1 for part in lower.split("."))):
        return following not in STARTERS and not (lower == "etc" and follower.isupper())
    return False

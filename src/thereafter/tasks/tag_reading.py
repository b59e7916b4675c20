"""How a tagger reads text that is not of its corpus: words cut as its corpus cuts them, marks as it knows them.

Both are read off its lexicons. A corpus that has `-` as a word more often than words with a hyphen in them cuts at
hyphens; one that has `don't` does not cut clitics. A mark that the tagger never met, such as “ in a book, is read as
the one it did meet.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from thereafter.tasks.lexicon import Lexicon
from thereafter.text.pretokenised_habits import ENGLISH, Habits
from thereafter.text.written import WrittenSentence

_HYPHENATED = re.compile(r"[^\W\d_]{2,}(?:-[^\W\d_]{2,})+")
_NEGATED = re.compile(r"[^\W\d_]{2,}n't")
_TYPED = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "—": "-", "–": "-", "…": "...", "\u2011": "-"})
_OPENING = {"“": ("``", '"'), '"': ("``",), "‘": ("`", "'"), "(": ("-lrb-",), "[": ("-lsb-",), "{": ("-lcb-",)}
_CLOSING = {"”": ("''", '"'), '"': ("''",), "’": ("'",), ")": ("-rrb-",), "]": ("-rsb-",), "}": ("-rcb-",)}
_DASHES = {"—": ("—", "--", "–", "-"), "–": ("–", "--", "-"), "--": ("--", "—", "-"), "…": ("...",)}


def habits_of(words: Lexicon) -> Habits:
    """How the corpus of a tagger cuts words; where its words do not say, as Universal Dependencies has English."""
    if words.as_written:
        return ENGLISH
    counts = Counter[str]()  # without the space that a language model may have before a word
    for form, count in (words.counts or dict.fromkeys(words.forms, 1)).items():
        counts[form.strip()] += count
    hyphenated = sum(count for form, count in counts.items() if "-" in form and _HYPHENATED.fullmatch(form))
    clitics = ENGLISH.clitics
    if "n't" not in counts and any(map(_NEGATED.fullmatch, counts)):
        clitics = ""
    elif "n't" not in counts and "'t" in counts:
        clitics = "'t"
    return replace(ENGLISH, clitics=clitics, hyphens="split" if counts.get("-", 0) > hyphenated else "joined")


def reader_of(words: Lexicon, letters: Lexicon) -> Callable[[WrittenSentence], WrittenSentence]:
    """A function that gives a sentence with its words as the tagger knows them; `written` keeps them as they stood."""
    remembered: dict[tuple[str, bool], str] = {}

    def form(word: str, opening: bool) -> str:
        if words.as_written or words.form(word) in words:
            return word
        marks = (_OPENING if opening else _CLOSING).get(word, ()) + _DASHES.get(word, ())
        bare = word.strip("_*") or word  # underscores and stars are the italics of plain text
        for candidate in (*marks, bare, bare.translate(_TYPED)):
            if words.form(candidate) in words:
                return candidate
        return bare.translate(_TYPED) if any(letter not in letters for letter in bare) else bare

    def read(sentence: WrittenSentence) -> WrittenSentence:
        forms = []
        for word, close in zip(sentence.forms, sentence.joined, strict=True):
            if (word, close) not in remembered:
                remembered[word, close] = form(word, opening=close)
            forms.append(remembered[word, close])
        return replace(sentence, words=tuple(forms), written=sentence.forms)

    return read

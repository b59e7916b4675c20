"""How a text was written, found from a sample of it, or from a vocabulary where nothing else is left of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from thereafter.base.config import Table
from thereafter.text.chunks import look_ahead
from thereafter.text.pretokenised import WritingStyle
from thereafter.text.pretokenised_words import CLITICS, is_abbreviation
from thereafter.text.tokenizers.base import Tokenizer
from thereafter.text.vocabulary import LINE_END, UNKNOWN

SAMPLE = 1 << 18
"""The characters of a training text that are looked at."""
_EVIDENCE = 20  # marks and clitics that stand apart: fewer say nothing
_ENOUGH_WORDS = 2_000  # in so many words of any language there are points and commas, unless they were taken out
_MANY_WORDS = 5_000  # in so many there are hyphens
_ENDS = (".", "!", "?")
_WITH_CLITIC = re.compile(r".*[^\W\d_](?:n['’]t|['’](?:s|re|ve|ll|d|m))", re.IGNORECASE)
_HYPHENATED = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_MARK = re.compile(r"[^\w\s]{1,3}")
_MOST_MARKS = 40


def find_style(chunks: Iterable[str]) -> WritingStyle | None:
    """The style of a text by its beginning; None for text as people write it, and where nothing can be told.

    >>> find_style(["They did n't go , she said .\\n"] * 30)
    WritingStyle(lower=False, clitics="n't", hyphens='joined', glue=False, numbers='', quotes='', brackets='(', \
marks=(',', '.'), stripped=False, unknown=False, sentence_lines=True, straight=True, runs=False)
    """
    beginning, _ = look_ahead(chunks, SAMPLE)
    sample = beginning[:SAMPLE]
    lines = sum(1 for line in sample.split("\n") if line.strip())
    return _Forms(Counter(sample.split()), lines).style()


def style_of_vocabulary(tokenizer: Tokenizer) -> WritingStyle | None:
    """The style of the text a `word` vocabulary is of; None for other tokenizers, whose forms do not tell."""
    if tokenizer.name != "word":
        return None
    vocabulary = tokenizer.vocabulary
    if vocabulary.counts is None:
        return style_of_forms(tokenizer.ordinary_forms)
    counts = dict(zip(vocabulary.forms, vocabulary.counts, strict=True))
    # rare words were counted as <unk>: a vocabulary does not tell whether the text spelled it out
    return _Forms(counts, counts.pop(LINE_END, 0)).style()


def style_of_forms(forms: Iterable[str]) -> WritingStyle | None:
    """The style of the text that these words are of, each named once."""
    # a mark that stands among the words was seen again and again, so it is evidence alone
    return _Forms({form: _EVIDENCE if _stands_apart(form) else 1 for form in forms if form}, 0, True).style()


def style_of_run(config: Table, tokenizer: Tokenizer) -> WritingStyle | None:
    """The style a run keeps in its configuration; of an older one, what its vocabulary tells."""
    stored = config["text"].get("style")
    if stored is None:
        return style_of_vocabulary(tokenizer)
    return WritingStyle.from_table(stored) if stored else None


@dataclass(frozen=True)
class _Forms:
    """The forms between spaces with their counts, and the number of lines; `each_once`: the counts are not known."""

    counts: Mapping[str, int]
    lines: int
    each_once: bool = False

    def style(self) -> WritingStyle | None:
        """The style, None where marks and clitics are not apart from words."""
        counts = self.counts
        words = self._sum(lambda form: any(map(str.isalpha, form)))
        if not self._is_language(words) or not self._is_spaced(words):
            return None
        marks = sorted((form for form in counts if _MARK.fullmatch(form)), key=lambda form: (-counts[form], form))
        marks = marks[:_MOST_MARKS]
        stripped = words >= _ENOUGH_WORDS and not (self._of(".") and self._of(","))
        return WritingStyle(
            lower=words >= _EVIDENCE and not self._sum(_has_capital),
            clitics=self._clitics(),
            hyphens=self._hyphens(words),
            glue=bool(self._of("@-@")),
            numbers="N" if self._of("N") > 50 * self._sum(_NUMBER.fullmatch) else "",
            quotes="``" if self._of("``") > self._of('"') else '"' if self._of('"') else "",
            brackets=next((name for name in ("-LRB-", "-lrb-") if self._of(name)), "("),
            marks=tuple(marks),
            stripped=stripped,
            unknown=bool(self._of(UNKNOWN)),
            sentence_lines=self._has_sentence_lines(words, stripped),
            straight=self._of("’") + self._of("’s") <= self._of("'") + self._of("'s"),
        )

    def _of(self, form: str) -> int:
        return self.counts.get(form, 0)

    def _sum(self, belongs: Callable[[str], object]) -> int:
        return sum(count for form, count in self.counts.items() if belongs(form))

    def _is_language(self, words: int) -> bool:
        """Whether most words have two letters or more: rows of symbols, such as `a a b b`, have no style."""
        return 2 * self._sum(lambda form: sum(map(str.isalpha, form)) > 1) > words

    def _is_spaced(self, words: int) -> bool:
        alone = sum(self._of(mark) for mark in ",;:!?")
        points = self._of(".")
        clitics = sum(self._of(clitic) for clitic in CLITICS)
        if alone + points + clitics < _EVIDENCE:
            return False
        joined = self._sum(lambda form: form[-1] in ",;:!?" and form[0].isalpha())
        joined_points = self._sum(lambda form: form[-1] == "." and form[0].isalpha() and not is_abbreviation(form))
        with_clitic = self._sum(_WITH_CLITIC.fullmatch)
        if self.each_once:
            return max(joined, joined_points, with_clitic) <= words // 100
        few_points = joined_points <= (points // 10 if points else words // 50)
        return 20 * joined <= alone + points + clitics and few_points and 5 * with_clitic <= clitics + _EVIDENCE

    def _clitics(self) -> str:
        if self._of("'t") > self._of("n't"):
            return "'t"
        return "n't" if any(self._of(clitic) for clitic in CLITICS) else ""

    def _hyphens(self, words: int) -> str:
        joined, alone = self._sum(_HYPHENATED.fullmatch), self._of("-")
        if alone > joined and not self._of("@-@"):
            return "split"
        return "spaced" if not joined and words >= _MANY_WORDS and not self._of("@-@") else "joined"

    def _has_sentence_lines(self, words: int, stripped: bool) -> bool:
        if not self.lines:
            return False
        if stripped and not self._of("."):
            return words < 60 * self.lines
        return 0.7 <= sum(self._of(mark) for mark in _ENDS) / self.lines <= 1.3


def _stands_apart(form: str) -> bool:
    return form in CLITICS or _MARK.fullmatch(form) is not None


def _has_capital(form: str) -> bool:
    return form not in ("N", UNKNOWN) and any(map(str.isupper, form)) and not form.startswith("-")

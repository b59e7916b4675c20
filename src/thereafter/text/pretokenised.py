"""How a pre-tokenised corpus was written, and plain text brought into that form.

A model of WikiText-2 knows `sketch .` and has never seen `sketch.`; one of the Penn Treebank knows neither capitals nor
points. `WritingStyle` rewrites ordinary text into the form that such a model was trained on, and generated text back.
Text that is in the form already stays as it is, byte for byte. `find_style` tells the style from a sample of a
text, `style_of_vocabulary` from a vocabulary if nothing else of it is left.

    style = find_style(sample)                        # None for text as people write it
    style.rewritten("Raymond doesn't sell it.")       # "Raymond does n't sell it ."
    style.restored("Raymond does n't sell it .")      # "Raymond doesn't sell it."
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace

from thereafter.base.config import Table
from thereafter.errors import FormatError
from thereafter.text.pretokenised_words import CLITICS, Habits, Splitter, ends_sentence, is_abbreviation, restore
from thereafter.text.reading import WORD_TAIL, look_ahead, recut
from thereafter.text.tokenizers.base import LINE_END, UNKNOWN, Tokenizer

SAMPLE = 1 << 16
"""Number of characters that decide whether a text is in the form already."""
_CHUNK = re.compile(r"(\s*)(\S+)")
_MOSTLY = 10  # a text is in the form if it holds ten signs of it for each word that would be rewritten


@dataclass(frozen=True)
class WritingStyle(Habits):
    """How a text was written: see `Habits`. Equal ones rewrite alike."""

    def rewrite(self, chunks: Iterable[str]) -> Iterator[str]:
        """A text in the form of the corpus; chunks may end anywhere. Spaces stay, others come between words."""
        beginning, whole = look_ahead(chunks, SAMPLE + 1)
        return self._rewritten(whole) if self.applies(beginning) else whole

    def rewritten(self, text: str) -> str:
        """A whole text in the form of the corpus."""
        return "".join(self.rewrite([text]))

    def restored(self, text: str, before: str = "") -> str:
        """Text of this form as ordinary text; `before` is the text before it."""
        return restore(text, self, before)

    def applies(self, text: str) -> bool:
        """Whether a text is to be rewritten: by its beginning, one that is in the form already is not."""
        beginning = text[:SAMPLE]
        if len(text) > SAMPLE:
            beginning = beginning[: beginning.rfind(" ") + 1] or beginning
        splitter, others, signs = Splitter(self), 0, 0
        for line in beginning.split("\n"):
            splitter.end_line()
            chunks = line.split()
            for place, chunk in enumerate(chunks):
                coming = chunks[place + 1] if place + 1 < len(chunks) else ""
                words = splitter.split(chunk, coming)
                if words != (chunk,):
                    others += 1
                elif self._is_sign(chunk):
                    signs += 1
                elif self.sentence_lines and coming and ends_sentence(words, chunk) and coming[0].isupper():
                    others += 1
        return others > 0 and others * _MOSTLY > signs

    def _is_sign(self, chunk: str) -> bool:
        """Whether a word is one that only text of this form has."""
        return chunk in self.marks or chunk.lower() in CLITICS or chunk in ("<unk>", "@-@", "@,@", "@.@", self.numbers)

    def _rewritten(self, chunks: Iterable[str]) -> Iterator[str]:
        """Word by word; a word waits for the next of its line, which may decide whether its point ends a sentence."""
        splitter = Splitter(self)
        space, waiting, ended, tail = "", "", False, ""
        for piece in recut(chunks, WORD_TAIL):
            written, place = [], 0
            for match in _CHUNK.finditer(piece):
                gap, place = tail + match.group(1), match.end()
                tail = ""
                if waiting:
                    coming = "" if "\n" in gap else match.group(2)
                    text, ended = self._word(splitter, space, waiting, coming, ended)
                    written.append(text)
                if "\n" in gap:
                    splitter.end_line()
                    ended = False
                space, waiting = gap, match.group(2)
            tail += piece[place:]
            yield "".join(written)
        if waiting:
            yield self._word(splitter, space, waiting, "", ended)[0]
        if tail:
            yield tail

    def _word(self, splitter: Splitter, space: str, chunk: str, coming: str, ended: bool) -> tuple[str, bool]:
        """A run of characters with the space before it, and whether a sentence ends there."""
        words = splitter.split(chunk, coming)
        if self.sentence_lines and ended and "\n" not in space and chunk.lstrip("\"'“‘(")[:1].isupper():
            space = "\n"
        ends = ends_sentence(words, chunk)
        if not words:
            return (space if "\n" in space else ""), ended or ends
        return space + " ".join(words), ends

    def identity(self) -> str:
        """Everything that determines its effect, for the fingerprint of a source."""
        return "written " + json.dumps(asdict(self), ensure_ascii=True, sort_keys=True)

    def to_table(self) -> Table:
        """A plain table for a run's configuration; default values are left out."""
        usual = asdict(WritingStyle())
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
            if value != usual[name] or name == "clitics"
        }

    @classmethod
    def from_table(cls, table: Mapping[str, object]) -> WritingStyle:
        """The style of `to_table`; FormatError for anything else."""
        usual = asdict(cls())
        values: Table = {}
        for name, value in table.items():
            plain = tuple(map(str, value)) if isinstance(value, list | tuple) else value
            if name not in usual or type(plain) is not type(usual[name]):
                raise FormatError(
                    f"text.style of this run has {name} = {value!r}, which no style has; the file is damaged, or of a "
                    "later version; try training again"
                )
            values[name] = plain
        return replace(cls(), **values)

    def __str__(self) -> str:
        """In words, for a user."""
        facts = ["words and marks apart by spaces" if not self.stripped else self._without()]
        if self.clitics:
            facts.append(f"don't as {'do n' if self.clitics.startswith('n') else 'don '}{self.clitics.lstrip('n')}")
        facts += ["@-@ for hyphens in words"] * self.glue
        facts += ["hyphens as spaces"] * (self.hyphens == "spaced") + ["hyphens apart"] * (self.hyphens == "split")
        facts += ["lower case"] * self.lower
        facts += [f"{self.numbers} for numbers"] * bool(self.numbers)
        facts += ["quotes as `` and ''"] * (self.quotes == "``")
        facts += [f"brackets as {self.brackets}"] * (self.brackets != "(")
        facts += ["one sentence per line"] * self.sentence_lines
        return ", ".join(facts)

    def _without(self) -> str:
        absent = [mark for mark in '.,;:!?"()' if mark not in self.marks and not (mark == '"' and self.quotes)]
        return "no marks" if len(absent) > 7 else f"without {' '.join(absent)}, other marks apart by spaces"


STYLE_SAMPLE = 1 << 18
"""The number of characters of a training text that are examined."""
_EVIDENCE = 20  # marks and clitics that stand apart: fewer say nothing
_ENOUGH_WORDS = 2_000  # that many words of any language have full stops and commas, unless they were removed
_MANY_WORDS = 5_000  # that many have hyphens
_ENDS = (".", "!", "?")
_WITH_CLITIC = re.compile(r".*[^\W\d_](?:n['’]t|['’](?:s|re|ve|ll|d|m))", re.IGNORECASE)
_HYPHENATED = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_MARK = re.compile(r"[^\w\s]{1,3}")
_MOST_MARKS = 40


def find_style(chunks: Iterable[str]) -> WritingStyle | None:
    """The style of a text by its beginning; None for ordinary text, and if it cannot be determined.

    >>> find_style(["They did n't go , she said .\\n"] * 30)
    WritingStyle(lower=False, clitics="n't", hyphens='joined', glue=False, numbers='', quotes='', brackets='(', \
marks=(',', '.'), stripped=False, unknown=False, sentence_lines=True, straight=True, runs=False)
    """
    beginning, _ = look_ahead(chunks, STYLE_SAMPLE)
    sample = beginning[:STYLE_SAMPLE]
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
    # a mark or clitic that stands among the words was seen again and again, so it is evidence alone
    apart = {form: form in CLITICS or _MARK.fullmatch(form) is not None for form in forms if form}
    return _Forms({form: _EVIDENCE if alone else 1 for form, alone in apart.items()}, 0, True).style()


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
        # most words of a language have two letters or more: rows of symbols, such as `a a b b`, have no style
        is_language = 2 * self._sum(lambda form: sum(map(str.isalpha, form)) > 1) > words
        if not is_language or not self._is_spaced(words):
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


def _has_capital(form: str) -> bool:
    return form not in ("N", UNKNOWN) and any(map(str.isupper, form)) and not form.startswith("-")

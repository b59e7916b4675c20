"""How the training text of a model was written, and other text brought into that form before the model reads it.

Two things may be known of a text: that it was pre-tokenised, and how (`WritingStyle`), else which quotes, apostrophes
and dashes it has (`Typography`). A run keeps both tables in its configuration.

A book that prints don’t has never seen don't, and to a model of it the straight apostrophe is a rare character. Where a
training text has one form (nearly) always, plain text is brought into it; marks that may mean two things stay as they
are, and so does a text that has the form already, byte for byte.

    book = find_typography(["“I don’t know,” she said—“not I.”\\n"] * 20)
    book.rewritten('"I don\\'t know," she said--"not I."')     # “I don’t know,” she said—“not I.”
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Protocol

from thereafter.base.config import Table
from thereafter.errors import FormatError
from thereafter.text.pretokenised import WritingStyle, find_style, style_of_run
from thereafter.text.reading import WORD_TAIL, look_ahead, recut
from thereafter.text.sources import Rewriting, Source, Texts
from thereafter.text.tokenizers.base import Tokenizer


class WritingForm(Rewriting, Protocol):
    """A way of writing that text can be brought into."""

    def rewritten(self, text: str) -> str:
        """A whole text in this form."""

    def applies(self, text: str) -> bool:
        """Whether a text is to be rewritten, by its beginning; one that is in the form already is not."""


def describe_writing(source: Source) -> Table:
    """How a training text was written, as tables for the configuration; empty if nothing is to be recorded."""
    style = find_style(source.chunks())
    return _tables(style, find_typography(source.chunks()) if style is None else None)


def describe_writing_of_run(config: Table, tokenizer: Tokenizer) -> Table:
    """The tables of `describe_writing` for a model that continues a run: those of the run."""
    return _tables(style_of_run(config, tokenizer), typography_of_run(config))


def writing_of_run(config: Table, tokenizer: Tokenizer) -> WritingForm | None:
    """The form that text is brought into for the model of a run; None if the run does not record it."""
    style = style_of_run(config, tokenizer)
    return typography_of_run(config) if style is None else style


def stored_writing(config: Table) -> WritingForm | None:
    """The form that a configuration names; the vocabulary is not examined."""
    style = config["text"].get("style")
    return WritingStyle.from_table(style) if style else typography_of_run(config)


def in_style(texts: Texts, source: Source, writing: WritingForm | None) -> Source:
    """A source of these texts, rewritten where it is not in the form yet; named corpora stay as they are."""
    if writing is None or texts.corpus is not None:
        return replace(source, rewriting=None)
    beginning, _ = look_ahead(replace(source, rewriting=None).chunks(), SAMPLE + 1)
    return replace(source, rewriting=writing if writing.applies(beginning) else None)


def texts_in_style(texts: Texts, writing: WritingForm | None) -> Texts:
    """Texts with every part in a form: see `in_style`."""
    return replace(texts, parts={name: in_style(texts, part, writing) for name, part in texts.parts.items()})


def _tables(style: WritingStyle | None, typography: Typography | None) -> Table:
    return {
        "style": {} if style is None else style.to_table(),
        "typography": {} if typography is None else typography.to_table(),
    }


SAMPLE = 1 << 16
"""Number of characters that decide whether a text is in the form already."""
_TYPED = 2_000  # texts up to this length may have been typed: every mark of another form counts
_MOSTLY = 10  # a longer text is in the form if it has ten marks of it for each of another
_EVIDENCE = 20  # marks of a training text; fewer say nothing
_NEARLY = 50  # for each mark of another form: then a training text has one form
_CURLY_SINGLE, _CURLY_DOUBLE = "‘’", "“”„"
_PAIRS = ("“”", "„“", "„”", "””")
_ALLOWED = {"apostrophe": ("", "'", "’", "‘’"), "double": ("", '"', *_PAIRS), "dash": ("", "--", "—")}


@dataclass(frozen=True)
class Typography:
    """The marks a text has; "" for those it has in both forms, or hardly at all. Equal ones rewrite alike."""

    apostrophe: str = ""
    """"'", "’", or "‘’" where single quotes open with ‘."""
    double: str = ""
    """The double quote, or the one that opens and the one that closes."""
    dash: str = ""
    """"--" or "—"."""

    def rewrite(self, chunks: Iterable[str]) -> Iterator[str]:
        """A text in this form, as far as its beginning is not in it already; chunks may end anywhere."""
        beginning, whole = look_ahead(chunks, SAMPLE + 1)
        needed = self._needed(beginning)
        return map(needed._with_marks, recut(whole, WORD_TAIL)) if needed != Typography() else whole

    def rewritten(self, text: str) -> str:
        """A whole text in this form."""
        return self._needed(text)._with_marks(text)

    def applies(self, text: str) -> bool:
        """Whether a text has marks that are to be rewritten, by its beginning."""
        beginning = text[:SAMPLE]
        needed = self._needed(text)
        return needed != Typography() and needed._with_marks(beginning) != beginning

    def _needed(self, text: str) -> Typography:
        """The marks of this form that a text has mostly in another."""
        beginning = text[:SAMPLE]
        if beginning.isascii() and not any(mark in beginning for mark in ("'", '"', "--")):
            return Typography()
        counts, most = _count_marks([beginning]), 0 if len(text) <= _TYPED else 1
        straight, curly = counts["'"], counts["’"] + counts["‘"]
        own, other = (straight, curly) if self.apostrophe == "'" else (curly, straight)
        apostrophe = self.apostrophe if _outweighs(other, own * most) else ""
        straight, curly = counts['"'], sum(counts[mark] for mark in _CURLY_DOUBLE)
        own, other = (straight, curly) if self.double == '"' else (curly, straight)
        double = self.double if _outweighs(other, own * most) else ""
        own, other = (counts["--"], counts["—"]) if self.dash == "--" else (counts["—"], counts["--"])
        return Typography(apostrophe, double, self.dash if _outweighs(other, own * most) else "")

    def _with_marks(self, text: str) -> str:
        """A text, or a part of one that begins at a word, with these marks."""
        if self.dash == "—":
            text = OPENED_DASH.sub("—", text)
        elif self.dash:
            text = text.replace("—", "--")
        straightened = {ord(mark): "'" for mark in _CURLY_SINGLE} if self.apostrophe == "'" else {}
        straightened |= {ord(mark): '"' for mark in _CURLY_DOUBLE} if self.double == '"' else {}
        if straightened and not text.isascii():
            text = text.translate(straightened)
        return curl(text, self.apostrophe.replace("'", ""), self.double.replace('"', ""))

    def identity(self) -> str:
        """Everything that determines its effect, for the fingerprint of a source."""
        return "typography " + json.dumps(asdict(self), ensure_ascii=True, sort_keys=True)

    def to_table(self) -> Table:
        """A plain table for a run's configuration; what has no form is left out."""
        return {name: marks for name, marks in asdict(self).items() if marks}

    @classmethod
    def from_table(cls, table: Mapping[str, object]) -> Typography:
        """The typography of `to_table`; FormatError for anything else."""
        for name, marks in table.items():
            if marks not in _ALLOWED.get(name, ()):
                raise FormatError(
                    f"text.typography of this run has {name} = {marks!r}, which no text has; the file is damaged, or "
                    "of a later version; try training again"
                )
        return replace(cls(), **{name: str(marks) for name, marks in table.items()})

    def __str__(self) -> str:
        """In words, for a user."""
        facts = [f"apostrophes as {self.apostrophe[-1:]}"] * bool(self.apostrophe)
        facts += [f"quotes as {' '.join(self.double)}"] * bool(self.double)
        return ", ".join(facts + [f"dashes as {self.dash}"] * bool(self.dash))


def find_typography(chunks: Iterable[str]) -> Typography | None:
    """The marks of a training text, all of it; None where it has no form, or hardly any marks.

    >>> find_typography(['"It\\'s", he said, "isn\\'t it?"\\n'] * 10)
    Typography(apostrophe="'", double='"', dash='')
    >>> find_typography(["no marks at all"]) is None
    True
    """
    counts = _count_marks(chunks)
    apostrophe = _form_of(counts["'"], "'", counts["’"] + counts["‘"], "’")
    if apostrophe == "’" and _NEARLY * counts["‘"] > counts["’"]:
        apostrophe = "‘’"
    double = _form_of(counts['"'], '"', sum(counts[mark] for mark in _CURLY_DOUBLE), "curly")
    if double == "curly":
        double = _pair_of(counts)
    marks = Typography(apostrophe, double, _form_of(counts["--"], "--", counts["—"], "—"))
    return None if marks == Typography() else marks


def typography_of_run(config: Table) -> Typography | None:
    """The typography a run keeps in its configuration; runs of earlier versions have none."""
    stored = config["text"].get("typography")
    return Typography.from_table(stored) if stored else None


def _count_marks(chunks: Iterable[str]) -> Counter[str]:
    counts = Counter[str]()
    for chunk in chunks:
        counts["'"] += chunk.count("'")
        counts['"'] += chunk.count('"')
        if "--" in chunk:
            counts["--"] += sum(1 for _ in OPENED_DASH.finditer(chunk))
        if not chunk.isascii():
            for mark in (*_CURLY_SINGLE, *_CURLY_DOUBLE, "—"):
                counts[mark] += chunk.count(mark)
    return counts


def _outweighs(other: int, own: int) -> bool:
    return other > 0 and other * _MOSTLY > own


def _form_of(count: int, form: str, other_count: int, other_form: str) -> str:
    """The form that is frequent enough, if there is hardly any of the other."""
    if max(count, other_count) < _EVIDENCE:
        return ""
    return form if count >= _NEARLY * other_count else other_form if other_count >= _NEARLY * count else ""


def _pair_of(counts: Mapping[str, int]) -> str:
    """The quotes that open and close; "" for a text that has more than one pair."""
    rare = sum(counts[mark] for mark in _CURLY_DOUBLE) // _NEARLY
    used = "".join(mark for mark in "„“”" if counts[mark] > rare)
    return {"“”": "“”", "„“": "„“", "„”": "„”", "”": "””"}.get(used, "")


# Straight quotes and apostrophes as curly ones: which way each of them turns, by what stands around it.
#
#     She said, "I don't."     “ after a space, ” after a mark, ’ inside a word
#     'Tis true. 'Go!'         ’ where a word is shortened, ‘ where a quotation begins
#
# A quote with white space on both sides stays as it is: nothing says whether it opens or closes.


OPENED_DASH = re.compile(r"--(?![->])(?<![-!<]--)(?:(?<=\S--)|(?=\s|\Z))")
"""Two hyphens that are a dash: after a word, or between spaces; not `--option`, a row of hyphens or a comment's end."""
_QUOTE = re.compile("[\"']")
_QUOTES = "\"'“”‘’"
_OPENERS = "([{<*_"  # stars and underscores are the italics of plain text
_DASHES = "-–—"
_SHORTENED = frozenset(
    "t tis twas twere twill twould em er im til till cause bout ere n round s re ve ll d m".split()  # noqa: SIM905
)
"""What follows an apostrophe at the start of a word: 'tis, 'em; also the ends of words, if a text begins with one."""
_MOST = 4  # maximum number of consecutive quotes to skip
_WORD = re.compile(r"[^\W\d_]+")


def curl(text: str, apostrophe: str, double: str) -> str:
    """A text with curly quotes in the place of straight ones.

    `apostrophe`: ’, or ‘’ where single quotes open with ‘, or "" to leave them. `double`: the quote that opens and the
    one that closes, or "".

    >>> curl("\\"I don't,\\" she said.", "’", "“”")
    '“I don’t,” she said.'
    """
    if not apostrophe and not double:
        return text

    def turn(match: re.Match[str]) -> str:
        if match[0] == '"':
            return _double(text, match.start(), double) if double else '"'
        return _single(text, match.start(), apostrophe) if apostrophe else "'"

    return _QUOTE.sub(turn, text)


def _double(text: str, at: int, pair: str) -> str:
    before, after = _around(text, at)
    if '"' in (text[at - 1 : at], text[at + 1 : at + 2]):
        return '"'  # two in a row are no quotation
    if before.isspace():
        return '"' if after.isspace() else pair[0]
    opens = before in _OPENERS or (before in _DASHES and after.isalnum())
    return pair[0] if opens and not after.isspace() else pair[1]


def _single(text: str, at: int, form: str) -> str:
    before, after = _around(text, at)
    opening = form[0] if len(form) > 1 else "'"
    if before.isspace() and (not after or after.isspace()):
        return "'" if after else opening
    if not after.isalnum() or text[at - 1 : at].isalnum():
        return form[-1]
    if before.isspace() or before in _OPENERS or before in _DASHES:
        word = _WORD.match(text, at + 1)
        shortened = text[at + 1].isdigit() or (word is not None and word[0].lower() in _SHORTENED)
        return form[-1] if shortened else opening
    return form[-1]


def _around(text: str, at: int) -> tuple[str, str]:
    """The characters before and after a quote, other quotes left out: a space where a text begins, "" at its end."""
    before, after = at - 1, at + 1
    while before >= 0 and text[before] in _QUOTES and at - before < _MOST:
        before -= 1
    while after < len(text) and text[after] in _QUOTES and after - at < _MOST:
        after += 1
    return text[before] if before >= 0 else " ", text[after : after + 1]

"""The words of a pre-tokenised corpus, both ways: a run of characters cut into them, and they as people write them.

    split_words("The wretch, they say, didn't flee.")
    ['The', 'wretch', ',', 'they', 'say', ',', 'did', "n't", 'flee', '.']

The rules are those of the Penn Treebank and of Universal Dependencies' English corpora, written down once: marks stand
alone, abbreviations keep their point, addresses of the web stay whole, clitics are words. What a corpus does
differently (hyphens, numbers, quotes, case) is its `Habits`, plain facts that `pretokenised.WritingStyle` acts by.

The way back joins marks to their words, and writes `do n't` as don't, `@-@` as a hyphen. `Restorer` takes the text in
pieces as it is generated. A word is written once it is complete, since what it is decides whether a space comes before.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from thereafter.text import sentences
from thereafter.text.sentences import forms_of

_BEFORE_NAMES = sentences.TITLES | forms_of("mt ft vs v")
"""Abbreviations that something follows: their point never ends a sentence."""
_IN_SMALL = forms_of("etc al cf vs approx inc corp ltd eds")
_CAPITAL = (
    sentences.COMPANIES
    | sentences.PLACES
    | sentences.CALENDAR
    | forms_of("sr est assn rd calif mass conn mich wash fla ill pa va cos fig figs op nos vol ed trans")
)
"""Abbreviations in capitals only: `he was ill.` ends a sentence, `Springfield, Ill.,` does not."""
_BEFORE_NUMBERS = sentences.NUMBERED | {"op"}
CLITICS = frozenset({"n't", "'t", "'s", "'re", "'ve", "'ll", "'d", "'m"})
"""What stands after its word as a word of its own."""
TERMINATORS = ".!?"

_SCAN = re.compile(
    r"""
      (?P<special><unk>|@[-,.]@|-[LRlr][CRScrs][Bb]-|``|''(?!\w))
    | (?P<address>(?:https?://|www\.)[^\s"'<>]*[\w/]|[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+)
    | (?P<dots>\.{2,}|…)
    | (?P<dash>--+|[–—―])
    | (?P<run>[:;]-?[()DP](?!\w)|\*\*+|==+|\+\++|~~+|<<+|>>+|\$\$+|\#\#+|[!?]{2,})
    | (?P<number>\.?\d+(?:[.,:/]\d+)*(?![\w-]|[.,:/]\w))
    | (?P<short>['’](?:em|tis|twas|cause|till?|bout|\d\ds?)(?!\w)|[A-Za-z]{1,2}\$)
    | (?P<initials>(?:[^\W\d_]\.){2,}(?!\w)|[A-Z]\.(?!\w))
    | (?P<word>\w+(?:(?:[-'’&.,@:]|\\/)\w+)*(?:-(?=$))?)
    | (?P<mark>\S)
    """,
    re.VERBOSE,
)
_NEGATION = re.compile(r"(.*[^\W\d_])(n['’]t)", re.IGNORECASE)
_NEGATION_MOSES = re.compile(r"(.*n)(['’]t)", re.IGNORECASE)
_INNER_MOSES = re.compile(r"(.*\w)(['’]\w+)")
_OTHER_CLITIC = re.compile(r"(.*\w\.?)(['’](?:s|re|ve|ll|d|m))", re.IGNORECASE)
_TOGETHER = {"cannot": 3, "gonna": 3, "gotta": 3, "wanna": 3}
_KEPT_PREFIXES = frozenset(
    "e re non semi over counter mis vice anti co ex mid multi pre post pro sub un ultra bi".split()  # noqa: SIM905
)
"""Before a hyphen that Universal Dependencies leaves inside the word: e-mail, vice-president."""
_DOUBLE = frozenset('"“”„«»')
_OPENS, _CLOSES = "([{", ")]}"


def split_words(text: str, style: Habits | None = None) -> list[str]:
    """The words of a text as a corpus of this style has them; without one as Universal Dependencies has English.

    >>> split_words("wretch,"), split_words("don't"), split_words("e-mail me at 5:30 p.m.!")
    (['wretch', ','], ['do', "n't"], ['e-mail', 'me', 'at', '5:30', 'p.m.', '!'])
    """
    splitter = Splitter(style or ENGLISH)
    chunks = text.split()
    after = zip(chunks, [*chunks[1:], ""], strict=False)
    return [word for chunk, coming in after for word in splitter.split(chunk, coming)]


class Splitter:
    """Runs of characters between spaces to words, one after the other: a quote opens or closes by those before it."""

    def __init__(self, style: Habits) -> None:
        self.style = style
        self._quoted = False
        self._before = ""
        self._plain: dict[str, tuple[str, ...]] = {}

    def end_line(self) -> None:
        """Quotes do not reach over lines."""
        self._quoted, self._before = False, ""

    def split(self, chunk: str, coming: str) -> tuple[str, ...]:
        """The words of one run; `coming` is the next of its line, "" at the end of a line."""
        before, self._before = self._before, chunk
        words = self._plain.get(chunk)
        if words is not None:
            return words
        if (
            self.style.clitics == "'t"
            and chunk[0] == "'"
            and chunk[1:].isalpha()
            and before.isalpha()
            and len(before) < 4
        ):
            return (chunk,)  # O 'Brien, in this form already
        if chunk.lower() in CLITICS or chunk in self.style.marks or chunk == self.style.numbers:
            self._quoted ^= chunk == '"'
            return (chunk,)
        if chunk.isalpha() and chunk.lower() not in _TOGETHER:
            words = self._plain[chunk] = (self._cased(chunk),)
            return words
        if not chunk.isascii() and any(unicodedata.category(sign) in ("Mn", "Mc") for sign in chunk):
            return tuple(self._whole(chunk))
        return tuple(self._parts(chunk, coming))

    def _parts(self, chunk: str, coming: str) -> Iterator[str]:
        place = 0
        while place < len(chunk):
            match = _SCAN.match(chunk, place)
            if match is None:  # white space that str.split does not know: it stays with nothing
                place += 1
                continue
            kind, form, end = match.lastgroup, match.group(), match.end()
            if kind == "word" and chunk[end : end + 1] == "." and self._keeps_point(form, chunk[end + 1 :], coming):
                form, end = form + ".", end + 1
            yield from self._words(str(kind), form, opening=place == 0 or chunk[place - 1] in _OPENS + "-–—")
            place = end

    def _whole(self, chunk: str) -> Iterator[str]:
        """A word whose letters have combining marks: cut at its ends only, since `re` has no name for such letters."""
        begin = next((place for place, sign in enumerate(chunk) if unicodedata.category(sign)[0] in "LN"), 0)
        end = len(chunk) - next((place for place, sign in enumerate(chunk[::-1]) if not _is_punctuation(sign)), 0)
        for place, mark in enumerate(chunk[:begin]):
            yield from self._words("mark", mark, opening=place == 0)
        yield self._cased(chunk[begin:end])
        for mark in chunk[end:]:
            yield from self._words("mark", mark, opening=False)

    def _words(self, kind: str, form: str, opening: bool) -> Iterator[str]:
        style = self.style
        if kind == "special" and form not in ("``", "''"):
            yield form
        elif kind in ("address", "initials", "short"):
            yield self._cased(form.replace("’", "'") if style.straight else form)
        elif kind == "number":
            yield from self._number(form)
        elif kind == "word":
            yield from self._word(form)
        elif kind == "run" and not style.runs:
            yield from (mark for mark in form if style.keeps(mark))
        elif kind == "mark" and form == "%" and style.numbers and "%" not in style.marks:
            yield style.numbers  # the Penn Treebank of language models writes 5 % as N N
        else:
            mark = self._mark(form, opening)
            if mark and style.keeps(mark):
                yield mark

    def _number(self, form: str) -> Iterator[str]:
        if self.style.numbers:
            yield self.style.numbers
        elif self.style.glue and re.fullmatch(r"\d+(?:[.,]\d+)+", form):
            yield from re.sub(r"([.,])", r" @\1@ ", form).split()
        else:
            yield form

    def _word(self, form: str) -> Iterator[str]:
        style, parts, hyphen = self.style, form.split("-"), "-"
        inside = "-" in form.rstrip("-")
        if style.glue and inside:
            hyphen = "@-@"
        elif style.hyphens == "spaced":
            hyphen = ""
        elif style.hyphens != "split" or not inside or parts[0].lower() in _KEPT_PREFIXES:
            parts = [form]
        for place, part in enumerate(parts):
            if place and hyphen:
                yield hyphen if part and parts[place - 1] else "-"
            if part:
                yield from self._core(part)

    def _core(self, form: str) -> Iterator[str]:
        """A word without hyphens (or one whose hyphens stay), its clitics apart."""
        if self.style.straight:
            form = form.replace("’", "'")
        clitics: list[str] = []
        while match := self._clitic(form):
            form = match[1]
            clitics.append(match[2])
        at = _TOGETHER.get(form.lower()) if self.style.clitics == "n't" else None
        if at is not None:
            yield self._cased(form[:at])
            form = form[at:]
        yield self._cased(form)
        yield from map(self._cased, reversed(clitics))

    def _clitic(self, form: str) -> re.Match[str] | None:
        """A word and its last clitic, as groups; None for a word without one."""
        if not self.style.clitics or ("'" not in form and "’" not in form):
            return None
        if self.style.clitics == "'t":
            return _NEGATION_MOSES.fullmatch(form) or _OTHER_CLITIC.fullmatch(form) or _INNER_MOSES.fullmatch(form)
        return _NEGATION.fullmatch(form) or _OTHER_CLITIC.fullmatch(form)

    def _mark(self, form: str, opening: bool) -> str:
        """A mark as the corpus writes it, "" for one it has no word for."""
        style = self.style
        if form in _DOUBLE or form in ("``", "''"):
            opening = form in ("``", "“", "«", "„") or (form not in ("''", "”", "»") and opening and not self._quoted)
            self._quoted = opening
            if style.quotes == "``":
                return "``" if opening else "''"
            return style.quotes or form
        if form in "‘’" and style.straight:
            form = "'"
        if form == "'" and opening and "`" in style.marks:
            return "`"
        if form in _OPENS + _CLOSES and style.brackets in ("-LRB-", "-lrb-"):
            name = f"-{'L' if form in _OPENS else 'R'}{'RSC'[(_OPENS + _CLOSES).index(form) % 3]}B-"
            return name if style.brackets.isupper() else name.lower()
        for typographic, typed in (("…", "..."), ("—", "--"), ("–", "--"), ("―", "--")):
            if form == typographic and form not in style.marks and typed in style.marks:
                return typed
        return form

    def _keeps_point(self, form: str, rest: str, coming: str) -> bool:
        """Whether the point after a word is part of it; in a text without capitals the next word has to tell."""
        if rest.startswith("."):  # three points
            return False
        bare = form.lower()
        if bare in _BEFORE_NAMES or ("." in form and all(len(part) <= 2 for part in form.split("."))):
            return True
        if bare in _BEFORE_NUMBERS:
            return coming[:1].isdigit() or (coming != "" and coming == self.style.numbers)
        small = self.style.lower and form.islower()
        initial = small and len(form) == 1
        shortened = bare in _IN_SMALL or initial or (bare in _CAPITAL and (form[:1].isupper() or small))
        return shortened and bool(rest.strip("\"'’”)]}") or coming)

    def _cased(self, form: str) -> str:
        return form.lower() if self.style.lower else form


def ends_sentence(words: tuple[str, ...], chunk: str) -> bool:
    """Whether a run of characters, split into these words, ends a sentence."""
    bare = chunk.rstrip("\"'’”)]}»")
    if not bare or bare[-1] not in TERMINATORS:
        return False
    last = next((word for word in reversed(words) if any(map(str.isalnum, word))), "")
    return bare[-1] != "." or not last.endswith(".")


def is_abbreviation(form: str) -> bool:
    """Whether a form with a point at its end is a word with its point: `Mr.`, `U.S.`, `J.`, not `sketch.`"""
    bare = form.removesuffix(".")
    return bare.lower() in _BEFORE_NAMES | _IN_SMALL | _CAPITAL or "." in bare or len(bare) == 1


def _is_punctuation(sign: str) -> bool:
    return unicodedata.category(sign)[0] in "PS"


_BEYOND_MARKS = frozenset({"<unk>"})


@dataclass(frozen=True)
class Habits:
    """How a text was preprocessed before it became a corpus. All such texts have marks apart from words."""

    lower: bool = False
    """Only lower case."""
    clitics: str = "n't"
    """How `don't` is cut: "n't" (do n't), "'t" (don 't), "" (not at all). Other clitics follow."""
    hyphens: str = "joined"
    """Inside words: "joined" (long-term), "split" (long - term), "spaced" (long term)."""
    glue: bool = False
    """`@-@`, `@,@` and `@.@` inside words and numbers, as in WikiText."""
    numbers: str = ""
    """What stands for every number: "N" in the Penn Treebank of language models."""
    quotes: str = ""
    """Double quotes: '"', or "``" for `` and ''; "" leaves them as they are."""
    brackets: str = "("
    """Brackets as they are, or "-LRB-" or "-lrb-" for their names."""
    marks: tuple[str, ...] = ()
    """The marks that stand alone in it, most frequent first."""
    stripped: bool = False
    """Marks that are not in `marks` were taken out."""
    unknown: bool = False
    """Rare words were replaced by `<unk>`."""
    sentence_lines: bool = False
    """Every line is a sentence."""
    straight: bool = True
    """Apostrophes are straight (')."""
    runs: bool = False
    """Several marks in a row, as in `!!!`, are one word."""

    def keeps(self, mark: str) -> bool:
        """Whether a mark is written at all."""
        return not self.stripped or mark in self.marks or mark in _BEYOND_MARKS


ENGLISH = Habits(hyphens="split", straight=False, runs=True)
"""English words as Universal Dependencies cuts them."""


_GLUED = {"@-@": "-", "@,@": ",", "@.@": "."}
_CLOSING = frozenset([".", ",", ";", ":", "!", "?", "%", ")", "]", "}", "...", "…", "''", "”", "’", "»"])
_OPENING = frozenset(["(", "[", "{", "``", "`", "“", "‘", "«", "$", "£", "€", "#"])
_NAMED = {"lrb": "(", "rrb": ")", "lsb": "[", "rsb": "]", "lcb": "{", "rcb": "}"}
_BRACKET = re.compile(r"-([lr][rsc]b)-", re.IGNORECASE)
_WRITTEN = {"``": '"', "''": '"', "`": "'"}
_PIECE = re.compile(r"(\s*)(\S+)(?=\s)")
_SECOND_HALF = {("can", "not"), ("gon", "na"), ("got", "ta"), ("wan", "na")}


class Restorer:
    """Text of a style, written as people write, in pieces; `before` is what stands before the first of them.

    `whole`: no piece ends inside a word, so that each can be written when it comes.
    """

    def __init__(self, style: Habits, before: str = "", *, whole: bool = False) -> None:
        self.style, self.whole = style, whole
        line = before.rpartition("\n")[2]
        self._begun = bool(line)
        self._double = line.count('"') % 2 == 1
        self._single = False
        last = line.split()[-1:] if line and not line[-1].isspace() else []
        self._last = last[0] if last else ""
        self._glue_next = self._last in _OPENING and self._last not in ("#",)
        self._pending = ""

    def add(self, text: str) -> str:
        """The text that has become certain."""
        self._pending += text
        written, place = [], 0
        while match := _PIECE.match(self._pending, place):
            written.append(self._write(match.group(1), match.group(2)))
            place = match.end()
        self._pending = self._pending[place:]
        if self.whole and self._pending:
            written.append(self.end() if self._pending.strip() else self._line_ends())
        return "".join(written)

    def end(self) -> str:
        """The pending text once the input has ended; trailing blanks are left out."""
        word = self._pending.lstrip()
        space = self._pending[: len(self._pending) - len(word)]
        self._pending = ""
        return self._write(space, word) if word else "\n" * space.count("\n")

    def _line_ends(self) -> str:
        """The line ends so far; blanks after them stay pending."""
        lines, line_end, blanks = self._pending.rpartition("\n")
        self._pending = blanks
        if line_end:
            self._begin_line()
        return lines + line_end

    def _begin_line(self) -> None:
        self._double = self._single = self._glue_next = False
        self._last = ""

    def _write(self, space: str, word: str) -> str:
        """A word with the space before it, if there is to be one."""
        if "\n" in space:
            self._begin_line()
        form, glue_before, glue_after = self._form(word)
        if "\n" not in space and (self._glue_next or (glue_before and self._last)):
            space = ""
        if (self._last.lower(), word.lower()) in _SECOND_HALF and self.style.clitics == "n't":
            space = ""
        self._glue_next, self._last = glue_after, word
        return space + form

    def _form(self, word: str) -> tuple[str, bool, bool]:
        """The word as it is written, and whether it joins the word before and the word after."""
        if word in _GLUED:
            return _GLUED[word], True, True
        if named := _BRACKET.fullmatch(word):
            bracket = _NAMED[named.group(1).lower()]
            return bracket, bracket in ")]}", bracket in "([{"
        if word == '"':
            self._double = not self._double
            return word, not self._double, self._double
        if word == "'":
            return self._apostrophe()
        if word == "-" and self.style.hyphens == "split":
            return word, True, True
        if self.style.clitics == "'t" and word[0] == "'" and word[1:].isalpha() and len(self._last) <= 3:
            return word, True, False  # O 'Brien
        return _WRITTEN.get(word, word), word in _CLOSING or word.lower() in CLITICS, word in _OPENING

    def _apostrophe(self) -> tuple[str, bool, bool]:
        """A lone one: the end of a quotation, the genitive of a plural, or the beginning of a quotation."""
        if self._single:
            self._single = False
            return "'", True, False
        if self._last[-1:] in ("s", "S", "x", "z"):
            return "'", True, False
        self._single = True
        return "'", False, True


def restore(text: str, style: Habits, before: str = "") -> str:
    """A whole text of a style as people write it.

    >>> restore("They did n't go , she said ( twice ) .", Habits())
    "They didn't go, she said (twice)."
    """
    restorer = Restorer(style, before)
    return restorer.add(text) + restorer.end()


def restore_stream(
    pieces: Iterable[str], style: Habits | None, before: str = "", *, whole: bool = False
) -> Iterator[str]:
    """A streamed text as ordinary text, each piece once it is certain; unchanged without a style."""
    if style is None:
        yield from pieces
        return
    restorer = Restorer(style, before, whole=whole)
    for piece in pieces:
        if written := restorer.add(piece):
            yield written
    if rest := restorer.end():
        yield rest

"""How the words of a task are read where its network begins with a language model: as that model reads them.

A `word` model takes what stands between spaces; a piece that it does not know is cut into words and marks, so that the
"film." of plain text is "film" and ".". A `prose` model takes its own pieces, words with the space before them. Plain
text is brought into the way the text of the language model was written first: training, scores and predictions alike.
"""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass
from functools import lru_cache

from thereafter.base.config import Table
from thereafter.errors import FormatError
from thereafter.text.pretokenised import WritingStyle
from thereafter.text.sources import Source
from thereafter.text.tokenizers.prose import ProseTokenizer

READINGS = ("word", "prose")
"""The tokenizers whose forms are words."""
WORDS = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*|\d+|[^\w\s]+|_+")
"""Words with their apostrophes, numbers and marks."""
_NOTHING = "<unk>"
_REMEMBERED = 1 << 17  # texts that come again every epoch


@dataclass(frozen=True)
class WordReading:
    """The tokenizer of a language model, how it normalises text, and how the text it learned from was written.

    >>> WordReading("word", lower=True).cut("It was n't Good.", {"it", "was", "n't"})
    ['it', 'was', "n't", 'good', '.']
    >>> WordReading("prose").cut("the cat", {" the", " cat"})
    [' the', ' cat']
    """

    tokens: str
    lower: bool = False
    letters_only: bool = False
    style: WritingStyle | None = None

    def cut(self, text: str, known: Container[str], *, as_written: bool = False) -> list[str]:
        """The words of a text, at least one: an empty text is an unknown word. `as_written`: not by the style."""
        text = self._normalise(text)
        if self.style is not None and not as_written:
            text = _rewrite(self.style, text)
        if self.tokens == "word":
            pieces = text.split()
            words = [word for piece in pieces for word in ([piece] if piece in known else WORDS.findall(piece))]
        else:
            words = [self._spaced(piece, known) for piece in ProseTokenizer.forms_of(text)]
        return words or [_NOTHING]

    def form(self, word: str, known: Container[str]) -> str:
        """What one word of a sentence is called in the vocabulary."""
        word = self._normalise(word)
        return word if self.tokens == "word" else self._spaced(word, known)

    def _spaced(self, piece: str, known: Container[str]) -> str:
        """The form with a space before it, as inside a line, where that is the known one."""
        return f" {piece}" if piece not in known and f" {piece}" in known else piece

    def _normalise(self, text: str) -> str:
        if self.letters_only:
            return Source.of_text(text, lower=self.lower, letters_only=True).text().strip("\n")
        return text.lower() if self.lower else text

    def to_json(self) -> Table:
        """What `from_json` reads."""
        stored: Table = {"tokens": self.tokens, "lower": self.lower, "letters_only": self.letters_only}
        return stored | ({} if self.style is None else {"style": self.style.to_table()})

    @classmethod
    def from_json(cls, stored: object) -> WordReading:
        match stored:
            case {"tokens": str(tokens), "lower": bool(lower), "letters_only": bool(letters), **others} if (
                tokens in READINGS
            ):
                style = others.get("style")
                if style is None:
                    return cls(tokens, lower, letters)
                if isinstance(style, dict):
                    return cls(tokens, lower, letters, WritingStyle.from_table(style))
        raise FormatError("how a lexicon of this run reads words is damaged; try training again")


@lru_cache(maxsize=_REMEMBERED)
def _rewrite(style: WritingStyle, text: str) -> str:
    return style.rewritten(text)

"""How a pre-tokenised corpus was written, and plain text brought into that form.

A model of WikiText-2 knows `sketch .` and has never seen `sketch.`; one of the Penn Treebank knows neither capitals nor
points. `WritingStyle` rewrites what people type into what such a model has read, and what it generates into what people
read. Text that is in the form already stays as it is, byte for byte.

    style = find_style(sample)                        # pretokenised_finding; None for text as people write it
    style.rewritten("Raymond doesn't sell it.")       # "Raymond does n't sell it ."
    style.restored("Raymond does n't sell it .")      # "Raymond doesn't sell it."
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace

from thereafter.base.config import Table
from thereafter.errors import FormatError
from thereafter.text.chunks import WORD_TAIL, look_ahead, recut
from thereafter.text.pretokenised_words import CLITICS, Habits, Splitter, ends_sentence, restore

SAMPLE = 1 << 16
"""The characters by which a text is taken to be in the form already."""
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
        """Text of this form as people write it; `before` is what stands before it."""
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
        """All that decides what it does, for the fingerprint of a source."""
        return "written " + json.dumps(asdict(self), ensure_ascii=True, sort_keys=True)

    def to_table(self) -> Table:
        """A plain table, as a run's configuration keeps it; what is as usual is left out."""
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
        facts += ["a sentence a line"] * self.sentence_lines
        return ", ".join(facts)

    def _without(self) -> str:
        absent = [mark for mark in '.,;:!?"()' if mark not in self.marks and not (mark == '"' and self.quotes)]
        return "no marks" if len(absent) > 7 else f"without {' '.join(absent)}, other marks apart by spaces"

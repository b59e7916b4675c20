"""Running text as sentences of words, each word with what stood after it: what a tagger reads, and CoNLL-U says again.

Raw text is cut into sentences (`sentences.py`) and these into words and marks (`pretokenised_words.py`): `wretch,` is
two words. Pre-tokenised text is a sentence a line, with spaces between its words. A sentence whose marks stand alone
already, such as `so long , he said .`, is never cut further.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from thereafter.text.conll import TaggedSentence
from thereafter.text.lines import lines_of
from thereafter.text.pretokenised_words import CLITICS, ENGLISH, Habits, Splitter, is_abbreviation
from thereafter.text.sentences import find_sentences

_ALONE = frozenset(",.;:!?")
_OPENED = re.compile(r"[“‘\"(\[«]\w")
_CLOSED = re.compile(r".*\w(?:[,;:!?]|[.]?[”\")\]»])[”’\")\]»]*")


@dataclass(frozen=True)
class WrittenSentence(TaggedSentence):
    """A sentence without tags: `words` as they are read, `written` as they stood (where that is not the same).

    `joined[k]` says that the next word follows word k without a space.
    """

    written: tuple[str, ...] = field(default=(), compare=False)
    joined: tuple[bool, ...] = field(default=(), compare=False)

    @property
    def forms(self) -> tuple[str, ...]:
        """The words as they stood in the text."""
        return self.written or self.words

    @property
    def text(self) -> str:
        """The sentence as it stood, with one space where there was any."""
        return join_words(self.forms, self.joined)


def join_words(words: Sequence[str], joined: Sequence[bool]) -> str:
    """Words with a space after each that the next is not joined to.

    >>> join_words(["So", "long", "."], [False, True, False])
    'So long.'
    """
    if not joined:
        return " ".join(words)
    return "".join(word if close else f"{word} " for word, close in zip(words, joined, strict=True)).rstrip(" ")


def split_text(
    chunks: Iterable[str], *, pretokenised: bool = False, habits: Habits = ENGLISH
) -> Iterator[WrittenSentence]:
    """The sentences of a text that comes in pieces, with their words.

    `pretokenised`: a line is a sentence, and spaces are between words. `habits`: how words are cut; only what keeps
    every character is used of it.

    >>> [one.words for one in split_text(["The wretch, he said, fled. So what?"])]
    [('The', 'wretch', ',', 'he', 'said', ',', 'fled', '.'), ('So', 'what', '?')]
    """
    if pretokenised:
        for line in lines_of(chunks):
            if words := tuple(line.split()):
                yield WrittenSentence(words, (), joined=(False,) * len(words))
        return
    splitter = Splitter(habits)
    for sentence in find_sentences(chunks):
        yield split_sentence(sentence.text, splitter)


def split_sentence(text: str, splitter: Splitter | None = None) -> WrittenSentence:
    """The words of one sentence; one whose marks stand alone already keeps its spaces."""
    splitter = splitter or Splitter(ENGLISH)
    runs = text.split()
    if is_set_off(runs):
        return WrittenSentence(tuple(runs), (), joined=(False,) * len(runs))
    words: list[str] = []
    joined: list[bool] = []
    splitter.end_line()
    for run, coming in zip(runs, [*runs[1:], ""], strict=False):
        parts = splitter.split(run, coming)
        if "".join(parts) != run:  # nothing is lost of a text
            parts = (run,)
        words += parts
        joined += [True] * (len(parts) - 1) + [False]
    return WrittenSentence(tuple(words), (), joined=tuple(joined))


def is_set_off(runs: Sequence[str]) -> bool:
    """Whether the runs between spaces are words already: some marks stand alone, and none stands at a word.

    >>> is_set_off("so long , he said .".split()), is_set_off("so long, he said.".split())
    (True, False)
    """
    if not any(run in _ALONE or run.lower() in CLITICS for run in runs):
        return False
    if any(_OPENED.match(run) or _CLOSED.fullmatch(run) for run in runs):
        return False
    last = runs[-1]
    return len(last) < 2 or last[-1] != "." or not last[-2].isalnum() or is_abbreviation(last)

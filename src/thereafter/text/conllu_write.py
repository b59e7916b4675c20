"""Tagged sentences as CoNLL-U: ten columns, with the text of each sentence and where no space follows a word.

Tags that are all universal parts of speech stand in the column UPOS, any others in XPOS, as the format asks for
(https://universaldependencies.org/format.html). What was not predicted is `_`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Protocol

from thereafter.text.written import join_words

UNIVERSAL = frozenset(
    {
        "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN", "PUNCT", "SCONJ",
        "SYM", "VERB", "X",
    }
)  # fmt: skip


class TaggedWritten(Protocol):
    """A sentence with tags, and with where its spaces were."""

    @property
    def words(self) -> Sequence[str]: ...
    @property
    def tags(self) -> Sequence[str]: ...
    @property
    def probabilities(self) -> Sequence[float]: ...
    @property
    def joined(self) -> Sequence[bool]: ...


def column_of(tags: Collection[str]) -> str:
    """The column for these tags: "upos" if all are universal parts of speech, else "xpos"."""
    return "upos" if UNIVERSAL.issuperset(tags) else "xpos"


def conllu_chunks(sentences: Iterable[TaggedWritten], *, column: str, name: str = "") -> Iterator[str]:
    """The file sentence by sentence; `name` is that of the document."""
    for number, one in enumerate(sentences, start=1):
        lines = [f"# newdoc id = {name}"] if name and number == 1 else []
        lines += [f"# sent_id = {number}", f"# text = {join_words(one.words, one.joined)}"]
        cells = zip(one.words, one.tags, one.probabilities, one.joined, strict=True)
        for place, (word, tag, p, close) in enumerate(cells, start=1):
            upos, xpos = (tag, "_") if column == "upos" else ("_", tag)
            misc = f"Prob={p:.4f}" + ("|SpaceAfter=No" if close else "")
            lines.append(f"{place}\t{word}\t_\t{upos}\t{xpos}\t_\t_\t_\t_\t{misc}")
        yield "\n".join(lines) + "\n\n"

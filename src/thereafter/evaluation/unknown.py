"""How many words of a text a model does not know, and the words of warning where they are many.

Above a tenth a score says more about the vocabulary than about the model: `<unk>` is a likely token, and the spelling
of the unknown words decides.
"""

from __future__ import annotations

from collections.abc import Iterable

from thereafter.text.tokenizers.base import Tokenizer

MANY = 0.1
"""The share of unknown words above which a warning is due."""


def unknown_share(unknown: int, words: int) -> float:
    """The share of unknown words; 0 of no words."""
    return unknown / words if words else 0.0


def unknown_share_of(tokenizer: Tokenizer, texts: Iterable[str]) -> float:
    """The share of the words of texts that are outside a vocabulary, line ends left out.

    >>> from thereafter.text.tokenizers.word import WordTokenizer
    >>> known = WordTokenizer.fit(lambda: ["the cat sat\\n"] * 2)
    >>> unknown_share_of(known, ["the cat", "the dog"])
    0.25
    """
    unknown = words = 0
    for text in texts:
        for piece in tokenizer.measure_stream([text], whole=False):
            unknown += piece.unknown
            words += len(piece.ids) - (piece.lines if tokenizer.name == "word" else 0)
    return unknown_share(unknown, words)


def unknown_caution(share: float) -> str:
    """A sentence where the unknown words are many, else "".

    >>> unknown_caution(0.2)
    '20.0 % of the tokens are unknown to the model: compare its score with others of the same vocabulary only'
    """
    if share <= MANY:
        return ""
    return (
        f"{100 * share:.1f} % of the tokens are unknown to the model: compare its score with others of the same "
        "vocabulary only"
    )

"""Text to ids and back: seven tokenizers with one contract, by name in `TOKENIZERS`.

base      the contract (`Tokenizer`), what all tokenizers share, and their JSON file; the vocabulary: the forms, their
          ids, and what an unknown form costs
forms     what `word` and `prose` share: a text is split into forms, which are counted and have ids; `prose`, lossless
          pieces of running text
word      words between white space, with a compiled look-up
subword   pieces of bytes by byte pair encoding, unigram and WordPiece, and those of a GPT-2 folder, which is read and
          never fitted; byte_level: what they share and learn from, and the bytes of UTF-8 and characters

>>> tokenizer = TOKENIZERS.load("prose").fit(lambda: ["the cat sat.\\n" * 2])
>>> tokenizer.decode(tokenizer.encode("the cat sat."))
'the cat sat.'
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from thereafter.base.kinds import Registry

if TYPE_CHECKING:
    from thereafter.text.tokenizers.base import Tokenizer

TOKENIZERS = Registry(
    "tokenizer",
    {
        "word": "thereafter.text.tokenizers.word:WordTokenizer",
        "prose": "thereafter.text.tokenizers.forms:ProseTokenizer",
        "char": "thereafter.text.tokenizers.byte_level:CharTokenizer",
        "byte": "thereafter.text.tokenizers.byte_level:ByteTokenizer",
        "bpe": "thereafter.text.tokenizers.subword:BpeTokenizer",
        "wordpiece": "thereafter.text.tokenizers.subword:WordPieceTokenizer",
        "unigram": "thereafter.text.tokenizers.subword:UnigramTokenizer",
    },
)


def load_tokenizer(path: str | os.PathLike[str]) -> Tokenizer:
    """Read a tokenizer saved with `Tokenizer.save`, whichever it is; FormatError for any other file."""
    from thereafter.text.tokenizers.base import read_stored

    return tokenizer_from_json(read_stored(path))


def tokenizer_from_json(stored: object) -> Tokenizer:
    """The tokenizer that `Tokenizer.to_json` described; FormatError for anything else."""
    from thereafter.text.tokenizers.base import check_header

    tokenizer: Tokenizer = TOKENIZERS.load(check_header(stored, list(TOKENIZERS))).from_json(stored)
    return tokenizer


class StoredTokenizer:
    """Reads the tokenizer of a run, of any kind: its row in `data.codecs.CODECS`."""

    @staticmethod
    def from_json(stored: object) -> Tokenizer:
        """See `tokenizer_from_json`."""
        return tokenizer_from_json(stored)

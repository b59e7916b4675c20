"""The tokenizer of a GPT-2 folder: byte pairs that were learned elsewhere, with GPT-2's own way of splitting.

A text is split by the pattern of Radford et al. 2019: a space belongs to the word behind it. No form has white space
behind other characters, so a text can be cut before white space that follows anything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from thereafter.base.config import Table
from thereafter.errors import OptionError
from thereafter.text.chunks import slice_chunks
from thereafter.text.tokenizers.base import Ids, join_ids
from thereafter.text.tokenizers.byte_level import damage_error
from thereafter.text.tokenizers.unigram import BpeTokenizer

if TYPE_CHECKING:
    import os

    from tokenizers import Tokenizer as Engine
    from tokenizers.models import Model

_TAIL = re.compile(r"[\S\x1c-\x1f]*[^\S\x1c-\x1f]+")
"""The end of a text that is read backwards, up to white space as Unicode has it: \\s of Python has four marks more."""
_AT_ONCE = 100_000


class Gpt2Tokenizer(BpeTokenizer):
    """Pieces of GPT-2. It is read from a folder of transformers and cannot be saved with a run."""

    name: ClassVar[str] = "gpt2"

    @classmethod
    def of_pieces(cls, model: Table, size: int) -> Self:
        """The tokenizer of the "model" of a tokenizer.json; numbers up to `size` without a piece are never written."""
        pieces = dict(model["vocab"]) if isinstance(model.get("vocab"), dict) else {}
        if not all(type(number) is int for number in pieces.values()):
            raise damage_error(cls.name, "the number of a piece is not a whole number")
        taken = set(pieces.values())
        if max(taken, default=0) >= size:
            raise damage_error(cls.name, f"it has {max(taken) + 1:,} pieces, and the network knows {size:,}")
        pieces |= {f"<|unused-{number}|>": number for number in range(size) if number not in taken}
        return cls(cls._engine_of(cls._stored_model(cls._library(), {**model, "vocab": pieces})))

    @classmethod
    def _engine_of(cls, model: Model) -> Engine:
        library = cls._library()
        engine: Engine = library.Tokenizer(model)
        engine.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        engine.decoder = library.decoders.ByteLevel()
        return engine

    def groups(self, chunks: Iterable[str]) -> Iterator[str]:
        return _cut_before_space(slice_chunks(chunks))

    def ids_of(self, group: str) -> Ids:
        pieces = _cut_before_space(slice_chunks([group], _AT_ONCE))
        return join_ids(
            [np.array(self._engine.encode(piece, add_special_tokens=False).ids, np.int32) for piece in pieces]
        )

    def to_json(self) -> Table:
        raise OptionError(
            "the tokenizer of a GPT-2 folder is kept in that folder and not in a run; try keeping the folder itself"
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Refused: see `to_json`."""
        self.to_json()


def _cut_before_space(chunks: Iterable[str]) -> Iterator[str]:
    """The same text, cut before white space that follows another character."""
    rest = ""
    for chunk in chunks:
        text = rest + chunk
        tail = _TAIL.match(text[::-1])
        cut = 0 if tail is None else len(text) - tail.end()
        if cut:
            yield text[:cut]
        rest = text[cut:]
    if rest:
        yield rest

"""The tokenizers whose pieces are learned: byte pair encoding, unigram and WordPiece; and that of a GPT-2 folder.

Byte pair encoding merges the most frequent pair, unigram cuts a form into the most probable pieces, WordPiece from its
left into the longest ones.

GPT-2's byte pairs were learned elsewhere, with a way of splitting of its own, by the pattern of Radford et al. 2019: a
space belongs to the word after it. No form has white space behind other characters, so a text can be cut before white
space that follows anything else.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from thereafter.base.config import Table
from thereafter.errors import OptionError
from thereafter.text.reading import slice_chunks
from thereafter.text.tokenizers.base import UNKNOWN, Chunks, Ids, join_ids
from thereafter.text.tokenizers.byte_level import (
    ByteLevelTokenizer,
    byte_alphabet,
    check_numbered,
    check_pieces,
    damage_error,
)

if TYPE_CHECKING:
    import os

    from tokenizers import Tokenizer as Engine
    from tokenizers.models import Model
    from tokenizers.trainers import Trainer


_DIGITS = 4
_STEP = 1e-4  # by how much the library sets the scores of bytes apart that it lost while learning


class UnigramTokenizer(ByteLevelTokenizer):
    """`max_size` pieces, each with a log-probability; learned by pruning those that matter least from many.

    Pieces have no counts, so there is no `min_count`. Kudo, "Subword Regularization", 2018.
    """

    name: ClassVar[str] = "unigram"

    @classmethod
    def fit(cls, chunks: Chunks, *, min_count: int | None = None, max_size: int | None = None) -> Self:
        if min_count is not None:
            raise OptionError(
                f"min_count is {min_count}, but unigram pieces are chosen by their probability; try to leave it out, "
                "or max_size (--vocabulary) for fewer pieces"
            )
        learned = super().fit(chunks, max_size=max_size)
        listed = json.loads(learned._engine.to_str())["model"]["vocab"]
        scores = [(piece, score) for piece, score in listed if score is not None]  # of an empty text, none has a score
        model: Model = cls._library().models.Unigram(_settle(scores))
        return cls(cls._engine_of(model))

    @classmethod
    def _untrained(cls, library: ModuleType, least: int, options: Table) -> tuple[Model, Trainer]:
        return library.models.Unigram(), library.trainers.UnigramTrainer(**options)

    @classmethod
    def _stored_model(cls, library: ModuleType, model: Table) -> Model:
        listed = model.get("vocab")
        if not isinstance(listed, list):
            raise damage_error(cls.name, "it has no pieces")
        scores: list[tuple[str, float]] = []
        for entry in listed:
            if not isinstance(entry, list) or len(entry) != 2 or not isinstance(entry[0], str):
                raise damage_error(cls.name, f"{entry!r} is not a piece with its log-probability")
            if type(entry[1]) not in (int, float) or not math.isfinite(entry[1]):
                raise damage_error(cls.name, f"the log-probability of {entry[0]!r} is {entry[1]!r}")
            scores.append((entry[0], float(entry[1])))
        check_pieces(cls.name, (piece for piece, _ in scores))
        if len({piece for piece, _ in scores}) != len(scores):
            raise damage_error(cls.name, "a piece occurs twice")
        restored: Model = library.models.Unigram(scores)
        return restored


def _settle(scores: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """The same pieces in an order and with scores that are the same in every process.

    The library adds up in the order of a hash table with a random seed: scores differ in their last digits, and bytes
    that were lost while learning come back in any order, a little apart. Scores are rounded, and such bytes share one.
    """
    if not scores:
        return [(char, round(-math.log(256), _DIGITS)) for char in sorted(byte_alphabet())]
    lowest = min(score for _, score in scores)
    edge = lowest + _STEP * (len(byte_alphabet()) + 1)
    settled = {piece: lowest if len(piece) == 1 and score < edge else score for piece, score in scores}
    for char in byte_alphabet():
        settled.setdefault(char, lowest)
    rounded = [(piece, round(score, _DIGITS)) for piece, score in settled.items()]
    return sorted(rounded, key=lambda entry: (-entry[1], entry[0]))


class BpeTokenizer(ByteLevelTokenizer):
    """`max_size` pieces; `min_count` is how often a pair must be seen to be merged.

    Sennrich, Haddow and Birch, "Neural Machine Translation of Rare Words with Subword Units", 2016.
    """

    name: ClassVar[str] = "bpe"

    @classmethod
    def _untrained(cls, library: ModuleType, least: int, options: Table) -> tuple[Model, Trainer]:
        return library.models.BPE(), library.trainers.BpeTrainer(min_frequency=least, **options)

    @classmethod
    def _stored_model(cls, library: ModuleType, model: Table) -> Model:
        pieces = check_numbered(cls.name, model.get("vocab"))
        restored: Model = library.models.BPE(vocab=pieces, merges=_check_merges(model.get("merges"), pieces))
        return restored


def _check_merges(listed: object, pieces: dict[str, int]) -> list[tuple[str, str]]:
    if not isinstance(listed, list):
        raise damage_error("bpe", "it has no merges")
    merges: list[tuple[str, str]] = []
    for entry in listed:
        pair = tuple(entry.split(" ")) if isinstance(entry, str) else tuple(entry) if isinstance(entry, list) else ()
        if len(pair) != 2 or not all(isinstance(part, str) and part in pieces for part in pair):
            raise damage_error("bpe", f"{entry!r} is not a merge of two of its pieces")
        if pair[0] + pair[1] not in pieces:
            raise damage_error("bpe", f"the merge {entry!r} makes no piece")
        merges.append((pair[0], pair[1]))
    return merges


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


class WordPieceTokenizer(ByteLevelTokenizer):
    """`max_size` pieces, learned from frequent pairs; `min_count` is how often a pair must be seen.

    There is no mark for pieces inside a word: the space before a word belongs to its first piece, and the 256 bytes
    are pieces, so that nothing is unknown and every text comes back. Schuster and Nakajima, "Japanese and Korean Voice
    Search", 2012; the greedy cut is that of Devlin et al., "BERT", 2019.
    """

    name: ClassVar[str] = "wordpiece"
    longest_form: ClassVar[int] = 100  # the search for the longest piece takes the cube of the length of a form

    @classmethod
    def _untrained(cls, library: ModuleType, least: int, options: Table) -> tuple[Model, Trainer]:
        trainer = library.trainers.WordPieceTrainer(min_frequency=least, continuing_subword_prefix="", **options)
        return cls._model(library, {}), trainer

    @classmethod
    def _stored_model(cls, library: ModuleType, model: Table) -> Model:
        return cls._model(library, check_numbered(cls.name, model.get("vocab")))

    @staticmethod
    def _model(library: ModuleType, pieces: dict[str, int]) -> Model:
        # the unknown piece has a name and never occurs: a form is in bytes, and each byte is a piece
        model: Model = library.models.WordPiece(
            vocab=pieces, unk_token=UNKNOWN, max_input_chars_per_word=1 << 20, continuing_subword_prefix=""
        )
        return model

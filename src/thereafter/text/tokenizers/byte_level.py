"""Pieces of bytes, learned with the `tokenizers` library: lossless, nothing unknown. `bpe`, `wordpiece`, `unigram`.

The text is first split by the pattern of `prose`, so that pieces never cross a newline or a change of class and a text
can be encoded in chunks; then each distinct form is encoded once and remembered.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thereafter.base.config import Table
from thereafter.base.packages import require
from thereafter.base.progress import task
from thereafter.errors import FormatError, OptionError
from thereafter.text.chunks import PROSE_TAIL, recut
from thereafter.text.tokenizers import lessons as learning
from thereafter.text.tokenizers import stored as files
from thereafter.text.tokenizers.base import Chunks, Ids, MeasuredText, Tokenizer, byte_length
from thereafter.text.tokenizers.pieces import PieceTable, byte_alphabet
from thereafter.text.tokenizers.prose import PATTERN, prose_forms
from thereafter.text.vocabulary import Vocabulary, check_cutoffs, is_unicode

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Engine
    from tokenizers.models import Model
    from tokenizers.trainers import Trainer

DEFAULT_SIZE = 4096


class ByteLevelTokenizer(Tokenizer):
    """Pieces of bytes, the 256 bytes themselves always among them, so that any text can be written.

    `max_size` is the number of pieces (by default 4,096; a small text may have fewer).
    """

    # The library takes half a gigabyte for a single form of a million characters, and more time for each of its
    # characters than for those of a short form: longer forms are cut at fixed places.
    longest_form: ClassVar[int] = 10_000

    def __init__(self, engine: Engine) -> None:
        numbered = sorted(engine.get_vocab(with_added_tokens=False).items(), key=lambda entry: entry[1])
        if [number for _, number in numbered] != list(range(len(numbered))):
            raise damage_error(self.name, "its pieces are not numbered 0, 1, 2, ...")
        super().__init__(Vocabulary([piece for piece, _ in numbered]))
        self._engine = engine
        self._table = PieceTable(self._encode_forms)
        values = byte_alphabet()
        self._bytes = [bytes(values[char] for char in piece) for piece in self.vocabulary.forms]

    @classmethod
    @abstractmethod
    def _new_model(cls, library: ModuleType) -> Model:
        """A model of the library with nothing learned."""

    @classmethod
    @abstractmethod
    def _new_trainer(cls, library: ModuleType, size: int, min_count: int | None) -> Trainer:
        """What teaches it `size` pieces."""

    @classmethod
    @abstractmethod
    def _stored_model(cls, library: ModuleType, model: Table) -> Model:
        """The model of the JSON of the library; FormatError if training cannot have made it."""

    @abstractmethod
    def _model_identity(self, model: Table) -> object:
        """What decides how texts are encoded beside the pieces."""

    @classmethod
    def fit(cls, chunks: Chunks, *, min_count: int | None = None, max_size: int | None = None) -> Self:
        check_cutoffs(min_count, None, smallest=256)
        size = DEFAULT_SIZE if max_size is None else max_size
        if size < 256:
            raise OptionError(f"max_size is {size}, but all 256 bytes are always pieces; try max_size={DEFAULT_SIZE}")
        library = cls._library()
        trainer = cls._new_trainer(library, size, min_count)
        engine = cls._engine_of(cls._new_model(library))
        total = sum(len(chunk) for chunk in chunks())
        with task(f"learning {cls.name} pieces", total=min(total, learning.SAMPLE_CHARS), unit="chars") as advance:
            lessons = learning.Lessons(recut(chunks(), PROSE_TAIL, learning.LESSON), total, advance)
            engine.train_from_iterator(lessons, trainer)
            if lessons.failure is not None:
                raise lessons.failure
        return cls(engine)

    @classmethod
    def _library(cls) -> ModuleType:
        return require("tokenizers", f"the {cls.name} tokenizer")

    @classmethod
    def _engine_of(cls, model: Model) -> Engine:
        library = cls._library()
        engine: Engine = library.Tokenizer(model)
        engine.pre_tokenizer = library.pre_tokenizers.Sequence(
            [
                library.pre_tokenizers.Split(library.Regex(PATTERN), "isolated"),
                library.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        engine.decoder = library.decoders.ByteLevel()
        return engine

    def groups(self, chunks: Iterable[str]) -> Iterator[str]:
        return recut(chunks, PROSE_TAIL)

    def ids_of(self, group: str) -> Ids:
        return self._table.ids(learning.cut_long(prose_forms(group), len(group), self.longest_form))

    def measure(self, group: str, inside_line: bool) -> MeasuredText:
        return MeasuredText(self.ids_of(group), group.count("\n"), len(group), byte_length(group))

    def _encode_forms(self, forms: list[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._engine.encode_batch_fast(forms, add_special_tokens=False)]

    @cached_property
    def token_sizes(self) -> NDArray[np.int64]:
        return np.array([len(piece) for piece in self._bytes], dtype=np.int64)

    @property
    def line_end_id(self) -> int:
        return self._bytes.index(b"\n")  # a newline is a form of its own, so no longer piece contains one

    def bytes_of(self, id: int) -> bytes:
        return self._bytes[id]

    def decode(self, ids: ArrayLike) -> str:
        return b"".join(map(self._bytes.__getitem__, self.check_ids(ids))).decode("utf-8", errors="replace")

    def identity(self) -> object:
        return [self.vocabulary.forms, self._model_identity(json.loads(self._engine.to_str())["model"])]

    def to_json(self) -> Table:
        return {**files.header(self.name), "tokenizers": json.loads(self._engine.to_str())}

    @classmethod
    def from_json(cls, stored: Table) -> Self:
        """The tokenizer of `to_json`: only what was learned is used of the file, not its way of splitting."""
        files.check_header(stored, [cls.name])
        embedded = stored.get("tokenizers")
        model = embedded.get("model") if isinstance(embedded, dict) else None
        if not isinstance(model, dict):
            raise damage_error(cls.name, "it has no model")
        return cls(cls._engine_of(cls._stored_model(cls._library(), model)))


def check_pieces(name: str, pieces: Iterable[object]) -> None:
    """FormatError unless the pieces are written in the byte alphabet, with all 256 bytes among them."""
    listed = [piece for piece in pieces if isinstance(piece, str)]
    alphabet = byte_alphabet()
    if not is_unicode(listed) or not all(piece and alphabet.keys() >= set(piece) for piece in listed):
        raise damage_error(name, "a piece is not written in the byte alphabet")
    if not alphabet.keys() <= set(listed):
        raise damage_error(name, "the 256 bytes are not all among its pieces")


def check_numbered(name: str, pieces: object) -> dict[str, int]:
    """Pieces numbered 0, 1, 2, ... as the library writes them; FormatError for anything else."""
    if not isinstance(pieces, dict):
        raise damage_error(name, "it has no pieces")
    check_pieces(name, pieces)
    if not all(type(number) is int for number in pieces.values()):
        raise damage_error(name, "the number of a piece is not a whole number")
    if sorted(pieces.values()) != list(range(len(pieces))):
        raise damage_error(name, "its pieces are not numbered 0, 1, 2, ...")
    return pieces


def damage_error(name: str, reason: str) -> FormatError:
    """The error for a file that this tokenizer cannot have written."""
    return FormatError(f"the {name} tokenizer file is damaged: {reason}; train it again")

"""Tokens below the word: bytes, characters, and learned pieces of bytes.

`byte` are the 256 bytes of UTF-8 (nothing to learn, nothing unknown), `char` Unicode code points. `bpe`, `wordpiece`
and `unigram` (`subword.py`) share what follows: pieces learned with the `tokenizers` library, lossless, nothing
unknown. The text is first split by the pattern of `prose`, so that pieces never cross a newline or a change of class
and a text can be encoded in chunks; then each distinct form is encoded once and remembered. Pieces are learned from the
whole text, or from groups spread evenly over a long one, in bounded memory.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property
from itertools import repeat
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thereafter.base.config import Table
from thereafter.base.packages import require
from thereafter.base.progress import task
from thereafter.errors import FormatError, OptionError
from thereafter.text.reading import PROSE_TAIL, batches, code_points, recut, slice_chunks
from thereafter.text.tokenizers.base import (
    UNKNOWN,
    Chunks,
    Ids,
    Tokenizer,
    Vocabulary,
    byte_length,
    check_cutoffs,
    check_header,
    header,
    is_unicode,
)
from thereafter.text.tokenizers.forms import PATTERN, SEEN_TWICE, prose_forms

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Engine
    from tokenizers.models import Model
    from tokenizers.trainers import Trainer


def _forms() -> list[str]:
    """Names for the bytes: ASCII as itself, the others, which are no text alone, as `<0xE2>`."""
    return [chr(value) if value < 128 else f"<0x{value:02X}>" for value in range(256)]


class ByteTokenizer(Tokenizer):
    """An id is the value of a byte. Ids that are not valid UTF-8 decode with the replacement character."""

    name: ClassVar[str] = "byte"

    def __init__(self, vocabulary: Vocabulary | None = None) -> None:
        super().__init__(vocabulary or Vocabulary(_forms()))
        if self.vocabulary.forms != _forms():
            raise FormatError("a byte vocabulary is not the 256 bytes in order; it is damaged: train it again")

    @classmethod
    def fit(cls, chunks: Chunks, *, min_count: int | None = None, max_size: int | None = None) -> Self:
        """The text is not read: all bytes are known beforehand."""
        check_cutoffs(min_count, max_size, smallest=256)
        if min_count is not None:
            raise OptionError(
                f"min_count is {min_count}, but the byte tokenizer always keeps all 256 bytes; leave it out"
            )
        return cls()

    def ids_of(self, group: str) -> Ids:
        return np.frombuffer(group.encode("utf-8"), np.uint8).astype(np.int32)

    @cached_property
    def token_sizes(self) -> NDArray[np.int64]:
        return np.ones(256, dtype=np.int64)

    def bytes_of(self, id: int) -> bytes:
        return bytes([id])

    def decode(self, ids: ArrayLike) -> str:
        return bytes(self.check_ids(ids)).decode("utf-8", errors="replace")


_CODE_POINTS = 0x110000


class CharTokenizer(Tokenizer):
    """One id for each character seen at least twice; a table over all code points gives the ids."""

    name: ClassVar[str] = "char"
    reserved: ClassVar[tuple[str, ...]] = (UNKNOWN,)
    unknown_id: ClassVar[int | None] = 0

    @classmethod
    def fit(cls, chunks: Chunks, *, min_count: int | None = None, max_size: int | None = None) -> Self:
        check_cutoffs(min_count, max_size, smallest=1)
        least = SEEN_TWICE if min_count is None else min_count
        counts = np.zeros(_CODE_POINTS, np.int64)
        for piece in slice_chunks(chunks()):
            piece_counts = np.bincount(code_points(piece))
            counts[: len(piece_counts)] += piece_counts
        frequent = {chr(point): int(counts[point]) for point in np.flatnonzero(counts >= least).tolist()}
        rare = int(counts.sum()) - sum(frequent.values())
        return cls(Vocabulary.from_counts(frequent, reserved={UNKNOWN: rare}, min_count=least, max_size=max_size))

    @classmethod
    def is_form(cls, form: str) -> bool:
        return len(form) == 1

    @cached_property
    def _table(self) -> Ids:
        table = np.zeros(_CODE_POINTS, np.int32)
        table[code_points("".join(self.ordinary_forms))] = np.arange(1, len(self.vocabulary))
        return table

    def ids_of(self, group: str) -> Ids:
        return self._table[code_points(group)]

    def ids_and_unknown(self, group: str) -> tuple[Ids, list[str]]:
        points = code_points(group)
        ids = self._table[points]
        return ids, list(points[ids == 0].tobytes().decode("utf-32-le"))


# Learning keeps every distinct form in memory, about 60 bytes for each of its bytes. These bounds keep it near
# 200 MB, far above what a few thousand pieces need to be estimated well.
SAMPLE_CHARS = 32_000_000
DISTINCT_BYTES = 3_000_000
_LEARNED_RUN = 100
# The library reads 256 lessons ahead, and needs some hundred bytes for each character of those it works on.
LESSON = 1 << 14


class Lessons:
    """An iterable of lists of texts for the `tokenizers` library.

    The library iterates in its own threads, so an error is kept for the caller to raise. When the distinct forms
    reach their bound, later groups still count the forms already seen.
    """

    def __init__(self, groups: Iterable[str], total: int, advance: Callable[[float], None]) -> None:
        self._groups = groups
        self._share = min(1.0, SAMPLE_CHARS / max(1, total))
        self._advance = advance
        self.failure: Exception | None = None

    def __iter__(self) -> Iterator[list[str]]:
        try:
            yield from self._lists()
        except Exception as failure:
            self.failure = failure

    def _lists(self) -> Iterator[list[str]]:
        met: set[str] = set()
        distinct = passed = taken = 0
        for group in self._groups:
            passed += len(group)
            if taken > self._share * passed:
                continue
            taken += len(group)
            forms = cut_long(prose_forms(group), len(group), _LEARNED_RUN)
            for form in dict.fromkeys(forms):
                if distinct < DISTINCT_BYTES and form not in met:
                    distinct += byte_length(form)
                    met.add(form)
            if distinct < DISTINCT_BYTES and len(max(forms, key=len)) < _LEARNED_RUN:
                yield [group]  # the library splits a text by the same pattern, faster than it takes a list
            else:
                yield [form for form in forms if form in met]
            self._advance(len(group))


def cut_long(forms: list[str], chars: int, longest: int) -> list[str]:
    """The forms, those of more than `longest` characters cut at fixed places; together they have `chars`.

    >>> cut_long(["so", "long"], 6, 3)
    ['so', 'lon', 'g']
    """
    if chars <= longest or len(max(forms, key=len, default="")) <= longest:
        return forms
    return [form[start : start + longest] for form in forms for start in range(0, len(form), longest)]


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
        self._table = PieceTable(
            lambda forms: [encoding.ids for encoding in engine.encode_batch_fast(forms, add_special_tokens=False)]
        )
        values = byte_alphabet()
        self._bytes = [bytes(values[char] for char in piece) for piece in self.vocabulary.forms]

    @classmethod
    @abstractmethod
    def _untrained(cls, library: ModuleType, least: int, options: Table) -> tuple[Model, Trainer]:
        """An untrained model of the library, and its trainer: pairs that are seen `least` times."""

    @classmethod
    @abstractmethod
    def _stored_model(cls, library: ModuleType, model: Table) -> Model:
        """The model of the JSON of the library; FormatError if training cannot have made it."""

    @classmethod
    def fit(cls, chunks: Chunks, *, min_count: int | None = None, max_size: int | None = None) -> Self:
        check_cutoffs(min_count, None, smallest=256)
        size = DEFAULT_SIZE if max_size is None else max_size
        if size < 256:
            raise OptionError(f"max_size is {size}, but all 256 bytes are always pieces; try max_size={DEFAULT_SIZE}")
        library = cls._library()
        options: Table = {
            "vocab_size": size,
            "show_progress": False,
            "special_tokens": [],
            "initial_alphabet": sorted(byte_alphabet()),
        }
        model, trainer = cls._untrained(library, 2 if min_count is None else min_count, options)
        engine = cls._engine_of(model)
        total = sum(len(chunk) for chunk in chunks())
        with task(f"learning {cls.name} pieces", total=min(total, SAMPLE_CHARS), unit="chars") as advance:
            lessons = Lessons(recut(chunks(), PROSE_TAIL, LESSON), total, advance)
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
        return self._table.ids(cut_long(prose_forms(group), len(group), self.longest_form))

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
        model = json.loads(self._engine.to_str())["model"]
        # beside its pieces, unigram is decided by their scores, byte pair encoding by its merges, WordPiece by nothing
        scores = [score for _, score in model["vocab"]] if isinstance(model["vocab"], list) else model.get("merges")
        return [self.vocabulary.forms, scores]

    def to_json(self) -> Table:
        return {**header(self.name), "tokenizers": json.loads(self._engine.to_str())}

    @classmethod
    def from_json(cls, stored: Table) -> Self:
        """The tokenizer of `to_json`: only what was learned is used of the file, not its way of splitting."""
        check_header(stored, [cls.name])
        embedded = stored.get("tokenizers")
        model = embedded.get("model") if isinstance(embedded, dict) else None
        if not isinstance(model, dict):
            raise damage_error(cls.name, "it has no model")
        return cls(cls._engine_of(cls._stored_model(cls._library(), model)))


def check_pieces(name: str, pieces: Iterable[object]) -> None:
    """FormatError unless the pieces are in the byte alphabet and include all 256 bytes."""
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


MOST_FORMS = 200_000
_MOST_CHARS = 1 << 24
BATCH_CHARS = 1 << 19
"""Characters encoded at once: the library needs some hundred bytes for each while it encodes."""


class PieceTable:
    """Caches the ids of forms, and concatenates those of a list of forms without a loop over forms.

    Its size is bounded: a table that has grown too large is emptied before the next new form is added.
    """

    def __init__(self, encode: Callable[[list[str]], list[list[int]]]) -> None:
        self._encode = encode
        self._lock = Lock()
        self._forget()

    def ids(self, forms: list[str]) -> Ids:
        """The ids of all forms, one after the other."""
        with self._lock:
            slots = self._look_up(forms)
            if len(slots) and slots.min() < 0:
                if len(self._slots) > MOST_FORMS or self._chars > _MOST_CHARS:
                    self._forget()
                self._learn([form for form in dict.fromkeys(forms) if form not in self._slots])
                slots = self._look_up(forms)
            starts, lengths, flat = self._starts[slots], self._lengths[slots], self._flat
        # The place of id k of a form: where the form begins in the table, plus k.
        before = np.cumsum(lengths) - lengths
        places: NDArray[np.int64] = np.repeat(starts - before, lengths)
        places += np.arange(len(places))
        laid: Ids = flat[places]
        return laid

    def _forget(self) -> None:
        self._slots: dict[str, int] = {}
        self._chars = 0
        self._starts: NDArray[np.int64] = np.zeros(0, np.int64)
        self._lengths: NDArray[np.int64] = np.zeros(0, np.int64)
        self._flat: Ids = np.zeros(0, np.int32)

    def _look_up(self, forms: list[str]) -> NDArray[np.int64]:
        return np.fromiter(map(self._slots.get, forms, repeat(-1)), np.int64, len(forms))

    def _learn(self, forms: list[str]) -> None:
        runs = [np.array(ids, np.int32) for batch in batches(forms, BATCH_CHARS) for ids in self._encode(batch)]
        lengths = np.fromiter(map(len, runs), np.int64, len(runs))
        self._slots.update(zip(forms, range(len(self._slots), len(self._slots) + len(forms)), strict=True))
        self._chars += sum(map(len, forms))
        self._starts = np.concatenate([self._starts, len(self._flat) + np.cumsum(lengths) - lengths])
        self._lengths = np.concatenate([self._lengths, lengths])
        self._flat = np.concatenate([self._flat, *runs])


@cache
def byte_alphabet() -> dict[str, int]:
    """The character that stands for each byte in byte-level pieces, as all such tokenizers write them.

    Bytes that are visible in Latin-1 stand for themselves; the others, in order, for U+0100 and what follows.
    """
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [value for value in range(256) if value not in visible]
    return {chr(value): value for value in visible} | {chr(0x100 + rank): value for rank, value in enumerate(hidden)}

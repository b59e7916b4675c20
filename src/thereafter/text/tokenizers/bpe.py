"""Byte-level byte pair encoding, learned with the `tokenizers` library: lossless, nothing unknown.

The text is first split as `prose` splits it, so that pieces never cross a newline or a change of class and a text
can be encoded in chunks; then each distinct form is encoded once and remembered.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar, Self

from numpy.typing import ArrayLike

from thereafter.config import Table
from thereafter.errors import FormatError, OptionError
from thereafter.packages import require
from thereafter.progress import task
from thereafter.text.chunks import PROSE_TAIL, recut
from thereafter.text.tokenizers import stored as files
from thereafter.text.tokenizers.base import Chunks, Ids, MeasuredText, Tokenizer, byte_length
from thereafter.text.tokenizers.pieces import PieceTable, byte_alphabet
from thereafter.text.tokenizers.prose import PATTERN, prose_forms
from thereafter.text.vocabulary import Vocabulary, check_cutoffs, is_unicode

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Engine
    from tokenizers.models import Model

DEFAULT_SIZE = 4096
_PURPOSE = "the bpe tokenizer"
# The library takes half a gigabyte for a single form of a million characters, and more time for each of its
# characters than for those of a short form: longer forms are cut at fixed places.
_LONGEST = 10_000
# Learning keeps every distinct form in memory, about 60 bytes for each of its bytes. These bounds hold it near
# 200 MB, far above what a few thousand pieces need to be estimated well.
_SAMPLE_CHARS = 32_000_000
_DISTINCT_BYTES = 3_000_000
_LEARNED_RUN = 100
# The library reads 256 lessons ahead, and needs some hundred bytes for each character of those it works on.
_LESSON = 1 << 14


class BpeTokenizer(Tokenizer):
    """Pieces of bytes, the 256 bytes themselves always among them, so that any text can be written.

    `max_size` is the number of pieces (by default 4,096; a small text may have fewer), `min_count` how often a pair
    must be seen to be merged. Sennrich, Haddow and Birch, "Neural Machine Translation of Rare Words with
    Subword Units", 2016.
    """

    name: ClassVar[str] = "bpe"

    def __init__(self, engine: Engine) -> None:
        numbered = sorted(engine.get_vocab(with_added_tokens=False).items(), key=lambda entry: entry[1])
        if [number for _, number in numbered] != list(range(len(numbered))):
            raise FormatError(
                "the pieces of a bpe tokenizer are not numbered 0, 1, 2, ...; it is damaged: train it again"
            )
        super().__init__(Vocabulary([piece for piece, _ in numbered]))
        self._engine = engine
        self._table = PieceTable(self._encode_forms)
        values = byte_alphabet()
        self._bytes = [bytes(values[char] for char in piece) for piece in self.vocabulary.forms]

    @classmethod
    def fit(cls, chunks: Chunks, *, min_count: int | None = None, max_size: int | None = None) -> Self:
        check_cutoffs(min_count, None, smallest=256)
        size = DEFAULT_SIZE if max_size is None else max_size
        if size < 256:
            raise OptionError(f"max_size is {size}, but all 256 bytes are always pieces; try max_size={DEFAULT_SIZE}")
        library = require("tokenizers", _PURPOSE)
        engine = _engine(library.models.BPE())
        trainer = library.trainers.BpeTrainer(
            vocab_size=size,
            min_frequency=2 if min_count is None else min_count,
            show_progress=False,
            special_tokens=[],
            initial_alphabet=sorted(byte_alphabet()),
        )
        total = sum(len(chunk) for chunk in chunks())
        with task("learning byte pairs", total=min(total, _SAMPLE_CHARS), unit="chars") as advance:
            lessons = _Lessons(recut(chunks(), PROSE_TAIL, _LESSON), total, advance)
            engine.train_from_iterator(lessons, trainer)
            if lessons.failure is not None:
                raise lessons.failure
        return cls(engine)

    def groups(self, chunks: Iterable[str]) -> Iterator[str]:
        return recut(chunks, PROSE_TAIL)

    def ids_of(self, group: str) -> Ids:
        return self._table.ids(_cut_long(prose_forms(group), len(group), _LONGEST))

    def measure(self, group: str, inside_line: bool) -> MeasuredText:
        return MeasuredText(self.ids_of(group), group.count("\n"), len(group), byte_length(group))

    def _encode_forms(self, forms: list[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._engine.encode_batch_fast(forms, add_special_tokens=False)]

    @property
    def line_end_id(self) -> int:
        return self._bytes.index(b"\n")  # a newline is a form of its own, so no longer piece contains one

    def decode(self, ids: ArrayLike) -> str:
        return b"".join(map(self._bytes.__getitem__, self.check_ids(ids))).decode("utf-8", errors="replace")

    def identity(self) -> object:
        model = json.loads(self._engine.to_str())["model"]
        return [self.vocabulary.forms, model["merges"]]

    def to_json(self) -> Table:
        return {**files.header(self.name), "tokenizers": json.loads(self._engine.to_str())}

    @classmethod
    def from_json(cls, stored: Table) -> Self:
        """The tokenizer of `to_json`: only the pieces and merges of the file are used, not its way of splitting."""
        files.check_header(stored, [cls.name])
        pieces, merges = _check_model(stored.get("tokenizers"))
        library = require("tokenizers", _PURPOSE)
        return cls(_engine(library.models.BPE(vocab=pieces, merges=merges)))


class _Lessons:
    """The training data of the pieces: the whole text, or groups spread evenly over a long one.

    The library iterates in its own threads, so an error is kept for the caller to raise. When the distinct forms
    reach their bound, later groups still count the forms already seen.
    """

    def __init__(self, groups: Iterable[str], total: int, advance: Callable[[float], None]) -> None:
        self._groups = groups
        self._share = min(1.0, _SAMPLE_CHARS / max(1, total))
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
            forms = _cut_long(prose_forms(group), len(group), _LEARNED_RUN)
            for form in dict.fromkeys(forms):
                if distinct < _DISTINCT_BYTES and form not in met:
                    distinct += byte_length(form)
                    met.add(form)
            if distinct < _DISTINCT_BYTES and len(max(forms, key=len)) < _LEARNED_RUN:
                yield [group]  # the library splits a text by the same pattern, faster than it takes a list
            else:
                yield [form for form in forms if form in met]
            self._advance(len(group))


def _engine(model: Model) -> Engine:
    library = require("tokenizers", _PURPOSE)
    engine: Engine = library.Tokenizer(model)
    engine.pre_tokenizer = library.pre_tokenizers.Sequence(
        [
            library.pre_tokenizers.Split(library.Regex(PATTERN), "isolated"),
            library.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    engine.decoder = library.decoders.ByteLevel()
    return engine


def _cut_long(forms: list[str], chars: int, longest: int) -> list[str]:
    if chars <= longest or len(max(forms, key=len, default="")) <= longest:
        return forms
    return [form[start : start + longest] for form in forms for start in range(0, len(form), longest)]


def _check_model(embedded: object) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """The pieces and merges of a `tokenizers` JSON; FormatError if training cannot have made them."""
    model = embedded.get("model") if isinstance(embedded, dict) else None
    pieces = model.get("vocab") if isinstance(model, dict) else None
    listed = model.get("merges") if isinstance(model, dict) else None
    if not isinstance(pieces, dict) or not isinstance(listed, list):
        raise _damage_error("it has no pieces and merges")
    alphabet = byte_alphabet()
    if not is_unicode(pieces) or not all(piece and alphabet.keys() >= set(piece) for piece in pieces):
        raise _damage_error("a piece is not written in the byte alphabet")
    if not all(type(number) is int for number in pieces.values()) or not pieces.keys() >= alphabet.keys():
        raise _damage_error("the 256 bytes are not all among its pieces")
    if sorted(pieces.values()) != list(range(len(pieces))):
        raise _damage_error("its pieces are not numbered 0, 1, 2, ...")
    merges: list[tuple[str, str]] = []
    for entry in listed:
        pair = tuple(entry.split(" ")) if isinstance(entry, str) else tuple(entry) if isinstance(entry, list) else ()
        if len(pair) != 2 or not all(isinstance(part, str) and part in pieces for part in pair):
            raise _damage_error(f"{entry!r} is not a merge of two of its pieces")
        if pair[0] + pair[1] not in pieces:
            raise _damage_error(f"the merge {entry!r} makes no piece")
        merges.append((pair[0], pair[1]))
    return pieces, merges


def _damage_error(reason: str) -> FormatError:
    return FormatError(f"the bpe tokenizer file is damaged: {reason}; train it again")

"""The contract of a tokenizer, what all of them share, and their JSON file; the vocabulary.

A vocabulary numbers the forms that a model can predict from 0. The cost of an unknown form, in bits per byte, is the
code length of its bytes and an end mark. The file is written completely or not at all, and checked when it is read.
"""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thereafter.base.config import Table
from thereafter.base.storage import read_plain, write_text
from thereafter.errors import FormatError, OptionError, StorageError, nearest
from thereafter.text.reading import PIECE, require_unicode, slice_chunks

UNKNOWN = "<unk>"
LINE_END = "</s>"
START = "<s>"


class Vocabulary:
    """Forms and their ids, both ways; `counts[i]` is how often form i was seen in training, if that is known.

    >>> Vocabulary.from_counts({"cat": 2, "the": 3, "fish": 1}, reserved={"<unk>": 0}, min_count=2).forms
    ['<unk>', 'the', 'cat']
    """

    def __init__(self, forms: Sequence[str], counts: Sequence[int] | None = None) -> None:
        self.forms = list(forms)
        self.index = {form: number for number, form in enumerate(self.forms)}
        self.counts = None if counts is None else list(counts)
        if len(self.index) != len(self.forms):
            raise FormatError(
                "a vocabulary holds the same form twice, expected each once; it is damaged: train it again"
            )

    @classmethod
    def from_counts(
        cls, counts: Mapping[str, int], *, reserved: Mapping[str, int], min_count: int = 1, max_size: int | None = None
    ) -> Vocabulary:
        """Reserved forms first, then those seen at least `min_count` times by falling count, ties by code point.

        `max_size` caps the whole, reserved forms included. What is left out is counted as the first reserved form.
        """
        check_cutoffs(min_count, max_size, smallest=max(1, len(reserved)))
        entries = [(form, count) for form, count in counts.items() if count >= min_count and form not in reserved]
        entries.sort(key=lambda entry: (-entry[1], entry[0]))
        if max_size is not None:
            del entries[max_size - len(reserved) :]
        forms = [*reserved, *(form for form, _ in entries)]
        numbers = [*reserved.values(), *(count for _, count in entries)]
        if reserved:
            dropped = sum(count for form, count in counts.items() if form not in reserved)
            numbers[0] += dropped - sum(count for _, count in entries)
        return cls(forms, numbers)

    def __len__(self) -> int:
        return len(self.forms)

    def __contains__(self, form: object) -> bool:
        return form in self.index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.forms == other.forms

    def __hash__(self) -> int:
        return hash(tuple(self.forms))

    def __repr__(self) -> str:
        return f"Vocabulary({len(self):,} forms)"

    def to_json(self) -> Table:
        """Plain lists for JSON."""
        return {"forms": self.forms} if self.counts is None else {"forms": self.forms, "counts": self.counts}

    @classmethod
    def from_json(cls, stored: object) -> Vocabulary:
        """Read back `to_json`; FormatError for anything else."""
        if not isinstance(stored, dict) or not isinstance(stored.get("forms"), list):
            raise FormatError(
                "a vocabulary has no list of forms, expected {'forms': [...]}; it is damaged: train it again"
            )
        forms, counts = stored["forms"], stored.get("counts")
        if not all(isinstance(form, str) for form in forms):
            raise FormatError("a vocabulary holds a form that is not text; it is damaged: train it again")
        if not is_unicode(forms):
            raise FormatError(
                "a vocabulary holds a lone surrogate, which no text contains; it is damaged: train it again"
            )
        if counts is not None and not (
            isinstance(counts, list)
            and len(counts) == len(forms)
            and all(type(count) is int and count >= 0 for count in counts)
        ):
            raise FormatError(
                f"the counts of a vocabulary are not {len(forms)} whole numbers; it is damaged: train it again"
            )
        return cls(forms, counts)


def check_cutoffs(min_count: int | None, max_size: int | None, *, smallest: int) -> None:
    """OptionError for a `min_count` or a `max_size` that is out of range."""
    if min_count is not None and min_count < 1:
        raise OptionError(f"min_count is {min_count}, expected 1 or more; try min_count=1 to keep every form")
    if max_size is not None and max_size < smallest:
        raise OptionError(f"max_size is {max_size}, expected at least {smallest}; try max_size=10000")


def is_unicode(forms: Iterable[str]) -> bool:
    """Whether all forms can be encoded as UTF-8."""
    try:
        "".join(forms).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


_SYMBOLS = 257  # 256 bytes and the end mark


class Spelling:
    """A byte unigram model over 257 symbols, add-one, estimated over types: each form counts once.

    `p(symbol) = (count(symbol) + 1) / (N + 257)`, N the bytes and end marks of all forms; a form costs
    `-sum(log p(byte)) - log p(end)` nats, which is finite for any bytes.

    >>> round(Spelling.from_forms(["a"]).nats("a"), 4)  # two symbols, each 2 / (2 + 257)
    9.7274
    """

    def __init__(self, costs: NDArray[np.float64]) -> None:
        self._costs = costs

    @classmethod
    def from_forms(cls, forms: Iterable[str]) -> Spelling:
        """Estimate from the ordinary forms of a vocabulary; the reserved ones are not spelled and are left out."""
        listed = list(forms)
        counts = np.ones(_SYMBOLS)
        counts[:256] += np.bincount(_join_bytes(listed), minlength=256)
        counts[256] += len(listed)
        return cls(-np.log(counts / counts.sum()))

    def nats(self, form: str) -> float:
        """The code length of one form."""
        return self.total([form])

    def total(self, forms: Iterable[str]) -> float:
        """The summed code length of forms, each with its end mark."""
        listed = list(forms)
        counts = np.bincount(_join_bytes(listed), minlength=256)
        return float(counts @ self._costs[:256] + len(listed) * self._costs[256])


def _join_bytes(forms: list[str]) -> NDArray[np.uint8]:
    return np.frombuffer("".join(forms).encode("utf-8"), dtype=np.uint8)


FORMAT = "thereafter-tokenizer"
VERSION = 1


def header(name: str) -> Table:
    """The first entries of every tokenizer file."""
    return {"format": FORMAT, "version": VERSION, "name": name}


def check_header(stored: object, names: list[str]) -> str:
    """The name of the tokenizer that a parsed file describes."""
    if not isinstance(stored, dict) or stored.get("format") != FORMAT:
        raise FormatError(
            f"this is not a tokenizer file: expected a JSON object with format {FORMAT!r}; try tokenizer.json"
        )
    if stored.get("version") != VERSION:
        raise FormatError(
            f"the tokenizer file has version {stored.get('version')!r}, expected {VERSION}; "
            "try the version of thereafter that wrote it"
        )
    name = stored.get("name")
    if not isinstance(name, str) or name not in names:
        raise FormatError(f"the tokenizer file names the tokenizer {name!r}; {nearest(str(name), names)}")
    return name


def read_stored(path: str | os.PathLike[str]) -> object:
    """The parsed JSON of a file."""
    try:
        return json.loads(read_plain(path).decode("utf-8"))
    except OSError as failed:
        raise FormatError(f"no tokenizer could be read from {os.fspath(path)}: {failed.strerror or failed}") from None
    except (ValueError, RecursionError) as failed:
        raise FormatError(
            f"{os.fspath(path)} is not a tokenizer file: expected JSON ({failed}); try the tokenizer.json of a run"
        ) from None


def write_stored(stored: Table, path: str | os.PathLike[str]) -> None:
    """Write the file of a tokenizer atomically."""
    target = Path(path)
    if not target.parent.is_dir():
        raise StorageError(f"the tokenizer cannot be saved as {target}: there is no such folder; try one that exists")
    write_text(target, json.dumps(stored, ensure_ascii=False, separators=(",", ":")))


Ids = NDArray[np.int32]
Chunks = Callable[[], Iterable[str]]
"""A function that returns the text in pieces, always from its beginning: texts are read more than once."""


@dataclass(frozen=True)
class MeasuredText:
    """A part of a text with the figures that a score needs: SCORING.md defines each of them.

    `chars` and `bytes` are those of the text as the tokenizer decodes it, unknown forms spelled out. `unknown_forms`
    are the surface forms whose spelling is charged, in order; a literal `<unk>` is not among them.
    """

    ids: Ids
    lines: int
    chars: int
    bytes: int
    unknown: int = 0
    unknown_forms: list[str] = field(default_factory=list)


class Tokenizer(ABC):
    """Text to ids 0 .. V-1, which a model can predict, and back; a codec (`data.codecs.Codec`).

    Wherever the chunks end, `encode_stream` joined equals `encode` of the whole text. No text is an error: a form that
    is not in the vocabulary becomes `<unk>`. `<s>` is an input and never predicted: its id is `start_id`, which is V.
    With `whole=True` the stream is a complete text, whose last line counts as a line even without a newline.
    """

    codec: ClassVar[str] = "tokenizer"
    name: ClassVar[str]
    context: ClassVar[Literal["line", "stream"]] = "stream"
    reserved: ClassVar[tuple[str, ...]] = ()
    unknown_id: ClassVar[int | None] = None

    def __init__(self, vocabulary: Vocabulary) -> None:
        if tuple(vocabulary.forms[: len(self.reserved)]) != self.reserved:
            raise FormatError(
                f"a {self.name} vocabulary begins with {vocabulary.forms[: len(self.reserved)]}, "
                f"expected {list(self.reserved)}; it is damaged: train it again"
            )
        self.vocabulary = vocabulary

    @classmethod
    @abstractmethod
    def fit(cls, chunks: Chunks, *, min_count: int | None = None, max_size: int | None = None) -> Self:
        """Learn the vocabulary of a text."""

    @classmethod
    def fit_encode(
        cls, chunks: Chunks, *, min_count: int | None = None, max_size: int | None = None
    ) -> tuple[Self, Ids]:
        """`fit`, and the ids of the same text as a whole; for texts that fit in memory, where one pass may do both."""
        fitted = cls.fit(chunks, min_count=min_count, max_size=max_size)
        return fitted, join_ids(fitted.encode_stream(chunks(), whole=True))

    def groups(self, chunks: Iterable[str]) -> Iterator[str]:
        """The same text, cut where no token crosses: anywhere, unless tokens are longer than a character."""
        return slice_chunks(chunks)

    @abstractmethod
    def ids_of(self, group: str) -> Ids:
        """The ids of a part of a text that begins and ends at the border of a token."""

    def ids_and_unknown(self, group: str) -> tuple[Ids, list[str]]:
        """The ids of such a part and, in order, the forms of its unknown tokens."""
        return self.ids_of(group), []

    def measure(self, group: str, inside_line: bool) -> MeasuredText:
        """The figures of such a part; `inside_line`: there are tokens before it on its first line."""
        ids, unknown = self.ids_and_unknown(group)
        return MeasuredText(ids, group.count("\n"), len(group), byte_length(group), len(unknown), unknown)

    def closing(self) -> MeasuredText:
        """What a last line without a newline adds to a whole text."""
        return MeasuredText(np.empty(0, np.int32), lines=1, chars=0, bytes=0)

    @property
    def line_end_id(self) -> int | None:
        """The id that ends a line, if the vocabulary has one."""
        return self.vocabulary.index.get("\n")

    @property
    def size(self) -> int:
        """V."""
        return len(self.vocabulary)

    @property
    def start_id(self) -> int:
        """The id of `<s>`: the input before the first token, never predicted."""
        return len(self.vocabulary)

    @property
    def ordinary_forms(self) -> list[str]:
        """The forms of the vocabulary without the reserved ones."""
        return self.vocabulary.forms[len(self.reserved) :]

    def encode(self, text: str) -> Ids:
        """The ids of a text, such as a prompt: no line end is added to its last line."""
        if len(text) <= PIECE:
            return self.ids_of(require_unicode(text)) if text else np.empty(0, np.int32)
        return join_ids(self.encode_stream([text]))

    def encode_stream(self, chunks: Iterable[str], *, whole: bool = False) -> Iterator[Ids]:
        """The ids of a text that comes in pieces."""
        last = ""
        for group in self.groups(chunks):
            last = group[-1]
            yield self.ids_of(group)
        if whole and last not in ("", "\n"):
            closing = self.closing().ids
            if len(closing):
                yield closing

    def measure_stream(self, chunks: Iterable[str], *, whole: bool = True) -> Iterator[MeasuredText]:
        """The ids of a text with the figures that a score needs."""
        return (part for _, part in self.measure_groups(chunks, whole=whole))

    def measure_groups(self, chunks: Iterable[str], *, whole: bool = True) -> Iterator[tuple[str, MeasuredText]]:
        """The same, each part with its text as written; what closes a last line was not written: its text is ""."""
        last, inside_line = "", False
        for group in self.groups(chunks):
            part = self.measure(group, inside_line)
            yield group, part
            last = group[-1]
            if len(part.ids):
                inside_line = int(part.ids[-1]) != self.line_end_id
        if whole and last not in ("", "\n"):
            yield "", self.closing()

    def token_ends(self, group: str, measured: MeasuredText) -> NDArray[np.int64]:
        """Where each token of a measured part ends, in bytes of UTF-8 from the beginning of the part."""
        sizes = self.token_sizes[measured.ids]
        if measured.unknown_forms:
            sizes[measured.ids == self.unknown_id] = [byte_length(form) for form in measured.unknown_forms]
        return np.cumsum(sizes)

    @cached_property
    def token_sizes(self) -> NDArray[np.int64]:
        """How many bytes of UTF-8 each token stands for, [V]."""
        return np.array([byte_length(form) for form in self.vocabulary.forms], dtype=np.int64)

    def decode(self, ids: ArrayLike) -> str:
        """The text of ids, with `<unk>` for unknown forms."""
        return "".join(map(self.vocabulary.forms.__getitem__, self.check_ids(ids)))

    def piece(self, id: int) -> str:
        """The text that one id appends."""
        return self.decode([id])

    def bytes_of(self, id: int) -> bytes:
        """The bytes that one id appends: those of its text, unless it may be a part of a character."""
        return self.piece(id).encode()

    def continuation(self, prompt: str, ids: ArrayLike) -> str:
        """The prompt with the text of ids after it."""
        return prompt + self.decode(ids)

    def check_ids(self, ids: ArrayLike) -> list[int]:
        """Ids as a list, all inside the vocabulary."""
        if (
            isinstance(ids, (list, tuple))
            and len(ids) == 1
            and type(ids[0]) is int
            and 0 <= ids[0] < len(self.vocabulary)
        ):
            return [ids[0]]  # the common case while generating: an array would be far slower
        array = np.asarray(ids)
        if array.size == 0:
            return []
        if array.dtype.kind not in "iu":
            raise OptionError(f"ids have the type {array.dtype}, expected whole numbers; try ids.astype(int)")
        least, most = int(array.min()), int(array.max())
        if least < 0 or most >= len(self.vocabulary):
            raise OptionError(
                f"id {least if least < 0 else most} is outside the vocabulary, expected 0 to {len(self.vocabulary) - 1}"
                "; try the tokenizer that made these ids (the start mark is an input, never decoded)"
            )
        numbers: list[int] = array.ravel().tolist()
        return numbers

    def to_json(self) -> Table:
        """The complete tokenizer as plain JSON."""
        return {**header(self.name), "vocabulary": self.vocabulary.to_json()}

    @classmethod
    def from_json(cls, stored: Table) -> Self:
        """The tokenizer of `to_json`; FormatError for anything else. Nothing is executed."""
        check_header(stored, [cls.name])
        vocabulary = Vocabulary.from_json(stored.get("vocabulary"))
        tokenizer = cls(vocabulary)
        wrong = next((form for form in tokenizer.ordinary_forms if not cls.is_form(form)), None)
        if wrong is not None:
            raise FormatError(
                f"{wrong!r} cannot be a form of the {cls.name} tokenizer; the file is damaged: train it again"
            )
        return tokenizer

    @classmethod
    def is_form(cls, form: str) -> bool:
        """Whether this tokenizer could ever produce the form."""
        return bool(form)

    def identity(self) -> object:
        """Everything that determines how texts are encoded; counts do not."""
        return self.vocabulary.forms

    def fingerprint(self) -> str:
        """sha256 over everything that determines how texts are encoded."""
        stored = json.dumps([self.name, self.identity()], ensure_ascii=True)
        return hashlib.sha256(stored.encode()).hexdigest()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON file that `load_tokenizer` reads; StorageError if it cannot be written."""
        write_stored(self.to_json(), path)


def join_ids(arrays: Iterable[Ids]) -> Ids:
    """Concatenate arrays of ids; an empty array if there are none."""
    listed = list(arrays)
    if len(listed) == 1:
        return listed[0]
    return np.concatenate(listed) if listed else np.empty(0, np.int32)


def byte_length(text: str) -> int:
    """The length of a text as UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8"))

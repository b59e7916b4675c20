"""Texts as forms, which are counted and have ids: what `word` shares with `prose`, and `prose`.

`prose` cuts running text into lossless pieces: a word with the space before it, a number, punctuation, white space, a
newline. In scripts without spaces between words (`text.reading`) each character is a piece, with the marks on it.

Counts are exact in bounded memory: those that do not fit are written to disk and added up there.
"""

from __future__ import annotations

import re
import tempfile
from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import repeat
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

import numpy as np

from thereafter.base.config import Table
from thereafter.base.storage import cache_folder
from thereafter.errors import FormatError, StorageError
from thereafter.text.reading import CHARACTER, OTHER_LETTERS, PROSE_TAIL, SCRIPT_TAIL, has_characters, recut
from thereafter.text.tokenizers.base import (
    UNKNOWN,
    Chunks,
    Ids,
    Tokenizer,
    Vocabulary,
    check_cutoffs,
    join_ids,
)

SEEN_TWICE = 2


class FormTokenizer(Tokenizer):
    """Splits into forms with the C loops of `str.split` and `re`, and looks them up with those of `dict` and numpy."""

    reserved: ClassVar[tuple[str, ...]] = (UNKNOWN,)
    unknown_id: ClassVar[int | None] = 0
    never_kept: ClassVar[tuple[str, ...]] = ()

    @classmethod
    @abstractmethod
    def cut(cls, chunks: Iterable[str]) -> Iterator[str]:
        """The same text, cut where no form crosses."""

    @classmethod
    @abstractmethod
    def forms_of(cls, group: str) -> list[str]:
        """The forms of a part of a text, reserved ones included."""

    @classmethod
    def closing_forms(cls, last: str) -> list[str]:
        """The forms that end a whole text whose last character is `last`."""
        return []

    @classmethod
    def fit(cls, chunks: Chunks, *, min_count: int | None = None, max_size: int | None = None) -> Self:
        check_cutoffs(min_count, max_size, smallest=len(cls.reserved))
        with FormCounter() as counter:
            last = ""
            for group in cls.cut(chunks()):
                last = group[-1]
                counter.add(cls.forms_of(group), len(group))
            closing = cls.closing_forms(last)
            counter.add(closing, len(closing))
            reserved = {form: counter.take(form) for form in (*cls.reserved, *cls.never_kept)}
            least = cls._least(min_count, reserved)
            counts = counter.at_least(least)
            return cls(cls._vocabulary(counts, counter.total, reserved, least, max_size))

    @classmethod
    def fit_encode(
        cls, chunks: Chunks, *, min_count: int | None = None, max_size: int | None = None
    ) -> tuple[Self, Ids]:
        check_cutoffs(min_count, max_size, smallest=len(cls.reserved))
        # Forms are numbered as they come, then renumbered by their counts: the text is split only once.
        numbers: defaultdict[str, int] = defaultdict()
        numbers.default_factory = numbers.__len__
        arrays: list[Ids] = []
        last = ""
        for group in cls.cut(chunks()):
            last = group[-1]
            forms = cls.forms_of(group)
            arrays.append(np.fromiter(map(numbers.__getitem__, forms), np.int32, len(forms)))
        closing = cls.closing_forms(last)
        arrays.append(np.fromiter(map(numbers.__getitem__, closing), np.int32, len(closing)))
        first = join_ids(arrays)
        counts = dict(zip(numbers, np.bincount(first, minlength=len(numbers)).tolist(), strict=True))
        seen = list(counts)
        reserved = {form: counts.pop(form, 0) for form in (*cls.reserved, *cls.never_kept)}
        least = cls._least(min_count, reserved)
        frequent = {form: count for form, count in counts.items() if count >= least}
        fitted = cls(cls._vocabulary(frequent, len(first), reserved, least, max_size))
        renumbered = fitted.look_up(seen)
        return fitted, renumbered[first]

    @classmethod
    def _least(cls, min_count: int | None, reserved: dict[str, int]) -> int:
        return SEEN_TWICE if min_count is None else min_count

    @classmethod
    def _vocabulary(
        cls, frequent: dict[str, int], total: int, reserved_counts: dict[str, int], min_count: int, max_size: int | None
    ) -> Vocabulary:
        reserved = {form: reserved_counts[form] for form in cls.reserved}
        reserved[UNKNOWN] = total - sum(frequent.values()) - sum(reserved.values()) + reserved[UNKNOWN]
        return Vocabulary.from_counts(frequent, reserved=reserved, min_count=min_count, max_size=max_size)

    def groups(self, chunks: Iterable[str]) -> Iterator[str]:
        return self.cut(chunks)

    def pieces(self, group: str) -> list[str]:
        """The forms of a part of a text, as this tokenizer cuts it."""
        return self.forms_of(group)

    def ids_of(self, group: str) -> Ids:
        return self.look_up(self.pieces(group))

    def ids_and_unknown(self, group: str) -> tuple[Ids, list[str]]:
        forms = self.pieces(group)
        ids = self.look_up(forms)
        return ids, [forms[place] for place in np.flatnonzero(ids == 0).tolist()]

    def look_up(self, forms: list[str]) -> Ids:
        """The id of each form; that of `<unk>` if it is not in the vocabulary."""
        return np.fromiter(map(self.vocabulary.index.get, forms, repeat(0)), np.int32, len(forms))


_SHARDS = 64
_LONG = 32


class FormCounter:
    """Counts forms; a context manager, because it may use temporary files.

    Natural text has ever more forms, and a line without spaces can be one form of a gigabyte: when the table has
    `most_forms` forms or about `most_chars` characters, it is added to files sharded by hash, and emptied. No form but
    the newline itself contains a newline, so a shard is plain lines of "count form".
    """

    def __init__(self, *, most_forms: int = 1_000_000, most_chars: int = 1 << 26) -> None:
        self.total = 0
        self._counts: Counter[str] = Counter()
        self._newlines = 0
        self._long_chars = 0
        self._most_forms, self._most_chars = most_forms, most_chars
        self._shards: list[Path] = []
        self._closing = ExitStack()

    def __enter__(self) -> FormCounter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.close()

    def add(self, forms: list[str], chars: int) -> None:
        """Count forms that together have `chars` characters."""
        self._counts.update(forms)
        self.total += len(forms)
        if chars > _LONG * len(forms):
            self._long_chars += chars
        if len(self._counts) > self._most_forms or self._long_chars > self._most_chars:
            self._spill()

    def take(self, form: str) -> int:
        """Remove a form and return its count so far; for reserved forms."""
        if not self._shards:
            return self._counts.pop(form, 0)
        self._spill()
        shard = self._shards[hash(form) % _SHARDS]
        entries = Counter(dict(_sum_counts(shard)))
        count = entries.pop(form, 0)
        _write(shard, entries, "w")
        return count

    def at_least(self, min_count: int) -> dict[str, int]:
        """The forms seen at least `min_count` times, with their counts."""
        frequent = {form: count for form, count in self._counts.items() if count >= min_count}
        if self._shards:
            self._spill()
            frequent = {"\n": self._newlines} if self._newlines >= max(1, min_count) else {}
            for shard in self._shards:
                frequent.update(entry for entry in _sum_counts(shard) if entry[1] >= min_count)
        return frequent

    def _spill(self) -> None:
        if not self._shards:
            try:
                folder = cache_folder() / "counts"
                folder.mkdir(parents=True, exist_ok=True)
                here = self._closing.enter_context(tempfile.TemporaryDirectory(dir=folder))
            except OSError as failed:
                raise _no_room(cache_folder(), failed) from None
            self._shards = [Path(here, f"{number}.txt") for number in range(_SHARDS)]
            for shard in self._shards:
                _write(shard, Counter(), "w")
        self._newlines += self._counts.pop("\n", 0)
        sorted_out: list[Counter[str]] = [Counter() for _ in range(_SHARDS)]
        while self._counts:  # emptied while it is sharded, so that no form is in memory twice
            form, count = self._counts.popitem()
            sorted_out[hash(form) % _SHARDS][form] = count
        for shard, entries in zip(self._shards, sorted_out, strict=True):
            _write(shard, entries, "a")
        self._counts = Counter()  # an emptied dict keeps its table; a new one does not
        self._long_chars = 0


def _write(shard: Path, entries: Counter[str], mode: str) -> None:
    try:
        with open(shard, mode, encoding="utf-8", newline="\n") as file:
            file.writelines(f"{count} {form}\n" for form, count in entries.items())
    except OSError as failed:
        raise _no_room(shard.parent, failed) from None


def _sum_counts(shard: Path) -> Iterator[tuple[str, int]]:
    counts: Counter[str] = Counter()
    with open(shard, encoding="utf-8", newline="\n") as file:
        for line in file:
            count, _, form = line[:-1].partition(" ")
            counts[form] += int(count)
    yield from counts.items()


def _no_room(folder: Path, failed: OSError) -> StorageError:
    return StorageError(
        f"counting a large vocabulary needs room in {folder}: {failed.strerror or failed}; "
        "free some, or set THEREAFTER_CACHE to a folder that has it"
    )


PATTERN = r"\n| ?[^\W\d_]+| ?\d+| ?[^\w\s]+| ?_+|[^\S\n]+"
SCRIPT_PATTERN = rf"\n|{CHARACTER}| ?{OTHER_LETTERS}| ?\d+| ?[^\w\s]+| ?_+|[^\S\n]+"
_PIECES = re.compile(PATTERN)
_MARK = "characters"


def prose_forms(text: str) -> list[str]:
    """All pieces of a text by `PATTERN`; joined they are the text, for every character is in one of the classes.

    >>> prose_forms("The cat,  12_3\\n")
    ['The', ' cat', ',', '  ', '12', '_', '3', '\\n']
    """
    return _PIECES.findall(text)


def script_forms(text: str) -> list[str]:
    """The same with each character of a script without spaces as a piece: the rule of `SCRIPT_PATTERN`.

    >>> script_forms("The 漢字, 12")
    ['The', ' ', '漢', '字', ',', ' 12']
    """
    # the two patterns cut alike where there is no such character, and this one is twice as fast
    return re.findall(SCRIPT_PATTERN, text) if has_characters(text) else _PIECES.findall(text)


class ProseTokenizer(FormTokenizer):
    """The default for raw text: pieces of `SCRIPT_PATTERN` seen at least twice, everything else `<unk>`.

    A tokenizer whose training text had no character of a script without spaces cuts by `PATTERN`, as all those of
    earlier versions do (`by_character` is False): what they encode and their fingerprints stay as they were.
    """

    name: ClassVar[str] = "prose"

    def __init__(self, vocabulary: Vocabulary, *, by_character: bool = False) -> None:
        super().__init__(vocabulary)
        self.by_character = by_character

    @classmethod
    def fit(cls, chunks: Chunks, *, min_count: int | None = None, max_size: int | None = None) -> Self:
        watch = _Watch(chunks)
        fitted = super().fit(watch.read, min_count=min_count, max_size=max_size)
        fitted.by_character = watch.seen
        return fitted

    @classmethod
    def fit_encode(
        cls, chunks: Chunks, *, min_count: int | None = None, max_size: int | None = None
    ) -> tuple[Self, Ids]:
        watch = _Watch(chunks)
        fitted, ids = super().fit_encode(watch.read, min_count=min_count, max_size=max_size)
        fitted.by_character = watch.seen
        return fitted, ids

    @classmethod
    def cut(cls, chunks: Iterable[str]) -> Iterator[str]:
        return recut(chunks, re.compile(SCRIPT_TAIL))

    @classmethod
    def forms_of(cls, group: str) -> list[str]:
        return script_forms(group)

    @classmethod
    def is_form(cls, form: str) -> bool:
        return _PIECES.fullmatch(form) is not None or re.fullmatch(SCRIPT_PATTERN, form) is not None

    def pieces(self, group: str) -> list[str]:
        return script_forms(group) if self.by_character else prose_forms(group)

    def groups(self, chunks: Iterable[str]) -> Iterator[str]:
        return recut(chunks, re.compile(SCRIPT_TAIL) if self.by_character else PROSE_TAIL)

    def identity(self) -> object:
        return [_MARK, super().identity()] if self.by_character else super().identity()

    def to_json(self) -> Table:
        return super().to_json() | ({"scripts": _MARK} if self.by_character else {})

    @classmethod
    def from_json(cls, stored: Table) -> Self:
        tokenizer = super().from_json(stored)
        rule = stored.get("scripts")
        if rule not in (None, _MARK):
            raise FormatError(
                f"a prose tokenizer has the rule {rule!r} for scripts without spaces, expected {_MARK!r} or none; "
                "it is damaged or of a later version: train it again"
            )
        tokenizer.by_character = rule is not None
        pattern = re.compile(SCRIPT_PATTERN) if tokenizer.by_character else _PIECES
        wrong = next((form for form in tokenizer.ordinary_forms if not pattern.fullmatch(form)), None)
        if wrong is not None:
            raise FormatError(
                f"{wrong!r} cannot be a form of this prose tokenizer; the file is damaged: train it again"
            )
        return tokenizer


class _Watch:
    """Passes a text through, and records whether it had a character of a script without spaces."""

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks
        self.seen = False

    def read(self) -> Iterator[str]:
        for chunk in self._chunks():
            self.seen = self.seen or has_characters(chunk)
            yield chunk

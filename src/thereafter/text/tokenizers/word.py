"""Words between white space, one `</s>` per line: for texts already tokenised, such as Penn Treebank.

Words of an ASCII text become ids in one compiled pass (`WordTable`), without a string for each known word.
`WordTokenizer.forms_of` and `look_up` do the same in plain Python, for all other texts too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thereafter.base.compiled import available, compiled
from thereafter.text.reading import WORD_TAIL, byte_ends, code_points, recut, word_ends
from thereafter.text.tokenizers.base import LINE_END, START, UNKNOWN, Ids, MeasuredText, byte_length
from thereafter.text.tokenizers.forms import SEEN_TWICE, FormTokenizer

Bytes = NDArray[np.uint8]

_NEWLINE = 10
_SPACE = np.array([chr(code).isspace() for code in range(256)])  # as `str.split` has it, for codes below 128
_SPACE[128:] = False


class WordTable:
    """The forms of a vocabulary as a hash table over their bytes (open addressing, FNV-1a, half empty).

    `forms[k]` has the id `ids[k]`. Other words are unknown, id 0; a newline has the id `line_end`.
    """

    def __init__(self, forms: list[str], ids: list[int], line_end: int) -> None:
        spelled = [form.encode("utf-8") for form in forms]
        self._blob = np.frombuffer(b"".join(spelled), dtype=np.uint8)
        self._ends = np.cumsum([0, *map(len, spelled)], dtype=np.int64)
        self._ids = np.array(ids, dtype=np.int32)
        self._line_end = line_end
        size = 1 << max(4, (2 * len(forms)).bit_length())
        self._table = _fill_table(self._blob, self._ends, size)

    def encode(self, text: str) -> tuple[Ids, NDArray[np.int64]]:
        """The ids of an ASCII text, and where its unknown words begin and end, [U, 2]."""
        data = np.frombuffer(text.encode("ascii"), dtype=np.uint8)
        ids, borders = _encode(data, _SPACE, self._blob, self._ends, self._ids, self._table, self._line_end)
        return ids, borders


@compiled
def _fill_table(blob: Bytes, ends: NDArray[np.int64], size: int) -> Ids:
    table = np.full(size, -1, dtype=np.int32)
    for k in range(len(ends) - 1):
        code = np.uint64(14695981039346656037)
        for i in range(ends[k], ends[k + 1]):
            code = (code ^ np.uint64(blob[i])) * np.uint64(1099511628211)
        slot = np.int64(code & np.uint64(size - 1))
        while table[slot] >= 0:
            slot = (slot + 1) & (size - 1)
        table[slot] = k
    return table


@compiled
def _encode(
    data: Bytes,
    space: NDArray[np.bool_],
    blob: Bytes,
    ends: NDArray[np.int64],
    form_ids: Ids,
    table: Ids,
    line_end: int,
) -> tuple[Ids, NDArray[np.int64]]:
    total, size = len(data), len(table)
    ids = np.empty(total, dtype=np.int32)
    borders = np.empty((total // 2 + 1, 2), dtype=np.int64)
    count = unknown = i = 0
    while i < total:
        if data[i] == _NEWLINE:
            ids[count] = line_end
            count += 1
            i += 1
            continue
        if space[data[i]]:
            i += 1
            continue
        begin = i
        code = np.uint64(14695981039346656037)
        while i < total and not space[data[i]]:
            code = (code ^ np.uint64(data[i])) * np.uint64(1099511628211)
            i += 1
        slot = np.int64(code & np.uint64(size - 1))
        form = -1
        while form < 0 and table[slot] >= 0:
            k = table[slot]
            if ends[k + 1] - ends[k] == i - begin:
                form = k
                for j in range(i - begin):
                    if blob[ends[k] + j] != data[begin + j]:
                        form = -1
                        break
            slot = (slot + 1) & (size - 1)
        ids[count] = form_ids[form] if form >= 0 else 0
        if ids[count] == 0:
            borders[unknown, 0], borders[unknown, 1] = begin, i
            unknown += 1
        count += 1
    return ids[:count].copy(), borders[:unknown].copy()


_LITERAL_END = re.compile(r"(?<!\S)</s>(?!\S)")
_LITERAL_MARK = re.compile(r"(?<!\S)</?s>(?!\S)")
WORTH_COMPILING = 4096  # characters
_ASCII_SPACE = bytes(code for code in range(128) if chr(code).isspace())  # where str.split cuts
_AROUND_NEWLINE = re.compile(r" ?\n ?")


class WordTokenizer(FormTokenizer):
    """`line.split()` and `</s>`. The literal `<unk>` in a text is the unknown token.

    The literal words `<s>` and `</s>` are the names of special tokens and never enter the vocabulary: they are unknown
    words like any other, and their spelling is charged.
    """

    name: ClassVar[str] = "word"
    context: ClassVar[Literal["line", "stream"]] = "line"
    reserved: ClassVar[tuple[str, ...]] = (UNKNOWN, LINE_END)
    never_kept: ClassVar[tuple[str, ...]] = (START,)

    @classmethod
    def cut(cls, chunks: Iterable[str]) -> Iterator[str]:
        return recut(chunks, WORD_TAIL)

    @classmethod
    def forms_of(cls, group: str) -> list[str]:
        if LINE_END in group:  # a literal one is not a line end; as <s> it is just as unknown
            group = _LITERAL_END.sub(START, group)
        return group.replace("\n", " </s> ").split()

    @classmethod
    def closing_forms(cls, last: str) -> list[str]:
        return [LINE_END] if last not in ("", "\n") else []

    @classmethod
    def is_form(cls, form: str) -> bool:
        return form.split() == [form] and form != START

    @classmethod
    def _least(cls, min_count: int | None, reserved: dict[str, int]) -> int:
        """A text that spells out `<unk>` has had its rare words taken out already: every form of it is kept."""
        if min_count is not None:
            return min_count
        return 1 if reserved[UNKNOWN] else SEEN_TWICE

    def measure(self, group: str, inside_line: bool) -> MeasuredText:
        ids, unknown = self.ids_and_unknown(group)
        ends = ids == 1
        lines = int(np.count_nonzero(ends))
        charged = [form for form in unknown if form != UNKNOWN] if UNKNOWN in unknown else unknown
        after_end = np.concatenate(([not inside_line], ends[:-1])) if len(ids) else ends
        # a newline for each line, a space before each word inside one
        between = lines + int(np.count_nonzero(~ends & ~after_end))
        if group.isascii():
            characters = character_bytes = len(group.encode().translate(None, _ASCII_SPACE))
        else:
            text = "".join(group.split())
            characters, character_bytes = len(text), byte_length(text)
        return MeasuredText(ids, lines, characters + between, character_bytes + between, len(unknown), charged)

    def ids_of(self, group: str) -> Ids:
        if self._by_table(group):
            return self._table.encode(group)[0]
        return super().ids_of(group)

    def ids_and_unknown(self, group: str) -> tuple[Ids, list[str]]:
        """See the base class; a literal `<unk>` is among the unknown words."""
        if self._by_table(group):
            ids, borders = self._table.encode(group)
            return ids, [group[begin:end] for begin, end in borders.tolist()]
        ids, unknown = super().ids_and_unknown(group)
        marks = _LITERAL_MARK.findall(group) if START in unknown else []
        if LINE_END in marks:
            spellings = iter(marks)
            unknown = [next(spellings) if form == START else form for form in unknown]
        return ids, unknown

    def _by_table(self, group: str) -> bool:
        """Whether the compiled look-up is used: for enough ASCII text, if there is a compiler."""
        return len(group) >= WORTH_COMPILING and group.isascii() and available()

    @cached_property
    def _table(self) -> WordTable:
        ordinary = self.ordinary_forms
        return WordTable(ordinary, list(range(len(self.reserved), len(self.vocabulary))), self.line_end_id)

    def token_ends(self, group: str, measured: MeasuredText) -> NDArray[np.int64]:
        points = code_points(group)
        ends = word_ends(points)
        return ends if group.isascii() else byte_ends(points)[ends - 1]

    def closing(self) -> MeasuredText:
        return MeasuredText(np.array([1], np.int32), lines=1, chars=1, bytes=1)

    @property
    def line_end_id(self) -> int:
        return 1

    def decode(self, ids: ArrayLike) -> str:
        return self.continuation("", ids)

    def piece(self, id: int) -> str:
        return "\n" if id == 1 else super().piece(id)

    def continuation(self, prompt: str, ids: ArrayLike) -> str:
        """The prompt and the words of ids with single spaces between, none at the beginning of a line."""
        numbers = self.check_ids(ids)
        if not numbers:
            return prompt
        words = ["\n" if number == 1 else self.vocabulary.forms[number] for number in numbers]
        text = _AROUND_NEWLINE.sub("\n", " ".join(words))
        glue = " " if prompt and not prompt[-1].isspace() and words[0] != "\n" else ""
        return prompt + glue + text

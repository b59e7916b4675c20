"""Words of an ASCII text to ids in one compiled pass, without a string for each known word.

`WordTokenizer.forms_of` and `look_up` do the same in plain Python, for all other texts too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thereafter.base.compiled import compiled

Ids = NDArray[np.int32]
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
    made = unknown = i = 0
    while i < total:
        if data[i] == _NEWLINE:
            ids[made] = line_end
            made += 1
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
        ids[made] = form_ids[form] if form >= 0 else 0
        if ids[made] == 0:
            borders[unknown, 0], borders[unknown, 1] = begin, i
            unknown += 1
        made += 1
    return ids[:made].copy(), borders[:unknown].copy()

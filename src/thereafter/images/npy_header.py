"""The header of a .npy file: a Python dictionary as text, of a type, an order of axes and a shape.

numpy reads it by `ast.literal_eval`. In CPython 3.11 two threads that do so at once can get a SystemError
(CPython issue 106905), and pictures are read by the threads of a server. Here one pattern reads it.
"""

from __future__ import annotations

import re

import numpy as np

_VALUES = {"descr": r"'[^']*'", "fortran_order": "True|False", "shape": r"\([\d,L ]*\)"}
_ENTRY = re.compile(r"\s*'(\w{1,20})' ?: ?('[^']*'|True|False|\([\d,L ]*\)) ?(?:,|(?=\}))")

_MOST_AXES = 32
"""What numpy 1 can hold; numpy 2 holds 64."""


def parse_header(header: bytes) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    """Shape, whether the first axis runs fastest, and type. A header that is none is a ValueError or a TypeError."""
    text = header.decode("latin-1").strip()
    if not text.startswith("{"):
        raise ValueError("no dictionary")
    entries: dict[str, str] = {}
    place = 1
    while entry := _ENTRY.match(text, place):
        entries[entry[1]] = entry[2]
        place = entry.end()
    if text[place:].strip() != "}" or entries.keys() != _VALUES.keys():
        raise ValueError(f"expected descr, fortran_order and shape, got {text[:60]}")
    for key, pattern in _VALUES.items():
        if not re.fullmatch(pattern, entries[key]):
            raise ValueError(f"{key} is {entries[key][:40]}")
    # Python 2 wrote long integers as 3L
    shape = tuple(int(size) for size in re.findall(r"\d+", entries["shape"]))
    if len(shape) > _MOST_AXES:
        raise ValueError(f"{len(shape):,} axes, at most {_MOST_AXES} are possible")
    return shape, entries["fortran_order"] == "True", np.dtype(entries["descr"][1:-1])

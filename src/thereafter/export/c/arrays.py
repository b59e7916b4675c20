"""The parts of a C file: constant arrays, so in read-only memory, and functions of `parts.c` with those they call."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_A_LINE = 12
_AT_ONCE = 12 * 4096


def array_text(name: str, values: NDArray[np.number], kind: str) -> Iterator[str]:
    """The definition of an array, in pieces: `kind` is its type in C.

    Nine digits are enough to bring every float32 back to the bit.
    """
    flat = np.asarray(values).reshape(-1)
    form = "%.9g" if flat.dtype.kind == "f" else "%d"
    shape = " * ".join(str(size) for size in np.shape(values)) or "1"
    yield f"static const {kind} {name}[{shape}] = {{\n"
    line = ",".join([form] * _A_LINE) + ",\n"
    for begin in range(0, len(flat), _AT_ONCE):
        piece = flat[begin : begin + _AT_ONCE].tolist()
        lines = line * (len(piece) // _A_LINE) + ",".join([form] * (len(piece) % _A_LINE))
        yield lines % tuple(piece)
    yield "};\n"


def floats(name: str, values: NDArray[np.floating]) -> Iterator[str]:
    """Floats; an infinity is written as C writes it."""
    if np.isfinite(values).all():
        yield from array_text(name, values, "float")
        return
    for piece in array_text(name, values, "float"):
        yield piece.replace("-inf", "-INFINITY")


def ints(name: str, values: NDArray[np.integer]) -> Iterator[str]:
    return array_text(name, values, "int")


def bytes_text(name: str, values: bytes) -> Iterator[str]:
    return array_text(name, np.frombuffer(values or b"\0", np.uint8), "unsigned char")


_HEAD = re.compile(r"^/\* --- (\w+)(?:: ([\w ]+))? \*/\n", re.MULTILINE)


@cache
def parts() -> dict[str, tuple[tuple[str, ...], str]]:
    """Each function by name: the functions it calls, and its text.

    >>> parts()["minlstm"][0]
    ('sigmoid', 'softplus')
    """
    text = (Path(__file__).parent / "parts.c").read_text(encoding="utf-8")
    heads = list(_HEAD.finditer(text))
    ends = [*(head.start() for head in heads[1:]), len(text)]
    return {
        head[1]: (tuple((head[2] or "").split()), text[head.end() : end].strip() + "\n")
        for head, end in zip(heads, ends, strict=True)
    }


def functions(names: set[str]) -> str:
    """The text of these functions and of all they call, in the order of the file."""
    known, wanted = parts(), set(names)
    for name in names:
        wanted |= set(known[name][0])
    return "\n".join(text for name, (_, text) in known.items() if name in wanted)

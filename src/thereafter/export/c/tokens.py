"""Tables in C: constant arrays, so in read-only memory, and with them the vocabulary of a model and its tokenizer.

The vocabulary says what each token appends; characters and bytes are also cut from a text. Functions come from
`parts.c`, with those they call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from string import Template

import numpy as np
from numpy.typing import NDArray

from thereafter.export.parts import WordingPlan

ENCODED = ("char", "byte")
"""The tokenizers that are written in C."""


def tokens_text(name: str, wording: WordingPlan) -> Iterator[str]:
    """Tables and functions of a vocabulary."""
    ends = np.cumsum([0, *map(len, wording.pieces)])
    spelled = np.frombuffer(b"".join(wording.pieces) or b"\0", np.uint8)
    yield from array_text("pieces", spelled, "unsigned char")
    yield from ints("piece_ends", ends)
    yield filled("decode", name=name, size=wording.size)
    if wording.tokens not in ENCODED:
        return
    if wording.tokens == "char":
        points = {ord(form): token for token, form in enumerate(wording.forms) if token != wording.unknown}
        yield from ints("character_points", np.array(sorted(points)))
        yield from ints("character_tokens", np.array([points[point] for point in sorted(points)]))
        yield filled("put_character", known=len(points), unknown=wording.unknown)
    else:
        yield filled("put_bytes")
    yield from _encode_text(name, wording)


def _encode_text(name: str, wording: WordingPlan) -> Iterator[str]:
    """Text to tokens: read as files are (`text/reading.py`), normalised as the training text was."""
    used, flags, lower, letters = {"next_point"}, "", "", ""
    if wording.lower:
        (cased, passed), changed = cased_ranges(), lower_ranges()
        for table, ranges in (("lower_points", changed), ("cased_points", cased), ("passed_points", passed)):
            yield from ints(table, ranges)
        used |= {"in_ranges", "lower_case", "cased_next"}
        flags += ", cased = 0"
        lower = filled("lower", lower=len(changed), cased=len(cased), passed=len(passed))
    if wording.letters_only:
        yield from ints("letter_points", letter_ranges())
        used.add("in_ranges")
        flags += ", spaced = 0"
        letters = filled("letters", letters=len(letter_ranges()))
    yield "\n" + functions(used)
    yield filled("encode", name=name, flags=flags, lower=lower, letters=letters)


SIGMA, FINAL_SIGMA = 0x3A3, 0x3C2
DOTTED = 0x130
"""Its lower case, unlike all others, is two characters: i and U+0307."""
_CODE_POINTS = 0x110000
_SPACE, _A = ord(" "), ord("A")
_LETTER_RUNS = re.compile(r"[^\W\d_]+")
Ints = NDArray[np.int64]


@cache
def lower_ranges() -> Ints:
    """Characters with another lower case, [N, 4]: the first, the last, the step between them, what is added.

    >>> lower_ranges()[0].tolist(), DOTTED in lower_ranges()
    ([65, 90, 1, 32], False)
    """
    points = np.delete(np.arange(_CODE_POINTS), DOTTED)
    shifts = _lowered(np.stack([points, np.full_like(points, _SPACE)], 1))[:, 0] - points
    changed = np.flatnonzero(shifts)
    ranges: list[list[int]] = []
    for point, shift in zip(points[changed].tolist(), shifts[changed].tolist(), strict=True):
        first, last, step, added = ranges[-1] if ranges else (0, 0, 0, 0)
        if added == shift and point - last in ((1, 2) if first == last else (step,)):
            ranges[-1] = [first, point, point - last, added]
        else:
            ranges.append([point, point, 1, shift])
    return np.array(ranges)


@cache
def cased_ranges() -> tuple[Ints, Ints]:
    """Characters that are cased, and those that are passed over beside a sigma: each [N, 2], the first and the last.

    A capital sigma is final where a cased character stands before it and none after it, others passed over.
    """
    points = np.delete(np.arange(_CODE_POINTS), DOTTED)
    sigma, space, letter = (np.full_like(points, point) for point in (SIGMA, _SPACE, _A))
    cased = _lowered(np.stack([points, sigma, space], 1))[:, 1] == FINAL_SIGMA
    passed = _lowered(np.stack([letter, points, sigma, space], 1))[:, 2] == FINAL_SIGMA
    return _ranges(np.append(points[cased], DOTTED)), _ranges(points[passed & ~cased])


@cache
def letter_ranges() -> Ints:
    """Characters that `letters_only` keeps, [N, 2]: the first and the last."""
    every = "".join(map(chr, range(_CODE_POINTS)))
    return np.array([(run.start(), run.end() - 1) for run in _LETTER_RUNS.finditer(every)])


def _lowered(points: Ints) -> Ints:
    """The lower case of all rows as one text, in the same shape."""
    text = points.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass").lower()
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4").astype(np.int64).reshape(points.shape)


def _ranges(points: Ints) -> Ints:
    """Runs of code points that follow each other."""
    points = np.sort(points)
    starts = np.flatnonzero(np.diff(points, prepend=-2) > 1)
    return np.stack([points[starts], points[np.append(starts[1:], len(points)) - 1]], 1)


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


_HEAD = re.compile(r"^/\* --- (\w+)(?:: ([\w ]+))? \*/\n", re.MULTILINE)


@cache
def sections(file: str) -> dict[str, tuple[str, str]]:
    """The sections of a file beside this one by name: the functions that each calls, and its text."""
    text = (Path(__file__).parent / file).read_text(encoding="utf-8")
    heads = list(_HEAD.finditer(text))
    ends = [*(head.start() for head in heads[1:]), len(text)]
    return {head[1]: (head[2] or "", text[head.end() : end]) for head, end in zip(heads, ends, strict=True)}


def filled(template: str, **values: object) -> str:
    """A text of `templates.c` with these values in it."""
    return Template(sections("templates.c")[template][1]).substitute(values)


def functions(names: set[str]) -> str:
    """The text of these functions of `parts.c` and of all they call, in the order of the file."""
    parts = sections("parts.c")
    wanted = names.union(*(parts[name][0].split() for name in names))
    return "\n".join(text.strip() + "\n" for name, (_, text) in parts.items() if name in wanted)

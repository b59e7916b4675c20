"""The lines of a file: decoded and decompressed by `text/reading.py`, cut at newlines only.

Characters such as U+2028 or U+0085 do not end a line here (they do for `str.splitlines`), so that line numbers are
those of an editor and parallel files stay aligned.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

from thereafter.text.reading import read_chunks


def read_lines(
    path: str | os.PathLike[str], *, encoding: str | None = None, advance: Callable[[float], None] | None = None
) -> Iterator[str]:
    """The lines of a file without their newlines; the last line needs none."""
    return lines_of(read_chunks(path, encoding=encoding, advance=advance))


def lines_of(chunks: Iterable[str], *, ends: bool = False) -> Iterator[str]:
    """The lines of a text that comes in pieces; with `ends` each has its newline, if it had one.

    >>> list(lines_of(["so lo", "ng\\nand", " thanks"]))
    ['so long', 'and thanks']
    """
    end = "\n" if ends else ""
    unfinished: list[str] = []  # a list, so that a line of many chunks is joined only once
    for chunk in chunks:
        first, *others = chunk.split("\n")
        unfinished.append(first)
        if others:
            yield "".join(unfinished) + end
            yield from (line + end for line in others[:-1]) if ends else others[:-1]
            unfinished = [others[-1]]
    if last := "".join(unfinished):
        yield last


def place(path: str | os.PathLike[str], line: int) -> str:
    """The name of a line in errors.

    >>> place("train.tsv", 12)
    'line 12 of train.tsv'
    """
    return f"line {line} of {os.fspath(path)}"

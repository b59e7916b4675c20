"""Subtitles, .srt and .vtt: what is said, one cue a line; times, numbers, notes and tags are left out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from thereafter.text.documents.hypertext import unescape
from thereafter.text.lines import lines_of
from thereafter.text.reading import read_chunks

_TIMES = re.compile(r"\s*(?:\d+:)?\d{1,2}:\d{2}[.,]\d{1,3}\s*-->\s*(?:\d+:)?\d{1,2}:\d{2}[.,]\d{1,3}")
_TAGS = re.compile(r"</?[A-Za-z][^<>]*>|<\d[\d:.]*>|\{\\[^{}]*\}")
_ALONE = ("WEBVTT", "NOTE", "STYLE", "REGION")


def read_subtitles(path: Path, *, encoding: str | None, advance: Callable[[float], None] | None) -> Iterator[str]:
    """The text of a file of subtitles, a cue a piece."""
    return text_of_cues(lines_of(read_chunks(path, encoding=encoding, advance=advance)))


def text_of_cues(lines: Iterable[str]) -> Iterator[str]:
    """The text of cues, a line each with its newline.

    >>> "".join(text_of_cues(["1", "00:00:01,000 --> 00:00:02,500", "<i>So long,</i>", "and thanks.", "", "2"]))
    'So long, and thanks.\\n'
    """
    block: list[str] = []
    for line in lines:
        if line.strip():
            block.append(line)
        else:
            yield from _cue(block)
            block = []
    yield from _cue(block)


def _cue(block: list[str]) -> Iterator[str]:
    """The text of one block between blank lines, if there is any."""
    if not block or block[0].split(maxsplit=1)[0] in _ALONE:
        return
    times = [at for at, line in enumerate(block) if _TIMES.match(line)]
    if not times:
        return
    for begin, end in zip(times, [*times[1:], None], strict=True):  # files without blank lines have several cues here
        lines = block[begin + 1 : end]
        if end is not None and lines and lines[-1].strip().isdecimal():
            lines = lines[:-1]  # the number of the next cue
        text = " ".join(" ".join(unescape(_TAGS.sub("", line)).split()) for line in lines).strip()
        if text:
            yield text + "\n"

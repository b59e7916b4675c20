"""Text with light markup: Markdown, and subtitles.

Of Markdown the markup is left out, the lines of a paragraph are joined, and code stays as it is. Headings and items of
lists are lines of their own, cells of a table row are separated by tabs. What the common dialects share is understood
(CommonMark's blocks, GitHub's tables); anything else is text.

Of subtitles, .srt and .vtt, the spoken text is one cue per line; times, numbers, notes and tags are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

from thereafter.text.documents.hypertext import unescape
from thereafter.text.reading import lines_of, read_chunks

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^`]*)$")
_HEADING = re.compile(r" {0,3}#{1,6}(?=[ \t]|$)")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*$")
_RULE = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$")
_ITEM = re.compile(r"[ \t]*(?:[-*+]|(\d{1,9})[.)])(?:[ \t]+(?:\[[ xX]\][ \t]+)?|$)")
_QUOTE = re.compile(r"^ {0,3}(?:>[ \t]?)+")
_REFERENCE = re.compile(r""" {0,3}\[[^\]]+\]:[ \t]*(?:<[^<>]*>|\S+)(?:[ \t]+(?:"[^"]*"|'[^']*'|\([^()]*\)))?[ \t]*$""")
_TABLE_RULE = re.compile(r"[ \t]*+\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*+$")
_CELL_BORDER = re.compile(r"(?<!\\)\|")
_CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
_COMMENT = re.compile(rf"{_CODE.pattern}|(?P<comment><!--.*?(?P<end>-->|$))")  # none inside of code
_IMAGE = re.compile(r"!\[([^\[\]]*)\](?:\([^()\s]*(?:\([^()]*\)[^()\s]*)*(?:\s[^()]*)?\)|\[[^\[\]]*\])?")
_LINK = re.compile(r"\[([^\[\]]+)\](?:\([^()\s]*(?:\([^()]*\)[^()\s]*)*(?:\s[^()]*)?\)|\[[^\[\]]*\])")
_FOOTNOTE = re.compile(r"\[\^[^\[\]\s]+\]:?")
_ADDRESS = re.compile(r"<((?:https?|mailto|ftp):[^\s<>]+|[^\s<>@]+@[^\s<>@]+)>")
_TAG = re.compile(r"</?[A-Za-z][\w-]*(?:\s[^<>]*)?/?>")
_MARKED = re.compile(r"[`\\<\[&*_~]")
_STRONG = re.compile(r"\*\*|__|~~")
_STARRED = re.compile(r"\*(?=\S)([^*]+?)(?<=\S)\*")
_UNDERSCORED = re.compile(r"(?<![^\W_])_(?=\S)([^_]+?)(?<=\S)_(?![^\W_])")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_PLACE, _PLACES = 0xF0000, 0x20000  # private-use characters stand for what must not be parsed again
_PRIVATE = re.compile("[\U000f0000-\U0010ffff]")


def read_markdown(path: Path, *, encoding: str | None, advance: Callable[[float], None] | None) -> Iterator[str]:
    """The text of a Markdown file, one block per piece."""
    return text_of_markdown(lines_of(read_chunks(path, encoding=encoding, advance=advance)))


def text_of_markdown(lines: Iterable[str]) -> Iterator[str]:
    """The text of lines of Markdown, each line with its newline.

    >>> "".join(text_of_markdown(["# A *title*", "", "so", "[long](there.html)", "- `x_1`"]))
    'A title\\nso long\\nx_1\\n'
    """
    return _MarkdownReader().read(_without_comments(_without_front_matter(lines)))


class _MarkdownReader:
    """Walks the lines and keeps the state of the current block."""

    def __init__(self) -> None:
        self._paragraph: list[str] = []
        self._fence = ""
        self._blanks = 0
        self._in_code = False
        self._in_list = False
        self._blank_before = True

    def read(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            yield from self._line(line)
        yield from self._end_paragraph()

    def _line(self, line: str) -> Iterator[str]:
        if self._fence:
            yield from self._fenced(line)
            return
        if not line.strip():
            self._blanks += self._in_code
            self._blank_before = True
            yield from self._end_paragraph()
            return
        if self._is_indented_code(line):
            yield "\n" * self._blanks + line[4 if line.startswith("    ") else 1 :].rstrip() + "\n"
            self._in_code, self._blanks = True, 0
            return
        self._in_code, self._blanks = False, 0
        yield from self._block(line)
        self._blank_before = False

    def _block(self, line: str) -> Iterator[str]:
        line = _QUOTE.sub("", line, count=1)
        fence, heading = _FENCE.match(line.lstrip() if self._in_list else line), _HEADING.match(line)
        if fence:
            yield from self._end_paragraph()
            self._fence = fence[1]
        elif heading:
            yield from self._end_paragraph()
            yield from _whole_line(_plain(_title(line[heading.end() :])))
            self._in_list = False
        elif self._is_rule(line):
            yield from self._end_paragraph()
        elif line.lstrip().startswith("|") and line.count("|") > 1:
            yield from self._end_paragraph()
            yield "\t".join(_plain(cell.strip()) for cell in _cells(line)) + "\n"
        elif (item := _ITEM.match(line)) and self._begins_item(item[1]):
            yield from self._end_paragraph()
            self._in_list = True
            self._paragraph = [line[item.end() :]]
        elif not self._paragraph and _REFERENCE.match(line) and not line.lstrip().startswith("[^"):
            pass
        else:
            if self._blank_before and not line[:1].isspace():
                self._in_list = False
            self._paragraph.append(line)

    def _begins_item(self, number: str | None) -> bool:
        """Whether a line is the item of a list; `1984.` in the middle of a paragraph is none, only `1.` begins one."""
        if number is None or not self._paragraph or int(number) == 1:
            return True
        return self._in_list and len(number) < 4

    def _is_rule(self, line: str) -> bool:
        """A line that only separates: below a heading, between parts, in a table."""
        if _RULE.match(line) or (self._paragraph and _UNDERLINE.match(line)):
            return True
        return "|" in line and _TABLE_RULE.match(line) is not None

    def _fenced(self, line: str) -> Iterator[str]:
        closing = line.strip()
        if closing and set(closing) == {self._fence[0]} and len(closing) >= len(self._fence):
            self._fence = ""
        else:
            yield line + "\n"

    def _is_indented_code(self, line: str) -> bool:
        """Four spaces after a blank line begin code, unless they continue the item of a list."""
        indented = line.startswith(("    ", "\t"))
        return indented and not self._in_list and not self._paragraph and (self._blank_before or self._in_code)

    def _end_paragraph(self) -> Iterator[str]:
        if not self._paragraph:
            return
        lines, self._paragraph = self._paragraph, []
        text: list[str] = []
        for number, line in enumerate(lines):
            last = number == len(lines) - 1
            broken = not last and (line.endswith("  ") or (line.endswith("\\") and not line.endswith("\\\\")))
            text.append(line.strip().removesuffix("\\" if broken else "") + ("" if last else "\n" if broken else " "))
        for line in _plain("".join(text)).split("\n"):
            yield from _whole_line(line)


def _whole_line(text: str) -> Iterator[str]:
    if text.strip():
        yield text.strip() + "\n"


def _plain(text: str) -> str:
    """A run of text without its markup; code and escaped characters are put aside while the rest is looked at."""
    if not _MARKED.search(text):
        return text
    aside: list[str] = []

    def put_aside(content: str) -> str:
        aside.append(content)
        return chr(_PLACE + len(aside) - 1) if len(aside) <= _PLACES else content

    def put_back(content: str) -> str:
        return _PRIVATE.sub(lambda hit: aside[ord(hit[0]) - _PLACE], content)

    text = _PRIVATE.sub(lambda hit: put_aside(hit[0]), text)
    text = _CODE.sub(lambda hit: put_aside(put_back(hit[2].strip() or hit[2])), text)
    text = _ESCAPE.sub(lambda hit: put_aside(hit[1]), text)
    text = _ADDRESS.sub(lambda hit: put_aside(put_back(hit[1])), text)
    text = _FOOTNOTE.sub("", text)
    text = _LINK.sub(r"\1", _IMAGE.sub(r"\1", text))
    text = _LINK.sub(r"\1", text)  # a picture inside a link
    text = unescape(_TAG.sub("", text))
    text = _without_strong(_without_strong(text))
    return put_back(_UNDERSCORED.sub(r"\1", _STARRED.sub(r"\1", text)))


def _without_strong(text: str) -> str:
    """Without pairs of two stars, underscores or tildes: one with a word after it, and the next with one before it."""
    if not _STRONG.search(text):
        return text
    pairs: list[int] = []
    begun: dict[str, int] = {}
    for mark in _STRONG.finditer(text):
        kind, at = mark[0], mark.start()
        if kind not in begun:
            if text[mark.end() : mark.end() + 1].strip():
                begun[kind] = at
        elif at > begun[kind] + 2 and not text[at - 1].isspace():
            pairs += [begun.pop(kind), at]
    pieces, last = [], 0
    for at in sorted(pairs):
        pieces.append(text[last:at])
        last = at + 2
    return "".join(pieces) + text[last:]


def _title(text: str) -> str:
    """A heading without the signs that may close it."""
    title = text.strip(" \t")
    bare = title.rstrip("#")
    return title if bare and not bare.endswith((" ", "\t")) else bare


def _cells(line: str) -> list[str]:
    row = line.strip()
    row = row.removeprefix("|")
    row = row[:-1] if row.endswith("|") and not row.endswith("\\|") else row
    return _CELL_BORDER.split(row)


def _without_front_matter(lines: Iterable[str]) -> Iterator[str]:
    """The lines after a block of settings between two lines of dashes at the very beginning."""
    rows = iter(lines)
    first = next(rows, None)
    if first is None:
        return
    if first.rstrip() != "---":
        yield first
        yield from rows
        return
    block: list[str] = []
    for line in rows:
        if line.rstrip() in ("---", "..."):
            block = []
            break
        block.append(line)
        if not line.strip() or len(block) > 200:  # a horizontal rule, not front matter
            break
    yield from block
    yield from rows


def _without_comments(lines: Iterable[str]) -> Iterator[str]:
    """Lines without HTML comments outside of fenced code; a comment may span many lines."""
    inside = False
    fenced = False
    for line in lines:
        if not inside and _FENCE.match(line):
            fenced = not fenced
        if fenced:
            yield line
            continue
        if inside:
            _, closed, line = line.partition("-->")
            if not closed:
                continue
            inside = False
            if not line.strip():
                continue
        if "<!--" in line:
            comments = [match for match in _COMMENT.finditer(line) if match["comment"]]
            inside = bool(comments) and not comments[-1]["end"]
            line = _COMMENT.sub(lambda hit: "" if hit["comment"] else hit[0], line)
            if comments and not line.strip():
                continue
        yield line


_TIMES = re.compile(r"\s*(?:\d+:)?\d{1,2}:\d{2}[.,]\d{1,3}\s*-->\s*(?:\d+:)?\d{1,2}:\d{2}[.,]\d{1,3}")
_TAGS = re.compile(r"</?[A-Za-z][^<>]*>|<\d[\d:.]*>|\{\\[^{}]*\}")
_ALONE = ("WEBVTT", "NOTE", "STYLE", "REGION")


def read_subtitles(path: Path, *, encoding: str | None, advance: Callable[[float], None] | None) -> Iterator[str]:
    """The text of a file of subtitles, one cue per piece."""
    return text_of_cues(lines_of(read_chunks(path, encoding=encoding, advance=advance)))


def text_of_cues(lines: Iterable[str]) -> Iterator[str]:
    """The text of cues, one line per cue with its newline.

    >>> "".join(text_of_cues(["1", "00:00:01,000 --> 00:00:02,500", "<i>So long,</i>", "and thanks.", "", "2"]))
    'So long, and thanks.\\n'
    """
    block: list[str] = []
    for line in chain(lines, [""]):
        if line.strip():
            block.append(line)
        else:
            yield from _cue(block)
            block = []


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

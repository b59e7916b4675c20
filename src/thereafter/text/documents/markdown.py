"""Markdown as text: markup is left out, the lines of a paragraph are joined, code stays as it is.

Headings and items of lists are lines of their own, cells of a table row are separated by tabs. What the common
dialects share is understood (CommonMark's blocks, GitHub's tables); anything else is text.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from thereafter.text.lines import lines_of
from thereafter.text.reading import read_chunks

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^`]*)$")
_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*$")
_RULE = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$")
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]+(?:\[[ xX]\][ \t]+)?|$)")
_QUOTE = re.compile(r"^ {0,3}(?:>[ \t]?)+")
_REFERENCE = re.compile(r" {0,3}\[[^\]]+\]:[ \t]*\S+")
_TABLE_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_CELL_BORDER = re.compile(r"(?<!\\)\|")
_COMMENT = re.compile(r"<!--.*?-->", re.S)
_CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
_IMAGE = re.compile(r"!\[([^\[\]]*)\](?:\([^()\s]*(?:\([^()]*\)[^()\s]*)*(?:\s+[^()]*)?\)|\[[^\[\]]*\])?")
_LINK = re.compile(r"\[([^\[\]]+)\](?:\([^()\s]*(?:\([^()]*\)[^()\s]*)*(?:\s+[^()]*)?\)|\[[^\[\]]*\])")
_FOOTNOTE = re.compile(r"\[\^[^\]\s]+\]:?")
_ADDRESS = re.compile(r"<((?:https?|mailto|ftp):[^\s<>]+|[^\s<>@]+@[^\s<>@]+)>")
_TAG = re.compile(r"</?[A-Za-z][\w-]*(?:\s[^<>]*)?/?>")
_STRONG = re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1|~~(?=\S)(.+?)(?<=\S)~~")
_STARRED = re.compile(r"\*(?=\S)([^*]+?)(?<=\S)\*")
_UNDERSCORED = re.compile(r"(?<![^\W_])_(?=\S)([^_]+?)(?<=\S)_(?![^\W_])")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_PLACE = 0xE000  # characters of private use stand for what must not be looked at again


def read_markdown(path: Path, *, encoding: str | None, advance: Callable[[float], None] | None) -> Iterator[str]:
    """The text of a Markdown file, a block a piece."""
    return text_of_markdown(lines_of(read_chunks(path, encoding=encoding, advance=advance)))


def text_of_markdown(lines: Iterable[str]) -> Iterator[str]:
    """The text of lines of Markdown, each line with its newline.

    >>> "".join(text_of_markdown(["# A *title*", "", "so", "[long](there.html)", "- `x_1`"]))
    'A title\\nso long\\nx_1\\n'
    """
    return _MarkdownReader().read(_without_comments(_without_front_matter(lines)))


class _MarkdownReader:
    """Walks the lines and keeps what the block at hand needs."""

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
            yield from _whole_line(heading[1] or "")
            self._in_list = False
        elif self._is_rule(line):
            yield from self._end_paragraph()
        elif line.lstrip().startswith("|") and line.count("|") > 1:
            yield from self._end_paragraph()
            yield "\t".join(_plain(cell.strip()) for cell in _cells(line)) + "\n"
        elif item := _ITEM.match(line):
            yield from self._end_paragraph()
            self._in_list = True
            self._paragraph = [line[item.end() :]]
        elif not self._paragraph and _REFERENCE.match(line) and not line.lstrip().startswith("[^"):
            pass
        else:
            if self._blank_before and not line[:1].isspace():
                self._in_list = False
            self._paragraph.append(line)

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
            yield from _whole_line(line, plain=True)


def _whole_line(text: str, *, plain: bool = False) -> Iterator[str]:
    shown = (text if plain else _plain(text)).strip()
    if shown:
        yield shown + "\n"


def _plain(text: str) -> str:
    """A run of text without its markup; code and escaped characters are put aside while the rest is looked at."""
    aside: list[str] = []

    def put_aside(content: str) -> str:
        aside.append(content)
        return chr(_PLACE + len(aside) - 1) if len(aside) <= 0x1900 else content

    text = _CODE.sub(lambda hit: put_aside(hit[2].strip() or hit[2]), text)
    text = _ESCAPE.sub(lambda hit: put_aside(hit[1]), text)
    text = _ADDRESS.sub(lambda hit: put_aside(hit[1]), text)
    text = _FOOTNOTE.sub("", text)
    text = _LINK.sub(r"\1", _IMAGE.sub(r"\1", text))
    text = _LINK.sub(r"\1", text)  # a picture inside a link
    text = html.unescape(_TAG.sub("", text))
    for pattern in (_STRONG, _STRONG, _STARRED, _UNDERSCORED):
        text = pattern.sub(lambda hit: next(group for group in hit.groups()[::-1] if group is not None), text)
    for number, content in enumerate(aside[:0x1900]):
        text = text.replace(chr(_PLACE + number), content, 1)
    return text


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
    kept: list[str] = []
    for line in rows:
        if line.rstrip() in ("---", "..."):
            kept = []
            break
        kept.append(line)
        if not line.strip() or len(kept) > 200:  # a rule, and not settings
            break
    yield from kept
    yield from rows


def _without_comments(lines: Iterable[str]) -> Iterator[str]:
    """Lines without HTML comments outside of fenced code; a comment may go over many lines."""
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
        if "<!--" in line and "`" not in line:
            line = _COMMENT.sub("", line)
            before, opened, _ = line.partition("<!--")
            inside = bool(opened)
            line = before
            if not line.strip():
                continue
        yield line

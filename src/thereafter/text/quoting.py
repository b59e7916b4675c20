"""Straight quotes and apostrophes as curly ones: which way each of them turns, by what stands around it.

    She said, "I don't."     “ after a space, ” after a mark, ’ inside a word
    'Tis true. 'Go!'         ’ where a word is shortened, ‘ where a quotation begins

A quote with white space on both sides stays as it is: nothing says whether it opens or closes.
"""

from __future__ import annotations

import re

OPENED_DASH = re.compile(r"--(?![->])(?<![-!<]--)(?:(?<=\S--)|(?=\s|\Z))")
"""Two hyphens that are a dash: after a word, or between spaces; not `--option`, a row of hyphens or a comment's end."""
_QUOTE = re.compile("[\"']")
_QUOTES = "\"'“”‘’"
_OPENERS = "([{<*_"  # stars and underscores are the italics of plain text
_DASHES = "-–—"
_SHORTENED = frozenset(
    "t tis twas twere twill twould em er im til till cause bout ere n round s re ve ll d m".split()  # noqa: SIM905
)
"""What stands after an apostrophe where a word begins: 'tis, 'em; the ends of words, too, where a text begins so."""
_MOST = 4  # quotes in a row that are looked past
_WORD = re.compile(r"[^\W\d_]+")


def curl(text: str, apostrophe: str, double: str) -> str:
    """A text with curly quotes in the place of straight ones.

    `apostrophe`: ’, or ‘’ where single quotes open with ‘, or "" to leave them. `double`: the quote that opens and the
    one that closes, or "".

    >>> curl("\\"I don't,\\" she said.", "’", "“”")
    '“I don’t,” she said.'
    """
    if not apostrophe and not double:
        return text

    def turn(match: re.Match[str]) -> str:
        if match[0] == '"':
            return _double(text, match.start(), double) if double else '"'
        return _single(text, match.start(), apostrophe) if apostrophe else "'"

    return _QUOTE.sub(turn, text)


def _double(text: str, at: int, pair: str) -> str:
    before, after = _around(text, at)
    if '"' in (text[at - 1 : at], text[at + 1 : at + 2]):
        return '"'  # two in a row are no quotation
    if before.isspace():
        return '"' if after.isspace() else pair[0]
    opens = before in _OPENERS or (before in _DASHES and after.isalnum())
    return pair[0] if opens and not after.isspace() else pair[1]


def _single(text: str, at: int, form: str) -> str:
    before, after = _around(text, at)
    opening = form[0] if len(form) > 1 else "'"
    if before.isspace() and (not after or after.isspace()):
        return "'" if after else opening
    if not after.isalnum() or text[at - 1 : at].isalnum():
        return form[-1]
    if before.isspace() or before in _OPENERS or before in _DASHES:
        word = _WORD.match(text, at + 1)
        shortened = text[at + 1].isdigit() or (word is not None and word[0].lower() in _SHORTENED)
        return form[-1] if shortened else opening
    return form[-1]


def _around(text: str, at: int) -> tuple[str, str]:
    """The characters before and after a quote, other quotes left out: a space where a text begins, "" at its end."""
    left, right = at - 1, at + 1
    while left >= 0 and text[left] in _QUOTES and at - left < _MOST:
        left -= 1
    while right < len(text) and text[right] in _QUOTES and right - at < _MOST:
        right += 1
    return text[left] if left >= 0 else " ", text[right : right + 1]

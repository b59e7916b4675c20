r"""Escaping tokens in an ARPA file, where fields end at white space.

Tokens of `word` contain no white space and are not escaped. In others every separator becomes `\xHH`, and so does the
backslash of a token that looks like such an escape; nothing else changes, so Penn Treebank's `\/` stays `\/`.
"""

from __future__ import annotations

import re

_SEPARATORS = re.compile(rb"[\x00\t\n\v\f\r ]|\\(?=x[0-9a-f]{2})")
_ESCAPED = re.compile(rb"\\x([0-9a-f]{2})")


def escape(token: bytes) -> bytes:
    r"""
    >>> escape(b" mat"), escape(b"1\\/2"), escape(b"\\x20")
    (b'\\x20mat', b'1\\/2', b'\\x5cx20')
    """
    return _SEPARATORS.sub(lambda match: rb"\x%02x" % match.group()[0], token)


def unescape(field: bytes) -> bytes:
    r"""
    >>> unescape(escape(b"a \\x20 b"))
    b'a \\x20 b'
    """
    return _ESCAPED.sub(lambda match: bytes([int(match.group(1), 16)]), field)

"""The vocabulary of a model in C: what each token appends and, for characters and bytes, text to tokens."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from thereafter.export.c.arrays import bytes_text, ints
from thereafter.export.parts import WordingPlan

ENCODED = ("char", "byte")
"""The tokenizers that are written in C."""

_DECODE = """
int {name}_decode(int token, char *text)
{{
    if (token < 0 || token >= {size}) return 0;
    const int begin = piece_ends[token], n = piece_ends[token + 1] - begin;
    for (int i = 0; i < n; i++) text[i] = (char)pieces[begin + i];
    return n;
}}
"""

_ENCODE_BYTES = """
int {name}_encode(const char *text, int *tokens, int most)
{{
    int n = 0;
    for (; text[n] && n < most; n++) tokens[n] = (unsigned char)text[n];
    return n;
}}
"""

_ENCODE_CHARACTERS = """
/* The next code point of UTF-8; a byte that begins none counts as a character that nobody knows. */
static long code_point(const unsigned char **text)
{{
    const unsigned char *at = *text;
    const int more = at[0] >= 0xF0 ? 3 : at[0] >= 0xE0 ? 2 : at[0] >= 0xC0 ? 1 : 0;
    long point = more == 3 ? at[0] & 0x07 : more == 2 ? at[0] & 0x0F : more == 1 ? at[0] & 0x1F : at[0];
    if (more == 0 && at[0] >= 0x80) point = -1;
    for (int i = 1; i <= more; i++) {{
        if ((at[i] & 0xC0) != 0x80) {{
            *text = at + i;
            return -1;
        }}
        point = point << 6 | (at[i] & 0x3F);
    }}
    *text = at + more + 1;
    return point;
}}

int {name}_encode(const char *text, int *tokens, int most)
{{
    const unsigned char *at = (const unsigned char *)text;
    int n = 0;
    while (*at && n < most) {{
        const long point = code_point(&at);
        int low = 0, high = {known};
        while (low < high) {{
            const int middle = (low + high) / 2;
            if (character_points[middle] < point) low = middle + 1;
            else high = middle;
        }}
        tokens[n++] = low < {known} && character_points[low] == point ? character_tokens[low] : {unknown};
    }}
    return n;
}}
"""


def tokens_text(name: str, wording: WordingPlan) -> Iterator[str]:
    """Tables and functions of a vocabulary."""
    ends = np.cumsum([0, *map(len, wording.pieces)])
    yield from bytes_text("pieces", b"".join(wording.pieces))
    yield from ints("piece_ends", ends)
    yield _DECODE.format(name=name, size=wording.size)
    if wording.tokens == "byte":
        yield _ENCODE_BYTES.format(name=name)
    elif wording.tokens == "char":
        points = {ord(form): token for token, form in enumerate(wording.forms) if token != wording.unknown}
        yield from ints("character_points", np.array(sorted(points)))
        yield from ints("character_tokens", np.array([points[point] for point in sorted(points)]))
        yield _ENCODE_CHARACTERS.format(name=name, known=len(points), unknown=wording.unknown)

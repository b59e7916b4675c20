"""The product of a matrix and a vector as WebAssembly with 128-bit vectors, put together by hand.

    matvec(w, x, y, rows, stride, scale):   y[r] += sum_b scale[r][b] sum_j w[r][32 b + j] x[32 b + j]

w has whole numbers of 16 bits, as they are stored: half the memory to be read, which is what a step waits for. All are
addresses in one memory, which the page owns; `stride` is the size of a row of w in bytes, a multiple of 64, and `rows`
a multiple of 4. Four rows are taken at a time, so that four sums grow side by side and x is read once for all of them.
Plain JavaScript takes several times as long, since it has no such vectors.
"""

from __future__ import annotations

(
    W, X, Y, ROWS, STRIDE, SCALE,
    J, AT, P1, P2, P3, S1, S2, S3,
    A, B, C, D, TA, TB, TC, TD, LOW, HIGH, Q,
) = range(25)  # fmt: skip
_PARAMETERS, _INTEGERS, _VECTORS = 6, 8, 11
_ROWS = ((W, A, TA, SCALE), (P1, B, TB, S1), (P2, C, TC, S2), (P3, D, TD, S3))
"""Of each of the four rows: where it is, the sum of a part, the sum of all, where its scales are."""

_I32, _V128, _VOID = 0x7F, 0x7B, 0x40
_LOOP, _BR_IF, _END = 0x03, 0x0D, 0x0B


def get(local: int) -> bytes:
    return bytes([0x20, local])


def put(local: int) -> bytes:
    return bytes([0x21, local])


def constant(value: int) -> bytes:
    """i32.const of a number from 0 to 8191."""
    return bytes([0x41, value]) if value < 64 else bytes([0x41, value & 0x7F | 0x80, value >> 7])


def load4(further: int) -> bytes:
    """Four floats, or eight whole numbers, so many bytes beyond an address."""
    return b"\xfd\x00\x04" + bytes([further])


ADD, SUB, BELOW, SHIFT_RIGHT = b"\x6a", b"\x6b", b"\x49", b"\x76"
ZERO4, SPLAT = b"\xfd\x0c" + bytes(16), b"\xfd\x13"
ADD4, MUL4 = b"\xfd\xe4\x01", b"\xfd\xe6\x01"
FLOATS = b"\xfd\xfa\x01"
HALVES = {LOW: b"\xfd\xa7\x01" + FLOATS, HIGH: b"\xfd\xa8\x01" + FLOATS}
"""The lower or the upper four of eight whole numbers, as floats."""
ADD1, LOAD1 = b"\x92", b"\x2a\x02"


def lane(number: int) -> bytes:
    return bytes([0xFD, 0x1F, number])


def _sum_of(local: int) -> bytes:
    """The four numbers of a vector, added up in pairs."""
    pairs = [get(local) + lane(first) + get(local) + lane(first + 1) + ADD1 for first in (0, 2)]
    return pairs[0] + pairs[1] + ADD1


def _part() -> list[bytes]:
    """32 columns of four rows, added to the sums of all."""
    parts = []
    for eight in range(4):
        parts += [get(AT) + load4(32 * eight) + put(LOW), get(AT) + load4(32 * eight + 16) + put(HIGH)]
        for row, total, _, _ in _ROWS:
            parts.append(get(row) + get(J) + ADD + load4(16 * eight) + put(Q))
            for x, half in HALVES.items():
                parts.append(get(total) + get(Q) + half + get(x) + MUL4 + ADD4 + put(total))
    for _, total, all_, scale in _ROWS:
        parts.append(get(all_) + get(total) + get(scale) + LOAD1 + b"\0" + SPLAT + MUL4 + ADD4 + put(all_))
        parts.append(ZERO4 + put(total) + get(scale) + constant(4) + ADD + put(scale))
    return parts


def _code() -> bytes:
    step = get(STRIDE) + constant(4) + SHIFT_RIGHT  # the scales of a row, in bytes
    parts = [bytes([_LOOP, _VOID])]
    parts += [ZERO4 + put(total) for total in (TA, TB, TC, TD)]
    parts += [get(before) + get(STRIDE) + ADD + put(row) for before, row in ((W, P1), (P1, P2), (P2, P3))]
    parts += [get(before) + step + ADD + put(scale) for before, scale in ((SCALE, S1), (S1, S2), (S2, S3))]
    parts += [constant(0) + put(J), get(X) + put(AT), bytes([_LOOP, _VOID]), *_part()]
    parts += [get(J) + constant(64) + ADD + put(J), get(AT) + constant(128) + ADD + put(AT)]
    parts += [get(J) + get(STRIDE) + BELOW, bytes([_BR_IF, 0, _END])]
    for number, (_, _, all_, _) in enumerate(_ROWS):
        at = bytes([4 * number])
        parts.append(get(Y) + get(Y) + LOAD1 + at + _sum_of(all_) + ADD1 + b"\x38\x02" + at)
    parts += [get(P3) + get(STRIDE) + ADD + put(W), get(S3) + put(SCALE), get(Y) + constant(16) + ADD + put(Y)]
    parts += [get(ROWS) + constant(4) + SUB + put(ROWS), get(ROWS), bytes([_BR_IF, 0, _END])]
    return b"".join(parts)


def _number(value: int) -> bytes:
    """An unsigned number in seven bits at a time."""
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + _number(rest) if rest else bytes([low])


def _sized(content: bytes) -> bytes:
    return _number(len(content)) + content


def _section(number: int, *entries: bytes) -> bytes:
    return bytes([number]) + _sized(_number(len(entries)) + b"".join(entries))


def kernel() -> bytes:
    """The module: it imports the memory `page.memory` and exports `matvec`."""
    locals_ = _number(2) + bytes([_INTEGERS, _I32, _VECTORS, _V128])
    return b"".join(
        [
            b"\0asm\x01\0\0\0",
            _section(1, b"\x60" + _sized(bytes([_I32] * _PARAMETERS)) + b"\0"),
            _section(2, _sized(b"page") + _sized(b"memory") + b"\x02\0\x01"),
            _section(3, b"\0"),
            _section(7, _sized(b"matvec") + b"\0\0"),
            _section(10, _sized(locals_ + _code() + bytes([_END]))),
        ]
    )

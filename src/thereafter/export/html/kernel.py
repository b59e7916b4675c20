"""The product of a matrix and a vector as WebAssembly with 128-bit vectors, put together by hand.

    matvec(w, x, y, rows, stride, scale):   y[r] += scale[r] sum_j w[r][j] x[j]

w has whole numbers of 16 bits, as they are stored: half the memory to be read, which is what a step waits for. All are
addresses in one memory, which the page owns; `stride` is the size of a row in bytes, a multiple of 16, and `rows` a
multiple of 4. Four rows are taken at a time, so that four sums grow side by side and x is read once for all of them.
Plain JavaScript takes several times as long, since it has no such vectors.
"""

from __future__ import annotations

W, X, Y, ROWS, STRIDE, SCALE, J, AT, P1, P2, P3, A, B, C, D, LOW, HIGH, Q = range(18)
_PARAMETERS, _INTEGERS, _VECTORS = 6, 5, 7

_I32, _V128, _VOID = 0x7F, 0x7B, 0x40
_LOOP, _BR_IF, _END = 0x03, 0x0D, 0x0B


def get(local: int) -> bytes:
    return bytes([0x20, local])


def put(local: int) -> bytes:
    return bytes([0x21, local])


def constant(value: int) -> bytes:
    """i32.const of a number below 64."""
    return bytes([0x41, value])


ADD, SUB, BELOW = b"\x6a", b"\x6b", b"\x49"
LOAD4, ZERO4 = b"\xfd\x00\x04\x00", b"\xfd\x0c" + bytes(16)
LOAD4_NEXT = b"\xfd\x00\x04\x10"  # 16 bytes on
ADD4, MUL4 = b"\xfd\xe4\x01", b"\xfd\xe6\x01"
FLOATS = b"\xfd\xfa\x01"
HALVES = {LOW: b"\xfd\xa7\x01" + FLOATS, HIGH: b"\xfd\xa8\x01" + FLOATS}
"""The lower or the upper four of eight whole numbers, as floats."""
ADD1, MUL1 = b"\x92", b"\x94"


def lane(number: int) -> bytes:
    return bytes([0xFD, 0x1F, number])


def _sum_of(local: int) -> bytes:
    """The four numbers of a vector, added up in pairs."""
    pairs = [get(local) + lane(first) + get(local) + lane(first + 1) + ADD1 for first in (0, 2)]
    return pairs[0] + pairs[1] + ADD1


def _code() -> bytes:
    parts = [bytes([_LOOP, _VOID])]
    parts += [ZERO4 + put(total) for total in (A, B, C, D)]
    parts += [get(before) + get(STRIDE) + ADD + put(row) for before, row in ((W, P1), (P1, P2), (P2, P3))]
    parts += [constant(0) + put(J), get(X) + put(AT), bytes([_LOOP, _VOID])]
    parts += [get(AT) + LOAD4 + put(LOW), get(AT) + LOAD4_NEXT + put(HIGH)]
    for total, row in ((A, W), (B, P1), (C, P2), (D, P3)):
        parts.append(get(row) + get(J) + ADD + LOAD4 + put(Q))
        for part, half in HALVES.items():
            parts.append(get(total) + get(Q) + half + get(part) + MUL4 + ADD4 + put(total))
    parts += [get(J) + constant(16) + ADD + put(J), get(AT) + constant(32) + ADD + put(AT)]
    parts += [get(J) + get(STRIDE) + BELOW, bytes([_BR_IF, 0, _END])]
    for number, total in enumerate((A, B, C, D)):
        at = bytes([2, 4 * number])
        scaled = _sum_of(total) + get(SCALE) + b"\x2a" + at + MUL1
        parts.append(get(Y) + get(Y) + b"\x2a" + at + scaled + ADD1 + b"\x38" + at)
    parts.append(get(P3) + get(STRIDE) + ADD + put(W))
    parts += [get(place) + constant(16) + ADD + put(place) for place in (Y, SCALE)]
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

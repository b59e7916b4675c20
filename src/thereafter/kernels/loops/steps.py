"""One streaming step in one compiled call: a pass over the weights that ends in the new state.

A pass is written down once, as whole numbers: addresses, sizes, bytes from row to row (their places are below). Its
panels are shared out among torch's threads, or one thread takes all of them; a panel's units are made by one thread
from first to last, so that the number of threads changes nothing. A panel has the same units of all gates: its products
are made in room that stays in the first cache, and its formula goes on from there.

The state is read by all threads until the pass is over: a formula writes h elsewhere (`out`), and it is copied at the
end. Panels are taken from the first to the last at one step and back again at the next, so that what was read last is
still in the caches.

Shapes: B rows, H units, K columns of a matrix, V vectors of a panel, L numbers of a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from thereafter.compiled import CFunction, c_function, compiled_once, intrinsic, jit
from thereafter.kernels.arrays import FloatType, Whole
from thereafter.kernels.loops.formulas import FORMULAS
from thereafter.kernels.loops.llvm import Builder, Context, Intrinsic, Signature, Value
from thereafter.kernels.loops.tiles import VECTOR_BYTES, copy, ir, types
from thereafter.kernels.loops.vectors import write_rows
from thereafter.packages import require

carray = require("numba", "a compiled loop").carray

MOST_SOURCES, MOST_ARRAYS = 2, 6


# The places of a pass: of its functions, its sizes, the room of the threads, and what is copied at the end.
(
    PRODUCT, FORMULA, ALONE, SHARED, PARALLEL, MEMBER, MEMBERS, ROWS, UNITS, PANELS, VECTORS, PANEL_UNITS, ITEM, ROOM,
    ROOM_EACH, BACKWARD, SOURCES, STATE, STATE_ROW, OUT, OUT_ROW, STATE_BYTES, FIRST_SOURCE,
) = range(23)  # fmt: skip
# Then its sources, each a matrix and what it is multiplied by, and its arrays, each as its address and its bytes a row.
DEPTH, A, A_ROW, PANEL, PANEL_BYTES, SCALES, SCALE_BYTES, BIAS, EACH_SOURCE = range(9)
FIRST_ARRAY = FIRST_SOURCE + EACH_SOURCE * MOST_SOURCES
LENGTH = FIRST_ARRAY + 2 * MOST_ARRAYS
_I32, _I64 = ir.IntType(32), ir.IntType(64)


@compiled_once
def formula(kind: str, dtype: FloatType) -> CFunction:
    """A formula along the units of a panel in one row: given the address of the pass, the row, the first unit, how many
    units, and where their products lie."""

    def step_formula(words: int, row: int, unit: int, count: int, z: int) -> None:
        _apply(kind, dtype, words, row, unit, count, z)

    return c_function(types.void(*[types.int64] * 5), step_formula)


@intrinsic
def _apply(
    typing: object, kind: object, dtype: object, words: object, row: object, unit: object, count: object, z: object
) -> Intrinsic | None:
    name = getattr(kind, "literal_value", None)
    if name is None:
        return None  # asked again with the text itself

    def generate(context: Context, builder: Builder, signature: Signature, args: Sequence[Value]) -> Value:
        words, row, unit, count, z = args[2:]
        number = context.get_data_type(signature.args[1].dtype)
        chosen = FORMULAS[name]

        def word(index: int) -> Value:
            return builder.load(builder.inttoptr(builder.add(words, _I64(8 * index)), _I64.as_pointer()))

        gate, along = builder.mul(word(PANEL_UNITS), word(ITEM)), builder.mul(unit, word(ITEM))
        apart, each = builder.mul(word(ROWS), builder.mul(word(VECTORS), _I64(VECTOR_BYTES))), chosen.gates_of_a_source
        starts = {}
        for i, name_of_gate in enumerate(chosen.gates):
            source = builder.add(z, builder.mul(apart, _I64(i // each)))
            starts[name_of_gate] = builder.add(source, builder.mul(gate, _I64(i % each)))
        for i, array in enumerate(chosen.arrays):
            first = builder.add(word(FIRST_ARRAY + 2 * i), builder.mul(row, word(FIRST_ARRAY + 2 * i + 1)))
            starts[array] = builder.add(first, along)
        write_rows(builder, chosen.write, starts, count, number)
        return context.get_dummy_value()

    return types.void(kind, dtype, *[types.int64] * 5), generate


def _caller(numbers: int) -> Callable[..., None]:
    """An intrinsic that calls the C function at an address with so many whole numbers."""

    @intrinsic
    def call(typing: object, function: object, given: object) -> Intrinsic:
        def generate(context: Context, builder: Builder, signature: Signature, args: Sequence[Value]) -> Value:
            kind = ir.FunctionType(ir.VoidType(), [_I64] * numbers)
            values = [builder.extract_value(args[1], index) for index in range(numbers)]
            builder.call(builder.inttoptr(args[0], kind.as_pointer()), values)
            return context.get_dummy_value()

        return types.void(types.int64, given), generate

    called: Callable[..., None] = call
    return called


_call_1, _call_5, _call_8 = _caller(1), _caller(5), _caller(8)


@intrinsic
def _ask(typing: object, function: object) -> Intrinsic:
    """The int that the C function at an address returns."""

    def generate(context: Context, builder: Builder, signature: Signature, args: Sequence[Value]) -> Value:
        kind = ir.FunctionType(_I32, [])
        return builder.sext(builder.call(builder.inttoptr(args[0], kind.as_pointer()), []), _I64)

    return types.int64(types.int64), generate


@intrinsic
def _in_parallel(typing: object, parallel: object, function: object, given: object, team: object) -> Intrinsic:
    """OpenMP's way to call a function of one address on several threads."""

    def generate(context: Context, builder: Builder, signature: Signature, args: Sequence[Value]) -> Value:
        kind = ir.FunctionType(ir.VoidType(), [_I64, _I64, _I32, _I32])
        threads = builder.trunc(args[3], _I32)
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), [args[1], args[2], threads, _I32(0)])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), generate


@jit()
def _panels(words: Whole, own: int, size: int) -> None:
    """The share of one thread."""
    first, last = words[PANELS] * own // size, words[PANELS] * (own + 1) // size
    address, rows = words.ctypes.data, words[ROWS]
    wide = words[VECTORS] * VECTOR_BYTES
    room = words[ROOM] + own * words[ROOM_EACH]
    for index in range(last - first):
        panel = last - 1 - index if words[BACKWARD] else first + index
        unit = panel * words[PANEL_UNITS]
        z = room - wide * rows
        for s in range(words[SOURCES]):
            at = FIRST_SOURCE + s * EACH_SOURCE
            if words[at + BIAS]:
                z += wide * rows
                for row in range(rows):
                    copy(words[at + BIAS] + panel * wide, z + row * wide, wide)
            b, scales = words[at + PANEL] + panel * words[at + PANEL_BYTES], words[at + SCALES]
            scales += panel * words[at + SCALE_BYTES]
            _call_8(
                words[PRODUCT],
                (words[VECTORS], rows, words[at + DEPTH], words[at + A], words[at + A_ROW], b, scales, z),
            )
        count = min(words[PANEL_UNITS], words[UNITS] - unit)
        for row in range(rows):
            _call_5(words[FORMULA], (address, row, unit, count, room + row * wide))


@compiled_once
def alone() -> CFunction:
    """A pass by one thread: a C function of its address."""

    def step_alone(address: object) -> None:
        _panels(carray(address, LENGTH, np.int64), 0, 1)

    return c_function(types.void(types.voidptr), step_alone)


@compiled_once
def shared() -> CFunction:
    """The share of a pass of the thread that calls it."""

    def step_shared(address: object) -> None:
        words = carray(address, LENGTH, np.int64)
        _panels(words, _ask(words[MEMBER]), _ask(words[MEMBERS]))

    return c_function(types.void(types.voidptr), step_shared)


@compiled_once
def conduct() -> CFunction:
    """A pass by a team of threads: a C function of its address and their number; then h goes to its place."""

    def step_conducted(address: object, team: int) -> None:
        words = carray(address, LENGTH, np.int64)
        if team > 1:
            _in_parallel(words[PARALLEL], words[SHARED], words.ctypes.data, team)
        else:
            _call_1(words[ALONE], (words.ctypes.data,))
        words[BACKWARD] = 1 - words[BACKWARD]
        if words[STATE_BYTES]:
            for row in range(words[ROWS]):
                copy(words[OUT] + row * words[OUT_ROW], words[STATE] + row * words[STATE_ROW], words[STATE_BYTES])

    return c_function(types.void(types.voidptr, types.int64), step_conducted)

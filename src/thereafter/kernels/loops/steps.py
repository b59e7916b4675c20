"""One streaming step in one compiled call: a pass over the weights that ends in the new state.

A pass is written down once, as whole numbers: addresses, sizes, bytes from row to row (their places are below). Its
panels are claimed by the thread that calls and its helpers (`loops.helpers`), each from a range of its own first, which
its caches hold from the step before, then from those of others. A panel's units are made by one thread from first to
last, so that the number of threads changes nothing. A panel has the same units of all gates: its products
are made in room that stays in the first cache, and its formula goes on from there.

The state is read by all threads until the pass is over: a formula writes h elsewhere (`out`), and it is copied at the
end. Panels are taken from the first to the last at one step and back again at the next, so that what was read last is
still in the caches.

Shapes: B rows, H units, K columns of a matrix, V vectors of a panel, L numbers of a vector.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thereafter.base.compiled import CFunction, c_function, compiled_once, intrinsic, jit
from thereafter.base.packages import require
from thereafter.kernels.arrays import FloatType, Whole
from thereafter.kernels.loops.atomics import add_to, publish
from thereafter.kernels.loops.calls import caller
from thereafter.kernels.loops.formulas import FORMULAS
from thereafter.kernels.loops.helpers import begin, end
from thereafter.kernels.loops.llvm import Builder, Context, Intrinsic, Signature, Value
from thereafter.kernels.loops.tiles import LINE, VECTOR_BYTES, copy, ir, types
from thereafter.kernels.loops.vectors import write_rows

carray = require("numba", "a compiled loop").carray

MOST_SOURCES, MOST_ARRAYS = 2, 6


# The places of a pass: of its functions, its sizes, the room of the threads, and what is copied at the end.
(
    PRODUCT, FORMULA, CUT, BOARD, CLAIMS, ROWS, UNITS, PANELS, VECTORS, PANEL_UNITS, ITEM, ROOM, ROOM_EACH, BACKWARD,
    SOURCES, STATE, STATE_ROW, OUT, OUT_ROW, STATE_BYTES, FIRST_SOURCE,
) = range(21)  # fmt: skip
# Then its sources, each a matrix and the rows A it is multiplied by, cut into digits from the rows X where CUT is the
# function that does it; and its arrays, each as its address and its bytes a row.
DEPTH, A, A_ROW, PANEL, PANEL_BYTES, SCALES, SCALE_BYTES, BIAS, X, X_ROW, EACH_SOURCE = range(11)
FIRST_ARRAY = FIRST_SOURCE + EACH_SOURCE * MOST_SOURCES
LENGTH = FIRST_ARRAY + 2 * MOST_ARRAYS
_I64 = ir.IntType(64)


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


_call_3, _call_5, _call_8 = caller(3), caller(5), caller(8)


@jit()
def _make_panel(words: Whole, panel: int, room: int) -> None:
    """The new values of a panel's units, all rows."""
    rows, wide = words[ROWS], words[VECTORS] * VECTOR_BYTES
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
            words[PRODUCT], (words[VECTORS], rows, words[at + DEPTH], words[at + A], words[at + A_ROW], b, scales, z)
        )
    count = min(words[PANEL_UNITS], words[UNITS] - unit)
    for row in range(rows):
        _call_5(words[FORMULA], (words.ctypes.data, row, unit, count, room + row * wide))


@jit()
def _cut_rows(words: Whole) -> None:
    """The rows of all sources as the product reads them."""
    for s in range(words[SOURCES]):
        at = FIRST_SOURCE + s * EACH_SOURCE
        for row in range(words[ROWS]):
            x, to = words[at + X] + row * words[at + X_ROW], words[at + A] + row * words[at + A_ROW]
            _call_3(words[CUT], (words[at + DEPTH], x, to))


@compiled_once
def shared() -> CFunction:
    """The panels of a pass that one of several threads claims: a C function of its address, the number of the thread
    and how many there are."""

    def step_shared(address: object, own: int, size: int) -> None:
        words = carray(address, LENGTH, np.int64)
        room = words[ROOM] + own * words[ROOM_EACH]
        for turn in range(size):
            owner = (own + turn) % size
            first, last = words[PANELS] * owner // size, words[PANELS] * (owner + 1) // size
            while True:
                index = add_to(words[CLAIMS] + owner * LINE, 1)
                if index >= last - first:
                    break
                _make_panel(words, last - 1 - index if words[BACKWARD] else first + index, room)

    return c_function(types.void(types.voidptr, types.int64, types.int64), step_shared)


@compiled_once
def conduct() -> CFunction:
    """A pass by a team of threads: a C function of its address, their number, and the address of `shared`; then h goes
    to its place."""

    def step_conducted(address: object, team: int, share: int) -> None:
        words = carray(address, LENGTH, np.int64)
        for owner in range(team):
            publish(words[CLAIMS] + owner * LINE, 0)
        if words[CUT]:
            _cut_rows(words)
        if team > 1 and begin(words[BOARD], words.ctypes.data, team):
            _call_3(share, (words.ctypes.data, 0, team))
            end(words[BOARD])
        else:
            _call_3(share, (words.ctypes.data, 0, 1))
        words[BACKWARD] = 1 - words[BACKWARD]
        if words[STATE_BYTES]:
            for row in range(words[ROWS]):
                copy(words[OUT] + row * words[OUT_ROW], words[STATE] + row * words[STATE_ROW], words[STATE_BYTES])

    return c_function(types.void(types.voidptr, types.int64, types.int64), step_conducted)

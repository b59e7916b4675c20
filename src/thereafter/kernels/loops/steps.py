"""One streaming step in one compiled call: a pass over the weights that ends in the new state.

A pass is written down once, as whole numbers: addresses, sizes, bytes from row to row (their places are below). Its
panels are claimed by the thread that calls and its helpers (`begin`, `helper`), each from a range of its own first,
which its caches hold from the step before, then from those of others. A panel's units are made by one thread from first
to last, so that the number of threads changes nothing. A panel has the same units of all gates: its products are made
in room that stays in the first cache, and its formula goes on from there.

The state is read by all threads until the pass is over: a formula writes h elsewhere (`out`), and it is copied at the
end. Panels are taken from the first to the last at one step and back again at the next, so that what was read last is
still in the caches.

Helpers are threads that wait for the next pass by looking, then by sleeping. OpenMP's threads meet at the end of a
call: one that is not let onto its core holds up all others. A helper is never waited for before it has begun. The pass
is cut into panels, which are claimed one by one, and the thread that called claims those that nobody else has: a helper
that sleeps, or comes late, finds nothing left. The caller waits for those alone that are inside, each with its last
panel.

All speak through a board of whole numbers, those that several threads write to on lines of their own:

    TURN     how many passes there were; a helper looks at it
    GATE     OPEN while there is work, plus the number of helpers inside; one that adds itself and sees no OPEN leaves
    TAKEN    1 while a thread has the helpers; another one that comes meanwhile works alone
    STOP     1: the helpers are to end
    TASK, TEAM, CORE   the address of the pass, its number of threads, and the core of the thread that called
    FUNCTIONS          the addresses of C functions
    then for each helper a line with ASLEEP, its clock and the number of passes it WORKED at, one for the FLAG that it
    sleeps on, and room for sets of cores

Whoever calls adds to TURN and then looks who is ASLEEP; a helper adds to ASLEEP and then looks at TURN: one of them
sees the other, so that no helper sleeps through a turn for good.

Shapes: B rows, H units, K columns of a matrix, V vectors of a panel, L numbers of a vector.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thereafter.base.compiled import CFunction, c_function, compiled_once, intrinsic, jit
from thereafter.base.packages import require
from thereafter.kernels.arrays import Builder, Context, FloatType, Intrinsic, Signature, Value, Whole
from thereafter.kernels.loops.formulas import FORMULAS
from thereafter.kernels.loops.threads import (
    ROOM_BYTES,
    add_if,
    add_to,
    be_patient,
    leave_core,
    pause,
    publish,
    read_in_turn,
    read_published,
    whole_number_from,
)
from thereafter.kernels.loops.tiles import LINE, VECTOR_BYTES, call, copy, ir, types
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
        call(words[PRODUCT], (words[VECTORS], rows, words[at + DEPTH], words[at + A], words[at + A_ROW], b, scales, z))
    count = min(words[PANEL_UNITS], words[UNITS] - unit)
    for row in range(rows):
        call(words[FORMULA], (words.ctypes.data, row, unit, count, room + row * wide))


@jit()
def _cut_rows(words: Whole) -> None:
    """The rows of all sources as the product reads them."""
    for s in range(words[SOURCES]):
        at = FIRST_SOURCE + s * EACH_SOURCE
        for row in range(words[ROWS]):
            x, to = words[at + X] + row * words[at + X_ROW], words[at + A] + row * words[at + A_ROW]
            call(words[CUT], (words[at + DEPTH], x, to))


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
            call(share, (words.ctypes.data, 0, team))
            end(words[BOARD])
        else:
            call(share, (words.ctypes.data, 0, 1))
        words[BACKWARD] = 1 - words[BACKWARD]
        if words[STATE_BYTES]:
            for row in range(words[ROWS]):
                copy(words[OUT] + row * words[OUT_ROW], words[STATE] + row * words[STATE_ROW], words[STATE_BYTES])

    return c_function(types.void(types.voidptr, types.int64, types.int64), step_conducted)


TURN, GATE, TAKEN, STOP, TASK, FUNCTIONS, HELPERS_AT = (LINE * line for line in range(7))
TEAM, CORE = TASK + 8, TASK + 16
GIVE_WAY, NAP, CLOCK, SLEEP, WAKE, CORE_OF, GET_CORES, SET_CORES = (FUNCTIONS + 8 * place for place in range(8))
ASLEEP, SECONDS, NANOSECONDS, WORKED, FLAG, SETS, EACH_HELPER = 0, 8, 16, 24, LINE, 2 * LINE, 2 * LINE + ROOM_BYTES
OPEN = 1 << 32
_MONOTONIC = 1  # Linux's number of the clock that only goes forward
_LOOKS = 64  # between two looks at the clock
LOOKING, YIELDING = 20_000, 150_000
"""Nanoseconds after a pass in which a helper looks for the next one, and in which it offers its core to others between
looks; then it sleeps. Waking it takes some 50 us."""


def board_bytes(helpers: int) -> int:
    return HELPERS_AT + helpers * EACH_HELPER


@jit()
def begin(board: int, task: int, team: int) -> bool:
    """Call the helpers to a task; False if another thread has them."""
    if read_published(board + TAKEN) or add_if(board + TAKEN, 0, 1) != 0:
        return False
    publish(board + TASK, task)
    publish(board + TEAM, team)
    publish(board + CORE, whole_number_from(read_published(board + CORE_OF)))
    add_to(board + GATE, OPEN)
    add_to(board + TURN, 1)
    _wake(board, team - 1)
    return True


@jit()
def _wake(board: int, helpers: int) -> None:
    """Wake those of the first helpers that sleep."""
    for helper in range(helpers):
        at = board + HELPERS_AT + helper * EACH_HELPER
        if read_in_turn(at + ASLEEP) and add_if(at + ASLEEP, 1, -1) == 1:
            call(read_published(board + WAKE), (at + FLAG,))


@jit()
def end(board: int) -> None:
    """Nothing is left to claim: wait for the helpers that are still inside."""
    add_to(board + GATE, -OPEN)
    looks = 0
    while read_published(board + GATE):
        pause()
        looks += 1
        be_patient(looks, read_published(board + GIVE_WAY), read_published(board + NAP))
    publish(board + TAKEN, 0)


@jit()
def _nanoseconds(board: int, at: int) -> int:
    call(read_published(board + CLOCK), (_MONOTONIC, at + SECONDS))
    now: int = read_published(at + SECONDS) * 1_000_000_000 + read_published(at + NANOSECONDS)
    return now


@jit()
def _sleep(board: int, at: int, turn: int) -> None:
    """Sleep until somebody wakes this helper, unless there is another turn by now."""
    add_to(at + ASLEEP, 1)
    woken = read_in_turn(board + TURN) != turn or read_in_turn(board + STOP) != 0
    if woken and add_if(at + ASLEEP, 1, -1) == 1:
        return  # nobody had seen it asleep
    # one who did has waked it, or will; a signal alone leaves it ASLEEP
    call(read_published(board + SLEEP), (at + FLAG,))
    while read_published(at + ASLEEP):
        call(read_published(board + SLEEP), (at + FLAG,))


@jit()
def _work(board: int, at: int, number: int, share: int) -> bool:
    """Claim panels of the task that is on the board, if it is still open; False where so many threads are not wanted.

    One that runs on the caller's core leaves it first: who is inside is waited for.
    """
    if number >= read_published(board + TEAM):
        return False
    core = read_published(board + CORE)
    if core >= 0 and whole_number_from(read_published(board + CORE_OF)) == core:
        leave_core(core, read_published(board + GET_CORES), read_published(board + SET_CORES), at + SETS)
    if add_to(board + GATE, 1) >= OPEN and number < read_published(board + TEAM):
        publish(at + WORKED, read_published(at + WORKED) + 1)
        call(share, (read_published(board + TASK), number, read_published(board + TEAM)))
    add_to(board + GATE, -1)
    return True


@compiled_once
def dismiss() -> CFunction:
    """Tell the helpers to end: a C function of the board and their number."""

    def dismiss_helpers(board: int, helpers: int) -> None:
        add_to(board + STOP, 1)
        _wake(board, helpers)

    return c_function(types.void(types.int64, types.int64), dismiss_helpers)


@compiled_once
def helper() -> CFunction:
    """The life of a helper: a C function of the board, its number (the caller is 0) and the address of the C function
    `share(task, number, team)`."""

    def help_with_passes(board: int, number: int, share: int) -> None:
        at = board + HELPERS_AT + (number - 1) * EACH_HELPER
        turn, looks, since = 0, 0, _nanoseconds(board, at)
        while not read_published(board + STOP):
            now = read_published(board + TURN)
            if now != turn:
                turn, looks = now, 0
                if _work(board, at, number, share):
                    since = _nanoseconds(board, at)
            pause()
            looks += 1
            if looks % _LOOKS == 0:
                waited = _nanoseconds(board, at) - since
                if waited > YIELDING:
                    _sleep(board, at, turn)
                    since = _nanoseconds(board, at)
                elif waited > LOOKING:
                    whole_number_from(read_published(board + GIVE_WAY))

    return c_function(types.void(types.int64, types.int64, types.int64), help_with_passes)

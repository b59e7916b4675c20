"""What threads need to speak to each other and to wait, in machine code.

Numbers that are set, read and added to in one piece; what a thread does between two looks at a number that another
thread is to change; and how it leaves a core that another thread works on.

Between looks it looks again at once for a while, which takes microseconds; then it offers its core to others; then it
sleeps. A thread that is held back on a busy core can move to one that is idle, not to one that is looked from.

A thread that was woken on the core of the one that woke it goes to another. A system may wake it there though other
cores are idle: to a virtual machine an idle core looks like one that its host has taken away. The two threads then take
turns on one core until the system notices, a tenth of a second later, and where they work for microseconds and sleep
again it may not notice at all (a streaming step of 256 units on two threads then takes 150 us instead of 40).
"""

from __future__ import annotations

import platform

import numpy as np

from thereafter.base.compiled import jit
from thereafter.base.packages import require
from thereafter.kernels.arrays import Builder, Value, Whole
from thereafter.kernels.loops.tiles import call, cgutils, instruction, ir, types

carray = require("numba", "a compiled loop").carray

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_X86_PAUSE, _ARM_PAUSE = ("llvm.x86.sse2.pause", ()), ("llvm.aarch64.isb", (15,))  # 15: for the whole system
_PAUSE = {"x86_64": _X86_PAUSE, "amd64": _X86_PAUSE, "aarch64": _ARM_PAUSE, "arm64": _ARM_PAUSE}.get(
    platform.machine().lower()
)


@instruction(types.int64, 1)
def whole_number_from(builder: Builder, address: Value) -> Value:
    """Call a C function without arguments that returns an int, by its address."""
    kind = ir.FunctionType(_I32, [])
    return builder.sext(builder.call(builder.inttoptr(address, kind.as_pointer()), []), _I64)


@instruction(types.voidptr, 1)
def pointer(builder: Builder, address: Value) -> Value:
    """An address as a pointer, which `carray` takes."""
    return builder.inttoptr(address, cgutils.voidptr_t)


@instruction(types.void, 2)
def publish(builder: Builder, address: Value, value: Value) -> None:
    """Set the number at an address, visibly to all threads together with all that was written before."""
    builder.store_atomic(value, _place(builder, address), "release", 8)


@instruction(types.int64, 1)
def read_published(builder: Builder, address: Value) -> Value:
    """The number at an address, and with it all that its thread wrote before."""
    return builder.load_atomic(_place(builder, address), "acquire", 8)


@instruction(types.int64, 1)
def read_in_turn(builder: Builder, address: Value) -> Value:
    """As `read_published`, and never before what this thread added by `add_to` ahead of it: of two threads that each
    add to one number and then read the other's, one at least sees the other."""
    return builder.load_atomic(_place(builder, address), "seq_cst", 8)


@instruction(types.int64, 2)
def add_to(builder: Builder, address: Value, value: Value) -> Value:
    """Add to the number at an address in one piece, as `publish` and `read_published` together; returns what it was."""
    return builder.atomic_rmw("add", _place(builder, address), value, "seq_cst")


@instruction(types.int64, 3)
def add_if(builder: Builder, address: Value, expected: Value, value: Value) -> Value:
    """As `add_to`, but only if the number is still the one expected; returns what it was."""
    sum_of_both = builder.add(expected, value)
    exchanged = builder.cmpxchg(_place(builder, address), expected, sum_of_both, "seq_cst", "acquire")
    return builder.extract_value(exchanged, 0)


@instruction(types.void, 0)
def pause(builder: Builder) -> None:
    """What a processor wants to be told between two looks at a number that another one is to change."""
    if _PAUSE is not None:
        name, numbers = _PAUSE
        kind = ir.FunctionType(ir.VoidType(), [_I32] * len(numbers))
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        builder.call(function, [_I32(number) for number in numbers])


def _place(builder: Builder, address: Value) -> Value:
    return builder.inttoptr(address, _I64.as_pointer())


_LOOKS, _YIELDS = 4000, 200
"""Some 2 and 50 us on an Intel Xeon of 2.5 GHz (2026-11-18): longer than threads that all run wait for one another,
much shorter than a time slice."""


@jit()
def be_patient(looks: int, give_way: int, sleep: int) -> None:
    """Called after each look, with their number and the addresses of `sched_yield` and `usleep`."""
    if looks > _LOOKS + _YIELDS:
        call(sleep, (1,))
    elif looks > _LOOKS:
        whole_number_from(give_way)


_WORDS = 16  # of a set of cores, a bit each, as Linux has it: 1,024 of them
ROOM_BYTES = 2 * 8 * _WORDS
"""The room that `leave_core` needs."""


@jit()
def leave_core(core: int, get_cores: int, set_cores: int, room: int) -> None:
    """Move the thread that calls this away from a core, if it may use others: it is left those alone, which moves it at
    once, and then all that it had. `get_cores` and `set_cores` are the addresses of `sched_getaffinity` and
    `sched_setaffinity`."""
    sets: Whole = carray(pointer(room), (2, _WORDS), np.int64)
    sets[:] = 0  # and so it stays where there are more cores than fit in
    call(get_cores, (0, 8 * _WORDS, room))
    others = 0
    for word in range(_WORDS):
        sets[1, word] = sets[0, word]
        if word == core // 64:
            sets[1, word] &= ~(1 << core % 64)
        others |= sets[1, word]
    if others:
        call(set_cores, (0, 8 * _WORDS, room + 8 * _WORDS))
        call(set_cores, (0, 8 * _WORDS, room))

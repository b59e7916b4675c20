"""Several cores at work on one sequence, with torch's own threads.

A recurrent step is too short to hand out work anew: the threads are called once for a whole sequence. Either they claim
parts of the rows (`loops.parts`), each for all steps, until none is left: a thread that the system holds back claims
fewer, and nobody waits for it. Or each keeps its share of the units, and they meet at a barrier at every step. They are
the threads that torch's own products run on (OpenMP's, through the library torch has loaded), so no second pool fights
the first for the cores.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, get_type_hints

import numpy as np
import torch
from torch import Tensor

from thereafter.base.compiled import CFunction, intrinsic, jit
from thereafter.base.packages import require
from thereafter.kernels.arrays import WHOLE, Floats, FloatType, Whole
from thereafter.kernels.loops.atomics import add_if, add_to, publish, read_published
from thereafter.kernels.loops.calls import pointer, whole_number_from
from thereafter.kernels.loops.llvm import ArrayType, Builder, Context, Intrinsic, Signature, Value
from thereafter.kernels.loops.pool import pool as pool
from thereafter.kernels.loops.tiles import LINE, product, types
from thereafter.kernels.loops.waiting import be_patient

carray = require("numba", "a compiled loop").carray

# A task is an array of whole numbers: a head, then its switches, then its arrays, each as its address and the sizes of
# three axes (the last ones 1 where it has fewer).
_BARRIER, _MEMBER, _MEMBERS, _YIELD, _SLEEP, _ALONE, PRODUCT, _HEAD = range(8)
PARTS, PANELS, PACKED, COUNTERS = range(4)  # the counters of a task, by their place; each begins at 0
COUPLED, BY_ROWS, NUMBERS = range(3)  # the switches of a task, by their place
_ARRAYS, _EACH, _MOST, _ONES = _HEAD + NUMBERS, 4, 24, (1, 1, 1)
_LENGTH = _ARRAYS + _EACH * _MOST
_APART = LINE // 8  # places of a line
NUMPY: dict[torch.dtype, FloatType] = {torch.float32: np.dtype(np.float32), torch.float64: np.dtype(np.float64)}


def call(function: CFunction, arrays: Sequence[Tensor], switches: Sequence[bool], *, alone: bool = False) -> None:
    """Run a compiled `function(task)` on all of torch's threads, or on this one `alone`.

    The arrays are contiguous, in the order of the class that the function reads them by; so are the switches.
    """
    # only addresses cross over
    if len(arrays) > _MOST or not all(array.is_contiguous() and array.is_cpu for array in arrays):
        raise ValueError("a task takes a few arrays that lie in one piece each, on the CPU")
    threads = pool()
    team = 1 if alone or threads.parallel is None else torch.get_num_threads()
    task = (ctypes.c_int64 * (_LENGTH + (COUNTERS + team + 1) * _APART))()
    address = ctypes.addressof(task)
    counters = -(-(address + 8 * _LENGTH) // LINE) * LINE  # behind the task, each on a line of its own
    words: list[ctypes.c_int64 | int] = [
        counters + COUNTERS * LINE,
        threads.member,
        threads.members,
        threads.give_way,
        threads.sleep,
        int(team == 1),
        product(NUMPY[arrays[0].dtype]).address,
    ]
    words += switches
    words += [0] * (_ARRAYS - len(words))
    for array in arrays:
        words += [array.data_ptr(), *array.shape, *_ONES[array.dim() :]]
    task[: len(words)] = words
    if team == 1 or threads.parallel is None:
        function.ctypes(address)
    else:
        threads.parallel(function.address, address, team, 0)


@jit()
def member(task: Whole) -> int:
    """The number of the thread that asks, from 0."""
    return 0 if task[_ALONE] else whole_number_from(task[_MEMBER])


@jit()
def members(task: Whole) -> int:
    """How many threads work on this task: OpenMP may give fewer than were asked for."""
    return 1 if task[_ALONE] else whole_number_from(task[_MEMBERS])


@jit()
def meet(task: Whole, meetings: int, size: int) -> int:
    """Wait until all threads have come here `meetings + 1` times; returns that number."""
    meetings += 1
    if size > 1:
        # Each thread counts on a line that nobody else writes to: one number for all would have to travel to each of
        # them to be added to, and back to be read.
        publish(task[_BARRIER] + member(task) * LINE, meetings)
        for other in range(size):
            _wait(task, task[_BARRIER] + other * LINE, meetings)
    return meetings


@jit()
def claim(task: Whole, counter: int) -> int:
    """The next number of a counter, from 0: every number goes to one thread alone."""
    number: int = add_to(_counter(task, counter), 1)
    return number


@jit()
def claim_below(task: Whole, counter: int, limit: int) -> int:
    """As `claim`, but a counter that has come to the limit stays there, and the limit is returned: for what is claimed
    anew at every step, between two meetings."""
    address = _counter(task, counter)
    number: int = read_published(address)
    while number < limit:
        before: int = add_if(address, number, 1)
        if before == number:
            return number
        number = before
    return limit


@jit()
def wait_for(task: Whole, counter: int, count: int) -> None:
    """Wait until a counter has come to a number; what was written before it was counted is then seen here."""
    _wait(task, _counter(task, counter), count)


@jit()
def _counter(task: Whole, counter: int) -> int:
    """The address of a counter."""
    address: int = task[_BARRIER] - (counter + 1) * LINE
    return address


@jit()
def _wait(task: Whole, address: int, count: int) -> None:
    """Look at a number until it is large enough."""
    looks = 0
    while read_published(address) < count:
        looks += 1
        be_patient(looks, task[_YIELD], task[_SLEEP])


@jit()
def task_at(address: int) -> Whole:
    """The task whose address a compiled function was called with."""
    task: Whole = carray(address, _LENGTH, np.int64)
    return task


@jit()
def switch(task: Whole, index: int) -> bool:
    """Whether one of the task's switches is on."""
    on: bool = task[_HEAD + index] != 0
    return on


def arrays_of(kind: type[NamedTuple]) -> Callable[..., Any]:
    """A compiled function `read(task, dtype)`: the arrays of a task, under the names that `kind` declares.

    The first array stands in the first place behind the numbers, and so on, as `call` writes them.
    """
    hints = get_type_hints(kind, include_extras=True)
    fields = [hints[name].__metadata__ for name in kind._fields]

    @intrinsic
    def read(typing: object, task: object, dtype: ArrayType) -> Intrinsic:
        kinds = [types.Array(types.int64 if WHOLE in field else dtype.dtype, field[0], "C") for field in fields]

        def generate(context: Context, builder: Builder, signature: Signature, args: Sequence[Value]) -> Value:
            values = []
            for index, (field, made) in enumerate(zip(fields, kinds, strict=True)):
                place = context.get_constant(types.int64, _ARRAYS + _EACH * index)
                reader = _WHOLE_READERS[field[0]] if WHOLE in field else _READERS[field[0]]
                called = made(task, types.int64, dtype)
                values.append(context.compile_internal(builder, reader, called, [args[0], place, args[1]]))
            return context.make_tuple(builder, arrays, values)

        arrays = types.NamedTuple(kinds, kind)
        return arrays(task, dtype), generate

    named: Callable[..., Any] = read
    return named


def _array_1(task: Whole, at: int, dtype: FloatType) -> Floats:
    array: Floats = carray(pointer(task[at]), (task[at + 1],), dtype)
    return array


def _array_2(task: Whole, at: int, dtype: FloatType) -> Floats:
    array: Floats = carray(pointer(task[at]), (task[at + 1], task[at + 2]), dtype)
    return array


def _array_3(task: Whole, at: int, dtype: FloatType) -> Floats:
    array: Floats = carray(pointer(task[at]), (task[at + 1], task[at + 2], task[at + 3]), dtype)
    return array


def _whole_1(task: Whole, at: int, dtype: FloatType) -> Whole:
    array: Whole = carray(pointer(task[at]), (task[at + 1],), np.int64)
    return array


_READERS = {1: _array_1, 2: _array_2, 3: _array_3}
_WHOLE_READERS = {1: _whole_1}


@jit()
def share(total: int, number: int, size: int) -> tuple[int, int]:
    """The part of `total` things that thread `number` of `size` takes: from, to."""
    return total * number // size, total * (number + 1) // size

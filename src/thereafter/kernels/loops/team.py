"""Several cores at work on one sequence, with torch's own threads.

A recurrent step is too short to hand out work anew: the threads are called once for a whole sequence. Either they claim
parts of the rows, each for all steps, until none is left: a thread that the system holds back claims fewer, and nobody
waits for it. Or each keeps its share of the units, and they meet at a barrier at every step. They are the threads that
torch's own products run on (OpenMP's, through the library torch has loaded), so no second pool fights the first for the
cores.

How many parts of the rows there are depends on the rows alone, and what is summed over rows is summed part by part: so
the sums are the same to the bit however many threads there are, and whichever of them took a part. The fewer rows a
thread takes at once, the more often it reads the matrix. So each thread first claims several parts side by side,
somewhat less than its share, and then single ones: what a thread leaves over that the system holds back goes to the
others.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from thereafter.base.compiled import CFunction, compiled_once, intrinsic, jit
from thereafter.base.packages import require
from thereafter.kernels.arrays import (
    WHOLE,
    ArrayType,
    Builder,
    Context,
    Floats,
    FloatType,
    Intrinsic,
    Signature,
    Value,
    Whole,
    axes_of,
)
from thereafter.kernels.loops.threads import (
    add_if,
    add_to,
    be_patient,
    pointer,
    publish,
    read_published,
    whole_number_from,
)
from thereafter.kernels.loops.tiles import LINE, product, types

carray = require("numba", "a compiled loop").carray

# A task is an array of whole numbers: a head, then its own numbers, then its arrays, each as its address and the sizes
# of three axes (the last ones 1 where it has fewer).
_BARRIER, _MEMBER, _MEMBERS, _YIELD, _SLEEP, _ALONE, PRODUCT, _HEAD = range(8)
PARTS, PANELS, PACKED, COUNTERS = range(4)  # the counters of a task, by their place; each begins at 0
COUPLED, BY_ROWS, ROWS, UNITS, NUMBERS = range(_HEAD, _HEAD + 5)  # the numbers of a task, by their place
_ARRAYS, _EACH, _MOST, _ONES = NUMBERS, 4, 32, (1, 1, 1)
_LENGTH = _ARRAYS + _EACH * _MOST
_APART = LINE // 8  # places of a line
Span = tuple[int, int]
"""From, to."""
RowSpan = tuple[int, int, int]
"""Rows: from, to, step."""
NUMPY: dict[torch.dtype, FloatType] = {torch.float32: np.dtype(np.float32), torch.float64: np.dtype(np.float64)}


def call(function: CFunction, arrays: Sequence[Tensor], numbers: Sequence[int], *, alone: bool = False) -> None:
    """Run a compiled `function(task)` on all of torch's threads, or on this one `alone`.

    The arrays are contiguous, in the order of the classes that the function reads them by; the numbers are COUPLED,
    BY_ROWS, ROWS and UNITS, as far as the function reads them.
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
    words += numbers
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


def arrays_of(kind: type[NamedTuple], behind: int = 0) -> Callable[..., Any]:
    """A compiled function `read(task, dtype)`: the arrays of a task, under the names that `kind` declares.

    They stand one after the other behind the numbers and as many other arrays as `behind` says, as `call` writes them.
    """
    fields = list(axes_of(kind).values())

    @intrinsic
    def read(typing: object, task: object, dtype: ArrayType) -> Intrinsic:
        kinds = [types.Array(types.int64 if WHOLE in field else dtype.dtype, len(field[0]), "C") for field in fields]

        def generate(context: Context, builder: Builder, signature: Signature, args: Sequence[Value]) -> Value:
            values = []
            for index, (field, made) in enumerate(zip(fields, kinds, strict=True), behind):
                place = context.get_constant(types.int64, _ARRAYS + _EACH * index)
                reader = _whole_1 if WHOLE in field else _READERS[len(field[0])]
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


@jit()
def part_of(total: int, number: int, size: int) -> Span:
    """The part of `total` things that thread `number` of `size` takes."""
    return total * number // size, total * (number + 1) // size


class Pool:
    """What the threads of torch are called with; `parallel` is None where they cannot be, and one core does it all."""

    def __init__(self) -> None:
        self._functions: list[object] = []
        self.parallel: Callable[[int, int, int, int], None] | None = None
        self.member = self.members = self.give_way = self.sleep = 0
        library = self._library()
        if library is not None:
            parallel = library.GOMP_parallel
            parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
            parallel.restype = None
            self.parallel = parallel
            self.member = self._address(library.omp_get_thread_num)
            self.members = self._address(library.omp_get_num_threads)
            system = ctypes.CDLL(None)
            self.give_way, self.sleep = self._address(system.sched_yield), self._address(system.usleep)

    def _address(self, function: Any) -> int:
        self._functions.append(function)  # an address is good as long as its function is there
        return int(ctypes.cast(function, ctypes.c_void_p).value or 0)

    @staticmethod
    def _library() -> ctypes.CDLL | None:
        """The OpenMP library that torch itself has loaded; a second copy of it would be a second pool."""
        for path in sorted((Path(torch.__file__).parent / "lib").glob("libgomp*.so*")):
            try:
                library = ctypes.CDLL(str(path))
                if all(hasattr(library, name) for name in ("GOMP_parallel", "omp_get_thread_num")):
                    return library
            except OSError:
                continue
        return None


@compiled_once
def pool() -> Pool:
    return Pool()


_FEW, _SOME, _MANY = 16, 32, 96  # rows
_ROWS = 8  # of a part at least, where there are many rows or every part is claimed alone


def parts_of(rows: int, ragged: bool = True) -> int:
    """How many parts so many rows are cut into: fewer where they are claimed one by one, as ragged rows are."""
    if rows < _FEW:
        return min(rows, 2)
    if rows < _SOME:
        return 4
    return 8 if rows < _MANY and not ragged else rows // (4 * _ROWS) * 4


parts_in = jit()(parts_of)
"""`parts_of` for compiled loops."""


@jit()
def claim_parts(task: Whole, parts: int, ragged: bool, threads: int) -> Span:
    """The next parts of so many, from and to; from is `parts` or more where none is left.

    Where lengths differ parts are claimed one by one: their rows do not lie side by side.
    """
    number = claim(task, PARTS)
    several = 1 if ragged else parts if threads == 1 else max(1, parts * 3 // (4 * threads))
    first = number * several if number < threads else threads * several + number - threads
    return first, first + (several if number < threads else 1)


@jit()
def rows_of_parts(rows: int, first: int, last: int, parts: int, ragged: bool) -> RowSpan:
    """From, to and step of the rows of the parts `first` to `last` (one where lengths differ).

    Where lengths differ, and rows are sorted by them, a part takes every n-th row, so that it has long and short ones;
    else it takes neighbours, since what is fetched beyond a row's end is then its own.
    """
    if ragged:
        return first, rows, parts
    return rows * first // parts, rows * last // parts, 1

"""Several cores at work on one sequence, with torch's own threads.

A recurrent step is too short to hand out work anew: the threads are called once for a whole sequence, and each keeps
its share of the rows, or of the units; then they meet at a barrier at every step. They are the threads that torch's own
products run on (OpenMP's, through the library torch has loaded), so no second pool fights the first for the cores.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from thereafter.compiled import compiled_once, intrinsic, jit
from thereafter.kernels.loops.tiles import LINE, ir, product, types
from thereafter.packages import require

carray = require("numba", "a compiled loop").carray

_SPINS = 4000  # looks at the barrier before the core is offered to somebody else
# A task is an array of whole numbers: a head, then the small numbers it is told, then its arrays, each as its address
# and three axes (the last ones 1 where it has fewer).
_BARRIER, _MEMBER, _MEMBERS, _YIELD, _ALONE, PRODUCT, _HEAD = range(7)
NUMBERS = 4
_ARRAYS, _EACH, _MOST, _ONES = _HEAD + NUMBERS, 4, 24, (1, 1, 1)
_LENGTH = _ARRAYS + _EACH * _MOST
_APART = LINE // 8  # places of a line
NUMPY = {torch.float32: np.dtype(np.float32), torch.float64: np.dtype(np.float64)}


class Pool:
    """What the threads of torch are called with; `parallel` is None where they cannot be, and one core does it all."""

    def __init__(self) -> None:
        self._held: list[Any] = []
        self.parallel: Any = None
        self.member = self.members = self.give_way = 0
        library = self._library()
        if library is not None:
            self.parallel = library.GOMP_parallel
            self.parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
            self.parallel.restype = None
            self.member = self._address(library.omp_get_thread_num)
            self.members = self._address(library.omp_get_num_threads)
            self.give_way = self._address(ctypes.CDLL(None).sched_yield)

    def _address(self, function: Any) -> int:
        self._held.append(function)
        return int(ctypes.cast(function, ctypes.c_void_p).value or 0)

    @staticmethod
    def _library() -> Any:
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


def call(function: Any, arrays: Sequence[Tensor], numbers: Sequence[int] = (), *, alone: bool = False) -> None:
    """Run a compiled `function(task)` on all of torch's threads, or on this one `alone`. The arrays are contiguous."""
    # only addresses cross over
    if len(arrays) > _MOST or not all(array.is_contiguous() and array.is_cpu for array in arrays):
        raise ValueError("a task takes a few arrays that lie in one piece each, on the CPU")
    threads = pool()
    team = 1 if alone or threads.parallel is None else torch.get_num_threads()
    task = (ctypes.c_int64 * (_LENGTH + (team + 1) * _APART))()
    address = ctypes.addressof(task)
    barrier = -(-(address + 8 * _LENGTH) // LINE) * LINE  # behind the task, on lines of its own
    told = [
        barrier,
        threads.member,
        threads.members,
        threads.give_way,
        int(team == 1),
        product(NUMPY[arrays[0].dtype]).address,
    ]
    told += numbers
    told += [0] * (_ARRAYS - len(told))
    for array in arrays:
        told += [array.data_ptr(), *array.shape, *_ONES[array.dim() :]]
    task[: len(told)] = told
    if team == 1:
        function.ctypes(address)
    else:
        threads.parallel(function.address, address, team, 0)


@intrinsic
def _whole_number_from(typing: Any, address: Any) -> Any:
    """Call a C function without arguments that returns an int, by its address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(32), [])
        got = builder.call(builder.inttoptr(args[0], kind.as_pointer()), [])
        return builder.sext(got, ir.IntType(64))

    return types.int64(types.int64), generate


@intrinsic
def _pointer(typing: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), generate


@intrinsic
def _say(typing: Any, address: Any, value: Any) -> Any:
    """Set the number at an address, visibly to all threads together with all that was written before."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store_atomic(args[1], builder.inttoptr(args[0], ir.IntType(64).as_pointer()), "release", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def _said(typing: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(builder.inttoptr(args[0], ir.IntType(64).as_pointer()), "acquire", 8)

    return types.int64(types.int64), generate


@jit()
def member(task: Any) -> int:
    """The number of the thread that asks, from 0."""
    return 0 if task[_ALONE] else _whole_number_from(task[_MEMBER])


@jit()
def members(task: Any) -> int:
    """How many threads work on this task: OpenMP may give fewer than were asked for."""
    return 1 if task[_ALONE] else _whole_number_from(task[_MEMBERS])


@jit()
def meet(task: Any, meetings: int, size: int) -> int:
    """Wait until all threads have come here `meetings + 1` times; returns that number."""
    meetings += 1
    if size > 1:
        # Each thread counts on a line that nobody else writes to: one number for all would have to travel to each of
        # them to be added to, and back to be read.
        _say(task[_BARRIER] + member(task) * LINE, meetings)
        for other in range(size):
            spins = 0
            while _said(task[_BARRIER] + other * LINE) < meetings:
                spins += 1
                if spins > _SPINS:
                    _whole_number_from(task[_YIELD])
    return meetings


@jit()
def task_at(address: Any) -> Any:
    """The task whose address a compiled function was called with."""
    return carray(address, _LENGTH, np.int64)


@jit()
def number(task: Any, index: int) -> Any:
    """One of the numbers the task was told."""
    return task[_HEAD + index]


@jit()
def array_1(task: Any, index: int, dtype: Any) -> Any:
    """The array of that place, which has one axis."""
    at = _ARRAYS + _EACH * index
    return carray(_pointer(task[at]), (task[at + 1],), dtype)


@jit()
def array_2(task: Any, index: int, dtype: Any) -> Any:
    """The array of that place, which has two axes."""
    at = _ARRAYS + _EACH * index
    return carray(_pointer(task[at]), (task[at + 1], task[at + 2]), dtype)


@jit()
def array_3(task: Any, index: int, dtype: Any) -> Any:
    """The array of that place, which has three axes."""
    at = _ARRAYS + _EACH * index
    return carray(_pointer(task[at]), (task[at + 1], task[at + 2], task[at + 3]), dtype)


@jit()
def share(total: int, number: int, size: int) -> tuple[int, int]:
    """The part of `total` things that thread `number` of `size` takes: from, to."""
    return total * number // size, total * (number + 1) // size

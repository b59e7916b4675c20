"""A pass over weights, made once and run at every step: products of a few rows, and what a formula makes of them.

`loops.steps` is the compiled side; importing this module imports numba. A pass runs on all of torch's threads or on
one: whichever was faster lately. The threads that help are this process's own, started when the first pass wants them
(`Helpers`). They end with the process, and a process that was forked off starts its own.

A step of one row does little else than read its weights, so that numbers stored in fewer bytes are less time. They are
widened in registers, with what every processor has: a bfloat16 is the upper half of a float32, an int8 is extended by
its sign and made a float. The arithmetic is float32 throughout (float64 for a float64 matrix). Where widening an int8
costs more than it saves, on ARM processors, its products are those of whole numbers: `fours`.

A matrix lies in panels [K, V, L], as in `tiles`: K columns of the matrix, V vectors of L rows. Of bfloat16 numbers two
vectors are interleaved, so that the two of one word are the same place of two vectors. The int8 numbers of BLOCK
columns have one scale for each row of the matrix, [blocks, V, L] for a panel. `step.storing` lays them out.

Shapes: B rows, H units, K columns.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter_ns
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from thereafter.base.compiled import CFunction, c_function, compiled_once, intrinsic
from thereafter.base.processor import usable
from thereafter.kernels.arrays import Builder, Context, Intrinsic, IrType, Signature, Value
from thereafter.kernels.loops import fours
from thereafter.kernels.loops import steps as loops
from thereafter.kernels.loops.formulas import FORMULAS
from thereafter.kernels.loops.team import NUMPY
from thereafter.kernels.loops.tiles import (
    LINE,
    MOST_ROWS,
    VECTOR_BYTES,
    cgutils,
    ir,
    multiply_and_add,
    spread,
    types,
    write_cases,
)
from thereafter.kernels.step.storing import (
    BLOCK,
    Form,
    Narrow,
    PackedMatrix,
    PanelLayout,
    pack_bias,
    pack_matrix,
)

WORTH_A_TEAM = 1 << 17
"""Numbers of the matrices, times rows: with fewer of them, in whatever form, calling other threads (some 2 us) costs
more than they save."""


MOST_HELPERS = 7
"""More threads have never been measured."""
_FUNCTIONS = {
    loops.GIVE_WAY: "sched_yield",
    loops.NAP: "usleep",
    loops.CLOCK: "clock_gettime",
    loops.SLEEP: "sem_wait",
    loops.WAKE: "sem_post",
    loops.CORE_OF: "sched_getcpu",
    loops.GET_CORES: "sched_getaffinity",
    loops.SET_CORES: "sched_setaffinity",
}


class Helpers:
    """`board` is where passes find them (`loops.steps`); 0 where the system has not what they need: Linux has."""

    def __init__(self) -> None:
        self.board = 0
        self._threads: list[threading.Thread] = []
        self._starting = threading.Lock()
        self._ended = False
        system = ctypes.CDLL(None) if sys.platform.startswith("linux") else None
        names = ("sem_init", "aligned_alloc", *_FUNCTIONS.values())
        if system is not None and all(hasattr(system, name) for name in names):
            self._functions = {place: getattr(system, name) for place, name in _FUNCTIONS.items()}
            self._make_flag, self._raise_flag = system.sem_init, system.sem_post
            # memory that is never given back: a helper may look at it until the process is gone
            system.aligned_alloc.restype = ctypes.c_void_p
            system.aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
            self.board = int(system.aligned_alloc(LINE, loops.board_bytes(MOST_HELPERS)) or 0)
        if self.board:
            self._clear()
            os.register_at_fork(
                before=self._starting.acquire, after_in_parent=self._starting.release, after_in_child=self._forget
            )
            atexit.register(self._end)

    def _clear(self) -> None:
        ctypes.memset(self.board, 0, loops.board_bytes(MOST_HELPERS))
        for place, function in self._functions.items():
            self._write(place, ctypes.cast(function, ctypes.c_void_p).value or 0)
        for number in range(1, MOST_HELPERS + 1):
            self._make_flag(ctypes.c_void_p(self._at(number) + loops.FLAG), 0, 0)

    def _at(self, number: int) -> int:
        return self.board + loops.HELPERS_AT + (number - 1) * loops.EACH_HELPER

    def _write(self, place: int, value: int) -> None:
        ctypes.c_int64.from_address(self.board + place).value = value

    def prepare(self) -> None:
        """Have at hand what they run: to compile it takes seconds, and to load it milliseconds."""
        self._share = loops.shared().address
        self._life, self._dismiss = loops.helper().ctypes, loops.dismiss().ctypes

    def start(self, team: int) -> None:
        """See to it that there are helpers for a team of so many threads, the one that calls included.

        Where the system gives no more threads there are fewer: what they would have done, the others do.
        """
        if len(self._threads) >= team - 1 or self._ended:
            return
        with self._starting:
            while len(self._threads) < min(team - 1, MOST_HELPERS) and not self._ended:
                number = len(self._threads) + 1
                thread = threading.Thread(
                    target=self._life, args=(self.board, number, self._share), name=f"thereafter-helper-{number}",
                    daemon=True,
                )  # fmt: skip
                self._threads.append(thread)  # before it starts: whatever interrupts this, no number is given twice
                try:
                    thread.start()
                except RuntimeError:
                    return

    def worked(self, number: int) -> int:
        """At how many passes a helper has worked (the first one is 1)."""
        return int(ctypes.c_int64.from_address(self._at(number) + loops.WORKED).value)

    def stop(self) -> None:
        """End them; the next pass starts others."""
        with self._starting:
            if self._threads:
                self._dismiss(self.board, len(self._threads))
            for thread in self._threads:
                if thread.ident is not None:
                    thread.join()
            self._threads.clear()
            self._write(loops.STOP, 0)

    def _end(self) -> None:
        """End them for good, before the machine code that they run goes."""
        self._ended = True
        self.stop()

    def _forget(self) -> None:
        """In a process that was forked off: the threads did not come along, nor does anybody work on a pass."""
        self._starting.release()
        self._threads.clear()
        self._clear()


@compiled_once
def helpers() -> Helpers:
    """Those of this process."""
    return Helpers()


class PanelStore:
    """Matrices in panels, made once for all streams of the same weights."""

    def __init__(self, like: Tensor, narrow: Narrow | None, packed: dict[str, Tensor]) -> None:
        self.form: Form = form_of(like, narrow)
        self._lanes, self._packed = VECTOR_BYTES // like.element_size(), packed

    def layout(self, gates: int, units: int) -> PanelLayout:
        return PanelLayout(gates, units, self._lanes)

    def matrix(self, name: str, weight_GK: Tensor, layout: PanelLayout) -> PackedMatrix:
        """A matrix in panels, under its name."""
        names = [f"{name} {part} {self.form}" for part in PackedMatrix._fields]
        if names[-1] not in self._packed:
            for key, tensor in zip(names, pack_matrix(weight_GK, layout, self.form), strict=True):
                self._packed.setdefault(key, tensor)
        return PackedMatrix(*(self._packed[key] for key in names))

    def bias(self, name: str, bias_G: Tensor, layout: PanelLayout) -> Tensor:
        """A bias in panels, under its name."""
        key = f"{name} panels"
        return self._packed[key] if key in self._packed else self._packed.setdefault(key, pack_bias(bias_G, layout))


def form_of(like: Tensor, narrow: Narrow | None) -> Form:
    """How matrices are stored: as they are, or in fewer bytes where their type is float32."""
    if like.element_size() == 8:
        return "float64"
    if narrow == "int8" and fours.usable():
        return "int8 by fours"
    return narrow or "float32"


class PassSource(NamedTuple):
    """A matrix in panels, the rows [B, K] it is multiplied by, which may be part of a buffer, and its bias; without one
    it is added to the product before."""

    matrix: PackedMatrix
    rows_BK: Tensor
    bias: Tensor | None = None


class StepPass:
    """What is run at every step; `arrays` are those of the formula by name, [B, H] or [H] each.

    `state`: where the array `out` is copied at the end.
    """

    def __init__(
        self, kind: str, layout: PanelLayout, form: Form, sources: Sequence[PassSource], arrays: Mapping[str, Tensor],
        state: Tensor | None = None,
    ) -> None:  # fmt: skip
        rows_BK = sources[0].rows_BK
        rows, item = len(rows_BK), rows_BK.element_size()
        self._helpers = helpers()
        self.most = min(max(torch.get_num_threads(), usable()), MOST_HELPERS + 1) if self._helpers.board else 1
        each = -(-rows * layout.vectors * VECTOR_BYTES * len(sources) // LINE) * LINE + LINE
        scratch = rows_BK.new_empty((self.most * (each + LINE) + LINE) // item)
        records = [_records(source) if form == "int8 by fours" else None for source in sources]
        self._kept = (scratch, *sources, *records, *arrays.values(), state)  # their addresses are all the pass has
        task = (ctypes.c_int64 * loops.LENGTH)()
        room = -(-scratch.data_ptr() // LINE) * LINE
        functions = (product(form), loops.formula(kind, NUMPY[rows_BK.dtype]))
        task[loops.PRODUCT : loops.CUT] = [function.address for function in functions]
        task[loops.CUT] = fours.cut().address if form == "int8 by fours" else 0
        task[loops.BOARD : loops.ROWS] = [self._helpers.board, room + self.most * each]
        task[loops.ROWS : loops.BACKWARD] = [
            rows, layout.units, layout.panels, layout.vectors, layout.panel_units, item, room, each
        ]  # fmt: skip
        task[loops.SOURCES] = len(sources)
        if state is not None:
            ends = [state, arrays["out"]]
            task[loops.STATE : loops.STATE_BYTES + 1] = [*_places(ends), state.shape[1] * item]
        for index, (source, cut) in enumerate(zip(sources, records, strict=True)):
            at = loops.FIRST_SOURCE + index * loops.EACH_SOURCE
            task[at : at + loops.EACH_SOURCE] = _source(source, layout, cut)
        places = _places([arrays[name] for name in FORMULAS[kind].arrays])
        task[loops.FIRST_ARRAY : loops.FIRST_ARRAY + len(places)] = places
        self._task, self._address = task, ctypes.addressof(task)
        read = sum(source.matrix.panels.numel() for source in sources)
        self._team = StepTeam(self.most) if self.most > 1 and read * rows >= WORTH_A_TEAM else None
        if self._team is not None:
            self._helpers.prepare()
        self._share, self._conduct = loops.shared().address, loops.conduct().ctypes

    def __call__(self) -> None:
        if self._team is None:
            self._run(1)
        else:
            self._team.run(self._run)

    def _run(self, team: int) -> None:
        if team > 1:
            self._helpers.start(team)
        self._conduct(self._address, team, self._share)


def _records(source: PassSource) -> Tensor:
    """Where the digits of the rows of a source go."""
    rows, columns = source.rows_BK.shape
    return torch.empty(rows, -(-columns // BLOCK) * fours.RECORD, dtype=torch.int8, device="cpu")


def _source(source: PassSource, layout: PanelLayout, records: Tensor | None) -> list[ctypes.c_int64 | int]:
    panels, scales = source.matrix
    rows_BK = source.rows_BK
    return [
        rows_BK.shape[1],
        *_places([rows_BK if records is None else records]),
        panels.data_ptr(),
        panels.nbytes // layout.panels,
        scales.data_ptr(),
        scales.nbytes // layout.panels,
        0 if source.bias is None else source.bias.data_ptr(),
        *_places([rows_BK]),
    ]


def _places(arrays: Sequence[Tensor]) -> list[ctypes.c_int64 | int]:
    """Address and bytes a row of each; one row stands for all where there is one axis."""
    places: list[ctypes.c_int64 | int] = []
    for array in arrays:
        places += [array.data_ptr(), array.stride(0) * array.element_size() if array.dim() > 1 else 0]
    return places


threads_of_torch = torch.get_num_threads


class StepTeam:
    """Runs a pass on all threads (torch's number, `most` at most) while that is faster than on one, else on one.

    A team may be late, where another program keeps one of its threads off its core in the middle of its work. So passes
    are timed: WINDOW of them on all threads that take longer than as many on one are broken off and followed by `rest`
    passes on one, twice as many each time this happens again and half as many each time it does not. What one thread
    takes is the median of its last LOOKS passes; it is measured at the start and again after every AGAIN windows. The
    first pass on all threads after some on one is not judged: it wakes those that fell asleep.

    A window is a millisecond or so, shorter than a time slice that is lost; the shortest rest is as long as a window,
    the longest some ten milliseconds, so that what was tried in vain stays below a tenth of the time.
    """

    WINDOW, LOOKS, AGAIN = 16, 5, 128
    FEWEST, MOST = 16, 1024

    def __init__(self, most: int) -> None:
        self.most = most
        self.rest = self.FEWEST
        self._alone = self.LOOKS  # passes on one thread that are still to come
        self._last: deque[int] = deque(maxlen=self.LOOKS)  # nanoseconds of passes on one thread
        self._lone = 0  # what one takes
        self._windows = 0
        self._taken = self._passes = 0  # of the window that is open
        self._asleep = False

    def run(self, call: Callable[[int], None]) -> None:
        """One pass: `call(threads)`."""
        team = min(threads_of_torch(), self.most)
        if team == 1:
            call(1)
            return
        began = perf_counter_ns()
        call(1 if self._alone else team)
        took = perf_counter_ns() - began
        if self._alone:
            self._judge_one(took)
        elif self._asleep:
            self._asleep = False
        else:
            self._judge_team(took)

    def _judge_one(self, took: int) -> None:
        self._last.append(took)
        self._alone -= 1
        if not self._alone:
            self._lone, self._asleep = sorted(self._last)[self.LOOKS // 2], True
            self._taken = self._passes = 0

    def _judge_team(self, took: int) -> None:
        self._taken += took
        self._passes += 1
        if self._taken > self.WINDOW * self._lone:
            self._alone, self.rest = self.rest, min(2 * self.rest, self.MOST)
        elif self._passes == self.WINDOW:
            self.rest = max(self.rest // 2, self.FEWEST)
            self._windows += 1
            if self._windows % self.AGAIN == 0:
                self._alone = self.LOOKS
            self._taken = self._passes = 0


_I8, _I16, _I32, _I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
PANELS = (3, 4)
"""Vectors that a panel may have."""
_STORED: dict[Form, np.dtype[np.generic]] = {
    "float64": np.dtype(np.float64),
    "float32": np.dtype(np.float32),
    "bfloat16": np.dtype(np.int16),
    "int8": np.dtype(np.int8),
}
_BFLOAT16, _INT8 = types.int16, types.int8  # the types of numba's that stand for them here


def product(form: Form) -> CFunction:
    """`stored_product` for matrices of one form; `int8 by fours`: of rows that are cut into digits (`fours`)."""
    return fours.product() if form == "int8 by fours" else _product(_STORED[form])


@compiled_once
def _product(stored: np.dtype[np.generic]) -> CFunction:
    """z[r] += the sum over k of a[r, k] b[k], for all rows r and one panel b; z [rows, V, L]: a C function.

    Given are V, rows, K; the addresses of a with its bytes a row, of the panel, of its scales, and of z.
    """
    number = max(4, stored.itemsize)
    each = VECTOR_BYTES // number * stored.itemsize

    def stored_product(vectors: int, rows: int, depth: int, a: int, a_row: int, b: int, scales: int, z: int) -> None:
        for start in range(0, depth, BLOCK):
            deep = min(BLOCK, depth - start)
            a_at, z_at, left, tiles = a, z, rows, (rows + MOST_ROWS - 1) // MOST_ROWS
            while left > 0:
                height = (left + tiles - 1) // tiles
                _tile(stored, height, vectors, deep, a_at, a_row, b, scales, z_at)
                a_at += height * a_row
                z_at += height * vectors * VECTOR_BYTES
                left -= height
                tiles -= 1
            a += deep * number
            b += deep * vectors * each
            scales += vectors * VECTOR_BYTES

    return c_function(types.void(*[types.int64] * 8), stored_product)


@intrinsic
def _tile(
    typing: object, stored: object, height: object, vectors: object, depth: object, a: object, a_row: object,
    b: object, scales: object, z: object,
) -> Intrinsic:  # fmt: skip
    """The product of one tile of rows with up to BLOCK columns of a panel."""

    def generate(context: Context, builder: Builder, signature: Signature, args: Sequence[Value]) -> Value:
        stored = signature.args[0].dtype
        tiles = {
            rows * 8 + columns: partial(_Tile(builder, stored, rows, columns).write, args[3:])
            for rows in range(1, MOST_ROWS + 1)
            for columns in PANELS
        }
        write_cases(builder, builder.add(builder.mul(args[1], _I64(8)), args[2]), tiles)
        return context.get_dummy_value()

    return types.void(stored, *[types.int64] * 8), generate


class _Tile:
    """The code of a tile of one size."""

    def __init__(self, builder: Builder, stored: object, rows: int, vectors: int) -> None:
        self.builder, self.stored, self.rows, self.vectors = builder, stored, rows, vectors
        self.size = 8 if stored == types.float64 else 4
        self.lanes = VECTOR_BYTES // self.size
        self.number = ir.DoubleType() if self.size == 8 else ir.FloatType()
        self.vector = ir.VectorType(self.number, self.lanes)
        self.words = ir.VectorType(_I32, self.lanes)
        self.fma = multiply_and_add(builder, self.vector, self.size)

    def write(self, args: Sequence[Value]) -> None:
        depth, a, a_row, b, scales, z = args
        builder, scaled = self.builder, self.stored == _INT8
        tile = [(r, v) for r in range(self.rows) for v in range(self.vectors)]
        places = {(r, v): builder.add(z, _I64((r * self.vectors + v) * VECTOR_BYTES)) for r, v in tile}
        sums = {place: cgutils.alloca_once(builder, self.vector) for place in tile}
        zero = ir.Constant(self.vector, [0.0] * self.lanes)
        for place in tile:
            builder.store(zero if scaled else self._load(places[place], self.vector), sums[place])
        with cgutils.for_range(builder, depth, intp=_I64) as loop:
            numbers = self._numbers(b, loop.index)
            for r in range(self.rows):
                row = builder.add(a, builder.mul(a_row, _I64(r)))
                number = self._load(builder.add(row, builder.mul(loop.index, _I64(self.size))), self.number)
                everywhere = spread(builder, number, self.vector)
                for v in range(self.vectors):
                    total = builder.call(self.fma, [everywhere, numbers[v], builder.load(sums[r, v])])
                    builder.store(total, sums[r, v])
        for r, v in tile:
            total = builder.load(sums[r, v])
            if scaled:
                scale = self._load(builder.add(scales, _I64(v * VECTOR_BYTES)), self.vector)
                total = builder.call(self.fma, [total, scale, self._load(places[r, v], self.vector)])
            builder.store(total, builder.inttoptr(places[r, v], self.vector.as_pointer()), align=self.size)

    def _numbers(self, b: Value, k: Value) -> list[Value]:
        """The vectors of one column, as they are multiplied."""
        builder = self.builder
        each = {_INT8: 1, _BFLOAT16: 2}.get(self.stored, self.size) * self.lanes
        row = builder.add(b, builder.mul(k, _I64(each * self.vectors)))
        places = [builder.add(row, _I64(v * each)) for v in range(self.vectors)]
        if self.stored == _BFLOAT16:
            return self._from_bfloat16(places)
        if self.stored == _INT8:
            short = [self._load(place, ir.VectorType(_I8, self.lanes), 1) for place in places]
            return [builder.sitofp(builder.sext(number, self.words), self.vector) for number in short]
        return [self._load(place, self.vector) for place in places]

    def _from_bfloat16(self, places: Sequence[Value]) -> list[Value]:
        """The lower half of a word, moved up, and the upper half, the other one cleared."""
        builder, numbers = self.builder, []
        upper, half = (ir.Constant(self.words, [value] * self.lanes) for value in (0xFFFF0000, 16))
        for v in range(0, self.vectors - 1, 2):
            pair = self._load(places[v], self.words, 2)
            numbers += [builder.shl(pair, half), builder.and_(pair, upper)]
        if self.vectors % 2:
            last = self._load(places[-1], ir.VectorType(_I16, self.lanes), 2)
            numbers.append(builder.shl(builder.zext(last, self.words), half))
        return [builder.bitcast(number, self.vector) for number in numbers]

    def _load(self, address: Value, kind: IrType, align: int | None = None) -> Value:
        return self.builder.load(self.builder.inttoptr(address, kind.as_pointer()), align=align or self.size)

"""A pass over weights, made once and run at every step: products of a few rows, and what a formula makes of them.

`loops.steps` is the compiled side; importing this module imports numba. Shapes: B rows, H units, K columns.
"""

from __future__ import annotations

import ctypes
from _ctypes import CFuncPtr
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter_ns
from typing import NamedTuple

import torch
from torch import Tensor

from thereafter.kernels.loops import steps as loops
from thereafter.kernels.loops.formulas import FORMULAS
from thereafter.kernels.loops.stored import product
from thereafter.kernels.loops.team import NUMPY, pool
from thereafter.kernels.loops.tiles import VECTOR_BYTES
from thereafter.kernels.step.packing import PackedMatrix, PanelLayout
from thereafter.kernels.step.storing import Form
from thereafter.processor import usable

threads_of_torch = torch.get_num_threads
WORTH_A_TEAM = 1 << 17
"""Numbers of the matrices, times rows: with fewer of them, in whatever form, calling other threads (some 2 us) costs
more than they save."""


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
        threads = pool()
        self.most = max(torch.get_num_threads(), usable()) if threads.parallel is not None else 1
        each = -(-rows * layout.vectors * VECTOR_BYTES * len(sources) // 64) * 64 + 64
        scratch = rows_BK.new_empty(self.most * each // item + 64)
        self._kept = (scratch, *sources, *arrays.values(), state)  # their addresses are all that the pass has
        functions = (product(form), loops.formula(kind, NUMPY[rows_BK.dtype]), loops.alone(), loops.shared())
        task = (ctypes.c_int64 * loops.LENGTH)()
        task[loops.PRODUCT : loops.SHARED + 1] = [function.address for function in functions]
        if threads.parallel is not None:
            task[loops.PARALLEL : loops.MEMBERS + 1] = [address_of(threads.parallel), threads.member, threads.members]
        room = -(-scratch.data_ptr() // 64) * 64
        task[loops.ROWS : loops.BACKWARD] = [
            rows, layout.units, layout.panels, layout.vectors, layout.panel_units, item, room, each
        ]  # fmt: skip
        task[loops.SOURCES] = len(sources)
        if state is not None:
            ends = [state, arrays["out"]]
            task[loops.STATE : loops.FIRST_SOURCE] = [*_places(ends), state.shape[1] * item]
        for index, source in enumerate(sources):
            at = loops.FIRST_SOURCE + index * loops.EACH_SOURCE
            task[at : at + loops.EACH_SOURCE] = _source(source, layout)
        places = _places([arrays[name] for name in FORMULAS[kind].arrays])
        task[loops.FIRST_ARRAY : loops.FIRST_ARRAY + len(places)] = places
        self._task, self._address = task, ctypes.addressof(task)
        read = sum(source.matrix.panels.numel() for source in sources)
        self._team = StepTeam(self.most) if self.most > 1 and read * rows >= WORTH_A_TEAM else None
        self._run: Callable[..., None] = loops.conduct().ctypes

    def __call__(self) -> None:
        if self._team is None:
            self._run(self._address, 1)
        else:
            self._team.run(self._run, self._address)


class StepTeam:
    """Runs a pass on all of torch's threads, or on one for a while after the others were late.

    A team is as late as its last thread: where other programs run on the cores, a step may wait some milliseconds for
    one that is not let in. A step that takes LATE times the fastest one is followed by others on one thread, twice as
    many each time it happens again; every step that was not late makes them fewer by one. The first step on all threads
    after a rest is not judged: it wakes those that fell asleep, which takes up to four times a short step.
    """

    LATE, FEWEST, MOST = 8, 16, 4096

    def __init__(self, most: int) -> None:
        self.most = most
        self.fastest = 1 << 62
        self.rest = self.FEWEST
        self.alone = 0
        self.asleep = True

    def run(self, call: Callable[[int, int], None], address: int) -> None:
        """One pass."""
        team = min(threads_of_torch(), self.most)
        if team == 1 or self.alone:
            self.alone -= 1 if self.alone else 0
            self.asleep = True
            call(address, 1)
            return
        began = perf_counter_ns()
        call(address, team)
        took = perf_counter_ns() - began
        if self.asleep:
            self.asleep = False
        elif took > self.LATE * self.fastest:
            self.alone, self.rest = self.rest, min(2 * self.rest, self.MOST)
        else:
            self.rest = max(self.rest - 1, self.FEWEST)
            self.fastest = min(self.fastest, took)


def address_of(function: object) -> int:
    """Where a C function lies."""
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0) if isinstance(function, CFuncPtr) else 0


def _source(source: PassSource, layout: PanelLayout) -> list[ctypes.c_int64 | int]:
    panels, scales = source.matrix
    rows_BK = source.rows_BK
    return [
        rows_BK.shape[1],
        *_places([rows_BK]),
        panels.data_ptr(),
        panels.nbytes // layout.panels,
        scales.data_ptr(),
        scales.nbytes // layout.panels,
        0 if source.bias is None else source.bias.data_ptr(),
    ]


def _places(arrays: Sequence[Tensor]) -> list[ctypes.c_int64 | int]:
    """Address and bytes a row of each; one row stands for all where there is one axis."""
    places: list[ctypes.c_int64 | int] = []
    for array in arrays:
        places += [array.data_ptr(), array.stride(0) * array.element_size() if array.dim() > 1 else 0]
    return places

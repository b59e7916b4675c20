"""A pass over weights, made once and run at every step: products of a few rows, and what a formula makes of them.

`loops.steps` is the compiled side; importing this module imports numba. Shapes: B rows, H units, K columns.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from thereafter.kernels.loops import fours
from thereafter.kernels.loops import steps as loops
from thereafter.kernels.loops.formulas import FORMULAS
from thereafter.kernels.loops.stored import product
from thereafter.kernels.loops.team import NUMPY
from thereafter.kernels.loops.tiles import LINE, VECTOR_BYTES
from thereafter.kernels.step.helpers import MOST_HELPERS, helpers
from thereafter.kernels.step.packing import PackedMatrix, PanelLayout
from thereafter.kernels.step.step_team import StepTeam
from thereafter.kernels.step.storing import BLOCK, Form
from thereafter.processor import usable

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

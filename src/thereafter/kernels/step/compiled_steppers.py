"""One step of each cell as one or two passes over its weights: importing this module imports numba.

Shapes: B rows, I inputs, H hidden units, G gate rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from torch import Tensor

from thereafter.cells.base import Cell
from thereafter.cells.diagonal import Diagonal
from thereafter.cells.elman import Elman
from thereafter.cells.gru import GRU
from thereafter.cells.lstm import LSTM
from thereafter.cells.minimal import MinGRU, MinLSTM
from thereafter.kernels.loops import fours
from thereafter.kernels.loops.tiles import VECTOR_BYTES
from thereafter.kernels.step.passes import PassSource, StepPass
from thereafter.kernels.step.stepper import Slot, Stepper
from thereafter.kernels.step.steppers import FastStepper, MinLSTMStepper, Weights
from thereafter.kernels.step.storing import Form, Narrow, PackedMatrix, PanelLayout, pack_bias, pack_matrix

C = TypeVar("C", bound=Cell)


class PassStepper(Stepper, Generic[C]):
    """A cell whose step is passes over its weights."""

    cell: C

    def __init__(
        self, cell: C, weights: Weights, batch: int, outlet: Slot, packed: Weights, narrow: Narrow | None
    ) -> None:
        super().__init__(cell, weights, batch, outlet, packed)
        self.inlet_slot = Slot(self.empty(cell.input_size), 0, cell.input_size)
        self.inlet, self.h = self.inlet_slot.view, self.empty(cell.hidden_size)
        self.state = type(self.state)(self.h, *self.state[1:])
        self.store = PanelStore(self.like, narrow, packed)
        self.passes = self.make_passes(weights)

    @abstractmethod
    def make_passes(self, weights: Weights) -> list[StepPass]:
        """What is run at every step."""

    def gated(self, weights: Weights, kind: str, gates: int, arrays: dict[str, Tensor], fed: Tensor | None) -> StepPass:
        """The pass of a cell that makes of W x + U h + b its new h; `fed` is h, or None for a cell without U."""
        layout = self.store.layout(gates, self.cell.hidden_size)
        bias = self.store.bias("bias", self.bias(weights, gates * layout.units), layout)
        sources = [PassSource(self.store.matrix("weight_ih", weights["weight_ih"], layout), self.inlet, bias)]
        if fed is not None:
            sources.append(PassSource(self.store.matrix("weight_hh", weights["weight_hh"], layout), fed))
        arrays = arrays | {"out": self.outlet.view}
        return StepPass(kind, layout, self.store.form, sources, arrays, state=self.h)

    def step(self) -> None:
        for run in self.passes:
            run()


class PanelStore:
    """Matrices in panels, made once for all streams of the same weights."""

    def __init__(self, like: Tensor, narrow: Narrow | None, packed: Weights) -> None:
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


class LSTMPass(PassStepper[LSTM]):
    """i, f, g, o, then c and h; with peepholes, and with coupled gates."""

    def make_passes(self, weights: Weights) -> list[StepPass]:
        options = self.cell.options
        c = self.state[-1]
        arrays = {"old": c, "new": c}
        if options.peephole:
            names = [name for name in weights if name.startswith("peephole")]
            arrays |= {name[: len("peephole_i")]: self.keep(name, weights[name].clone) for name in names}
        kind = f"lstm{' peephole' if options.peephole else ''}{' coupled' if options.coupled else ''}"
        return [self.gated(weights, kind, 3 if options.coupled else 4, arrays, self.h)]


class GRUPass(PassStepper[GRU]):
    """Both orders of the reset gate, both conventions of the update gate."""

    def make_passes(self, weights: Weights) -> list[StepPass]:
        options = self.cell.options
        if options.reset == "before":
            return self._before(weights, options.update)
        layout = self.store.layout(3, self.cell.hidden_size)
        none = self.like.new_zeros(3 * layout.units)
        sources = []
        for part, rows_BK in (("ih", self.inlet), ("hh", self.h)):
            matrix = self.store.matrix(f"weight_{part}", weights[f"weight_{part}"], layout)
            bias = self.store.bias(f"bias_{part}", weights.get(f"bias_{part}", none), layout)
            sources.append(PassSource(matrix, rows_BK, bias))
        arrays = {"h": self.h, "out": self.outlet.view}
        return [StepPass(f"gru after {options.update}", layout, self.store.form, sources, arrays, state=self.h)]

    def _before(self, weights: Weights, update: str) -> list[StepPass]:
        """Gates from x and h, then the candidate from x and r h."""
        units = self.cell.hidden_size
        reset_h, z = self.empty(units), self.empty(units)
        total = self.bias(weights, 3 * units)
        passes = []
        for kind, gates, part, fed in (
            ("gru gates", 2, slice(0, 2 * units), self.h),
            (f"gru before {update}", 1, slice(2 * units, 3 * units), reset_h),
        ):
            layout = self.store.layout(gates, units)
            sources = [
                PassSource(
                    self.store.matrix(f"weight_ih {kind}", weights["weight_ih"][part], layout),
                    self.inlet,
                    self.store.bias(f"bias {kind}", total[part], layout),
                ),
                PassSource(self.store.matrix(f"weight_hh {kind}", weights["weight_hh"][part], layout), fed),
            ]
            arrays = {"h": self.h, "reset_h": reset_h, "update": z, "out": self.outlet.view}
            state = self.h if gates == 1 else None
            passes.append(StepPass(kind, layout, self.store.form, sources, arrays, state=state))
        return passes


class ElmanPass(PassStepper[Elman]):
    """h = f(W x + U h + b)."""

    def make_passes(self, weights: Weights) -> list[StepPass]:
        return [self.gated(weights, f"elman {self.cell.options.nonlinearity}", 1, {}, self.h)]


class MinGRUPass(PassStepper[MinGRU]):
    """h = (1 - z) h + z new."""

    def make_passes(self, weights: Weights) -> list[StepPass]:
        return [self.gated(weights, "min gru", 2, {"h": self.h}, None)]


class DiagonalPass(PassStepper[Diagonal]):
    """h = decay h + scale W x."""

    def make_passes(self, weights: Weights) -> list[StepPass]:
        ones = self.like.new_ones(self.cell.hidden_size)
        decay, scale = self.cell.coefficients(ones, weights)
        arrays = {"h": self.h, "decay": self.keep("decay", decay.clone), "scale": self.keep("scale", scale.clone)}
        return [self.gated(weights, "diagonal", 1, arrays, None)]


class MinLSTMPass(MinLSTMStepper):
    """Its product alone: the rest needs logarithms."""

    def __init__(
        self, cell: Cell, weights: Weights, batch: int, outlet: Slot, packed: Weights, narrow: Narrow | None
    ) -> None:
        self.narrow = narrow
        super().__init__(cell, weights, batch, outlet, packed)

    def input_product(self, weights: Weights) -> Callable[[], None]:
        store = PanelStore(self.like, self.narrow, self.packed)
        layout = store.layout(3, self.cell.hidden_size)
        bias = store.bias("none", self.like.new_zeros(3 * layout.units), layout)
        source = PassSource(store.matrix("weight_ih", weights["weight_ih"], layout), self.inlet, bias)
        arrays = dict(zip(("to_a", "to_b", "to_c"), self.gates.chunk(3, dim=1), strict=True))
        return StepPass("copies 3", layout, store.form, [source], arrays)


# By the exact type: a cell that was made from one of these may compute something else.
COMPILED_STEPPERS: dict[type[Cell], FastStepper] = {
    LSTM: FastStepper(LSTMPass, lambda cell: not cell.options.proj_size),
    GRU: FastStepper(GRUPass),
    Elman: FastStepper(ElmanPass),
    MinGRU: FastStepper(MinGRUPass),
    MinLSTM: FastStepper(MinLSTMPass),
    Diagonal: FastStepper(DiagonalPass),
}

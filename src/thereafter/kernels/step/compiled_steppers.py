"""One step of each cell as one or two passes over its weights: importing this module imports numba.

Shapes: B rows, I inputs, H hidden units, G gate rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from torch import Tensor

from thereafter.cells.base import Cell
from thereafter.cells.elman import Elman
from thereafter.cells.gru import GRU
from thereafter.cells.lstm import LSTM
from thereafter.cells.minimal import Diagonal, MinGRU, MinLSTM
from thereafter.kernels.step.passes import PanelStore, PassSource, StepPass
from thereafter.kernels.step.stepper import FastStepper, MinLSTMStepper, Slot, Stepper, Weights

C = TypeVar("C", bound=Cell)


class PassStepper(Stepper, Generic[C]):
    """A cell whose step is passes over its weights."""

    cell: C

    def arrange(self, weights: Weights) -> None:
        cell = self.cell
        self.inlet_slot = Slot(self.empty(cell.input_size), 0, cell.input_size)
        self.inlet, self.h = self.inlet_slot.view, self.empty(cell.hidden_size)
        self.state = type(self.state)(self.h, *self.state[1:])
        self.store = PanelStore(self.like, self.narrow, self.packed)
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
        arrays = arrays | {"out": self.shown}
        return StepPass(kind, layout, self.store.form, sources, arrays, state=self.h)

    def step(self) -> None:
        for run in self.passes:
            run()


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
        arrays = {"h": self.h, "out": self.shown}
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
            arrays = {"h": self.h, "reset_h": reset_h, "update": z, "out": self.shown}
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

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

    def gated(
        self, weights: Weights, kind: str, gates: int, arrays: dict[str, Tensor], fed: Tensor | None,
        first: int = 0, makes_h: bool = True,
    ) -> StepPass:  # fmt: skip
        """A pass that makes of W x + U h + b, of some gates from the `first` on, its new h; `fed` is h, or None for a
        cell without U."""
        layout = self.store.layout(gates, self.cell.hidden_size)
        part = slice(first * layout.units, (first + gates) * layout.units)
        total = self.bias(weights, len(weights["weight_ih"]))
        sources: list[PassSource] = []
        for name, rows_BK in (("weight_ih", self.inlet), ("weight_hh", fed)):
            if rows_BK is not None:
                bias = None if sources else self.store.bias(f"bias {kind}", total[part], layout)
                matrix = self.store.matrix(f"{name} {kind}", weights[name][part], layout)
                sources.append(PassSource(matrix, rows_BK, bias))
        arrays = arrays | {"out": self.shown}
        return StepPass(kind, layout, self.store.form, sources, arrays, state=self.h if makes_h else None)

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
        arrays = {"h": self.h, "reset_h": self.empty(units), "update": self.empty(units)}
        return [
            self.gated(weights, "gru gates", 2, arrays, self.h, makes_h=False),
            self.gated(weights, f"gru before {update}", 1, arrays, arrays["reset_h"], first=2),
        ]


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

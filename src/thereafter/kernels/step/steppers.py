"""One step of each cell in place, by torch's own operations: `compiled_steppers` has the twins that are compiled.

Shapes: B rows, I inputs, H hidden units, G gate rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from thereafter.cells.base import Cell
from thereafter.cells.diagonal import Diagonal
from thereafter.cells.elman import Elman
from thereafter.cells.gru import GRU
from thereafter.cells.lstm import LSTM
from thereafter.cells.minimal import MinGRU, MinLSTM
from thereafter.kernels.step.stepper import Slot, Stepper

Weights = dict[str, Tensor]


class LSTMStepper(Stepper):
    """i, f, g, o from one product; then c and h."""

    def __init__(self, cell: LSTM, weights: Weights, batch: int, outlet: Slot, packed: Weights) -> None:
        super().__init__(cell, weights, batch, outlet, packed)
        units = cell.hidden_size
        self.own(self.empty(cell.input_size + units), 0, cell.input_size)
        self.gates = self.empty(4 * units)
        self.bias_G = self.bias(weights, 4 * units)
        self.product = self.multiply(self.stacked(weights), self.buffer, self.gates)
        self.c = self.state[-1]
        self.both, self.last = self.gates[:, : 2 * units], self.gates[:, 3 * units :]
        self.parts = self.gates.chunk(4, dim=1)
        self.shown = outlet.view

    def step(self) -> None:
        self.product()
        self.gates.add_(self.bias_G)
        self.both.sigmoid_()
        self.last.sigmoid_()
        i, f, g, o = self.parts
        self.c.mul_(f).addcmul_(i, g.tanh_())
        torch.mul(o, torch.tanh(self.c, out=g), out=self.h)
        self.shown.copy_(self.h)


class GRUStepper(Stepper):
    """Both orders of the reset gate, both conventions of the update gate."""

    def __init__(self, cell: GRU, weights: Weights, batch: int, outlet: Slot, packed: Weights) -> None:
        super().__init__(cell, weights, batch, outlet, packed)
        units, inputs = cell.hidden_size, cell.input_size
        self.before, self.old = cell.options.reset == "before", cell.options.update == "old"
        w, u = weights["weight_ih"], weights["weight_hh"]
        self.shown = outlet.view
        if self.before:
            # [h x rh]: its first two parts feed the gates, its last two the candidate
            self.own(self.empty(2 * units + inputs), units, 0)
            self.gates, self.new = self.empty(2 * units), self.empty(units)
            self.reset_h = self.buffer[:, units + inputs :]
            first = self.keep("first", lambda: torch.cat([u[: 2 * units], w[: 2 * units]], dim=1))
            second = self.keep("second", lambda: torch.cat([w[2 * units :], u[2 * units :]], dim=1))
            self.first = self.multiply(first, self.buffer[:, : units + inputs], self.gates, "first")
            self.second = self.multiply(second, self.buffer[:, units:], self.new, "second")
            total = self.bias(weights, 3 * units)
            self.biases = (total[: 2 * units].clone(), total[2 * units :].clone())
        else:
            self.own(self.empty(inputs + units), 0, inputs)
            self.gates, self.new = self.empty(3 * units), self.empty(3 * units)
            self.first = self.multiply(self.keep("first", w.clone), self.inlet, self.gates, "first")
            self.second = self.multiply(self.keep("second", u.clone), self.h, self.new, "second")
            none = self.like.new_zeros(3 * units)
            x_bias, h_bias = weights.get("bias_ih", none), weights.get("bias_hh", none)
            self.biases = (self.keep("x_bias", x_bias.clone), self.keep("h_bias", h_bias.clone))
        self.r, self.z = self.gates[:, :units], self.gates[:, units : 2 * units]

    def step(self) -> None:
        self.first()
        if self.before:
            self._reset_state()
        self.second()
        self.new.add_(self.biases[1])
        if self.before:
            n = self.new.tanh_()
        else:
            units = self.cell.hidden_size
            self.gates.add_(self.biases[0])
            self.gates[:, : 2 * units].add_(self.new[:, : 2 * units]).sigmoid_()
            n = self.gates[:, 2 * units :].addcmul_(self.r, self.new[:, 2 * units :]).tanh_()
        torch.lerp(n, self.h, self.z, out=self.h) if self.old else torch.lerp(self.h, n, self.z, out=self.h)
        self.shown.copy_(self.h)

    def _reset_state(self) -> None:
        """r h beside x, for the candidate's product."""
        self.gates.add_(self.biases[0]).sigmoid_()
        torch.mul(self.r, self.h, out=self.reset_h)


class ElmanStepper(Stepper):
    """h = f([W U] [x h] + b)."""

    IN_PLACE: ClassVar[dict[str, Callable[[Tensor], Tensor]]] = {
        "tanh": torch.tanh_,
        "relu": torch.relu_,
        "leaky_relu": torch.nn.functional.leaky_relu_,
        "relu6": lambda x: x.clamp_(0.0, 6.0),
        "sigmoid": torch.sigmoid_,
        "identity": lambda x: x,
    }

    def __init__(self, cell: Elman, weights: Weights, batch: int, outlet: Slot, packed: Weights) -> None:
        super().__init__(cell, weights, batch, outlet, packed)
        self.own(self.empty(cell.input_size + cell.hidden_size), 0, cell.input_size)
        self.gates = self.empty(cell.hidden_size)
        self.product = self.multiply(self.stacked(weights), self.buffer, self.gates)
        self.bias_G = self.bias(weights, cell.hidden_size)
        self.activate = self.IN_PLACE[cell.options.nonlinearity]
        self.shown = outlet.view

    def step(self) -> None:
        self.product()
        self.h.copy_(self.activate(self.gates.add_(self.bias_G)))
        self.shown.copy_(self.gates)


class LinearStepper(Stepper):
    """h = a h + b with a and b from W x alone."""

    def __init__(self, cell: Cell, weights: Weights, batch: int, outlet: Slot, packed: Weights) -> None:
        super().__init__(cell, weights, batch, outlet, packed)
        units, rows = cell.hidden_size, len(weights["weight_ih"])
        self.own(self.empty(cell.input_size + units), 0, cell.input_size)
        self.gates, self.zero = self.empty(rows), self.like.new_zeros(())
        self.product = self.input_product(weights)
        self.bias_G = self.bias(weights, rows)
        self.parts = self.gates.chunk(rows // units, dim=1)
        self.shown = outlet.view

    def step(self) -> None:
        self.product()
        self.gates.add_(self.bias_G)
        self.mix()
        self.shown.copy_(self.h)

    def input_product(self, weights: Weights) -> Callable[[], None]:
        """gates = W x, to be called at every step."""
        return self.multiply(self.keep("weight_ih", weights["weight_ih"].clone), self.inlet, self.gates)

    @abstractmethod
    def mix(self) -> None:
        """The new h from the old one and the gates."""


class MinGRUStepper(LinearStepper):
    """h = (1 - z) h + z new."""

    def mix(self) -> None:
        update, new = self.parts
        torch.lerp(self.h, new, update.sigmoid_(), out=self.h)


class MinLSTMStepper(LinearStepper):
    """h = f' h + i' new, the two gates scaled to a sum of 1."""

    def mix(self) -> None:
        i, f, new = self.parts
        # sigmoid(log sigmoid f - log sigmoid i), as the cell has it: log sigmoid z = -log(e^0 + e^-z)
        torch.logaddexp(self.zero, i.neg_(), out=i)
        torch.logaddexp(self.zero, f.neg_(), out=f)
        torch.lerp(new, self.h, i.sub_(f).sigmoid_(), out=self.h)


class DiagonalStepper(LinearStepper):
    """h = decay h + scale W x."""

    def __init__(self, cell: Diagonal, weights: Weights, batch: int, outlet: Slot, packed: Weights) -> None:
        super().__init__(cell, weights, batch, outlet, packed)
        # the cell's own formula at a projected input of 1: the decay and the input's factor
        decay, scale = cell.coefficients(self.like.new_ones(cell.hidden_size), weights)
        self.decay, self.scale = self.keep("decay", decay.clone), self.keep("scale", scale.clone)

    def mix(self) -> None:
        self.h.mul_(self.decay).addcmul_(self.gates, self.scale)


class AnyStepper(Stepper):
    """Every other cell and option through the cell's own step: exact, but it allocates."""

    def __init__(
        self, cell: Cell, weights: Weights, batch: int, outlet: Slot, packed: Weights, hold: dict[str, float]
    ) -> None:
        super().__init__(cell, weights, batch, outlet, packed)
        self.weights = {name: self.keep(name, weight.clone) for name, weight in weights.items()}
        self.hold = hold
        self.inlet_slot = Slot(self.empty(cell.input_size), 0, cell.input_size)
        self.inlet = self.inlet_slot.view
        self.shown = outlet.view

    @torch.no_grad()
    def step(self) -> None:
        z_BG = self.cell.project(self.inlet.unsqueeze(1), self.weights)[:, 0]
        _, new = self.cell.step(z_BG, self.state, self.weights)
        for name, stale, fresh in zip(self.cell.state_sizes(), self.state, new, strict=True):
            stale.lerp_(fresh, 1.0 - self.hold.get(name, 0.0))
        self.shown.copy_(self.state.h)


def _is_plain(cell: LSTM) -> bool:
    return not (cell.options.peephole or cell.options.coupled or cell.options.proj_size)


class FastStepper(NamedTuple):
    """How the stepper of a cell is made, and for which of its options it computes the same."""

    make: Callable[..., Stepper]
    takes: Callable[[Any], bool] = lambda cell: True


# By the exact type: a cell that was made from one of these may compute something else.
FAST_STEPPERS: dict[type[Cell], FastStepper] = {
    LSTM: FastStepper(LSTMStepper, _is_plain),
    GRU: FastStepper(GRUStepper),
    Elman: FastStepper(ElmanStepper),
    MinGRU: FastStepper(MinGRUStepper),
    MinLSTM: FastStepper(MinLSTMStepper),
    Diagonal: FastStepper(DiagonalStepper),
}

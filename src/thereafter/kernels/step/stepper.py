"""One step of each cell in place, by torch's own operations; `compiled_steppers` has the twins that are compiled.

A stepper owns a buffer in which input and state lie side by side, [x h], so
that one product with the stacked weights [W U] does for both. It reads its `inlet`, changes its state, and writes h
into its `outlet`, which is the next layer's inlet. The stacked weights may be shared: streams of one module, for other
numbers of rows or other threads, differ in their buffers alone.

Shapes: B rows, I inputs, H hidden units, O outputs of a product, G gate rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from thereafter.base.compiled import available
from thereafter.cells.base import Cell, State
from thereafter.cells.elman import Elman
from thereafter.cells.gru import GRU
from thereafter.cells.lstm import LSTM
from thereafter.cells.minimal import Diagonal, MinGRU, MinLSTM
from thereafter.kernels.step.storing import Narrow, rounded
from thereafter.kernels.switches import can_pack_for_rows, multiply_rows, pack_for_rows

Weights = dict[str, Tensor]


@dataclass(frozen=True)
class Slot:
    """Some columns of a buffer."""

    buffer: Tensor
    at: int
    size: int

    @property
    def view(self) -> Tensor:
        return self.buffer[:, self.at : self.at + self.size]


class Stepper(ABC):
    """One cell of a stream; `inlet` and the state fields are views of buffers that never move."""

    inlet: Tensor
    inlet_slot: Slot
    cell: Cell

    def __init__(
        self, cell: Cell, weights: Weights, batch: int, outlet: Slot, packed: Weights, narrow: Narrow | None = None
    ) -> None:
        self.cell, self.packed, self.batch, self.narrow = cell, packed, batch, narrow
        self.shown = outlet.view
        self.like = weights["weight_ih"]
        self.state: State = cell.zero_state(batch, self.like)
        self.arrange(weights)

    @abstractmethod
    def arrange(self, weights: Weights) -> None:
        """Make the buffers, and what is made of the weights once."""

    def empty(self, columns: int) -> Tensor:
        return self.like.new_zeros(self.batch, columns)

    def own(self, buffer: Tensor, x_at: int, h_at: int) -> None:
        """Make a buffer this cell's: where its input and its h lie."""
        self.buffer = buffer
        self.inlet_slot = Slot(buffer, x_at, self.cell.input_size)
        self.inlet = self.inlet_slot.view
        self.h = buffer[:, h_at : h_at + self.cell.hidden_size]
        self.state = type(self.state)(self.h, *self.state[1:])

    def keep(self, name: str, make: Callable[[], Tensor]) -> Tensor:
        """A tensor made from the weights once, for this stepper and for others of the same weights."""
        return keep(self.packed, name, make)

    def stacked(self, weights: dict[str, Tensor]) -> Tensor:
        """[W U]."""
        return self.keep("stacked", lambda: torch.cat([weights["weight_ih"], weights["weight_hh"]], dim=1))

    def bias(self, weights: dict[str, Tensor], rows: int) -> Tensor:
        """The sum of both biases, zeros where there are none."""

        def added() -> Tensor:
            total = self.like.new_zeros(rows)
            for name in ("bias_ih", "bias_hh"):
                if name in weights:
                    total += weights[name]
            return total

        return self.keep("bias", added)

    def multiply(self, weight: Tensor, x: Tensor, out: Tensor, name: str = "stacked") -> Product:
        """out = x W^T, to be called at every step; `name` is that under which the weight is kept."""
        several = self.batch > 1 and can_pack_for_rows(weight)
        return Product(
            weight, x, out, self.keep(f"{name} for rows", lambda: pack_for_rows(weight)) if several else None
        )

    @abstractmethod
    def step(self) -> None:
        """Inlet and state to the new state and the outlet."""


def keep(packed: dict[str, Tensor], name: str, make: Callable[[], Tensor]) -> Tensor:
    """The tensor under a name, made where it is not there yet. Of two threads that make it at once, one's is kept."""
    tensor = packed.get(name)
    return packed.setdefault(name, make()) if tensor is None else tensor


class Product:
    """out = x W^T in place: a matrix-vector product for one row; `packed`: see `switches`."""

    def __init__(self, weight: Tensor, x: Tensor, out: Tensor, packed: Tensor | None = None) -> None:
        one = len(x) == 1
        self.packed, self.x = packed, x
        self.operator: Callable[..., Tensor] = torch.mv if one else torch.mm
        self.arguments = (weight, x[0]) if one else (x, weight.t())
        self.out = out[0] if one else out

    def __call__(self) -> None:
        if self.packed is not None:
            self.out.copy_(multiply_rows(self.x, self.packed))
            return
        self.operator(*self.arguments, out=self.out)


def compiles(like: Tensor) -> bool:
    """Whether the compiled loops can run on these weights."""
    return like.device.type == "cpu" and like.dtype in (torch.float32, torch.float64) and available()


class LSTMStepper(Stepper):
    """i, f, g, o from one product; then c and h."""

    cell: LSTM

    def arrange(self, weights: Weights) -> None:
        cell = self.cell
        units = cell.hidden_size
        self.own(self.empty(cell.input_size + units), 0, cell.input_size)
        self.gates = self.empty(4 * units)
        self.bias_G = self.bias(weights, 4 * units)
        self.product = self.multiply(self.stacked(weights), self.buffer, self.gates)
        self.c = self.state[-1]
        self.both, self.last = self.gates[:, : 2 * units], self.gates[:, 3 * units :]
        self.parts = self.gates.chunk(4, dim=1)

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

    cell: GRU

    def arrange(self, weights: Weights) -> None:
        cell = self.cell
        units, inputs = cell.hidden_size, cell.input_size
        self.before, self.old = cell.options.reset == "before", cell.options.update == "old"
        w, u = weights["weight_ih"], weights["weight_hh"]
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

    cell: Elman

    def arrange(self, weights: Weights) -> None:
        cell = self.cell
        self.own(self.empty(cell.input_size + cell.hidden_size), 0, cell.input_size)
        self.gates = self.empty(cell.hidden_size)
        self.product = self.multiply(self.stacked(weights), self.buffer, self.gates)
        self.bias_G = self.bias(weights, cell.hidden_size)
        self.activate = self.IN_PLACE[cell.options.nonlinearity]

    def step(self) -> None:
        self.product()
        self.h.copy_(self.activate(self.gates.add_(self.bias_G)))
        self.shown.copy_(self.gates)


class LinearStepper(Stepper):
    """h = a h + b with a and b from W x alone."""

    cell: Cell

    def arrange(self, weights: Weights) -> None:
        cell = self.cell
        units, rows = cell.hidden_size, len(weights["weight_ih"])
        self.own(self.empty(cell.input_size + units), 0, cell.input_size)
        self.gates, self.zero = self.empty(rows), self.like.new_zeros(())
        self.product = self.input_product(weights)
        self.bias_G = self.bias(weights, rows)
        self.parts = self.gates.chunk(rows // units, dim=1)

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

    cell: Diagonal

    def arrange(self, weights: Weights) -> None:
        super().arrange(weights)
        cell = self.cell
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
        self.hold = hold
        super().__init__(cell, weights, batch, outlet, packed)

    def arrange(self, weights: Weights) -> None:
        self.weights = {name: self.keep(name, weight.clone) for name, weight in weights.items()}
        self.inlet_slot = Slot(self.empty(self.cell.input_size), 0, self.cell.input_size)
        self.inlet = self.inlet_slot.view

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


_MOST_IDLE, _MOST_SIZES = 8, 4  # buffers of one number of rows; numbers of rows


class _IdleProduct(NamedTuple):
    """A pass that nobody uses, with the buffers it reads and writes."""

    run: Callable[[], None]
    x_BI: Tensor
    y_BO: Tensor


class StoredProduct:
    """A product without gradients, which several threads may use at once; later training does not change it.

    >>> product = StoredProduct(torch.eye(3), torch.ones(3), "int8")
    >>> product(torch.tensor([[1.0, 2.0, 3.0]])).round(decimals=4)  # the last bits depend on the processor
    tensor([[2., 3., 4.]])
    """

    def __init__(self, weight_OI: Tensor, bias_O: Tensor, narrow: Narrow) -> None:
        self._narrow = narrow
        self._weight, self._bias, self._inputs = weight_OI.detach(), bias_O.detach().clone(), weight_OI.shape[1]
        self._packed: dict[str, Tensor] = {}
        self._idle: dict[int, list[_IdleProduct]] = {}
        self._compiled = compiles(self._weight)
        if self._compiled:
            self._make(1)  # the matrix is laid out now, whatever becomes of its weights
            self._weight = self._weight[:0]
        else:
            self._weight = rounded(self._weight, narrow).clone()

    def __call__(self, x_BI: Tensor) -> Tensor:
        """y, [B, O]."""
        if not self._compiled:
            return torch.addmm(self._bias, x_BI, self._weight.t())
        if len(x_BI) not in self._idle and len(self._idle) >= _MOST_SIZES:
            self._idle.clear()
        idle = self._idle.setdefault(len(x_BI), [])
        try:
            product = idle.pop()
        except IndexError:  # the first to ask, or others are at it
            product = self._make(len(x_BI))
        product.x_BI.copy_(x_BI)
        product.run()
        y_BO = product.y_BO.clone()
        if len(idle) < _MOST_IDLE:
            idle.append(product)
        return y_BO

    def _make(self, rows: int) -> _IdleProduct:
        from thereafter.kernels.step.passes import PanelStore, PassSource, StepPass

        with torch.inference_mode(False), torch.no_grad():
            store = PanelStore(self._bias, self._narrow, self._packed)
            layout = store.layout(1, len(self._bias))
            matrix, bias = store.matrix("weight", self._weight, layout), store.bias("bias", self._bias, layout)
            x_BI, y_BO = self._bias.new_zeros(rows, self._inputs), self._bias.new_zeros(rows, len(self._bias))
            run = StepPass("copies 1", layout, store.form, [PassSource(matrix, x_BI, bias)], {"to_a": y_BO})
        return _IdleProduct(run, x_BI, y_BO)

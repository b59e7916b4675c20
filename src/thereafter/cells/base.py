"""The contract of a recurrent cell.

Shapes: B rows, T steps, I inputs, H hidden units, O outputs (H, or the projection's size), G = H times the gates.

A cell is three parts, with the weights passed in, so that kernels, weight drop and layer norm all share them:
    project(x_BTI) -> z_BTG        the whole sequence in one matrix product: what does not recur is hoisted
    recur(h_BO) -> r_BG            the recurrent product of one step
    pointwise(z_BG, r_BG, state)   the rule itself
A cell whose second product depends on a gate (GRU, reset before) overrides `step`, which is otherwise their sum.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from thereafter.cells.options import CellOptions, check_choices
from thereafter.errors import OptionError

Weights = Mapping[str, Tensor]
Record = dict[str, Tensor]
"""What a step did, by name: gates, candidate, states. Filled only where somebody asked for it."""

BIASES = ("two", "one", "none")


class HState(NamedTuple):
    """The state of a cell with one memory."""

    h: Tensor


class HCState(NamedTuple):
    """The state of a cell with an output and a cell memory."""

    h: Tensor
    c: Tensor


State = HState | HCState


class MemoryGate(NamedTuple):
    """The gate by which a step multiplies the memory: by the gate itself where it keeps, else by 1 - gate."""

    name: str
    keeps: bool = True


class Cell(ABC):
    """One step of a recurrent network.

    `bias`: "two" keeps torch's `bias_ih` and `bias_hh`, "one" a single `bias_ih` per gate, "none" no bias.
    `layer_norm`: the products W x and U h are each normalised over their G entries with a learned gain before they are
    added (Ba, Kiros and Hinton 2016, Layer Normalization), and so is what the cell names in its own docstring.
    """

    name: ClassVar[str]
    options_type: ClassVar[type[CellOptions]] = CellOptions
    """Its options beyond sizes and bias: the keyword arguments of its constructor."""
    options: CellOptions
    gates: ClassVar[tuple[str, ...]]
    """The blocks of the weight rows, in order. Weights are converted by these names, never by position."""
    state_type: ClassVar[type[HState] | type[HCState]] = HState
    hoists: ClassVar[bool] = True
    """Whether W x of all steps may be taken out of the loop. Where the state changes the input first it may not: then
    `project` hands the input on as it is, and `step` takes that product itself."""
    linear: ClassVar[bool] = False
    """Whether h_t = a_t h_{t-1} + b_t with a, b free of h: such a cell has a parallel form, `coefficients`."""

    def __init__(self, input_size: int, hidden_size: int, *, bias: str = "two", **options: Any) -> None:
        for label, size in (("input_size", input_size), ("hidden_size", hidden_size)):
            if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                raise OptionError(f"{label} is {size!r}; expected at least 1, a whole number")
        if bias not in BIASES:
            raise OptionError(f"bias is {bias!r}; expected one of {', '.join(BIASES)}")
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        self.options = self.options_type(**options)
        self.check_options()
        self.layer_norm = self.options.layer_norm

    def check_options(self) -> None:
        """OptionError where an option has a value it cannot have."""
        check_choices(self.options)

    @property
    def output_size(self) -> int:
        """O: the size of h, which is also the output."""
        return self.hidden_size

    @property
    def blocks(self) -> tuple[str, ...]:
        """The gates that have weights of their own."""
        return self.gates

    @property
    def memory_gate(self) -> MemoryGate | None:
        """What multiplies the last field of the state and nothing else; None where a matrix always comes between.

        Its name is one of those in a step's record.
        """
        return MemoryGate("forget") if "forget" in self.gates else None

    @property
    def fan_in(self) -> int:
        """How many numbers of the state a unit's recurrent sum reads."""
        return self.hidden_size

    def state_sizes(self) -> dict[str, int]:
        """The size of each state field."""
        return dict.fromkeys(self.state_type._fields, self.hidden_size)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The weights of this cell by name, in torch's layout: rows by gate."""
        rows = len(self.blocks) * self.hidden_size
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ih": (rows, self.input_size),
            "weight_hh": (rows, self.output_size),
        }
        if self.bias != "none":
            shapes["bias_ih"] = (rows,)
        if self.bias == "two":
            shapes["bias_hh"] = (rows,)
        if self.layer_norm:
            shapes |= {"norm_ih": (rows,), "norm_hh": (rows,)}
        return shapes

    def initialise(self, weights: dict[str, Tensor]) -> None:
        """Fill fresh weights in place: uniform in +-1/sqrt(H) as torch does, gains 1; cells add their own rules."""
        bound = 1 / math.sqrt(self.fan_in)
        with torch.no_grad():
            for name, weight in weights.items():
                if name.startswith("norm"):
                    weight.fill_(1.0)
                else:
                    weight.uniform_(-bound, bound)

    def rows(self, gate: str) -> slice:
        """The rows of a gate in the weights."""
        start = self.blocks.index(gate) * self.hidden_size
        return slice(start, start + self.hidden_size)

    def zero_state(self, batch: int, like: Tensor) -> State:
        """The state of all zeros."""
        return self.state_type(*(like.new_zeros(batch, size) for size in self.state_sizes().values()))

    def project(self, x_BTI: Tensor, weights: Weights) -> Tensor:
        """z_BTG for every step at once; x itself for a cell that does not hoist."""
        return self.input_product(x_BTI, weights) if self.hoists else x_BTI

    def input_product(self, x: Tensor, weights: Weights) -> Tensor:
        """z = W x + b, of one step or of many."""
        return self.matrix_product(x, weights, "ih")

    def recur(self, h_BO: Tensor, weights: Weights) -> Tensor:
        """r_BG = U h (+ b)."""
        return self.matrix_product(h_BO, weights, "hh")

    def matrix_product(self, x: Tensor, weights: Weights, which: str) -> Tensor:
        """The product with the input's matrix ("ih") or with the recurrent one ("hh")."""
        weight, bias = weights[f"weight_{which}"], weights.get(f"bias_{which}")
        if not self.layer_norm:
            return F.linear(x, weight, bias)
        product = normalise(F.linear(x, weight), weights[f"norm_{which}"])
        return product if bias is None else product + bias

    @abstractmethod
    def pointwise(
        self, z_BG: Tensor, r_BG: Tensor, state: Any, weights: Weights, record: Record | None = None
    ) -> tuple[Tensor, Any]:
        """The rule of the cell: (output, new state); `record` takes every gate by its name."""

    def step(self, z_BG: Tensor, state: Any, weights: Weights, record: Record | None = None) -> tuple[Tensor, Any]:
        """One step from the projected input."""
        return self.pointwise(z_BG, self.recur(state.h, weights), state, weights, record)

    def coefficients(self, z_BTG: Tensor, weights: Weights, record: Record | None = None) -> tuple[Tensor, Tensor]:
        """a_BTH and b_BTH of a linear cell's h_t = a_t h_{t-1} + b_t."""
        raise OptionError(f"the cell {self.name!r} is not linear in its state: it has no parallel form")

    def describe(self) -> dict[str, Any]:
        """The options that define this cell."""
        own = {name: value for name, value in vars(self).items() if not name.startswith("_") and name != "options"}
        return own | vars(self.options)

    def __repr__(self) -> str:
        listed = ", ".join(f"{name}={value!r}" for name, value in self.describe().items())
        return f"{type(self).__name__}({listed})"


EPSILON = 1e-5


def normalise(x: Tensor, gain: Tensor, shift: Tensor | None = None) -> Tensor:
    """Layer norm over the last axis."""
    return F.layer_norm(x, x.shape[-1:], gain, shift, EPSILON)


def split(x_BG: Tensor, blocks: int) -> tuple[Tensor, ...]:
    """The blocks of the last axis, one for each gate."""
    return x_BG.chunk(blocks, dim=-1)

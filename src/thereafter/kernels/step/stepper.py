"""What one streaming step needs: buffers made once, and products that write into them.

Shapes: B rows, I inputs, H hidden units. A stepper owns a buffer in which input and state lie side by side, [x h], so
that one product with the stacked weights [W U] does for both. It reads its `inlet`, changes its state, and writes h
into its `outlet`, which is the next layer's inlet. The stacked weights may be shared: streams of one module, for other
numbers of rows or other threads, differ in their buffers alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from thereafter.base.compiled import available
from thereafter.cells.base import Cell, State
from thereafter.kernels.row_products import can_pack, multiply, pack


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

    def __init__(
        self, cell: Cell, weights: dict[str, Tensor], batch: int, outlet: Slot, packed: dict[str, Tensor]
    ) -> None:
        self.cell = cell
        self.packed = packed
        self.batch = batch
        self.outlet = outlet
        self.like = weights["weight_ih"]
        self.exact = self.like.dtype == torch.float64
        self.state: State = cell.zero_state(batch, self.like)

    def empty(self, columns: int) -> Tensor:
        return self.like.new_zeros(self.batch, columns)

    def own(self, buffer: Tensor, x_at: int, h_at: int) -> None:
        """Make a buffer this cell's: where its input and its h lie."""
        self.buffer = buffer
        self.inlet_slot = Slot(buffer, x_at, self.cell.input_size)
        self.inlet = self.inlet_slot.view
        self.h_at = h_at
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
        several = self.batch > 1 and can_pack(weight)
        return Product(weight, x, out, self.keep(f"{name} for rows", lambda: pack(weight)) if several else None)

    @abstractmethod
    def step(self) -> None:
        """Inlet and state to the new state and the outlet."""


def keep(packed: dict[str, Tensor], name: str, make: Callable[[], Tensor]) -> Tensor:
    """The tensor under a name, made where it is not there yet. Of two threads that make it at once, one's is kept."""
    tensor = packed.get(name)
    return packed.setdefault(name, make()) if tensor is None else tensor


class Product:
    """out = x W^T in place: a matrix-vector product for one row; `packed`: see `row_products`."""

    def __init__(self, weight: Tensor, x: Tensor, out: Tensor, packed: Tensor | None = None) -> None:
        one = len(x) == 1
        self.packed, self.x = packed, x
        self.operator: Callable[..., Tensor] = torch.mv if one else torch.mm
        self.arguments = (weight, x[0]) if one else (x, weight.t())
        self.out = out[0] if one else out

    def __call__(self) -> None:
        if self.packed is not None:
            self.out.copy_(multiply(self.x, self.packed))
            return
        self.operator(*self.arguments, out=self.out)


def compiles(like: Tensor) -> bool:
    """Whether the compiled loops can run on these weights."""
    return like.device.type == "cpu" and like.dtype in (torch.float32, torch.float64) and available()

"""Token by token without allocation, for the next-word latency of a keyboard.

Shapes: B rows, I inputs, O outputs.
"""

from __future__ import annotations

from ctypes import memmove
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from thereafter.cells.base import State, Weights
from thereafter.errors import OptionError, ShapeError
from thereafter.kernels.scan import make_stepper
from thereafter.kernels.step.stepper import Slot, Stepper, keep
from thereafter.kernels.step.storing import Narrow, check_narrow, rounded
from thereafter.layers.inputs import Lane, StateGiven, fresh_state, join_state, split_state

Packed = dict[str, dict[str, Tensor]]
"""The weights of streams, laid out for them, by the lane they belong to: they are never written to."""


class Stack(Protocol):
    """What a stream needs of the layers it steps through: `layers.recurrent.Recurrent` has it."""

    input_size: int
    bidirectional: bool
    ragged: bool
    lanes: list[Lane]
    zoneout: tuple[float, float]
    initial: str
    connect: str | None

    def lane_weights(self, lane: Lane) -> Weights:
        """The weights of one cell under the cell's own names."""

    def get_parameter(self, target: str) -> nn.Parameter:
        """A weight by its full name."""


class Stream:
    """A recurrent stack that keeps its state and steps one token at a time.

    The weights are copied when the stream is made, laid out in the order that a step reads them: later training
    does not change it. Everything lives in buffers made once; nothing is allocated for a step, no gradient is kept,
    and dropout is off. LSTM, GRU, Elman and the linear cells step in place; other options (layer norm, projection,
    zoneout) go through the cell's own step, with the same numbers and ordinary allocation.

    `weights`: "bfloat16" or "int8" stores the matrices in two bytes or one per number, which are read in less time, and
    multiplies in float32; the numbers are then those of the rounded matrices (`kernels.step.storing`).

    >>> from thereafter.nn import LSTM
    >>> stream = LSTM(3, 4).stream(batch=1)
    >>> stream.step(torch.zeros(1, 3)).shape
    torch.Size([1, 4])
    """

    def __init__(self, module: Stack, batch: int = 1, packed: Packed | None = None, weights: str | None = None) -> None:
        """`packed`: filled by the first stream of a module, and shared by all that are given the same."""
        self._narrow = check_narrow(weights)
        if module.bidirectional:
            raise OptionError("a stream cannot step a bidirectional layer: its backward direction needs the end first")
        if batch < 1:
            raise OptionError(f"batch is {batch}; expected at least 1")
        self._packed: Packed = {} if packed is None else packed
        self._lanes = module.lanes
        self._ragged = module.ragged
        self._shape = torch.Size([batch, module.input_size])
        width = module.lanes[-1].cell.output_size
        with torch.inference_mode(False), torch.no_grad():
            like = module.lane_weights(module.lanes[0])["weight_ih"].detach()
            self._dtype = like.dtype
            if self._narrow and like.dtype != torch.float32:
                raise OptionError(
                    f"weights is {weights!r} for layers of {like.dtype}; expected float32 ones; try module.float()"
                )
            self._output = like.new_zeros(batch, width)
            self._steps: list[Stepper | _Join] = []
            outlet = Slot(self._output, 0, width)
            for lane in reversed(module.lanes):
                outlet = self._add(module, lane.layer, batch, outlet)
            self._inlet = outlet.view
            direct = self._inlet.is_cpu and self._inlet.is_contiguous()
            self._inlet_at, self._bytes = self._inlet.data_ptr() if direct else 0, self._inlet.nbytes
            self._initial = [_initial(module, index, batch, like) for index in range(len(self._lanes))]
        self._steppers = [step for step in self._steps if isinstance(step, Stepper)]
        self._calls = [step.step for step in self._steps]
        self.reset()

    def _add(self, module: Stack, layer: int, batch: int, outlet: Slot) -> Slot:
        """Put a layer before those already there; returns where its input goes."""
        lane = module.lanes[layer]
        weights = {name: weight.detach() for name, weight in module.lane_weights(lane).items()}
        fields = lane.cell.state_sizes()
        hold = {name: rate for name, rate in zip(fields, module.zoneout, strict=False) if rate}
        join: _Join | None = None
        packed = self._packed.setdefault(lane.name, {})
        if layer and module.connect is not None:
            join = _Join(module, layer, outlet, packed, self._narrow)
            self._steps.insert(0, join)
            outlet = join.inlet_slot
        stepper = make_stepper(lane.cell, weights, batch, outlet, hold, packed, self._narrow)
        self._steps.insert(0, stepper)
        if join is not None:
            join.carried = stepper.inlet
        return stepper.inlet_slot

    @property
    def state(self) -> Any:
        """A copy of the state, in the form the module returns and `reset` takes."""
        states = [type(s.state)(*(part.clone() for part in s.state)) for s in self._steppers]
        return join_state(states, ragged=self._ragged, batched=True)

    def reset(self, state: StateGiven | None = None) -> None:
        """Start again from the module's initial state, or from a given one."""
        states = self._initial
        if state is not None:
            cells = [lane.cell for lane in self._lanes]
            states = split_state(state, cells, self._shape[0], self._output, ragged=self._ragged, batched=True)
        with torch.no_grad():
            for stepper, parts in zip(self._steppers, states, strict=True):
                for target, part in zip(stepper.state, parts, strict=True):
                    target.copy_(part)

    def step(self, x_BI: Tensor) -> Tensor:
        """The output for one more token of every row.

        The tensor returned is the stream's own buffer: the next step overwrites it. Clone what you keep.
        """
        if x_BI.shape != self._shape or x_BI.dtype != self._dtype:
            raise ShapeError(
                f"the input is {x_BI.dtype} of the shape {tuple(x_BI.shape)}; expected {self._dtype} of the shape "
                f"{tuple(self._shape)}; a stream is made for a batch size: try module.stream(batch={len(x_BI)})"
            )
        if self._inlet_at and x_BI.is_cpu and x_BI.is_contiguous():
            memmove(self._inlet_at, x_BI.data_ptr(), self._bytes)
        else:
            self._inlet.copy_(x_BI.detach() if x_BI.requires_grad else x_BI)
        for call in self._calls:
            call()
        return self._output


class _Join:
    """A residual or highway connection round a layer, in place."""

    carried: Tensor

    def __init__(
        self, module: Stack, layer: int, outlet: Slot, packed: dict[str, Tensor], narrow: Narrow | None
    ) -> None:
        batch = len(outlet.buffer)
        self.inlet_slot = Slot(outlet.buffer.new_zeros(batch, outlet.size), 0, outlet.size)
        self.y, self.out = self.inlet_slot.view, outlet.view
        self.gate: Tensor | None = None
        if module.connect == "highway":
            self.gate = torch.zeros_like(self.y)
            weight, bias = (module.get_parameter(f"highway_{part}_l{layer}").detach() for part in ("weight", "bias"))
            self.weight = keep(packed, "highway_weight", lambda: rounded(weight, narrow).clone().t())
            self.bias = keep(packed, "highway_bias", bias.clone)

    def step(self) -> None:
        if self.gate is None:
            torch.add(self.y, self.carried, out=self.out)
        else:
            torch.addmm(self.bias, self.carried, self.weight, out=self.gate)
            torch.lerp(self.carried, self.y, self.gate.sigmoid_(), out=self.out)


def _initial(module: Stack, index: int, batch: int, like: Tensor) -> State:
    lane = module.lanes[index]
    learned = {}
    if module.initial == "learned":
        names = lane.cell.state_sizes()
        learned = {name: module.get_parameter(f"initial_{name}_{lane.name}").detach() for name in names}
    state = fresh_state(lane.cell, module.initial, batch, like, learned, training=False)
    return type(state)(*(part.clone() for part in state))

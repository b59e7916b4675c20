"""A stack of recurrent layers, in one direction or both, behind the interface of torch's own.

`count_parameters` counts what a model learns, under either convention of biases. `join` is a way round a layer, for
stacks too deep to train without: its input and output must be of one size.

Shapes: B rows, T steps, F features, I inputs, O outputs of a layer (both directions together).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Self, TypedDict

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from thereafter.cells.base import Cell, State, Weights
from thereafter.cells.options import OptionValue
from thereafter.errors import OptionError
from thereafter.kernels.scan import KERNELS, prepare_weights, unroll
from thereafter.layers.dropout import locked, weight_drop, zoneout
from thereafter.layers.inputs import (
    INITIAL,
    Lane,
    Lengths,
    Rows,
    Sizes,
    StateGiven,
    Zoneout,
    build_lanes,
    fresh_state,
    join_state,
    layer_sizes,
    probability,
    split_state,
    take_rows,
    zoneout_rates,
)
from thereafter.layers.stream import Stream


class Unscriptable(nn.Module):
    """A module that `torch.jit.script` refuses in a sentence; `torch.jit.trace` takes it."""

    def __prepare_scriptable__(self) -> NoReturn:
        """What torch.jit.script reads of every module before it compiles it."""
        raise OptionError(
            f"{type(self).__name__} cannot be compiled by torch.jit.script: it chooses its kernel while it runs; "
            "try torch.export.export(layer, ...) or torch.jit.trace(layer, x), or `thereafter export` for a model"
        )


Bias = bool | str


class Extras(TypedDict, total=False):
    """The options every recurrent layer has beyond torch's; `Recurrent` explains them."""

    locked: bool
    input_dropout: float
    output_dropout: float
    weight_drop: float
    zoneout: Zoneout
    initial: str
    connect: str | None
    kernel: str
    check: bool


@dataclass(frozen=True)
class Traced:
    """What `trace` returns: output and state of the plain call, and the records of every step.

    `records["l0"]["forget"]`: by lane ("l0", "l0_reverse", "l1", ...), then by gate or state field, in the layout of
    the output (a packed input's are padded, batch first). The state fields hold the state after each step.
    """

    output: Any
    state: Any
    records: dict[str, dict[str, Tensor]]


class Recurrent(Unscriptable):
    """Any cell, stacked and unrolled. `thereafter.nn` has a class for each cell, with torch's argument order.

    `hidden_size`: one size, or a list with one entry for each layer; an entry may be a pair (forward, backward). With a
        list, h_n (and c_n) are tuples of [B, size] tensors in torch's order of layers and directions, not one stack.
    `bias`: True or "two" is torch's pair, "one" a single bias for each gate, False or "none" no bias.
    `dropout`: between layers; with `locked` one mask for all steps. `input_dropout` and `output_dropout` are always
        locked. `weight_drop`: DropConnect on the recurrent matrix, drawn at each call. `zoneout`: one rate, or (h, c).
    `initial`: the state where none is given: "zero", "random" or "learned" (see `layers.inputs`).
    `connect`: None, "residual" or "highway", round every layer but the first; what is carried is not dropped out.
    `kernel`: "auto", or a name that must run or raises: "reference" (the plain loop), "cpu", "parallel", "vendor",
        "operator". What torch compiles or exports is the operator, whatever is named, but for "reference".
    `check`: look for NaN and infinity in every input, except while torch compiles or exports, without numbers.
    `input_size`, `num_layers`, `batch_first`, `bidirectional`, `device`, `dtype` are torch's. `cell`: a name of
        `thereafter.cells`; `cell_options`: its options.
    """

    def __init__(
        self,
        cell: str,
        input_size: int,
        hidden_size: Sizes,
        num_layers: int = 1,
        bias: Bias = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        cell_options: Mapping[str, OptionValue] | None = None,
        locked: bool = False,
        input_dropout: float = 0.0,
        output_dropout: float = 0.0,
        weight_drop: float = 0.0,
        zoneout: Zoneout = 0.0,
        initial: str = "zero",
        connect: str | None = None,
        kernel: str = "auto",
        check: bool = False,
    ) -> None:
        super().__init__()
        sizes = layer_sizes(hidden_size, num_layers, bidirectional)
        self.ragged, num_layers = not isinstance(hidden_size, int), len(sizes)
        if kernel != "auto" and kernel not in KERNELS:
            KERNELS.load(kernel)  # raises, with the nearest names
        if initial not in INITIAL:
            raise OptionError(f"initial is {initial!r}; expected one of {', '.join(INITIAL)}")
        self.cell_name, self.input_size, self.hidden_size, self.num_layers = cell, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.bidirectional = bias, batch_first, bidirectional
        noise = {"input_dropout": input_dropout, "output_dropout": output_dropout, "weight_drop": weight_drop}
        rates = [probability(name, rate) for name, rate in {"dropout": dropout, **noise}.items()]
        self.dropout, self.input_dropout, self.output_dropout, self.weight_drop = rates
        self.locked, self.zoneout = locked, zoneout_rates(zoneout)
        self.initial, self.connect, self.kernel, self.check = initial, connect, kernel, check
        if self.dropout > 0 and num_layers == 1:
            warnings.warn("dropout acts between layers and there is only one; try output_dropout", stacklevel=3)
        options: dict[str, OptionValue] = {**(cell_options or {}), "bias": bias_kind(bias)}
        self.layers = build_lanes(cell, input_size, sizes, options)
        self.lanes: list[Lane] = [lane for lanes in self.layers for lane in lanes]
        if self.weight_drop and "weight_hh" not in self.lanes[0].cell.shapes():
            raise OptionError(f"weight_drop is {weight_drop}, but the cell {cell!r} has no recurrent matrix; try 0")
        for name, shape in self._shapes().items():
            setattr(self, name, nn.Parameter(torch.empty(shape, device=device, dtype=dtype)))
        self.reset_parameters()
        self.flatten_parameters()

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        shapes: dict[str, tuple[int, ...]] = {}
        for lane in self.lanes:
            shapes |= {f"{name}_{lane.name}": shape for name, shape in lane.cell.shapes().items()}
        shapes |= connection_shapes(self.connect, self.layers)
        if self.initial == "learned":
            for lane in self.lanes:
                shapes |= {f"initial_{name}_{lane.name}": (n,) for name, n in lane.cell.state_sizes().items()}
        return shapes

    def reset_parameters(self) -> None:
        """Draw all weights afresh by the cell's own rule."""
        for name, weight in self.named_parameters():
            if name.startswith("highway_weight"):
                nn.init.xavier_uniform_(weight)
            elif name.startswith(("highway_bias", "initial_")):
                nn.init.constant_(weight, CARRY_BIAS if name.startswith("highway") else 0.0)
        for lane in self.lanes:
            lane.cell.initialise(dict(self.lane_weights(lane)))

    def lane_weights(self, lane: Lane) -> Weights:
        """The weights of one cell under the cell's own names."""
        return {name: getattr(self, full) for name, full in lane.weight_names().items()}

    @property
    def all_weights(self) -> list[list[nn.Parameter]]:
        """The weights lane by lane, as torch lists them."""
        return [[getattr(self, full) for full in lane.weight_names().values()] for lane in self.lanes]

    def flatten_parameters(self) -> None:
        """Put the weights of each cell in one piece of memory if cuDNN runs them; done whenever the module moves."""
        for lane in self.lanes:
            weights = self.lane_weights(lane)
            if all(weight.is_cuda for weight in weights.values()):
                prepare_weights(lane.cell, weights)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.flatten_parameters()
        return self

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self.flatten_parameters()  # a copy's weights are separate again

    def forward(
        self,
        input: Tensor | PackedSequence,
        hx: StateGiven | None = None,
        *,
        lengths: Lengths | None = None,
        reset: Tensor | None = None,
    ) -> tuple[Any, Any]:
        """(output, state): shapes, orders and types are those of the torch module of that name.

        `lengths` [B]: steps of each row, in any order; outputs beyond are 0, the state is that of each row's end, and
        the backward direction starts there. `reset` [B, T] (in both layouts): true sets a row's state to 0 before that
        step; the backward direction is cut at the same place. A packed sequence returns a packed one.
        """
        rows = self._take(input, lengths, reset)
        y_BTO, states, _ = self._unroll(rows, hx, record=False, kernel=self.kernel)
        return rows.restore(y_BTO), join_state(states, ragged=self.ragged, batched=rows.batched)

    def trace(
        self,
        input: Tensor | PackedSequence,
        hx: StateGiven | None = None,
        *,
        lengths: Lengths | None = None,
        reset: Tensor | None = None,
    ) -> Traced:
        """The same call with every step's gates and states kept, by a kernel that can show them."""
        rows = self._take(input, lengths, reset)
        y_BTO, states, records = self._unroll(rows, hx, record=True, kernel="auto")
        arrays = {lane: {name: rows.array(a) for name, a in record.items()} for lane, record in records.items()}
        return Traced(rows.restore(y_BTO), join_state(states, ragged=self.ragged, batched=rows.batched), arrays)

    def stream(self, batch: int = 1, *, weights: str | None = None) -> Stream:
        """A `Stream` that steps token by token with this module's present weights, without allocating.

        `weights`: "bfloat16" or "int8" stores its matrices in fewer bytes, which makes steps of few rows faster.
        """
        return Stream(self, batch, weights=weights)

    def _take(self, input: Tensor | PackedSequence, lengths: Lengths | None, reset: Tensor | None) -> Rows:
        like = getattr(self, f"weight_ih_{self.lanes[0].name}")
        return take_rows(
            input, lengths, reset, batch_first=self.batch_first, input_size=self.input_size, like=like, check=self.check
        )

    def _initial(self, hx: StateGiven | None, rows: Rows) -> list[State]:
        batch, cells = rows.x_BTI.shape[0], [lane.cell for lane in self.lanes]
        if hx is not None:
            return split_state(hx, cells, batch, rows.x_BTI, ragged=self.ragged, batched=rows.batched)
        states = []
        for lane in self.lanes:
            learned = (
                {name: getattr(self, f"initial_{name}_{lane.name}") for name in lane.cell.state_sizes()}
                if self.initial == "learned"
                else {}
            )
            states.append(fresh_state(lane.cell, self.initial, batch, rows.x_BTI, learned, self.training))
        return states

    def _unroll(
        self, rows: Rows, hx: StateGiven | None, record: bool, kernel: str
    ) -> tuple[Tensor, list[State], dict[str, dict[str, Tensor]]]:
        before, after, records = iter(self._initial(hx, rows)), [], {}
        x_BTI = rows.x_BTI
        for index, lanes in enumerate(self.layers):
            read_BTI = self._dropped(x_BTI, index)
            outputs = []
            for lane in lanes:
                weights = dict(self.lane_weights(lane))
                if self.weight_drop:
                    weights["weight_hh"] = weight_drop(weights["weight_hh"], self.weight_drop, self.training)
                result = unroll(
                    lane.cell,
                    read_BTI,
                    next(before),
                    weights,
                    lengths=rows.lengths_B,
                    reverse=lane.reverse,
                    reset=rows.reset_BT,
                    hold=zoneout(lane.cell, self.zoneout, read_BTI, self.training),
                    record=record,
                    kernel=kernel,
                )
                outputs.append(result.y_BTO)
                after.append(result.state)
                if result.record is not None:
                    records[lane.name] = result.record
            y_BTO = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=-1)
            x_BTI = self._connected(x_BTI, y_BTO, index)
        return locked(x_BTI, self.output_dropout, self.training), after, records

    def _dropped(self, x_BTI: Tensor, index: int) -> Tensor:
        if index == 0:
            return locked(x_BTI, self.input_dropout, self.training)
        if self.locked:
            return locked(x_BTI, self.dropout, self.training)
        return F.dropout(x_BTI, self.dropout, self.training) if self.dropout else x_BTI

    def _connected(self, x_BTI: Tensor, y_BTO: Tensor, index: int) -> Tensor:
        if index == 0 or self.connect is None:
            return y_BTO
        weight, bias = (getattr(self, f"highway_{part}_l{index}", None) for part in ("weight", "bias"))
        return join(self.connect, x_BTI, y_BTO, weight, bias)

    def extra_repr(self) -> str:
        defaults = {"num_layers": 1, "bias": True, "zoneout": (0.0, 0.0), "initial": "zero", "connect": None}
        defaults["kernel"] = "auto"
        named = ("num_layers", "bias", "batch_first", "dropout", "bidirectional", *Extras.__annotations__)
        cell = self.lanes[0].cell
        plain = type(cell)(cell.input_size, cell.hidden_size).describe()
        options = {name: getattr(self, name) for name in named}
        options = {name: value for name, value in options.items() if value != defaults.get(name, False)}
        options |= {name: value for name, value in cell.describe().items() if name != "bias" and value != plain[name]}
        return ", ".join([f"{self.input_size}, {self.hidden_size}", *(f"{n}={v!r}" for n, v in options.items())])


def bias_kind(bias: Bias) -> str:
    """Cells' name of a bias convention: torch's True means two."""
    if isinstance(bias, bool):
        return "two" if bias else "none"
    return bias


def count_parameters(*parts: Cell | nn.Module) -> int:
    """The number of parameters of cells or modules together, each counted once.

    Text books count one bias for each gate, torch keeps two: what is counted is what the part was made with.

    >>> from thereafter.cells.lstm import LSTM
    >>> count_parameters(LSTM(128, 256, bias="one")), count_parameters(LSTM(128, 256, bias="two"))
    (394240, 395264)
    """
    total = 0
    seen: set[int] = set()
    for part in parts:
        if isinstance(part, Cell):
            total += sum(math.prod(shape) for shape in part.shapes().values())
            continue
        for weight in part.parameters():
            if id(weight) not in seen:  # weights may be tied between parts
                seen.add(id(weight))
                total += weight.numel()
    return total


CONNECTIONS = (None, "residual", "highway")
CARRY_BIAS = -1.0
"""Initial bias of the highway gate: a fresh stack mostly carries (Srivastava et al. 2015 use -1 to -3)."""


def connection_shapes(connect: str | None, layers: Sequence[tuple[Lane, ...]]) -> dict[str, tuple[int, ...]]:
    """The weights the connections need, by name. The first layer has none: its input is not a layer's output."""
    if connect not in CONNECTIONS:
        raise OptionError(f"connect is {connect!r}; expected None, 'residual' or 'highway'")
    shapes: dict[str, tuple[int, ...]] = {}
    if connect is None:
        return shapes
    for index, lanes in enumerate(layers[1:], start=1):
        before, after = lanes[0].cell.input_size, sum(lane.cell.output_size for lane in lanes)
        if before != after:
            raise OptionError(
                f"connect={connect!r} adds a layer's input to its output, but layer {index} reads {before} features "
                f"and gives {after}; try the same hidden_size for all layers"
            )
        if connect == "highway":
            shapes |= {f"highway_weight_l{index}": (after, after), f"highway_bias_l{index}": (after,)}
    return shapes


def join(connect: str | None, x_BTF: Tensor, y_BTF: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """residual: y + x (He et al. 2016). highway: t y + (1 - t) x, t = sigmoid(W x + b) (Srivastava et al. 2015)."""
    if connect == "residual":
        return y_BTF + x_BTF
    if connect == "highway" and weight is not None:
        gate_BTF = torch.sigmoid(F.linear(x_BTF, weight, bias))
        # under autocast the three may have different types
        return torch.lerp(x_BTF.to(y_BTF.dtype), y_BTF, gate_BTF.to(y_BTF.dtype))
    return y_BTF

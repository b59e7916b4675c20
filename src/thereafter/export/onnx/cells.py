"""One step of each cell, whole sequences through a layer, products with weights, heads; `cells/` says what is computed.

    y = x W^T + b,   W in float32, or in int8 with one scale a row:
    W ~ s q,   s_r = max |W_r| / 127,   q in -127 .. 127

Products are taken in int8 too in a step (`products`), where weights are read from memory once for each token and that
is what a step costs: x becomes uint8 (DynamicQuantizeLinear), x q^T is a whole number (MatMulInteger). In a sequence
they are turned into float32 first. Sequences come time first and go through the operators LSTM, GRU and RNN where
these mean the same, else through Scan.

Shapes: B rows, T steps, N places, I inputs, G = hidden size times gates, O outputs of a cell, S its hidden size, H
features, V words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from thereafter.export.onnx.graph import Graph, place_of
from thereafter.export.plan import Array, HeadPlan, LanePlan, LayerPlan, SoftmaxPlan, StatePart, array, cell_of
from thereafter.kernels.onnx_rules import ONNX_TYPES, OperatorWriting, numpy_type
from thereafter.layers.convert import gate_order

State = list[str]
"""The values of the state fields, in the order of `LanePlan.fields`."""


def input_product(w: GraphWeights, lane: LanePlan, x: str) -> str:
    """z = W x + b of a step or of a whole sequence, normalised where the cell is."""
    t = GraphTracing(w)
    with t:
        x_NI = t.named(x, torch.float32, ("B", lane.input_size))
        return t.value(cell_of(lane).input_product(x_NI, tensors_of(lane)))


def step(w: GraphWeights, lane: LanePlan, z_BG: str, state: State) -> tuple[str, State]:
    """The output [B, O] and the new state, from the product of the input: the cell's own step."""
    cell, t = cell_of(lane), GraphTracing(w)
    with t:
        z = t.named(z_BG, torch.float32, ("B", len(lane.gates) * lane.hidden_size))
        parts = zip(state, lane.fields.values(), strict=True)
        before = cell.state_type(*(t.named(part, torch.float32, ("B", size)) for part, size in parts))
        y, after = cell.step(z, before, tensors_of(lane))
        return t.value(y), [t.value(part) for part in after]


def tensors_of(lane: LanePlan) -> dict[str, Tensor]:
    """The weights of a cell as tensors over the same memory."""
    return {name: torch.from_numpy(weight) for name, weight in lane.weights.items()}


FEWEST = 1024
"""Arrays of fewer numbers stay in float32: gains, biases, peepholes."""


def quantised(weight_OI: Array) -> tuple[NDArray[np.int8], Array]:
    """q [O, I] and s [O].

    >>> quantised(np.array([[0.5, -1.0]], dtype=np.float32))[0].tolist()
    [[64, -127]]
    """
    scale_O = np.maximum(np.abs(weight_OI).max(axis=1), np.finfo(np.float32).tiny) / np.float32(127)
    q_OI = np.clip(np.rint(weight_OI / scale_O[:, None]), -127, 127).astype(np.int8)
    return q_OI, scale_O.astype(np.float32)


class GraphWeights:
    """The weights of a graph in one precision.

    `int8`: weights are stored as int8. `products`: and multiplied as such.
    """

    def __init__(self, graph: Graph, *, int8: bool = False, products: bool = False) -> None:
        self.graph, self.int8, self.products = graph, int8, products
        self._stored: dict[tuple[object, ...], tuple[Array, NDArray[np.int8], Array]] = {}

    def inside(self, graph: Graph) -> GraphWeights:
        """The same weights for a graph inside this one."""
        other = GraphWeights(graph, int8=self.int8, products=self.products)
        other._stored = self._stored
        return other

    def rows(self, matrix_RI: Array, index: str) -> str:
        """Rows of a matrix, in float32."""
        g = self.graph
        if not self._small(matrix_RI):
            q_RI, scale_R = self._quantised(matrix_RI)
            rows = g.op("Cast", g.op("Gather", g.weight(q_RI, "rows"), index), to=1)
            return g.op("Mul", rows, g.axes(g.op("Gather", g.weight(scale_R, "scale"), index), -1))
        return g.op("Gather", g.weight(matrix_RI, "rows"), index)

    def matrix(self, weight_OI: Array) -> str:
        """A matrix in float32, for operators that take nothing else."""
        g = self.graph
        if self._small(weight_OI):
            return g.weight(weight_OI)
        q_OI, scale_O = self._quantised(weight_OI)
        return g.op("DequantizeLinear", g.weight(q_OI), g.weight(scale_O, "scale"), axis=0)

    def linear(self, x_NI: str, weight_OI: Array, bias_O: Array | None = None, rows: int | None = None) -> str:
        """y_NO, of any number of axes before the last; `rows`: by so many of the weight's first rows alone."""
        g = self.graph
        if self.products and not self._small(weight_OI):
            y = self._whole_product(x_NI, weight_OI, rows)
        else:
            matrix = self.matrix(weight_OI)
            if rows is not None and rows < len(weight_OI):
                matrix = g.slice(matrix, 0, 0, rows)
            y = g.op("MatMul", x_NI, g.op("Transpose", matrix, perm=[1, 0]))
        return y if bias_O is None else g.op("Add", y, g.weight(bias_O, "bias"))

    def _whole_product(self, x_NI: str, weight_OI: Array, rows: int | None) -> str:
        g = self.graph
        q_OI, scale_O = self._quantised(weight_OI)
        q, scale = g.weight(q_OI), g.weight(scale_O, "scale")
        if rows is not None and rows < len(weight_OI):
            q, scale = g.slice(q, 0, 0, rows), g.slice(scale, 0, 0, rows)
        small, step, zero = g.ops("DynamicQuantizeLinear", [x_NI], 3)
        whole = g.op("MatMulInteger", small, g.op("Transpose", q, perm=[1, 0]), zero)
        return g.op("Mul", g.op("Cast", whole, to=1), g.op("Mul", step, scale))

    def _small(self, weight: Array) -> bool:
        return not self.int8 or weight.ndim != 2 or weight.size < FEWEST

    def _quantised(self, weight: Array) -> tuple[NDArray[np.int8], Array]:
        place = place_of(weight)
        if place not in self._stored:
            self._stored[place] = (weight, *quantised(weight))
        return self._stored[place][1:]


FREE = {letter: 170_003 + 10_007 * number for number, letter in enumerate("BTSULPN")}
"""The sizes of free axes while a network is written down."""
_NEAR = 9
"""How far from the size of a free axis a number may be that is counted from it."""


class GraphTracing(OperatorWriting[str]):
    """Within it a network is written into a graph. `weights`: those that others may be the first rows of."""

    g: Graph

    def __init__(self, w: GraphWeights, weights: Iterable[Tensor] = ()) -> None:
        super().__init__(w.graph)
        self.g, self.w = w.graph, w
        self._weights = {weight.data_ptr(): weight for weight in weights}
        self._sizes: dict[int, Callable[[], str]] = {}

    def input(self, name: str, kind: torch.dtype, axes: Sequence[int | str]) -> Tensor:
        """An input of the graph as a tensor."""
        return self.named(self.g.input(name, numpy_type(kind), axes), kind, axes)

    def named(self, value: str, kind: torch.dtype, axes: Sequence[int | str]) -> Tensor:
        """A value as a tensor; its free axes are letters."""
        for place, axis in enumerate(axes):
            if isinstance(axis, str):
                self._sizes.setdefault(FREE[axis], partial(self.g.size, value, place))
        return self.known(value, [FREE[axis] if isinstance(axis, str) else axis for axis in axes], kind)

    def output(self, tensor: Tensor, name: str) -> None:
        """A tensor as an output of the graph."""
        letters = {size: letter for letter, size in FREE.items()}
        axes = [letters.get(size, size) for size in tensor.shape]
        self.g.output(self.value(tensor), name, numpy_type(tensor.dtype), axes)

    def free(self, number: object) -> int | None:
        if type(number) is not int:
            return None
        return next((size for size in self._sizes if abs(number - size) <= _NEAR), None)

    def size(self, number: int) -> int | str:
        free = self.free(number)
        if free is None:
            return number
        value = self._sizes[free]()
        return value if number == free else self.g.op("Add", value, self.g.constant([number - free]))

    def number(self, number: float, kind: torch.dtype) -> str:
        size = self.size(number) if isinstance(number, int) else number
        if not isinstance(size, str):
            return super().number(number, kind)
        return self.g.op("Cast", self.g.squeezed(size), to=ONNX_TYPES[kind])

    def array(self, weight: Tensor) -> NDArray[np.generic]:
        return array(weight) if weight.is_floating_point() else super().array(weight)

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> str:
        whole = self._weights.get(weight.data_ptr(), weight) if not self.stands_for(weight) else weight
        whole = whole if whole.shape[1:] == weight.shape[1:] else weight
        bias_O = None if bias is None else array(bias)
        return self.w.linear(self.value(x), array(whole), bias_O, rows=len(weight))

    def rows(self, weight: Tensor, index: Tensor) -> str:
        return self.w.rows(array(weight), self.value(index))


def log_p(w: GraphWeights, head: HeadPlan, f_NH: str, embedding_RE: Array | None = None) -> str:
    """log p of every word, of any number of axes before the last; a tied head reads the word vectors."""
    g = w.graph
    if isinstance(head, SoftmaxPlan):
        if head.tied and embedding_RE is not None:
            logits = w.linear(f_NH, embedding_RE, head.bias, rows=len(head.bias))
        else:
            logits = w.linear(f_NH, head.matrix, head.bias)
        return g.op("LogSoftmax", logits, axis=-1)
    short, clusters = len(head.matrix) - len(head.down), len(head.down)
    first = g.op("LogSoftmax", w.linear(f_NH, head.matrix, head.bias), axis=-1)
    if not clusters:
        return g.op("Gather", first, g.weight(head.rank, "rank"), axis=-1)
    listed, *shares = g.split(first, [short] + [1] * clusters)
    parts = [listed]
    for share, down, out in zip(shares, head.down, head.out, strict=True):
        inside = g.op("LogSoftmax", w.linear(w.linear(f_NH, down), out), axis=-1)
        parts.append(g.op("Add", inside, share))
    return g.op("Gather", g.op("Concat", *parts, axis=-1), g.weight(head.rank, "rank"), axis=-1)


_ACTIVATIONS: dict[str, dict[str, object]] = {
    "tanh": {"activations": ["Tanh"]},
    "relu": {"activations": ["Relu"]},
    "sigmoid": {"activations": ["Sigmoid"]},
    "leaky_relu": {"activations": ["LeakyRelu"], "activation_alpha": [0.01]},
    "identity": {"activations": ["Affine"], "activation_alpha": [1.0], "activation_beta": [0.0]},
}
_OPERATORS = {"lstm": "LSTM", "gru": "GRU", "elman": "RNN"}


def has_operator(lane: LanePlan) -> bool:
    """Whether the format has an operator that computes the same."""
    options = lane.options
    if lane.cell not in _OPERATORS or options["layer_norm"] or options.get("proj_size"):
        return False
    return lane.cell != "elman" or options["nonlinearity"] in _ACTIVATIONS


def by_operator(w: GraphWeights, lane: LanePlan, x_TBI: str, lengths_B: str, state: State) -> tuple[str, State]:
    """y_TBO and the state at each row's end. `lengths_B`: int32, or "" where all rows have T steps."""
    g = w.graph
    order = gate_order(lane.cell, "onnx") if lane.cell in ("lstm", "gru") else lane.gates
    matrices = [_ordered(lane, lane.weights[f"weight_{which}"], order) for which in ("ih", "hh")]
    blank = np.zeros(len(lane.gates) * lane.hidden_size, np.float32)
    biases = [_ordered(lane, lane.weights.get(f"bias_{which}", blank), order) for which in ("ih", "hh")]
    inputs = [x_TBI, *(g.axes(w.matrix(matrix), 0) if w.int8 else g.weight(matrix[None]) for matrix in matrices)]
    inputs += [g.weight(np.concatenate(biases)[None], "bias"), lengths_B, *(g.axes(part, 0) for part in state)]
    attributes: dict[str, object] = {"hidden_size": lane.hidden_size}
    attributes["direction"] = "reverse" if lane.reverse else "forward"
    if lane.cell == "lstm":
        attributes["input_forget"] = int(bool(lane.options["coupled"]))
        if lane.options["peephole"]:
            none = np.zeros(lane.hidden_size, np.float32)
            seen = [lane.weights.get(f"peephole_{gate}", none) for gate in ("input", "output", "forget")]
            inputs.append(g.weight(np.concatenate(seen)[None], "peephole"))
    elif lane.cell == "gru":
        attributes["linear_before_reset"] = int(lane.options["reset"] == "after")
    else:
        attributes |= _ACTIVATIONS[str(lane.options["nonlinearity"])]
    y_T1BO, *after = g.ops(_OPERATORS[lane.cell], inputs, 1 + len(state), **attributes)
    return g.squeezed(y_T1BO, 1), [g.squeezed(part, 0) for part in after]


def _ordered(lane: LanePlan, weight: Array, order: Sequence[str]) -> Array:
    """The row blocks in the order of the operator; a gate that is missing in a coupled cell is one of zeros.

    A GRU with update="new" turns the sign of its update rows: 1 - sigmoid(a) is sigmoid(-a).
    """
    blocks = dict(zip(lane.gates, np.split(weight, len(lane.gates)), strict=True))
    if lane.options.get("update") == "new":
        blocks["update"] = -blocks["update"]
    blank = np.zeros_like(blocks[lane.gates[0]])
    return np.concatenate([blocks.get(gate, blank) for gate in order])


def lane_sequence(w: GraphWeights, lane: LanePlan, x_TBI: str, lengths_B: str, state: State) -> tuple[str, State]:
    """y_TBO and the state at each row's end; `lengths_B` int32."""
    if has_operator(lane):
        return by_operator(w, lane, x_TBI, lengths_B, state)
    g = w.graph
    if lane.reverse:
        longer = g.op("Cast", lengths_B, to=7)
        x_TBI = g.op("ReverseSequence", x_TBI, longer, time_axis=0, batch_axis=1)
    z_TBG = input_product(w, lane, x_TBI)

    def lane_step(inner: Graph, z_BG: str, before: State) -> tuple[str, State]:
        return step(w.inside(inner), lane, z_BG, before)

    y_TBO, after = scan(g, z_TBG, np.float32, lengths_B, state, lane.state(), lane_step)
    if lane.reverse:
        y_TBO = g.op("ReverseSequence", y_TBO, longer, time_axis=0, batch_axis=1)
    return y_TBO, after


def scan(
    g: Graph,
    x_TB: str,
    dtype: type[np.generic],
    lengths_B: str,
    state: State,
    parts: Sequence[StatePart],
    step: Callable[[Graph, str, State], tuple[str, State]],
) -> tuple[str, State]:
    """A step for each time, by the operator Scan: what it gives [T, B, O], 0 beyond a row's end, and the state there.

    `parts`: what the state is made of.
    """
    time_T = g.op("Range", g.constant(0), g.squeezed(g.size(x_TB, 0)), g.constant(1))
    there_TB = g.op("Less", g.axes(time_T, 1), g.axes(g.op("Cast", lengths_B, to=7), 0))
    body = g.sub(g.fresh("body"))
    before = [body.input(g.fresh("state"), type_of(part), ["B", *part.shape]) for part in parts]
    x_B, there_B = body.input(g.fresh("x"), dtype, None), body.input(g.fresh("there"), np.bool_, ["B"])
    y_BO, after = step(body, x_B, before)
    for one, old, part in zip(after, before, parts, strict=True):
        kept = body.op("Where", rows_of(body, there_B, part), one, old)
        body.output(kept, g.fresh("state"), type_of(part), ["B", *part.shape])
    blank = body.constant(0.0, np.float32)
    body.output(body.op("Where", body.axes(there_B, 1), y_BO, blank), g.fresh("y"), np.float32, None)
    *ends, y_TBO = g.ops("Scan", [*state, x_TB, there_TB], len(state) + 1, body=body.made(), num_scan_inputs=2)
    return y_TBO, ends


def rows_of(g: Graph, mask_B: str, part: StatePart) -> str:
    """A mask of rows with as many axes as a part of the state has."""
    return g.axes(mask_B, *range(1, 1 + len(part.shape))) if part.shape else mask_B


def type_of(part: StatePart) -> type[np.generic]:
    """The type of a part of the state."""
    return np.int64 if part.whole else np.float32


def torch_type(part: StatePart) -> torch.dtype:
    """The same as torch has it."""
    return torch.int64 if part.whole else torch.float32


def layer_sequence(
    w: GraphWeights, layer: LayerPlan, x_TBI: str, lengths_B: str, states: Sequence[State]
) -> tuple[str, list[State]]:
    """A whole layer: its directions side by side, joined with what it read."""
    outputs, after = [], []
    for lane, state in zip(layer.lanes, states, strict=True):
        y_TBO, end = lane_sequence(w, lane, x_TBI, lengths_B, state)
        outputs.append(y_TBO)
        after.append(end)
    y = outputs[0] if len(outputs) == 1 else w.graph.op("Concat", *outputs, axis=-1)
    return joined(w, layer, x_TBI, y), after


def joined(w: GraphWeights, layer: LayerPlan, x: str, y: str) -> str:
    """y, y + x, or t y + (1 - t) x."""
    g = w.graph
    if layer.join == "residual":
        return g.op("Add", x, y)
    if layer.join == "highway" and layer.gate_weight is not None:
        t = g.op("Sigmoid", w.linear(x, layer.gate_weight, layer.gate_bias))
        return g.op("Add", x, g.op("Mul", t, g.op("Sub", y, x)))
    return y

"""One step of each cell as operators, products with weights, and heads; the classes in `cells/` say what is computed.

    y = x W^T + b,   W in float32, or in int8 with one scale a row:
    W ~ s q,   s_r = max |W_r| / 127,   q in -127 .. 127

Products are taken in int8 too in a step (`products`), where weights are read from memory once for each token and that
is what a step costs: x becomes uint8 (DynamicQuantizeLinear), x q^T is a whole number (MatMulInteger). In a sequence
they are turned into float32 first.

Shapes: B rows, N places, I inputs, G = hidden size times gates, O outputs, H features, V words.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from thereafter.export.onnx.graph import Graph
from thereafter.export.parts import EPSILON, Array, HeadPlan, LanePlan, SoftmaxPlan

State = list[str]
"""The values of the state fields, in the order of `LanePlan.fields`."""


def input_product(w: GraphWeights, lane: LanePlan, x: str) -> str:
    """z = W x + b of a step or of a whole sequence, normalised where the cell is."""
    return _product(w, lane, x, "ih")


def step(w: GraphWeights, lane: LanePlan, z_BG: str, state: State) -> tuple[str, State]:
    """The output [B, O] and the new state, from the product of the input."""
    return _STEPS[lane.cell](w, lane, z_BG, state)


def _product(w: GraphWeights, lane: LanePlan, x: str, which: str) -> str:
    weights = lane.weights
    bias = weights.get(f"bias_{which}")
    if not lane.options.get("layer_norm"):
        return w.linear(x, weights[f"weight_{which}"], bias)
    y = normalised(w, w.linear(x, weights[f"weight_{which}"]), weights[f"norm_{which}"])
    return y if bias is None else w.graph.op("Add", y, w.graph.weight(bias, "bias"))


def normalised(w: GraphWeights, x: str, gain: np.ndarray, shift: np.ndarray | None = None) -> str:
    """Layer norm over the last axis."""
    inputs = [x, w.graph.weight(gain, "gain")] + ([] if shift is None else [w.graph.weight(shift, "shift")])
    return w.graph.op("LayerNormalization", *inputs, axis=-1, epsilon=EPSILON)


def _elman(w: GraphWeights, lane: LanePlan, z_BG: str, state: State) -> tuple[str, State]:
    g = w.graph
    h = _activated(w, str(lane.options["nonlinearity"]), g.op("Add", z_BG, _product(w, lane, state[0], "hh")))
    return h, [h]


def _activated(w: GraphWeights, name: str, x: str) -> str:
    g = w.graph
    if name == "identity":
        return x
    if name == "relu6":
        return g.op("Clip", x, g.constant(0.0, np.float32), g.constant(6.0, np.float32))
    if name == "leaky_relu":
        return g.op("LeakyRelu", x, alpha=0.01)
    return g.op({"tanh": "Tanh", "relu": "Relu", "sigmoid": "Sigmoid"}[name], x)


def _lstm(w: GraphWeights, lane: LanePlan, z_BG: str, state: State) -> tuple[str, State]:
    g, weights, (h, c) = w.graph, lane.weights, state
    sizes = [lane.hidden_size] * len(lane.gates)
    parts = dict(zip(lane.gates, g.split(g.op("Add", z_BG, _product(w, lane, h, "hh")), sizes), strict=True))

    def gate(name: str, seen: str) -> str:
        part = parts[name]
        if lane.options["peephole"]:
            part = g.op("Add", part, g.op("Mul", seen, g.weight(weights[f"peephole_{name}"], "peephole")))
        return g.op("Sigmoid", part)

    i = gate("input", c)
    f = g.one_minus(i) if lane.options["coupled"] else gate("forget", c)
    c = g.op("Add", g.op("Mul", f, c), g.op("Mul", i, g.op("Tanh", parts["cell"])))
    o = gate("output", c)
    shown = normalised(w, c, weights["norm_c"], weights["shift_c"]) if lane.options["layer_norm"] else c
    h = g.op("Mul", o, g.op("Tanh", shown))
    if lane.options["proj_size"]:
        h = w.linear(h, weights["weight_hr"])
    return h, [h, c]


def _gru(w: GraphWeights, lane: LanePlan, z_BG: str, state: State) -> tuple[str, State]:
    g, size, h = w.graph, lane.hidden_size, state[0]
    x_r, x_z, x_n = g.split(z_BG, [size] * 3)
    if lane.options["reset"] == "after":
        h_r, h_z, h_n = g.split(_product(w, lane, h, "hh"), [size] * 3)
        r = g.op("Sigmoid", g.op("Add", x_r, h_r))
        n = g.op("Tanh", g.op("Add", x_n, g.op("Mul", r, h_n)))
    else:
        h_r, h_z = g.split(_some_rows(w, lane, h, slice(0, 2 * size)), [size] * 2)
        r = g.op("Sigmoid", g.op("Add", x_r, h_r))
        n = g.op("Tanh", g.op("Add", x_n, _some_rows(w, lane, g.op("Mul", r, h), slice(2 * size, 3 * size))))
    z = g.op("Sigmoid", g.op("Add", x_z, h_z))
    old, new = (z, g.one_minus(z)) if lane.options["update"] == "old" else (g.one_minus(z), z)
    h = g.op("Add", g.op("Mul", old, h), g.op("Mul", new, n))
    return h, [h]


def _some_rows(w: GraphWeights, lane: LanePlan, h: str, rows: slice) -> str:
    """The recurrent product of some of the gates."""
    cut = {name: weight[rows] for name, weight in lane.weights.items() if name.endswith("_hh")}
    y = w.linear(h, cut["weight_hh"])
    if lane.options["layer_norm"]:
        y = normalised(w, y, cut["norm_hh"])
    return w.graph.op("Add", y, w.graph.weight(cut["bias_hh"], "bias")) if "bias_hh" in cut else y


def coefficients(w: GraphWeights, lane: LanePlan, z: str) -> tuple[str, str]:
    """a and b of a linear cell's h_t = a_t h_{t-1} + b_t, of a step or of a whole sequence."""
    g, sizes = w.graph, [lane.hidden_size] * len(lane.gates)
    if lane.cell == "mingru":
        update, new = g.split(z, sizes)
        gate = g.op("Sigmoid", update)
        return g.one_minus(gate), g.op("Mul", gate, new)
    if lane.cell == "minlstm":
        i, f, new = g.split(z, sizes)
        # log sigmoid(x) = -softplus(-x)
        logs = [g.op("Softplus", g.op("Neg", part)) for part in (i, f)]
        keep = g.op("Sigmoid", g.op("Sub", logs[0], logs[1]))
        return keep, g.op("Mul", g.one_minus(keep), new)
    rate = np.exp(lane.weights["log_rate"].astype(np.float64))
    decay, scale = (part.astype(np.float32) for part in (np.exp(-rate), np.sqrt(-np.expm1(-2 * rate))))
    return g.weight(decay, "decay"), g.op("Mul", g.weight(scale, "scale"), z)


def _linear_cell(w: GraphWeights, lane: LanePlan, z_BG: str, state: State) -> tuple[str, State]:
    a, b = coefficients(w, lane, z_BG)
    h = w.graph.op("Add", w.graph.op("Mul", a, state[0]), b)
    return h, [h]


_STEPS: dict[str, Callable[[GraphWeights, LanePlan, str, State], tuple[str, State]]] = {
    "elman": _elman,
    "lstm": _lstm,
    "gru": _gru,
    "mingru": _linear_cell,
    "minlstm": _linear_cell,
    "diagonal": _linear_cell,
}


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
        self._stored: dict[int, tuple[Array, NDArray[np.int8], Array]] = {}

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
        if id(weight) not in self._stored:
            self._stored[id(weight)] = (weight, *quantised(weight))
        return self._stored[id(weight)][1:]


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

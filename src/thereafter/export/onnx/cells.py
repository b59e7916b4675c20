"""One step of each cell as operators; the classes in `cells/` say what is computed.

Shapes: B rows, I inputs, G = hidden size times gates, O outputs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from thereafter.export.onnx.linear import GraphWeights
from thereafter.export.parts import EPSILON, LanePlan

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

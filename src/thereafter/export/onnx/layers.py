"""Sequences through a recurrent layer, time first: the operators LSTM, GRU and RNN where they mean the same, else Scan.

Shapes: T steps, B rows, I inputs, O outputs of a cell, S its hidden size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from thereafter.export.onnx.cells import GraphWeights, State, input_product
from thereafter.export.onnx.cells import step as cell_step
from thereafter.export.onnx.graph import Graph
from thereafter.export.parts import Array, LanePlan, LayerPlan, StatePart
from thereafter.layers.convert import gate_order

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

    def step(inner: Graph, z_BG: str, before: State) -> tuple[str, State]:
        return cell_step(w.inside(inner), lane, z_BG, before)

    y_TBO, after = scan(g, z_TBG, np.float32, lengths_B, state, lane.state(), step)
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

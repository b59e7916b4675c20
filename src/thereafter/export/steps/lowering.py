"""A plan as a program: a step of a neural model as a list of operations, each of which reads and writes named buffers
of floats. `cells/` has the equations of the cells.

An operation is a name, an output, inputs, arrays and numbers. They are few and small, so that a language needs one
function for each of them and nothing else (V words, t the token, p the position, s sigmoid):

    row       out = table[t]                         add       out += x
    linear    out (+)= weight x + bias               copy      out[at:] = x
    norm      out = gain (out - mean) / dev + shift  scale     out *= by
    act       out = f(out), f named                  shift     out = out moved to the left, x behind
    mean      out = mean of the last n vectors of x  position  out += table[p]
    attend    out = attention of q over keys, values highway   out = x + s(t) (out - x)
    log_softmax  out = log softmax(out)              lift      out += x[at]
    take      out[i] = x[index[i]]

and one or two for each cell: lstm_memory, lstm_output; gru; gru_reset, gru_new; mingru; minlstm; diagonal. Gates are
left in the buffer of their sums, so that a page can show them.

Shapes: V words, R = V + 1 rows of the word vectors, E word vector, G sums of the first layer, H features, W window; of
a cell S hidden units, O outputs, G = S times its gates, I inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from thereafter.errors import ExportError
from thereafter.export.plan import (
    EPSILON,
    Array,
    AveragePlan,
    HeadPlan,
    LanePlan,
    LayerPlan,
    NeuralPlan,
    RecurrentPlan,
    SoftmaxPlan,
    TransformerPlan,
    WindowPlan,
    WordingPlan,
)

Number = int | float | str
IntArray = NDArray[np.int32]


@dataclass(frozen=True)
class Op:
    """One operation. `inputs`: buffers by their role. `arrays`: names of the program's arrays by their role."""

    name: str
    out: str
    inputs: Mapping[str, str] = field(default_factory=dict)
    arrays: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, Number] = field(default_factory=dict)


@dataclass(frozen=True)
class OpBlock:
    """Operations that belong together, such as a layer, with the buffers that only they use.

    `gates`: what the parts of the buffer `shown` are called once the block has run, for whoever looks on.
    """

    name: str
    ops: tuple[Op, ...]
    buffers: Mapping[str, int] = field(default_factory=dict)
    shown: str = ""
    gates: tuple[str, ...] = ()


@dataclass(frozen=True)
class Program:
    """A model: what is read is a token, what comes out are logits (or log p, whose softmax is the same).

    `state`: the buffers that are kept from step to step, with what they hold at first; among them "features", of which
    the head makes logits. `body` runs for each token, `head` where a prediction is wanted. `buffers` are shared by the
    blocks of the body. `context`: for a Transformer the most tokens in sight, else 0; the state then has the tokens
    too. `matrices`, `vectors`, `indices`: the arrays by name; a matrix is used as a table of rows, as a weight, or both
    (a tied one).
    """

    kind: str
    wording: WordingPlan
    state: Mapping[str, Array]
    body: tuple[OpBlock, ...]
    head: OpBlock
    buffers: Mapping[str, int]
    matrices: Mapping[str, Array]
    vectors: Mapping[str, Array]
    indices: Mapping[str, IntArray]
    context: int = 0

    @property
    def state_numbers(self) -> int:
        """How many numbers the state has, the tokens of a Transformer and their count among them."""
        return sum(part.size for part in self.state.values()) + (self.context + 1 if self.context else 0)


class Writer:
    """Collects operations, buffers and arrays while a plan is lowered."""

    def __init__(self) -> None:
        self.state: dict[str, Array] = {}
        self.matrices: dict[str, Array] = {}
        self.vectors: dict[str, Array] = {}
        self.indices: dict[str, IntArray] = {}
        self.blocks: list[OpBlock] = []
        self.buffers: dict[str, int] = {}
        self._ops: list[Op] = []
        self._own: dict[str, int] = {}

    def op(self, name: str, out: str, *, arrays: Mapping[str, str] | None = None, **given: Number) -> None:
        """An operation; what is a string names a buffer, except for `f` and `keeps`, which are numbers as the rest."""
        inputs = {role: value for role, value in given.items() if isinstance(value, str) and role not in ("f", "keeps")}
        numbers = {role: value for role, value in given.items() if role not in inputs}
        self._ops.append(Op(name, out, inputs, dict(arrays or {}), numbers))

    def own(self, name: str, size: int) -> str:
        """A buffer of the block that is being written."""
        self._own[name] = max(size, self._own.get(name, 0))
        return name

    def shared(self, name: str, size: int) -> str:
        """A buffer of all blocks."""
        self.buffers[name] = max(size, self.buffers.get(name, 0))
        return name

    def matrix(self, name: str, values: Array) -> str:
        self.matrices[name] = np.ascontiguousarray(values, dtype=np.float32)
        return name

    def vector(self, name: str, values: Array) -> str:
        self.vectors[name] = np.ascontiguousarray(values, dtype=np.float32)
        return name

    def linear(self, out: str, weight: str, x: str, bias: str | None = None, *, add: bool = False) -> None:
        """out (+)= weight x + bias."""
        named = {"weight": weight} | ({} if bias is None else {"bias": bias})
        self.op("linear", out, x=x, add=int(add), arrays=named)

    def close(self, name: str, shown: str = "", gates: tuple[str, ...] = ()) -> OpBlock:
        """What was written since the last call, as a block."""
        block = OpBlock(name, tuple(self._ops), dict(self._own), shown, gates)
        self._ops, self._own = [], {}
        return block


def lower(plan: NeuralPlan) -> Program:
    """The program of a neural plan; ExportError where it has none."""
    writer = Writer()
    context = 0
    if isinstance(plan, RecurrentPlan):
        _recurrent(writer, plan)
    elif isinstance(plan, TransformerPlan):
        _transformer(writer, plan)
        context = plan.context
    else:
        _window(writer, plan)
    head = _head(writer, plan.head, plan.wording.size)
    arrays = (writer.buffers, writer.matrices, writer.vectors, writer.indices)
    return Program(plan.kind, plan.wording, writer.state, tuple(writer.blocks), head, *arrays, context=context)


def _features(writer: Writer, size: int) -> str:
    writer.state["features"] = np.zeros(size, np.float32)
    return "features"


def _recurrent(writer: Writer, plan: RecurrentPlan) -> None:
    """Where there are few words, W x of the first layer is stored for each of them: smaller, and no product at all."""
    lane, (rows, size) = plan.layers[0].lane, plan.embedding.shape
    sums = len(lane.weights["weight_ih"])
    x = writer.shared("x", max([size, *(layer.output_size for layer in plan.layers)]))
    # with a tied head the word vectors are stored either way
    tied = isinstance(plan.head, SoftmaxPlan) and plan.head.tied
    table: str | None = None
    if rows * sums <= sums * size + (0 if tied else rows * size):
        table = writer.matrix("first", folded(lane, plan.embedding))
        if tied:
            writer.matrix("embedding", plan.embedding)
    else:
        writer.op("row", x, arrays={"table": writer.matrix("embedding", plan.embedding)})
        writer.blocks.append(writer.close("words"))
    for index, layer in enumerate(plan.layers):
        write_layer(writer, layer, x, table if index == 0 else None)
    last = plan.layers[-1].output_size
    writer.op("copy", _features(writer, last), x=x, n=last)
    writer.blocks.append(writer.close("features"))


def _window(writer: Writer, plan: WindowPlan | AveragePlan) -> None:
    """The state has the vectors of the window, oldest first."""
    size = plan.embedding.shape[1]
    x = writer.shared("x", size)
    writer.op("row", x, arrays={"table": writer.matrix("embedding", plan.embedding)})
    if isinstance(plan, AveragePlan):
        writer.state["window"] = np.zeros(plan.window * size, np.float32)
        writer.state["count"] = np.zeros(1, np.float32)
        writer.op("shift", "window", x=x, n=size)
        writer.op("mean", _features(writer, size), x="window", count="count", n=size)
        writer.blocks.append(writer.close("window"))
        return
    writer.state["window"] = np.tile(plan.embedding[plan.wording.start], plan.window)
    writer.op("shift", "window", x=x, n=size)
    hidden = len(plan.bias)
    h = writer.own("h", hidden)
    writer.linear(h, writer.matrix("hidden", plan.matrix), "window", writer.vector("hidden_bias", plan.bias))
    writer.op("act", h, f="tanh", n=hidden)
    features = _features(writer, hidden + (plan.window * size if plan.direct else 0))
    writer.op("copy", features, x=h, n=hidden)
    if plan.direct:
        writer.op("copy", features, x="window", n=plan.window * size, at=hidden)
    writer.blocks.append(writer.close("window", h, ("hidden",)))


def _transformer(writer: Writer, plan: TransformerPlan) -> None:
    size = plan.embedding.shape[1]
    x = writer.shared("x", size)
    writer.op("row", x, arrays={"table": writer.matrix("embedding", plan.embedding)})
    writer.op("scale", x, by=plan.scale, n=size)
    writer.op("position", x, arrays={"table": writer.vector("positions", plan.positions.reshape(-1))}, n=size)
    writer.blocks.append(writer.close("words"))

    def linear(out: str, name: str, x: str, pair: tuple[Array, Array]) -> None:
        writer.linear(out, writer.matrix(name, pair[0]), x, writer.vector(f"{name}_bias", pair[1]))

    def norm(out: str, name: str, pair: tuple[Array, Array]) -> None:
        gain, shift = writer.vector(f"{name}_gain", pair[0]), writer.vector(f"{name}_shift", pair[1])
        writer.op("norm", out, arrays={"gain": gain, "shift": shift})

    for number, block in enumerate(plan.blocks):
        inner, at = len(block.widen[1]), f"b{number}"
        for name in ("keys", "values"):
            writer.state[f"{name}_{number}"] = np.zeros(plan.context * size, np.float32)
        y, qkv, a = writer.own("y", size), writer.own("qkv", 3 * size), writer.own("a", size)
        writer.op("copy", y, x=x, n=size)
        if plan.pre:
            norm(y, f"{at}_norm_attention", block.norm_attention)
        linear(qkv, f"{at}_into", y, block.into)
        keys, values = f"keys_{number}", f"values_{number}"
        writer.op("attend", a, q=qkv, keys=keys, values=values, heads=plan.heads, n=size, context=plan.context)
        linear(y, f"{at}_out", a, block.out)
        writer.op("add", x, x=y, n=size)
        if not plan.pre:
            norm(x, f"{at}_norm_attention", block.norm_attention)
        writer.op("copy", y, x=x, n=size)
        if plan.pre:
            norm(y, f"{at}_norm_forward", block.norm_forward)
        wide = writer.own("wide", inner)
        linear(wide, f"{at}_widen", y, block.widen)
        writer.op("act", wide, f="gelu_tanh" if block.approximate else "gelu", n=inner)
        linear(y, f"{at}_narrow", wide, block.narrow)
        writer.op("add", x, x=y, n=size)
        if not plan.pre:
            norm(x, f"{at}_norm_forward", block.norm_forward)
        writer.blocks.append(writer.close(f"block {number}", wide, ("inner",)))
    features = _features(writer, size)
    writer.op("copy", features, x=x, n=size)
    if plan.norm is not None:
        norm(features, "norm", plan.norm)
    writer.blocks.append(writer.close("features"))


def _head(writer: Writer, head: HeadPlan, words: int) -> OpBlock:
    """Operations from "features" to "logits"."""
    if isinstance(head, SoftmaxPlan):
        weight = "embedding" if head.tied else writer.matrix("head", head.matrix)
        writer.linear("logits", weight, "features", writer.vector("head_bias", head.bias))
        return writer.close("head")
    first, all_ = len(head.bias), writer.own("ranks", words)
    short = first - len(head.down)
    top = writer.own("top", first)
    writer.linear(top, writer.matrix("head", head.matrix), "features", writer.vector("head_bias", head.bias))
    writer.op("log_softmax", top, n=first)
    writer.op("copy", all_, x=top, n=short)
    at = short
    for number, (down, out) in enumerate(zip(head.down, head.out, strict=True)):
        low, inside = writer.own("low", len(down)), writer.own("inside", len(out))
        writer.linear(low, writer.matrix(f"down_{number}", down), "features")
        writer.linear(inside, writer.matrix(f"out_{number}", out), low)
        writer.op("log_softmax", inside, n=len(out))
        writer.op("lift", inside, x=top, at=short + number, n=len(out))
        writer.op("copy", all_, x=inside, n=len(out), at=at)
        at += len(out)
    writer.indices["rank"] = head.rank.astype(np.int32)
    writer.op("take", "logits", x=all_, arrays={"index": "rank"}, n=words)
    return writer.close("head")


class Products:
    """The weights of one cell in a program: W x and U h with their biases and norms."""

    def __init__(self, writer: Writer, lane: LanePlan) -> None:
        self.writer, self.lane = writer, lane

    def vector(self, name: str) -> str | None:
        """The name of a weight vector in the program; None where the cell has none."""
        if name not in self.lane.weights:
            return None
        return self.writer.vector(f"{self.lane.name}_{name}", self.lane.weights[name])

    def read(self, out: str, x: str) -> None:
        """out = W x + b, normalised where the cell asks for it."""
        weight = self.writer.matrix(f"{self.lane.name}_weight_ih", self.lane.weights["weight_ih"])
        gain, bias = self.vector("norm_ih"), self.vector("bias_ih")
        self.writer.linear(out, weight, x, bias if gain is None else None)
        self._normalised(out, gain, bias)

    def add_recurrent(self, z: str, h: str) -> None:
        """z += U h + b', normalised where the cell asks for it: through a buffer of its own then."""
        size = len(self.lane.weights["weight_hh"])
        if "norm_hh" in self.lane.weights:
            r = self.writer.own("r", size)
            self.recur(r, h)
            self.writer.op("add", z, x=r, n=size)
            return
        weight = self.writer.matrix(f"{self.lane.name}_weight_hh", self.lane.weights["weight_hh"])
        self.writer.linear(z, weight, h, self.vector("bias_hh"), add=True)

    def recur(self, out: str, x: str, rows: slice = slice(None), name: str = "hh") -> None:
        """out = U x + b' of some of the gates."""
        own, lane = self.lane.weights, self.lane.name
        weight = self.writer.matrix(f"{lane}_weight_{name}", own["weight_hh"][rows])
        parts = [
            None if part not in own else self.writer.vector(f"{lane}_{part[:-2]}{name}", own[part][rows])
            for part in ("norm_hh", "bias_hh")
        ]
        self.writer.linear(out, weight, x, parts[1] if parts[0] is None else None)
        self._normalised(out, *parts)

    def _normalised(self, out: str, gain: str | None, bias: str | None) -> None:
        if gain is not None:
            named = {"gain": gain} | ({} if bias is None else {"shift": bias})
            self.writer.op("norm", out, arrays=named)


def folded(lane: LanePlan, embedding: Array) -> Array:
    """W x + b of the first layer for every word, [R, G], worked out in 64 bits: a table in the place of a product."""
    z_RG = embedding.astype(np.float64) @ lane.weights["weight_ih"].astype(np.float64).T
    if "norm_ih" in lane.weights:
        z_RG -= z_RG.mean(1, keepdims=True)
        z_RG *= lane.weights["norm_ih"] / np.sqrt((z_RG**2).mean(1, keepdims=True) + EPSILON)
    return (z_RG + lane.weights.get("bias_ih", np.float32(0.0))).astype(np.float32)


def write_layer(writer: Writer, layer: LayerPlan, x: str, table: str | None) -> None:
    """A layer: reads the shared buffer `x` (or, where `table` names W x of every word, the token), writes x again."""
    if len(layer.lanes) != 1 or layer.lane.reverse:
        raise ExportError("a layer that reads from both ends cannot be streamed; try a model with one direction")
    lane, products = layer.lane, Products(writer, layer.lane)
    gates = len(lane.gates) * lane.hidden_size
    z, h = writer.own("z", gates), f"h_{lane.name}"
    for name, size in lane.fields.items():
        writer.state[f"{name}_{lane.name}"] = lane.initial.get(name, np.zeros(size, np.float32))
    if table is None:
        products.read(z, x)
    else:
        writer.op("row", z, arrays={"table": table})
    linear = dict.fromkeys(("mingru", "minlstm", "diagonal"), _linear_cell)
    ({"elman": _elman, "lstm": _lstm, "gru": _gru} | linear)[lane.cell](products, z, h)
    _join(writer, layer, x, h)
    writer.blocks.append(writer.close(lane.name, z, lane.gates))


def _join(writer: Writer, layer: LayerPlan, x: str, h: str) -> None:
    lane, size = layer.lane, layer.lane.output_size
    if layer.join == "highway" and layer.gate_weight is not None and layer.gate_bias is not None:
        t, y = writer.own("t", size), writer.own("y", size)
        weight = writer.matrix(f"{lane.name}_highway", layer.gate_weight)
        writer.linear(t, weight, x, writer.vector(f"{lane.name}_highway_bias", layer.gate_bias))
        writer.op("copy", y, x=h, n=size)
        writer.op("highway", y, x=x, t=t, n=size)
        writer.op("copy", x, x=y, n=size)
    elif layer.join == "residual":
        writer.op("add", x, x=h, n=size)
    else:
        writer.op("copy", x, x=h, n=size)


def _elman(products: Products, z: str, h: str) -> None:
    writer, size = products.writer, products.lane.hidden_size
    products.add_recurrent(z, h)
    writer.op("act", z, f=str(products.lane.options["nonlinearity"]), n=size)
    writer.op("copy", h, x=z, n=size)


def _lstm(products: Products, z: str, h: str) -> None:
    """The memory and the gates first, then h of what the output gate shows."""
    writer, lane = products.writer, products.lane
    size, c = lane.hidden_size, f"c_{lane.name}"
    products.add_recurrent(z, h)
    seen = {name: products.vector(f"peephole_{name}") for name in ("input", "forget", "output")}
    coupled = int(bool(lane.options["coupled"]))
    arrays = {name: vector for name, vector in seen.items() if vector is not None}
    writer.op("lstm_memory", c, z=z, coupled=coupled, n=size, arrays=arrays)
    shown, gain, shift = c, products.vector("norm_c"), products.vector("shift_c")
    if gain is not None and shift is not None:
        shown = writer.own("shown", size)
        writer.op("copy", shown, x=c, n=size)
        writer.op("norm", shown, arrays={"gain": gain, "shift": shift})
    projected = "weight_hr" in lane.weights
    out = writer.own("m", size) if projected else h
    writer.op("lstm_output", out, z=z, c=shown, coupled=coupled, n=size)
    if projected:
        writer.linear(h, writer.matrix(f"{lane.name}_weight_hr", lane.weights["weight_hr"]), out)


def _gru(products: Products, z: str, h: str) -> None:
    writer, lane = products.writer, products.lane
    size, keeps = lane.hidden_size, str(lane.options["update"])
    if lane.options["reset"] == "after":
        r = writer.own("r", 3 * size)
        products.recur(r, h)
        writer.op("gru", h, z=z, r=r, keeps=keeps, n=size)
        return
    r, m, q = writer.own("r", 2 * size), writer.own("m", size), writer.own("q", size)
    products.recur(r, h, slice(0, 2 * size))
    writer.op("gru_reset", m, z=z, r=r, h=h, n=size)
    products.recur(q, m, slice(2 * size, None), "hn")
    writer.op("gru_new", h, z=z, q=q, keeps=keeps, n=size)


def _linear_cell(products: Products, z: str, h: str) -> None:
    """Cells whose gates see the input alone: h = a h + b."""
    writer, lane = products.writer, products.lane
    arrays = {}
    if lane.cell == "diagonal":
        for name, values in zip(("decay", "factor"), lane.decay_and_scale(), strict=True):
            arrays[name] = writer.vector(f"{lane.name}_{name}", values)
    writer.op(lane.cell, h, z=z, n=lane.hidden_size, arrays=arrays)

"""A plan as a program.

Shapes: V words, R = V + 1 rows of the word vectors, E word vector, G sums of the first layer, H features, W window.
"""

from __future__ import annotations

import numpy as np

from thereafter.export.parts import Array, HeadPlan, SoftmaxPlan
from thereafter.export.plans import AveragePlan, NeuralPlan, RecurrentPlan, TransformerPlan, WindowPlan
from thereafter.export.steps.lowering_cells import folded, write_layer
from thereafter.export.steps.program import OpBlock, Program, Writer


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
    return Program(
        kind=plan.kind,
        wording=plan.wording,
        state=writer.state,
        body=tuple(writer.blocks),
        head=head,
        buffers=writer.buffers,
        matrices=writer.matrices,
        vectors=writer.vectors,
        indices=writer.indices,
        context=context,
    )


def _features(writer: Writer, size: int) -> str:
    writer.state["features"] = np.zeros(size, np.float32)
    return "features"


def _tied(head: HeadPlan) -> bool:
    return isinstance(head, SoftmaxPlan) and head.tied


def _recurrent(writer: Writer, plan: RecurrentPlan) -> None:
    """Where there are few words, W x of the first layer is stored for each of them: smaller, and no product at all."""
    lane, (rows, size) = plan.layers[0].lane, plan.embedding.shape
    sums = len(lane.weights["weight_ih"])
    x = writer.shared("x", max([size, *(layer.output_size for layer in plan.layers)]))
    # with a tied head the word vectors are stored either way
    table: str | None = None
    if rows * sums <= sums * size + (0 if _tied(plan.head) else rows * size):
        table = writer.matrix("first", folded(lane, plan.embedding))
        if _tied(plan.head):
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

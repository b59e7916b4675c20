"""Features to log p of all words.

Shapes: N places, H features, V words.
"""

from __future__ import annotations

from thereafter.export.onnx.cells import GraphWeights
from thereafter.export.parts import Array, HeadPlan, SoftmaxPlan


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

"""A Transformer translator as two graphs, the encoder of a source and a step of the decoder.

    encoder   (source[B, S], lengths[B])           -> (inside[B, S], look_keys_0[B, K, S, D], look_values_0, ...,
                                                       keys_0[B, K, 0, D], values_0, ...)
    decoder   (token[B], the encoder's outputs...) -> (log_p[B, V], next_keys_0[B, K, N + 1, D], ...)

A source ends with the token `end`; a target begins with the token `start`. `look_keys` and `look_values` are those of
the source, made once; `keys` and `values` are those of the N words written so far, none at first.

Shapes: B rows, S places, N words so far, H features, K heads, D = H / K, V words.
"""

from __future__ import annotations

import math

import numpy as np
from torch import nn

from thereafter.export.onnx.attention import gelu
from thereafter.export.onnx.cells import GraphWeights, normalised
from thereafter.export.onnx.graph import Graph
from thereafter.export.onnx.heads import log_p
from thereafter.export.onnx.tasks import inside_of
from thereafter.export.parts import Array
from thereafter.export.plan import array, head_of, linear_of, norm_of
from thereafter.layers.attention import CrossAttention
from thereafter.models.transformer_decoder import FeedForward
from thereafter.tasks.translate.network import TransformerTranslator


def transformer_encoder_graph(net: TransformerTranslator) -> Graph:
    """The keys and values that every block of the decoder looks at."""
    g = Graph("encoder")
    w, (heads, each) = GraphWeights(g), _heads(net)
    source_BS = g.input("source", np.int64, ["B", "S"])
    lengths_B = g.input("lengths", np.int64, ["B"])
    table = net.words if net.source_words is None else net.source_words
    x_BSH = g.op("Mul", w.rows(array(table.weight), source_BS), g.constant(math.sqrt(table.size), np.float32))
    x_BSH = g.op("Add", x_BSH, g.slice(_positions(g, net), 0, 0, g.size(source_BS, 1)))
    inside_BS = g.op("Transpose", inside_of(g, g.op("Transpose", source_BS, perm=[1, 0]), lengths_B), perm=[1, 0])
    for block in net.encoder:
        attention, after = block.get_submodule("attention"), block.get_submodule("after")
        read = normalised(w, x_BSH, *_norm(block, "norm"))
        x_BSH = g.op("Add", x_BSH, _looked(w, _cross(attention), read, _keys(w, _cross(attention), read), inside_BS))
        x_BSH = _fed(w, after, x_BSH)
    memory_BSH = normalised(w, x_BSH, *norm_of(net.norm_source))
    g.output(inside_BS, "inside", np.bool_, ["B", "S"])
    none = g.op("Expand", g.constant(np.zeros((1, 1, 1, 1)), np.float32), g.shape(g.size(source_BS, 0), heads, 0, each))
    for number, block in enumerate(net.decoder):
        made = _keys(w, _cross(block.get_submodule("look")), memory_BSH)
        for name, value in zip(("keys", "values"), made, strict=True):
            g.output(value, f"look_{name}_{number}", np.float32, ["B", heads, "S", each])
            g.output(none, f"{name}_{number}", np.float32, ["B", heads, "N", each])
    return g


def transformer_decoder_graph(net: TransformerTranslator) -> Graph:
    """One token of every target."""
    g = Graph("decoder")
    w, (heads, each) = GraphWeights(g), _heads(net)
    token_B, inside_BS = g.input("token", np.int64, ["B"]), g.input("inside", np.bool_, ["B", "S"])
    table = array(net.words.weight)
    x_BTH = g.op("Mul", w.rows(table, g.axes(token_B, 1)), g.constant(math.sqrt(net.words.size), np.float32))
    kept: dict[str, str] = {}
    for number, block in enumerate(net.decoder):
        before = [g.input(f"{name}_{number}", np.float32, ["B", heads, "N", each]) for name in ("keys", "values")]
        look = [g.input(f"look_{name}_{number}", np.float32, ["B", heads, "S", each]) for name in ("keys", "values")]
        if not number:
            place = g.size(before[0], 2)
            end = g.op("Add", place, g.constant([1]))
            x_BTH = g.op("Add", x_BTH, g.slice(_positions(g, net), 0, place, end))
        into, out = (linear_of(_linear(block, f"attention.{name}")) for name in ("into", "out"))
        parts = g.split(w.linear(normalised(w, x_BTH, *_norm(block, "norm")), *into), [heads * each] * 3)
        q, *new = (_by_head(g, part, heads, each) for part in parts)
        both = [g.op("Concat", old, one, axis=2) for old, one in zip(before, new, strict=True)]
        kept |= {f"keys_{number}": both[0], f"values_{number}": both[1]}
        x_BTH = g.op("Add", x_BTH, w.linear(_attended(g, q, both[0], both[1], heads * each), *out))
        read = normalised(w, x_BTH, *_norm(block, "norm_look"))
        cross = _cross(block.get_submodule("look"))
        x_BTH = _fed(w, block.get_submodule("after"), g.op("Add", x_BTH, _looked(w, cross, read, look, inside_BS)))
    f_BH = g.squeezed(normalised(w, x_BTH, *norm_of(net.norm)), 1)
    g.output(log_p(w, head_of(net.head), f_BH, table), "log_p", np.float32, ["B", net.words.words])
    for name, value in kept.items():
        g.output(value, f"next_{name}", np.float32, ["B", heads, "M", each])
    return g


def _heads(net: TransformerTranslator) -> tuple[int, int]:
    """K and D."""
    return net.settings.heads, net.settings.hidden // net.settings.heads


def _positions(g: Graph, net: TransformerTranslator) -> str:
    return g.weight(array(net.positions.table_CH), "positions")


def _by_head(g: Graph, x_BTH: str, heads: int, each: int) -> str:
    return g.op("Transpose", g.op("Reshape", x_BTH, g.constant([0, 0, heads, each])), perm=[0, 2, 1, 3])


def _keys(w: GraphWeights, attention: CrossAttention, memory_BSH: str) -> list[str]:
    """Keys and values of what is looked at, [B, K, S, D] each."""
    g, size, heads = w.graph, attention.out.in_features, attention.heads
    made = g.split(w.linear(memory_BSH, *linear_of(attention.of_memory)), [size, size])
    return [_by_head(g, part, heads, size // heads) for part in made]


def _looked(w: GraphWeights, attention: CrossAttention, read_BTH: str, keys: list[str], inside_BS: str) -> str:
    g, size, heads = w.graph, attention.out.in_features, attention.heads
    q = _by_head(g, w.linear(read_BTH, *linear_of(attention.of_query)), heads, size // heads)
    y_BTH = _attended(g, q, keys[0], keys[1], size, g.axes(inside_BS, 1, 2))
    return w.linear(y_BTH, *linear_of(attention.out))


def _attended(g: Graph, q: str, keys: str, values: str, size: int, allowed: str = "") -> str:
    """softmax(q k^T / sqrt(D)) v of all heads side by side, [B, T, H]."""
    scores = g.op("MatMul", q, g.op("Transpose", keys, perm=[0, 1, 3, 2]))
    each = g.op("Sqrt", g.op("Cast", g.size(q, 3), to=1))
    scores = g.op("Div", scores, each)
    if allowed:
        scores = g.op("Where", allowed, scores, g.constant(-np.inf, np.float32))
    y_BKTD = g.op("MatMul", g.op("Softmax", scores, axis=-1), values)
    return g.op("Reshape", g.op("Transpose", y_BKTD, perm=[0, 2, 1, 3]), g.constant([0, 0, size]))


def _fed(w: GraphWeights, feed: nn.Module, x: str) -> str:
    """x + W2 gelu(W1 norm(x))."""
    if not isinstance(feed, FeedForward):
        raise TypeError(type(feed).__name__)
    g = w.graph
    wide = gelu(g, w.linear(normalised(w, x, *norm_of(feed.norm)), *linear_of(feed.widen)), approximate=False)
    return g.op("Add", x, w.linear(wide, *linear_of(feed.narrow)))


def _cross(part: nn.Module) -> CrossAttention:
    if not isinstance(part, CrossAttention):
        raise TypeError(type(part).__name__)
    return part


def _linear(block: nn.Module, name: str) -> nn.Linear:
    part = block.get_submodule(name)
    if not isinstance(part, nn.Linear):
        raise TypeError(type(part).__name__)
    return part


def _norm(block: nn.Module, name: str) -> tuple[Array, Array]:
    part = block.get_submodule(name)
    if not isinstance(part, nn.LayerNorm):
        raise TypeError(type(part).__name__)
    return norm_of(part)

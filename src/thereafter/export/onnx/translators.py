"""Translators and captioners as two graphs each: the encoder of a source or a picture, and a step of the decoder.

    encoder   (source[B, S], lengths[B])           -> (last, [memory[B, S, H], keys[B, S, A], inside[B, S],] state...)
    decoder   (token[B], the encoder's outputs...) -> (log_p[B, V], next_state...)

A source ends with the token `end`; a target begins with the token `start`. States are h_l0, c_l0, ... of the decoder;
`last` [B, H] is what the encoder's last layer ended with; memory, keys and inside are there where there is attention.

Of a Transformer the state is the keys and values of the N words written so far, none at first; `look_keys` and
`look_values` are those of the source, made once:

    encoder   (source[B, S], lengths[B])           -> (inside[B, S], look_keys_0[B, K, S, D], look_values_0, ...,
                                                       keys_0[B, K, 0, D], values_0, ...)
    decoder   (token[B], the encoder's outputs...) -> (log_p[B, V], next_keys_0[B, K, N + 1, D], ...)

A captioner's decoder is that of a recurrent translator, and its encoder reads pixels of 0 to 255, fitted to one size,
or features; the graph scales them itself:

    encoder   (pictures[P, C, H, W], or [P, D], [P, S, D] of features) -> (last, [memory, keys, inside,] state...)

Shapes: B rows, S places, H features or units, A numbers of a key, E word vector, V words, N words so far, K heads,
D = H / K; of captioners P pictures, C channels, H rows and W columns of pixels, D numbers of a place, U units.
"""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
from torch import nn

from thereafter.errors import ExportError
from thereafter.export.onnx import cells
from thereafter.export.onnx.attention import by_head, gelu, side_by_side
from thereafter.export.onnx.cells import GraphWeights, joined, log_p, normalised
from thereafter.export.onnx.graph import Graph
from thereafter.export.onnx.tasks import inside_of, stack_sequence
from thereafter.export.plan import array, head_of, layers_of, linear_of, norm_of
from thereafter.layers.attention import Attention, CrossAttention
from thereafter.models.transformer_decoder import FeedForward
from thereafter.models.word_decoder import RecurrentDecoder
from thereafter.tasks.translate.network import RecurrentTranslator, TransformerTranslator
from thereafter.vision.captioning.network import Captioner
from thereafter.vision.encoder import BatchNorm, PictureEncoder


def encoder_graph(net: RecurrentTranslator) -> Graph:
    """All that a decoder asks of a source."""
    g = Graph("encoder")
    w = GraphWeights(g)
    source_BS = g.input("source", np.int64, ["B", "S"])
    lengths_B = g.op("Cast", g.input("lengths", np.int64, ["B"]), to=6)
    source_SB = g.op("Transpose", source_BS, perm=[1, 0])
    if net.settings.reverse:  # all but the last token, which ends the source
        shorter = g.op("Sub", g.op("Cast", lengths_B, to=7), g.constant(1))
        source_SB = g.op("ReverseSequence", source_SB, shorter, time_axis=0, batch_axis=1)
    table = net.words if net.source_words is None else net.source_words
    scale = g.constant(math.sqrt(table.size), np.float32)
    x_SBE = g.op("Mul", w.rows(array(table.weight), source_SB), scale)
    h_SBH, ends = stack_sequence(w, layers_of(net.encoder), x_SBE, lengths_B)
    fields = list(net.encoder.lanes[0].cell.state_sizes())
    states = {
        f"{field}_l{layer}": g.op("Concat", *(end[place] for end in lanes), axis=-1)
        for layer, lanes in enumerate(ends)
        for place, field in enumerate(fields)
    }
    size = net.settings.hidden
    g.output(states[f"h_l{len(ends) - 1}"], "last", np.float32, ["B", size])
    if net.attention is not None:
        h_BSH = g.op("Transpose", h_SBH, perm=[1, 0, 2])
        g.output(h_BSH, "memory", np.float32, ["B", "S", size])
        keys = h_BSH if net.attention.kind == "dot" else w.linear(h_BSH, array(net.attention.of_memory.weight))
        g.output(keys, "keys", np.float32, None)
        inside_BS = g.op("Transpose", inside_of(g, x_SBE, lengths_B), perm=[1, 0])
        g.output(inside_BS, "inside", np.bool_, ["B", "S"])
    for name, value in states.items():
        g.output(value, name, np.float32, ["B", size])
    return g


def decoder_graph(net: RecurrentDecoder) -> Graph:
    """One token of every target; a captioner's decoder is one too."""
    g = Graph("decoder")
    w, size = GraphWeights(g), net.settings.hidden
    token_B, last_BH = g.input("token", np.int64, ["B"]), g.input("last", np.float32, ["B", size])
    table = array(net.words.weight)
    x_BI = g.op("Mul", w.rows(table, token_B), g.constant(math.sqrt(net.words.size), np.float32))
    if net.repeated:
        x_BI = g.op("Concat", x_BI, last_BH, axis=-1)
    states: dict[str, str] = {}
    for layer in layers_of(net.decoder):
        lane = layer.lane
        before = [g.input(part.name, np.float32, ["B", size]) for part in lane.state()]
        y_BO, after = cells.step(w, lane, cells.input_product(w, lane, x_BI), before)
        states |= dict(zip([part.name for part in lane.state()], after, strict=True))
        x_BI = joined(w, layer, x_BI, y_BO)
    context_BH = last_BH
    if net.attention is not None:
        memory_BSH = g.input("memory", np.float32, ["B", "S", size])
        keys_BSA = g.input("keys", np.float32, None)
        inside_BS = g.input("inside", np.bool_, ["B", "S"])
        context_BH = _attended(w, net.attention, x_BI, memory_BSH, keys_BSA, inside_BS)
    if net.attention is not None or net.repeated:
        x_BI = g.op("Concat", context_BH, x_BI, axis=-1)
    f_BF = g.op("Tanh", w.linear(x_BI, *linear_of(net.join)))
    g.output(log_p(w, head_of(net.head), f_BF, table), "log_p", np.float32, ["B", net.words.words])
    for name, value in states.items():
        g.output(value, f"next_{name}", np.float32, ["B", size])
    return g


def _attended(w: GraphWeights, attention: Attention, q_BQ: str, memory_BSH: str, keys_BSA: str, inside_BS: str) -> str:
    """The mean of the memory under the weights that a query chooses, [B, H]."""
    g = w.graph
    if attention.kind == "additive":
        query_B1A = g.axes(w.linear(q_BQ, array(attention.of_query.weight)), 1)
        seen_BSA = g.op("Tanh", g.op("Add", query_B1A, keys_BSA))
        scores_BS = g.squeezed(w.linear(seen_BSA, array(attention.v_A)[None]), 2)
    else:
        scores_BS = g.squeezed(g.op("MatMul", keys_BSA, g.axes(q_BQ, 2)), 2)
    share_BS = g.op("Softmax", g.op("Where", inside_BS, scores_BS, g.constant(-np.inf, np.float32)), axis=-1)
    return g.squeezed(g.op("MatMul", g.axes(share_BS, 1), memory_BSH), 1)


M = TypeVar("M", bound=nn.Module)
EPSILON = 1e-5


def picture_graph(net: Captioner) -> Graph:
    """All that the decoder asks of a picture."""
    g = Graph("encoder")
    w, settings = GraphWeights(g), net.settings
    size, shape = settings.hidden, list(net.form.shape)
    pictures = g.input("pictures", np.float32, ["P", *shape])
    rows = g.size(pictures, 0)
    fields = list(net.decoder.lanes[0].cell.state_sizes())
    names = [f"{field}_l{layer}" for field in fields for layer in range(settings.layers)]
    if settings.see == "nothing":
        zero = g.op("Expand", g.constant(np.zeros((1, 1)), np.float32), g.shape(rows, size))
        states = dict.fromkeys(names, zero)
    else:
        h_PSU = w.linear(_map(w, net, pictures), *linear_of(net.place))
        begin = w.linear(g.op("ReduceMean", h_PSU, axes=[1], keepdims=0), *linear_of(net.begins))
        if settings.see == "first":
            states = _read_first(w, net, begin, rows)
        else:
            states = dict(zip(names, g.split(g.op("Tanh", begin), [size] * len(names)), strict=True))
    g.output(states[f"h_l{settings.layers - 1}"], "last", np.float32, ["P", size])
    if net.attention is not None:
        g.output(h_PSU, "memory", np.float32, ["P", "S", size])
        keys = h_PSU if net.attention.kind == "dot" else w.linear(h_PSU, array(net.attention.of_memory.weight))
        g.output(keys, "keys", np.float32, None)
        everywhere = g.op("Expand", g.constant(True, np.bool_), g.shape(rows, g.size(h_PSU, 1)))
        g.output(everywhere, "inside", np.bool_, ["P", "S"])
    for name, value in states.items():
        g.output(value, name, np.float32, ["P", size])
    return g


def _read_first(w: GraphWeights, net: Captioner, x_PE: str, rows: str) -> dict[str, str]:
    """The state after the picture was read in the place of a word."""
    g, states = w.graph, dict[str, str]()
    for layer in layers_of(net.decoder):
        parts = layer.lane.state()
        zeros = [np.zeros((1, part.shape[0]), np.float32) for part in parts]
        before = [g.op("Expand", g.weight(zero), g.shape(rows, zero.shape[1])) for zero in zeros]
        y_PU, after = cells.step(w, layer.lane, cells.input_product(w, layer.lane, x_PE), before)
        states |= dict(zip([part.name for part in parts], after, strict=True))
        x_PE = joined(w, layer, x_PE, y_PU)
    return states


def _map(w: GraphWeights, net: Captioner, pictures: str) -> str:
    """The vectors of all places, [P, S, D], before they are brought to the size of the decoder."""
    g = w.graph
    mean, deviation = array(net.mean), array(net.deviation)
    if net.pixels is None:
        mean, deviation = mean.reshape(-1), deviation.reshape(-1)
        x = g.op("Div", g.op("Sub", pictures, g.weight(mean, "mean")), g.weight(deviation, "deviation"))
        return x if len(net.form.shape) == 2 else g.axes(x, 1)
    scaled = g.op("Div", pictures, g.constant(255.0, np.float32))
    x = g.op("Div", g.op("Sub", scaled, g.weight(mean, "mean")), g.weight(deviation, "deviation"))
    x = _convolutions(g, net.pixels, x)
    flat = g.op("Reshape", x, g.constant([0, net.pixels.size, -1]))
    return g.op("Transpose", flat, perm=[0, 2, 1])


def _convolutions(g: Graph, encoder: PictureEncoder, x: str) -> str:
    stem, *blocks = encoder.layers
    x = g.op("Relu", _both(g, stem, ("conv", "norm"), x))
    for block in blocks:
        y = _both(g, block, ("conv2", "norm2"), g.op("Relu", _both(g, block, ("conv1", "norm1"), x)))
        around = block.get_submodule("around")
        x = x if isinstance(around, nn.Identity) else _both(g, around, ("0", "1"), x)
        x = g.op("Relu", g.op("Add", x, y))
    return x


def _both(g: Graph, part: nn.Module, names: tuple[str, str], x: str) -> str:
    """A convolution and its norm."""
    convolution, norm = _part(part, names[0], nn.Conv2d), part.get_submodule(names[1])
    around = convolution.kernel_size[0] // 2
    strides = list(convolution.stride)
    y = g.op("Conv", x, g.weight(array(convolution.weight)), pads=[around] * 4, strides=strides)
    if isinstance(norm, BatchNorm):
        parts = norm.state_dict().values()  # weight, bias, running mean, running variance
        return g.op("BatchNormalization", y, *(g.weight(array(one), "norm") for one in parts), epsilon=EPSILON)
    if not isinstance(norm, nn.GroupNorm):
        raise ExportError(f"the norm {type(norm).__name__} has no exported form; try norm='batch'")
    shape = g.op("Shape", y)
    grouped = g.op("Reshape", y, g.constant([0, norm.num_groups, -1]))
    ones, zeros = (np.full(norm.num_groups, value, np.float32) for value in (1, 0))
    alone = g.op("InstanceNormalization", grouped, g.weight(ones), g.weight(zeros), epsilon=norm.eps)
    gain, shift = (g.weight(array(one)[:, None, None].copy(), "norm") for one in (norm.weight, norm.bias))
    return g.op("Add", g.op("Mul", g.op("Reshape", alone, shape), gain), shift)


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
        attention = _part(block, "attention", CrossAttention)
        read = normalised(w, x_BSH, *norm_of(_part(block, "norm", nn.LayerNorm)))
        x_BSH = g.op("Add", x_BSH, _looked(w, attention, read, _keys(w, attention, read), inside_BS))
        x_BSH = _fed(w, block, x_BSH)
    memory_BSH = normalised(w, x_BSH, *norm_of(net.norm_source))
    g.output(inside_BS, "inside", np.bool_, ["B", "S"])
    none = g.op("Expand", g.constant(np.zeros((1, 1, 1, 1)), np.float32), g.shape(g.size(source_BS, 0), heads, 0, each))
    for number, block in enumerate(net.decoder):
        made = _keys(w, _part(block, "look", CrossAttention), memory_BSH)
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
        into, out = (linear_of(_part(block, f"attention.{name}", nn.Linear)) for name in ("into", "out"))
        read = normalised(w, x_BTH, *norm_of(_part(block, "norm", nn.LayerNorm)))
        parts = g.split(w.linear(read, *into), [heads * each] * 3)
        q, *new = (by_head(g, part, heads, each) for part in parts)
        both = [g.op("Concat", old, one, axis=2) for old, one in zip(before, new, strict=True)]
        kept |= {f"keys_{number}": both[0], f"values_{number}": both[1]}
        x_BTH = g.op("Add", x_BTH, w.linear(_heads_attended(g, q, both[0], both[1], heads * each), *out))
        read = normalised(w, x_BTH, *norm_of(_part(block, "norm_look", nn.LayerNorm)))
        looked = _looked(w, _part(block, "look", CrossAttention), read, look, inside_BS)
        x_BTH = _fed(w, block, g.op("Add", x_BTH, looked))
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


def _keys(w: GraphWeights, attention: CrossAttention, memory_BSH: str) -> list[str]:
    """Keys and values of what is looked at, [B, K, S, D] each."""
    g, size, heads = w.graph, attention.out.in_features, attention.heads
    made = g.split(w.linear(memory_BSH, *linear_of(attention.of_memory)), [size, size])
    return [by_head(g, part, heads, size // heads) for part in made]


def _looked(w: GraphWeights, attention: CrossAttention, read_BTH: str, keys: list[str], inside_BS: str) -> str:
    g, size, heads = w.graph, attention.out.in_features, attention.heads
    q = by_head(g, w.linear(read_BTH, *linear_of(attention.of_query)), heads, size // heads)
    y_BTH = _heads_attended(g, q, keys[0], keys[1], size, g.axes(inside_BS, 1, 2))
    return w.linear(y_BTH, *linear_of(attention.out))


def _heads_attended(g: Graph, q: str, keys: str, values: str, size: int, allowed: str = "") -> str:
    """softmax(q k^T / sqrt(D)) v of all heads side by side, [B, T, H]."""
    scores = g.op("MatMul", q, g.op("Transpose", keys, perm=[0, 1, 3, 2]))
    each = g.op("Sqrt", g.op("Cast", g.size(q, 3), to=1))
    scores = g.op("Div", scores, each)
    if allowed:
        scores = g.op("Where", allowed, scores, g.constant(-np.inf, np.float32))
    return side_by_side(g, g.op("MatMul", g.op("Softmax", scores, axis=-1), values), size)


def _fed(w: GraphWeights, block: nn.Module, x: str) -> str:
    """x + W2 gelu(W1 norm(x))."""
    g, feed = w.graph, _part(block, "after", FeedForward)
    wide = gelu(g, w.linear(normalised(w, x, *norm_of(feed.norm)), *linear_of(feed.widen)), approximate=False)
    return g.op("Add", x, w.linear(wide, *linear_of(feed.narrow)))


def _part(block: nn.Module, name: str, kind: type[M]) -> M:
    """A part of a block, which is of that kind."""
    part = block.get_submodule(name)
    if not isinstance(part, kind):
        raise TypeError(type(part).__name__)
    return part

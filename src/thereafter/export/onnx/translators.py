"""A recurrent translator as two graphs, the encoder of a source and a step of the decoder.

    encoder   (source[B, S], lengths[B])           -> (last, [memory[B, S, H], keys[B, S, A], inside[B, S],] state...)
    decoder   (token[B], the encoder's outputs...) -> (log_p[B, V], next_state...)

A source ends with the token `end`; a target begins with the token `start`. States are h_l0, c_l0, ... of the decoder;
`last` [B, H] is what the encoder's last layer ended with; memory, keys and inside are there where there is attention.

Shapes: B rows, S places, H units, A numbers of a key, E word vector, V words.
"""

from __future__ import annotations

import math

import numpy as np

from thereafter.export.onnx import cells
from thereafter.export.onnx.cells import GraphWeights
from thereafter.export.onnx.graph import Graph
from thereafter.export.onnx.heads import log_p
from thereafter.export.onnx.layers import joined
from thereafter.export.onnx.tasks import inside_of, stack_sequence
from thereafter.export.plan import array, head_of, layers_of, linear_of
from thereafter.layers.attention import Attention
from thereafter.models.word_decoder import RecurrentDecoder
from thereafter.tasks.translate.network import RecurrentTranslator


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

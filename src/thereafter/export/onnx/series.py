"""Classifiers of series as graphs of whole sequences.

    (values[B, T, C], seen[B, T, C], lengths[B]) -> log_p[B, K]

Values are scaled as the codec `channels` says, 0 where missing; `seen` is an input only where the training series had
gaps.

Shapes: B rows, T steps, C channels, I numbers of a step, H features, K labels.
"""

from __future__ import annotations

import numpy as np
from torch import nn

from thereafter.errors import ExportError
from thereafter.export.onnx.attention import gelu
from thereafter.export.onnx.cells import GraphWeights, normalised
from thereafter.export.onnx.graph import Graph
from thereafter.export.onnx.tasks import convolved, inside_of, pooled, stack_sequence
from thereafter.export.plan import layers_of, linear_of, norm_of
from thereafter.layers.blocks import RecurrentBlock, RecurrentBlocks, StepwiseLayer
from thereafter.layers.recurrent import Recurrent
from thereafter.series.classifying.network import SeriesClassifier


def series_graph(net: SeriesClassifier) -> Graph:
    """log p of every label of a series."""
    g = Graph("classifier")
    w = GraphWeights(g)
    shape: list[str | int] = ["B", "T", channels_of(net)]
    x_BTI = g.input("values", np.float32, shape)
    if net.gaps:
        x_BTI = g.op("Concat", x_BTI, g.op("Cast", g.input("seen", np.bool_, shape), to=1), axis=-1)
    lengths_B = g.op("Cast", g.input("lengths", np.int64, ["B"]), to=6)
    x_TBI = g.op("Transpose", x_BTI, perm=[1, 0, 2])
    inside_TB1 = g.axes(inside_of(g, x_TBI, lengths_B), 2)
    if isinstance(net.reader, Recurrent):
        h_TBH, _ = stack_sequence(w, layers_of(net.reader), x_TBI, lengths_B)
    elif isinstance(net.reader, RecurrentBlocks):
        h_TBH = _blocks(w, net.reader, x_TBI, lengths_B)
    else:
        h_TBH = _convolutions(w, net.reader, x_TBI, inside_TB1)
    pooling = net.pooling
    last_BH = _last(g, h_TBH, lengths_B, pooling.forward_size) if pooling.kind in ("last", "concat") else ""
    v_BH = pooled(w, pooling.kind, (pooling.attention, pooling.attended), h_TBH, last_BH, inside_TB1)
    z_BK = w.linear(v_BH, *linear_of(net.head))
    g.output(g.op("LogSoftmax", z_BK, axis=-1), "log_p", np.float32, ["B", net.head.out_features])
    return g


def channels_of(net: SeriesClassifier) -> int:
    """How many numbers a step has."""
    reader = net.reader
    if isinstance(reader, Recurrent):
        inputs = reader.input_size
    elif isinstance(reader, RecurrentBlocks):
        inputs = reader.into.in_features
    else:
        inputs = next(part.in_channels for part in reader.modules() if isinstance(part, nn.Conv1d))
    return inputs // 2 if net.gaps else inputs


def _blocks(w: GraphWeights, reader: RecurrentBlocks, x_TBI: str, lengths_B: str) -> str:
    g = w.graph
    x = w.linear(x_TBI, *linear_of(reader.into))
    for block in reader.blocks:
        if not isinstance(block, RecurrentBlock):
            raise ExportError(f"the block {type(block).__name__} has no exported form; try stack='plain'")
        y, _ = stack_sequence(w, layers_of(block.recurrent), normalised(w, x, *norm_of(block.norm)), lengths_B)
        x = g.op("Add", x, y)
        if block.feed is not None and block.norm_feed is not None:
            x = g.op("Add", x, _stepwise(w, block.feed, normalised(w, x, *norm_of(block.norm_feed))))
    return normalised(w, x, *norm_of(reader.norm))


def _stepwise(w: GraphWeights, feed: StepwiseLayer, x: str) -> str:
    g, wide = w.graph, w.linear(x, *linear_of(feed.widen))
    if feed.gate is None:
        inner = gelu(g, wide, approximate=False)
    else:
        inner = g.op("Mul", g.op("Mul", wide, g.op("Sigmoid", wide)), w.linear(x, *linear_of(feed.gate)))
    return w.linear(inner, *linear_of(feed.narrow))


def _convolutions(w: GraphWeights, reader: nn.Module, x_TBI: str, inside_TB1: str) -> str:
    g = w.graph
    layers, norms = (list(reader.get_submodule(name).children()) for name in ("layers", "norms"))
    for layer, norm in zip(layers, norms, strict=True):
        if not isinstance(norm, nn.LayerNorm):
            raise ExportError(f"the norm {type(norm).__name__} has no exported form; try encoder='gru'")
        there = g.op("Where", inside_TB1, x_TBI, g.constant(0.0, np.float32))
        x_BIT = g.op("Transpose", there, perm=[1, 2, 0])
        parts = [convolved(g, one, x_BIT) for one in layer.children() if isinstance(one, nn.Conv1d)]
        y_TBH = g.op("Transpose", g.op("Concat", *parts, axis=1), perm=[2, 0, 1])
        x_TBI = g.op("Relu", normalised(w, y_TBH, *norm_of(norm)))
    return x_TBI


def _last(g: Graph, h_TBH: str, lengths_B: str, forward: int) -> str:
    """Forward features at the end of each row, backward ones at its beginning, [B, H]."""
    last_B = g.op("Sub", g.op("Cast", lengths_B, to=7), g.constant(1))
    time_T = g.op("Range", g.constant(0), g.squeezed(g.size(h_TBH, 0)), g.constant(1))
    ends_TB1 = g.axes(g.op("Equal", g.axes(time_T, 1), g.axes(last_B, 0)), 2)
    at_end = g.op("ReduceSum", g.op("Where", ends_TB1, h_TBH, g.constant(0.0, np.float32)), g.constant([0]), keepdims=0)
    first_BH = g.squeezed(g.slice(h_TBH, 0, 0, 1), 0)
    return g.op("Concat", g.slice(at_end, 1, 0, forward), g.slice(first_BH, 1, forward, 2**31), axis=-1)

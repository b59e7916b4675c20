"""Networks of tasks as graphs of whole sequences.

    tagger       (words[B, T], lengths[B], letters[U, L], letter_lengths[U], spelled[B, T]) -> scores[B, T, K]
    classifier   (words[B, T], lengths[B]) -> log_p[B, K]
    filler       (words[B, T], lengths[B]) -> log_p[B, T, V], of each word by those on its sides alone
    series       (values[B, T, C], seen[B, T, C], lengths[B]) -> log_p[B, K]

A tagger's scores are log p of each word's tags, unless it has a CRF: then they are what its Viterbi search begins with,
and the constants start[K], transition[K, K] and end[K] come out beside them. Values of a series are scaled as the codec
`channels` says, 0 where missing; `seen` is an input only where the training series had gaps.

Shapes: B rows, T words or steps, U distinct words, L letters, E word vector, C channels, H features, K tags or labels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor, nn

from thereafter.errors import ExportError
from thereafter.export.onnx.attention import gelu
from thereafter.export.onnx.cells import GraphWeights, State, layer_sequence, log_p, normalised
from thereafter.export.onnx.graph import Graph
from thereafter.export.plan import LayerPlan, array, head_of, layers_of, linear_of, norm_of
from thereafter.layers.blocks import RecurrentBlock, RecurrentBlocks, StepwiseLayer
from thereafter.layers.recurrent import Recurrent
from thereafter.series.classifying.network import SeriesClassifier
from thereafter.tasks.classify.network import Classifier
from thereafter.tasks.fill import Filler
from thereafter.tasks.tag.network import Speller, Tagger


def tagger_graph(net: Tagger) -> Graph:
    """Scores of every tag of every word."""
    g = Graph("tagger")
    w = GraphWeights(g)
    words_BT, lengths_B = _words_and_lengths(g)
    x_TBE = w.rows(array(net.words.weight), g.op("Transpose", words_BT, perm=[1, 0]))
    if net.body is not None:
        x_TBE, _ = stack_sequence(w, layers_of(net.body), x_TBE, lengths_B)
    if net.speller is not None:
        letters_UL = g.input("letters", np.int64, ["U", "L"])
        letter_lengths_U = g.op("Cast", g.input("letter_lengths", np.int64, ["U"]), to=6)
        spelled_TB = g.op("Transpose", g.input("spelled", np.int64, ["B", "T"]), perm=[1, 0])
        spelled_UE = _spelled(w, net.speller, letters_UL, letter_lengths_U)
        x_TBE = g.op("Concat", x_TBE, g.op("Gather", spelled_UE, spelled_TB), axis=-1)
    h_TBH, _ = stack_sequence(w, layers_of(net.layers), x_TBE, lengths_B)
    z_BTK = g.op("Transpose", w.linear(h_TBH, *linear_of(net.head)), perm=[1, 0, 2])
    size = net.head.out_features
    if net.crf is None:
        z_BTK = g.op("LogSoftmax", z_BTK, axis=-1)
    g.output(z_BTK, "scores", np.float32, ["B", "T", size])
    if net.crf is not None:
        parts: dict[str, Tensor] = {"start": net.crf.start_K, "transition": net.crf.transition_KK, "end": net.crf.end_K}
        for name, part in parts.items():
            g.output(g.weight(array(part), name), name, np.float32, list(part.shape))
    return g


def classifier_graph(net: Classifier) -> Graph:
    """log p of every label of a text."""
    g = Graph("classifier")
    w = GraphWeights(g)
    words_BT, lengths_B = _words_and_lengths(g)
    x_TBE = w.rows(array(net.words.weight), g.op("Transpose", words_BT, perm=[1, 0]))
    inside_TB1 = g.axes(inside_of(g, x_TBE, lengths_B), 2)
    if isinstance(net.reader, Recurrent):
        h_TBH, ends = stack_sequence(w, layers_of(net.reader), x_TBE, lengths_B)
        last_BH = g.op("Concat", *(end[0] for end in ends[-1]), axis=-1) if len(ends[-1]) > 1 else ends[-1][0][0]
        v_BH = pooled(w, net.settings.pooling, (net.attention, net.attended), h_TBH, last_BH, inside_TB1)
    else:
        x_TBE = g.op("Where", inside_TB1, x_TBE, g.constant(0.0, np.float32))
        x_BET = g.op("Transpose", x_TBE, perm=[1, 2, 0])
        convolutions = [part for part in net.reader.modules() if isinstance(part, nn.Conv1d)]
        parts = [g.op("Relu", convolved(g, one, x_BET)) for one in convolutions]
        h_TBH = g.op("Transpose", g.op("Concat", *parts, axis=1), perm=[2, 0, 1])
        v_BH = _maximum(g, h_TBH, inside_TB1)
    z_BK = w.linear(v_BH, *linear_of(net.head))
    g.output(g.op("LogSoftmax", z_BK, axis=-1), "log_p", np.float32, ["B", net.head.out_features])
    return g


def filler_graph(net: Filler) -> Graph:
    """log p of every word in every place, as if that place were blank."""
    g = Graph("filler")
    w = GraphWeights(g)
    words_BT, lengths_B = _words_and_lengths(g)
    lengths, words_TB = g.op("Cast", lengths_B, to=7), g.op("Transpose", words_BT, perm=[1, 0])
    border_1B = g.op("Expand", g.constant([[net.head.words]]), g.shape(1, g.size(words_BT, 0)))
    sides = []
    for way, layers in (("left", net.before), ("right", net.after)):
        if layers is None:
            continue
        turned = words_TB if way == "left" else _turned(g, words_TB, lengths)
        read_TB = g.op("Concat", border_1B, g.slice(turned, 0, 0, -1), axis=0)
        h_TBH, _ = stack_sequence(w, layers_of(layers), w.rows(array(net.words.weight), read_TB), lengths_B)
        sides.append(h_TBH if way == "left" else _turned(g, h_TBH, lengths))
    both_TBH = sides[0] if len(sides) == 1 else g.op("Concat", *sides, axis=-1)
    f_BTE = g.op("Transpose", w.linear(both_TBH, *linear_of(net.join)), perm=[1, 0, 2])
    logs = log_p(w, head_of(net.head), f_BTE, array(net.words.weight))
    g.output(logs, "log_p", np.float32, ["B", "T", net.head.words])
    return g


def _turned(g: Graph, x_TB: str, lengths_B: str) -> str:
    """Rows from their last step to their first."""
    return g.op("ReverseSequence", x_TB, lengths_B, time_axis=0, batch_axis=1)


def stack_sequence(
    w: GraphWeights, layers: Sequence[LayerPlan], x_TBI: str, lengths_B: str
) -> tuple[str, list[list[State]]]:
    """A stack over whole sequences from its own first state: what it gives, and where each cell of each layer ends."""
    g, after = w.graph, []
    rows = g.size(x_TBI, 1)
    for layer in layers:
        before = []
        for lane in layer.lanes:
            blank = {field: np.zeros(size, np.float32) for field, size in lane.fields.items()}
            first = {**blank, **lane.initial}
            before.append(
                [g.op("Expand", g.weight(part[None], "initial"), g.shape(rows, part.size)) for part in first.values()]
            )
        x_TBI, ends = layer_sequence(w, layer, x_TBI, lengths_B, before)
        after.append(ends)
    return x_TBI, after


def _words_and_lengths(g: Graph) -> tuple[str, str]:
    words_BT = g.input("words", np.int64, ["B", "T"])
    return words_BT, g.op("Cast", g.input("lengths", np.int64, ["B"]), to=6)


def inside_of(g: Graph, x_TB: str, lengths_B: str) -> str:
    """Where a row has a step, [T, B]."""
    time_T = g.op("Range", g.constant(0), g.squeezed(g.size(x_TB, 0)), g.constant(1))
    return g.op("Less", g.axes(time_T, 1), g.axes(g.op("Cast", lengths_B, to=7), 0))


def _maximum(g: Graph, h_TBH: str, inside_TB1: str) -> str:
    """The maximum of each feature over a row, [B, H]."""
    there = g.op("Where", inside_TB1, h_TBH, g.constant(-np.inf, np.float32))
    return g.op("ReduceMax", there, axes=[0], keepdims=0)


def pooled(
    w: GraphWeights,
    pooling: str,
    learned: tuple[nn.Linear | None, nn.Linear | None],
    h_TBH: str,
    last_BH: str,
    inside_TB1: str,
) -> str:
    """One vector of a row's features, [B, H]; `learned`: the maps of attention, where there is any."""
    g, (attention, attended) = w.graph, learned
    if pooling == "max":
        return _maximum(g, h_TBH, inside_TB1)
    if pooling == "last":
        return last_BH
    if pooling == "attention" and attention is not None and attended is not None:
        seen = g.op("Tanh", w.linear(h_TBH, *linear_of(attention)))
        score_TB1 = w.linear(seen, array(attended.weight))
        share = g.op("Softmax", g.op("Where", inside_TB1, score_TB1, g.constant(-np.inf, np.float32)), axis=0)
    else:
        there = g.op("Cast", inside_TB1, to=1)
        share = g.op("Div", there, g.op("ReduceSum", there, g.constant([0]), keepdims=1))
    mean_BH = g.op("ReduceSum", g.op("Mul", share, h_TBH), g.constant([0]), keepdims=0)
    if pooling != "concat":
        return mean_BH
    return g.op("Concat", last_BH, _maximum(g, h_TBH, inside_TB1), mean_BH, axis=-1)


def _spelled(w: GraphWeights, speller: Speller, letters_UL: str, lengths_U: str) -> str:
    """A vector for each word from its letters, [U, width]."""
    g = w.graph
    x_LUE = w.rows(array(speller.embedding.weight), g.op("Transpose", letters_UL, perm=[1, 0]))
    if isinstance(speller.reader, Recurrent):
        _, ends = stack_sequence(w, layers_of(speller.reader), x_LUE, lengths_U)
        return g.op("Concat", *(end[0] for end in ends[-1]), axis=-1)
    if not isinstance(speller.reader, nn.Conv1d):
        raise ExportError(f"letters are read by {type(speller.reader).__name__}, which has no exported form")
    y_UWL = convolved(g, speller.reader, g.op("Transpose", x_LUE, perm=[1, 2, 0]))
    return _maximum(g, g.op("Transpose", y_UWL, perm=[2, 0, 1]), g.axes(inside_of(g, x_LUE, lengths_U), 2))


def convolved(g: Graph, convolution: nn.Conv1d, x_BET: str) -> str:
    """A convolution that keeps the length, of an even width with one step more behind."""
    width = convolution.kernel_size[0]
    weights = [g.weight(array(weight)) for weight in (convolution.weight, convolution.bias) if weight is not None]
    return g.op("Conv", x_BET, *weights, pads=[(width - 1) // 2, width // 2])


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

"""A captioner as two graphs: the encoder of a picture, and a step of the decoder, which is a translator's.

    encoder   (pictures[P, C, H, W], or [P, D], [P, S, D] of features) -> (last, [memory, keys, inside,] state...)
    decoder   as in `translators`

Pixels are numbers of 0 to 255, fitted to one size; the graph scales them itself.

Shapes: P pictures, C channels, H rows and W columns of pixels, S places, D numbers of a place, U units.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from torch import nn

from thereafter.errors import ExportError
from thereafter.export.onnx import cells
from thereafter.export.onnx.cells import GraphWeights
from thereafter.export.onnx.graph import Graph
from thereafter.export.onnx.layers import joined
from thereafter.export.plan import array, layers_of, linear_of
from thereafter.vision.captioning.network import Captioner
from thereafter.vision.encoder import BatchNorm, PictureEncoder

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


def _both(g: Graph, part: nn.Module, names: Iterable[str], x: str) -> str:
    """A convolution and its norm."""
    convolution, norm = (part.get_submodule(name) for name in names)
    if not isinstance(convolution, nn.Conv2d):
        raise TypeError(type(convolution).__name__)
    around = convolution.kernel_size[0] // 2
    strides = list(convolution.stride)
    y = g.op("Conv", x, g.weight(array(convolution.weight)), pads=[around] * 4, strides=strides)
    if isinstance(norm, BatchNorm):
        parts = (norm.weight, norm.bias, norm.running_mean, norm.running_var)
        return g.op("BatchNormalization", y, *(g.weight(array(one), "norm") for one in parts), epsilon=EPSILON)
    if not isinstance(norm, nn.GroupNorm):
        raise ExportError(f"the norm {type(norm).__name__} has no exported form; try norm='batch'")
    shape = g.op("Shape", y)
    grouped = g.op("Reshape", y, g.constant([0, norm.num_groups, -1]))
    ones, zeros = (np.full(norm.num_groups, value, np.float32) for value in (1, 0))
    alone = g.op("InstanceNormalization", grouped, g.weight(ones), g.weight(zeros), epsilon=norm.eps)
    gain, shift = (g.weight(array(one)[:, None, None].copy(), "norm") for one in (norm.weight, norm.bias))
    return g.op("Add", g.op("Mul", g.op("Reshape", alone, shape), gain), shift)

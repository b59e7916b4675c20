"""Forecasters as graphs of whole windows: the parameters of their distribution over the steps ahead.

    (past[B, L, D], seen[B, L, D], inputs[B, L, C], ahead[B, H, K])
        -> location, deviation               gaussian, squared and huber heads, linear, ar
           location, spread                  absolute head (Laplace)
           location, spread, freedom         student-t head
           location, dispersion              negative-binomial head: the mean, and what exceeds Poisson
           quantiles[B, H, D, Q], levels[Q]  quantile head

each [B, H, D], scaled as the codecs say: (y - mean) / deviation of the series. Missing values are 0, and false in
`seen`. `inputs` and `ahead` are inputs only where there are covariates. A recursive network gives one step, H = 1: what
it gives is put behind `past` by whoever asks for more. What a forecast is relative to is `WindowBatch.level`.

Shapes: B windows, L rows that are read, H steps, D targets, C covariates, K known ahead, I numbers of a row, F
features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import nn

from thereafter.errors import ExportError
from thereafter.export.onnx.attention import causal_block
from thereafter.export.onnx.cells import GraphWeights, normalised
from thereafter.export.onnx.graph import Graph
from thereafter.export.onnx.tasks import stack_sequence
from thereafter.export.plan import Array, array, block_of, layers_of, linear_of, norm_of
from thereafter.layers.attention import Block
from thereafter.series import number_heads
from thereafter.series.batches import LEAST_MOVEMENT
from thereafter.series.forecasters.network import (
    Forecaster,
    ForecastNetwork,
    RecurrentBody,
    SteppingBody,
    TransformerBody,
    WindowBody,
    WindowFacts,
)
from thereafter.series.forecasters.solved import Autoregression, Linear


def forecaster_graph(net: Forecaster) -> Graph:
    """The graph of a forecaster; ExportError where it has none."""
    g = Graph("forecaster")
    w = GraphWeights(g)
    if isinstance(net, ForecastNetwork):
        _network(w, net)
    elif isinstance(net, Linear):
        _linear(w, net)
    elif isinstance(net, Autoregression):
        _autoregression(w, net)
    else:
        raise ExportError(
            f"the forecaster {type(net).__name__} repeats what it has read and has no weights to export; "
            "try one that is trained, such as model='linear'"
        )
    return g


def _network(w: GraphWeights, net: ForecastNetwork) -> None:
    g, facts, steps = w.graph, net.facts, net.reach
    given = window_inputs(g, facts, steps)
    offset_BD, scale_BD = level(g, given, net.norm)
    z_BLD = given.relative(g, offset_BD, scale_BD)
    shown = [given.shown] if facts.gaps else []
    rows = [z_BLD, *shown, *([given.inputs] if given.inputs else [])]
    x_BLI = g.op("Concat", *rows, axis=-1) if len(rows) > 1 else z_BLD
    f_BF = _features(w, net, x_BLI)
    if given.ahead:
        f_BF = g.op("Concat", f_BF, g.op("Reshape", given.ahead, g.constant([0, steps * facts.known])), axis=-1)
    offset_B1D, scale_B1D = g.axes(offset_BD, 1), g.axes(scale_BD, 1)
    if net.skip is not None:
        flat = g.op("Reshape", z_BLD, g.constant([0, facts.lookback * facts.targets]))
        more_BHD = g.op("Reshape", w.linear(flat, *linear_of(net.skip)), g.constant([0, steps, facts.targets]))
        offset_B1D = g.op("Add", offset_B1D, g.op("Mul", scale_B1D, more_BHD))
    _head(w, net, f_BF, offset_B1D, scale_B1D)


def _features(w: GraphWeights, net: ForecastNetwork, x_BLI: str) -> str:
    """What the body has read at the end of the window, [B, F]."""
    g, body, facts = w.graph, net.body, net.facts
    inputs = facts.targets * (2 if facts.gaps else 1) + facts.covariates
    if isinstance(body, WindowBody):
        f = g.op("Reshape", x_BLI, g.constant([0, facts.lookback * inputs]))
        for layer in body.hidden:
            if isinstance(layer, nn.Linear):
                f = g.op("Relu", w.linear(f, *linear_of(layer)))
        return f
    if not isinstance(body, SteppingBody) or facts.lookback % body.segment:
        raise ExportError(f"the body {type(body).__name__} has no exported form here; try model='gru'")
    steps = facts.lookback // body.segment
    if body.read is not None:
        x_BLI = g.op("Reshape", x_BLI, g.constant([0, steps, body.segment * inputs]))
        x_BLI = w.linear(x_BLI, *linear_of(body.read))
        x_BLI = g.op("Relu", x_BLI) if body.segment > 1 else x_BLI
    if isinstance(body, TransformerBody):
        x_BLI = g.op("Add", x_BLI, g.weight(array(body.positions.table_CH[:steps]), "positions"))
        for block in body.blocks:
            if isinstance(block, Block):
                x_BLI = causal_block(w, block_of(block), block.attention.heads, x_BLI, steps)
        return g.squeezed(g.slice(normalised(w, x_BLI, *norm_of(body.norm)), 1, steps - 1, steps), 1)
    if not isinstance(body, RecurrentBody):
        raise ExportError(f"the body {type(body).__name__} has no exported form; try model='gru'")
    lengths_B = g.op("Expand", g.constant([steps], np.int32), g.size(x_BLI, 0))
    y_TBF, _ = stack_sequence(w, layers_of(body.layers), g.op("Transpose", x_BLI, perm=[1, 0, 2]), lengths_B)
    return g.squeezed(g.slice(y_TBF, 0, steps - 1, steps), 0)


def _head(w: GraphWeights, net: ForecastNetwork, f_BF: str, offset_B1D: str, scale_B1D: str) -> None:
    """The parameters, moved to the level of each window."""
    g, head, shape = w.graph, net.head, [net.reach, net.facts.targets]
    raw_BPHD = g.op(
        "Reshape", w.linear(f_BF, array(head.weight), array(head.bias)), g.constant([0, head.outputs, *shape])
    )
    if isinstance(head, number_heads.QuantilesHead):
        values = g.op("Transpose", raw_BPHD, perm=[0, 2, 3, 1])
        values = g.op("Add", values, g.weight(array(head.normal_Q), "normal"))
        values = g.op("Add", g.axes(offset_B1D, -1), g.op("Mul", g.axes(scale_B1D, -1), values))
        ordered = g.ops("TopK", [values, g.constant([head.outputs])], 2, axis=-1, largest=0, sorted=1)[0]
        g.output(ordered, "quantiles", np.float32, ["B", *shape, head.outputs])
        g.output(g.weight(array(head.levels_Q), "levels"), "levels", np.float32, [head.outputs])
        return
    parts = [g.squeezed(part, 1) for part in g.split(raw_BPHD, [1] * head.outputs, axis=1)]
    made: dict[str, str] = {"location": g.op("Add", offset_B1D, g.op("Mul", scale_B1D, parts[0]))}
    if isinstance(head, number_heads.PointHead):
        spread_HD = g.weight(array(head.spread).reshape(shape), "spread")
        name = "spread" if isinstance(head, number_heads.AbsoluteHead) else "deviation"
        made[name] = g.op("Expand", g.op("Mul", scale_B1D, spread_HD), g.op("Shape", made["location"]))
    elif isinstance(head, number_heads.NegativeBinomialHead):
        made = {"location": g.op("Mul", scale_B1D, _positive(g, parts[0]))}
        made["dispersion"] = g.op("Div", _positive(g, parts[1]), g.op("Sqrt", scale_B1D))
    elif isinstance(head, number_heads.NormalHead | number_heads.StudentTHead):
        name = "deviation" if isinstance(head, number_heads.NormalHead) else "spread"
        made[name] = g.op("Mul", scale_B1D, _positive(g, parts[1]))
    else:
        raise ExportError(f"the head {type(head).__name__} has no exported form; try head='gaussian'")
    if isinstance(head, number_heads.StudentTHead):
        moved = g.op("Add", parts[2], g.constant(number_heads.FREEDOM, np.float32))
        freedom = g.op("Add", g.op("Softplus", moved), g.constant(2 + number_heads.LEAST_SPREAD, np.float32))
        made["freedom"] = g.op("Min", freedom, g.constant(number_heads.MOST_FREEDOM, np.float32))
    for name, value in made.items():
        g.output(value, name, np.float32, ["B", *shape])


def _positive(g: Graph, raw: str) -> str:
    moved = g.op("Add", raw, g.constant(number_heads.UNIT, np.float32))
    return g.op("Add", g.op("Softplus", moved), g.constant(number_heads.LEAST_SPREAD, np.float32))


def _linear(w: GraphWeights, net: Linear) -> None:
    g, facts = w.graph, net.facts
    given = window_inputs(g, facts, facts.horizon, past_covariates=False)
    offset_BD, scale_BD = level(g, given, net.norm)
    parts = [g.op("Reshape", given.relative(g, offset_BD, scale_BD), g.constant([0, facts.lookback * facts.targets]))]
    if given.ahead:
        parts.append(g.op("Reshape", given.ahead, g.constant([0, facts.horizon * facts.known])))
    x_BP = g.op("Concat", *parts, axis=-1)
    weight_PO = array(net.weight_PO)
    z_BO = w.linear(x_BP, np.ascontiguousarray(weight_PO[:-1].T), weight_PO[-1])
    z_BHD = g.op("Reshape", z_BO, g.constant([0, facts.horizon, facts.targets]))
    scale_B1D = g.axes(scale_BD, 1)
    location = g.op("Add", g.axes(offset_BD, 1), g.op("Mul", scale_B1D, z_BHD))
    _normal(g, given, location, g.op("Mul", scale_B1D, g.weight(array(net.spread_HD), "spread")))


def _autoregression(w: GraphWeights, net: Autoregression) -> None:
    """The equation H times over is a linear map of the last P values, [H, D, P], worked out here in 64 bits."""
    g, facts = w.graph, net.facts
    given = window_inputs(g, facts, facts.horizon, past_covariates=False, ahead=False)
    first, map_DHP, deviation_HD = unrolled(net)
    y_BPD = g.slice(carried(g, given), 1, facts.lookback - net.most, facts.lookback)
    y_BDP1 = g.axes(g.op("Transpose", y_BPD, perm=[0, 2, 1]), 3)
    moved_BDH = g.squeezed(g.op("MatMul", g.weight(map_DHP, "map"), y_BDP1), 3)
    location = g.op("Add", g.op("Transpose", moved_BDH, perm=[0, 2, 1]), g.weight(first, "first"))
    _normal(g, given, location, g.weight(deviation_HD, "deviation"))


def unrolled(net: Autoregression) -> tuple[Array, Array, Array]:
    """c [H, D] and A [D, H, P] of y_{t+h} = c_h + A_h [y_{t-P+1} ... y_t], and the deviations [H, D]."""
    weight_DP1 = net.weight_DP1.detach().cpu().double().numpy()
    horizon, most = net.facts.horizon, net.most
    rows = np.zeros((len(weight_DP1), most + horizon, most + 1))  # each value as a map of the last P and 1
    rows[:, np.arange(most), np.arange(most)] = 1.0
    psi_DH = np.zeros((len(weight_DP1), horizon))
    for step in range(horizon):
        lags = rows[:, step : step + most][:, ::-1]  # y_{t-1} first
        rows[:, most + step] = np.einsum("dp,dpq->dq", weight_DP1[:, 1:], lags)
        rows[:, most + step, -1] += weight_DP1[:, 0]
        before = psi_DH[:, max(0, step - most) : step][:, ::-1]
        psi_DH[:, step] = 1.0 if step == 0 else (weight_DP1[:, 1 : 1 + before.shape[1]] * before).sum(1)
    sigma_D = net.sigma_D.detach().cpu().double().numpy()
    deviation_HD = np.sqrt((psi_DH**2).cumsum(1)).T * sigma_D
    ahead = rows[:, most:]
    parts = (ahead[..., -1].T, ahead[..., :-1], deviation_HD)
    first, mapped, deviation = (np.ascontiguousarray(part, dtype=np.float32) for part in parts)
    return first, mapped, deviation


def _normal(g: Graph, given: WindowInputs, location: str, deviation: str) -> None:
    shape: list[str | int] = ["B", given.steps, given.targets]
    g.output(location, "location", np.float32, shape)
    g.output(g.op("Expand", deviation, g.op("Shape", location)), "deviation", np.float32, shape)


@dataclass(frozen=True)
class WindowInputs:
    """Names of values: `past`, `seen` (bool) and `shown` (the same in float32) [B, L, D]; `inputs` [B, L, C] and
    `ahead` [B, H, K], "" where there are none."""

    past: str
    seen: str
    shown: str
    inputs: str
    ahead: str
    rows: int
    steps: int
    targets: int

    def relative(self, g: Graph, offset_BD: str, scale_BD: str) -> str:
        """(y - offset) / scale, 0 where missing, [B, L, D]."""
        off = g.op("Sub", self.past, g.axes(offset_BD, 1))
        return g.op("Mul", g.op("Div", off, g.axes(scale_BD, 1)), self.shown)


def window_inputs(
    g: Graph, facts: WindowFacts, steps: int, *, past_covariates: bool = True, ahead: bool = True
) -> WindowInputs:
    """The inputs of a graph that forecasts."""
    shape: list[str | int] = ["B", facts.lookback, facts.targets]
    past, seen = g.input("past", np.float32, shape), g.input("seen", np.bool_, shape)
    inputs = coming = ""
    if facts.covariates and past_covariates:
        inputs = g.input("inputs", np.float32, ["B", facts.lookback, facts.covariates])
    if facts.known and ahead:
        coming = g.input("ahead", np.float32, ["B", steps, facts.known])
    return WindowInputs(past, seen, g.op("Cast", seen, to=1), inputs, coming, facts.lookback, steps, facts.targets)


def level(g: Graph, given: WindowInputs, norm: str) -> tuple[str, str]:
    """Offset and scale, [B, D] each."""
    zero_BD = g.op("Mul", g.squeezed(g.slice(given.past, 1, 0, 1), 1), g.constant(0.0, np.float32))
    one_BD = g.op("Add", zero_BD, g.constant(1.0, np.float32))
    if norm == "none":
        return zero_BD, one_BD
    count_BD = g.op("Max", _sum(g, given.shown), g.constant(1.0, np.float32))
    if norm == "mean":
        mean_BD = g.op("Div", g.op("Abs", _sum(g, given.past)), count_BD)
        return zero_BD, g.op("Add", mean_BD, g.constant(1.0, np.float32))
    # the last value that is not missing; 0 where all are
    places_L1 = g.constant(np.arange(1, given.rows + 1)[:, None], np.float32)
    at_B1D = g.op("ArgMax", g.op("Mul", given.shown, places_L1), axis=1, keepdims=1)
    last_BD = g.squeezed(g.op("GatherElements", given.past, at_B1D, axis=1), 1)
    if norm != "standard":
        return last_BD, one_BD
    # the standard deviation of each window, and a tenth of the series' own
    mean_BD = g.op("Div", _sum(g, given.past), count_BD)
    off_BLD = g.op("Mul", g.op("Sub", given.past, g.axes(mean_BD, 1)), given.shown)
    variance_BD = g.op("Div", _sum(g, g.op("Mul", off_BLD, off_BLD)), count_BD)
    return last_BD, g.op("Add", g.op("Sqrt", variance_BD), g.constant(LEAST_MOVEMENT, np.float32))


def carried(g: Graph, given: WindowInputs) -> str:
    """The window with its gaps filled by the last value before them, [B, L, D]: the running maximum of the places that
    are seen is a maximum over windows that reach back to the first row."""
    places_L1 = g.constant(np.arange(given.rows)[:, None], np.float32)
    seen_BDL = g.op("Transpose", g.op("Mul", given.shown, places_L1), perm=[0, 2, 1])
    at_BDL = g.op("MaxPool", seen_BDL, kernel_shape=[given.rows], pads=[given.rows - 1, 0])
    at_BLD = g.op("Cast", g.op("Transpose", at_BDL, perm=[0, 2, 1]), to=7)
    return g.op("GatherElements", given.past, at_BLD, axis=1)


def _sum(g: Graph, x_BLD: str) -> str:
    return g.op("ReduceSum", x_BLD, g.constant([1]), keepdims=0)

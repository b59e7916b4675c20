"""Windows of series in a graph: their inputs, and the level that a forecast is relative to (`WindowBatch.level`).

Shapes: B windows, L rows that are read, H steps, D targets, C covariates, K known ahead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thereafter.export.onnx.graph import Graph
from thereafter.models.forecasting.batch import LEAST_MOVEMENT
from thereafter.models.forecasting.forecaster import WindowFacts


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
    return _last(g, given), _spread(g, given, count_BD) if norm == "standard" else one_BD


def carried(g: Graph, given: WindowInputs) -> str:
    """The window with its gaps filled by the last value before them, [B, L, D]: the running maximum of the places that
    are seen is a maximum over windows that reach back to the first row."""
    places_L1 = g.constant(np.arange(given.rows)[:, None], np.float32)
    seen_BDL = g.op("Transpose", g.op("Mul", given.shown, places_L1), perm=[0, 2, 1])
    at_BDL = g.op("MaxPool", seen_BDL, kernel_shape=[given.rows], pads=[given.rows - 1, 0])
    at_BLD = g.op("Cast", g.op("Transpose", at_BDL, perm=[0, 2, 1]), to=7)
    return g.op("GatherElements", given.past, at_BLD, axis=1)


def _last(g: Graph, given: WindowInputs) -> str:
    """The last value that is not missing, [B, D]; 0 where all are."""
    places_L1 = g.constant(np.arange(1, given.rows + 1)[:, None], np.float32)
    at_B1D = g.op("ArgMax", g.op("Mul", given.shown, places_L1), axis=1, keepdims=1)
    return g.squeezed(g.op("GatherElements", given.past, at_B1D, axis=1), 1)


def _spread(g: Graph, given: WindowInputs, count_BD: str) -> str:
    """The standard deviation of each window, [B, D], and a tenth of the series' own."""
    mean_BD = g.op("Div", _sum(g, given.past), count_BD)
    off_BLD = g.op("Mul", g.op("Sub", given.past, g.axes(mean_BD, 1)), given.shown)
    variance_BD = g.op("Div", _sum(g, g.op("Mul", off_BLD, off_BLD)), count_BD)
    return g.op("Add", g.op("Sqrt", variance_BD), g.constant(LEAST_MOVEMENT, np.float32))


def _sum(g: Graph, x_BLD: str) -> str:
    return g.op("ReduceSum", x_BLD, g.constant([1]), keepdims=0)

"""The network between tokens and features, for each plan: one step, and a whole sequence.

Shapes: B rows, T steps, E word vector, H features, W tokens of a window, S = W - 1 + T.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from thereafter.export.onnx import cells
from thereafter.export.onnx.cells import State
from thereafter.export.onnx.layers import by_operator, has_operator, joined, layer_sequence
from thereafter.export.onnx.linear import GraphWeights
from thereafter.export.parts import LayerPlan, StatePart
from thereafter.export.plans import AveragePlan, RecurrentPlan, WindowPlan


class GraphBody(Protocol):
    """What all of them can do."""

    def state(self) -> list[StatePart]:
        """The arrays that are carried."""

    def step(self, w: GraphWeights, token_B: str, state: State) -> tuple[str, State]:
        """Features [B, H] and state after one token a row."""

    def sequence(self, w: GraphWeights, tokens_BT: str, lengths_B: str, state: State) -> tuple[str, State]:
        """Features [B, T, H] after every token, and the state at each row's end; `lengths_B` int32."""


class StackGraph:
    """Word vectors through a stack of cells."""

    def __init__(self, plan: RecurrentPlan) -> None:
        self.plan = plan

    def state(self) -> list[StatePart]:
        return self.plan.state()

    def step(self, w: GraphWeights, token_B: str, state: State) -> tuple[str, State]:
        x_BI, after = w.rows(self.plan.embedding, token_B), []
        for layer, (before,) in zip(self.plan.layers, by_lane(self.plan.layers, state), strict=True):
            if has_operator(layer.lane) and not w.products:
                end = by_operator(w, layer.lane, w.graph.axes(x_BI, 0), "", before)[1]
                y_BO = end[0]
            else:
                y_BO, end = cells.step(w, layer.lane, cells.input_product(w, layer.lane, x_BI), before)
            x_BI = joined(w, layer, x_BI, y_BO)
            after += end
        return x_BI, after

    def sequence(self, w: GraphWeights, tokens_BT: str, lengths_B: str, state: State) -> tuple[str, State]:
        g = w.graph
        x_TBI = w.rows(self.plan.embedding, g.op("Transpose", tokens_BT, perm=[1, 0]))
        after: State = []
        for layer, before in zip(self.plan.layers, by_lane(self.plan.layers, state), strict=True):
            x_TBI, ends = layer_sequence(w, layer, x_TBI, lengths_B, before)
            after += [part for end in ends for part in end]
        return g.op("Transpose", x_TBI, perm=[1, 0, 2]), after


def by_lane(layers: Sequence[LayerPlan], state: Sequence[str]) -> Iterator[list[State]]:
    """The parts of a state, for each layer those of each of its cells."""
    parts = iter(state)
    for layer in layers:
        yield [[next(parts) for _ in lane.fields] for lane in layer.lanes]


class WindowGraph:
    """The last W tokens, and nothing else: word vectors side by side through a layer, or their mean."""

    def __init__(self, plan: WindowPlan | AveragePlan) -> None:
        self.plan = plan

    def state(self) -> list[StatePart]:
        return [replace(part, name="window") for part in self.plan.state()]  # "tokens" is an input

    def step(self, w: GraphWeights, token_B: str, state: State) -> tuple[str, State]:
        g = w.graph
        seen_BW = g.op("Concat", g.slice(state[0], 1, 1, self.plan.window), g.axes(token_B, 1), axis=1)
        return self._features(w, seen_BW, [0]), [seen_BW]

    def sequence(self, w: GraphWeights, tokens_BT: str, lengths_B: str, state: State) -> tuple[str, State]:
        g, window = w.graph, self.plan.window
        seen_BS = g.op("Concat", state[0], tokens_BT, axis=1)
        steps = g.squeezed(g.size(tokens_BT, 1))
        time_T1 = g.axes(g.op("Range", g.constant(1), g.op("Add", steps, g.constant(1)), g.constant(1)), 1)
        index_TW = g.op("Add", time_T1, g.constant(np.arange(window)[None]))
        seen_BTW = g.op("Gather", seen_BS, index_TW, axis=1)
        last_BW = g.op("Add", g.axes(g.op("Cast", lengths_B, to=7), 1), g.constant(np.arange(window)[None]))
        return self._features(w, seen_BTW, [0, 0]), [g.op("GatherElements", seen_BS, last_BW, axis=1)]

    def _features(self, w: GraphWeights, seen_W: str, copied: list[int]) -> str:
        """Features of windows; `copied`: a 0 for each axis before that of the window, as Reshape wants it."""
        g, plan = w.graph, self.plan
        if isinstance(plan, WindowPlan):
            x = g.op("Reshape", w.rows(plan.embedding, seen_W), g.constant([*copied, plan.matrix.shape[1]]))
            f = g.op("Tanh", w.linear(x, plan.matrix, plan.bias))
            return g.op("Concat", f, x, axis=-1) if plan.direct else f
        there_W = g.op("GreaterOrEqual", seen_W, g.constant(0))
        x_WE = w.rows(plan.embedding, g.op("Max", seen_W, g.constant(0)))
        there_W1 = g.axes(g.op("Cast", there_W, to=1), -1)
        total, count = (
            g.op("ReduceSum", part, g.constant([-2]), keepdims=0) for part in (g.op("Mul", x_WE, there_W1), there_W1)
        )
        return g.op("Div", total, count)

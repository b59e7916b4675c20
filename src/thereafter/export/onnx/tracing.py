"""A network written down while it computes: `kernels.onnx_rules`, with free axes and with weights in int8.

The sizes of free axes, such as B, are numbers that nothing else has: where one of them, or one next to it, comes back
in a shape, a range or a slice, the size of that axis is meant. Recurrent layers are written whole, by the operators
LSTM, GRU and RNN where these mean the same.

Shapes: B rows, T steps, I inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from thereafter.export.onnx import cells
from thereafter.export.onnx.cells import GraphTracing, GraphWeights, State
from thereafter.export.onnx.graph import Graph
from thereafter.export.plan import LayerPlan, layers_of
from thereafter.kernels.switches import writing_down
from thereafter.layers.inputs import join_state
from thereafter.layers.recurrent import Recurrent

M = TypeVar("M", bound=nn.Module)


@contextmanager
def written_down(name: str, net: M) -> Iterator[tuple[GraphTracing, M]]:
    """Within it a copy of a network is written into the graph of the `GraphTracing`."""
    copy = deepcopy(net).cpu().eval()
    tracing = GraphTracing(GraphWeights(Graph(name)), copy.parameters())
    for module in copy.modules():
        if isinstance(module, Recurrent):
            module.__class__ = _Written
            vars(module)["tracing"] = tracing
    with torch.no_grad(), writing_down(), tracing:
        yield tracing, copy


class _Written(Recurrent):
    """Recurrent layers whose call writes them."""

    tracing: GraphTracing

    def forward(self, input: Any, hx: Any = None, *, lengths: Any = None, reset: Any = None) -> tuple[Any, Any]:
        t, g, layers = self.tracing, self.tracing.g, layers_of(self)
        rows, steps = input.shape[:2]
        if hx is None:
            before = first_state(g, layers, t.shape([rows]))
        else:
            fields = [t.parts(part) or [] for part in (hx if isinstance(hx, tuple) else (hx,))]
            before = [list(state) for state in zip(*fields, strict=True)]
        if steps == 1:
            y, ends = stack_step(t.w, layers, g.squeezed(t.value(input), 1), before)
            y = g.axes(y, 1)
        else:
            whole = steps if lengths is None else lengths
            ends_B = t.expanded(whole, torch.empty(rows, dtype=torch.int32, device="meta"))
            y, ends = stack_sequence(t.w, layers, g.op("Transpose", t.value(input), perm=[1, 0, 2]), ends_B, before)
            y = g.op("Transpose", y, perm=[1, 0, 2])
        states = []
        for lane, end in zip(self.lanes, ends, strict=True):
            sizes = lane.cell.state_sizes().values()
            parts = (t.known(one, (rows, size)) for size, one in zip(sizes, end, strict=True))
            states.append(lane.cell.state_type(*parts))
        output = t.known(y, (rows, steps, layers[-1].output_size))
        with t:
            return output, join_state(states, ragged=self.ragged, batched=True)


def stack_step(
    w: GraphWeights, layers: Sequence[LayerPlan], x: str, states: Sequence[State]
) -> tuple[str, list[State]]:
    """One step of a stack in one direction, and the state of each cell after it."""
    after = []
    for layer, before in zip(layers, states, strict=True):
        y, end = cells.step(w, layer.lane, cells.input_product(w, layer.lane, x), before)
        after.append(end)
        x = cells.joined(w, layer, x, y)
    return x, after


def stack_sequence(
    w: GraphWeights, layers: Sequence[LayerPlan], x_TBI: str, lengths_B: str, states: Sequence[State]
) -> tuple[str, list[State]]:
    """A stack over whole sequences, and the state of each cell at the end of each row."""
    before, after = iter(states), []
    for layer in layers:
        x_TBI, ends = cells.layer_sequence(w, layer, x_TBI, lengths_B, [next(before) for _ in layer.lanes])
        after += ends
    return x_TBI, after


def first_state(g: Graph, layers: Sequence[LayerPlan], rows: str) -> list[State]:
    """The state of each cell before the first step: what was learned, or 0."""
    states = []
    for lane in (lane for layer in layers for lane in layer.lanes):
        first = {field: np.zeros(size, np.float32) for field, size in lane.fields.items()} | dict(lane.initial)
        states.append(
            [g.op("Expand", g.weight(part[None], "initial"), g.shape(rows, part.size)) for part in first.values()]
        )
    return states

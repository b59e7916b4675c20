"""Transformer blocks with the keys and values of what was read.

The state has a fixed size: `count` [B] tokens are in sight, in the first places of `seen` [B, C] and of keys and
values [B, K, C, D]; what stands behind them is looked at by nobody. Where a row is full, its last C // 2 tokens are
read again from position 0, as `models/feedforward.py` has it.

Shapes: B rows, T new tokens, C context, H features, K heads, D = H / K.
"""

from __future__ import annotations

import numpy as np
import torch

from thereafter.export.onnx.cells import GraphTracing, GraphWeights, State, rows_of, torch_type, type_of
from thereafter.export.onnx.graph import Graph
from thereafter.export.plan import StatePart, TransformerPlan
from thereafter.export.torch_program import PlannedAttention


class AttentionGraph:
    """Word vectors and positions through blocks of causal attention: those of `torch_program`, written down."""

    def __init__(self, plan: TransformerPlan) -> None:
        self.plan = plan
        self.size = plan.embedding.shape[1]
        self.net = PlannedAttention(plan)

    def state(self) -> list[StatePart]:
        return self.plan.fixed_state()

    def step(self, w: GraphWeights, token_B: str, state: State) -> tuple[str, State]:
        g = w.graph
        f_BTH, after = self._attend(w, g.axes(token_B, 1), 1, self._with_room(w, state))
        return g.squeezed(f_BTH, 1), [g.op("Add", after[0], g.constant(1)), *after[1:]]

    def sequence(self, w: GraphWeights, tokens_BT: str, lengths_B: str, state: State) -> tuple[str, State]:
        """Pieces for which there is room in every row, by the operator Loop."""
        g, steps = w.graph, w.graph.size(tokens_BT, 1)
        lengths_B1 = g.axes(g.op("Cast", lengths_B, to=7), 1)
        shape = g.shape(g.size(tokens_BT, 0), 0, self.size)
        features = g.op("Expand", g.constant(np.zeros((1, 1, 1)), np.float32), shape)
        loop = g.sub(g.fresh("pieces"))
        loop.input(g.fresh("number"), np.int64, [])
        loop.input(g.fresh("go_on"), np.bool_, [])
        types: list[type[np.generic]] = [np.int64, *(type_of(part) for part in self.state()), np.float32]
        done, *before, read = [loop.input(g.fresh("carried"), kind, None) for kind in types]
        before = self._with_room(w.inside(loop), before)
        room = loop.op("Sub", loop.constant(self.plan.context), loop.op("ReduceMax", before[0], keepdims=0))
        end = loop.op("Min", steps, loop.op("Add", done, loop.axes(room, 0)))
        piece_BT = loop.slice(tokens_BT, 1, done, end)
        f_BTH, after = self._attend(w.inside(loop), piece_BT, "T", before)
        new_B = loop.op("Sub", loop.op("Min", loop.squeezed(lengths_B1, 1), end), done)
        counted = loop.op("Add", after[0], loop.op("Max", new_B, loop.constant(0)))
        outputs = [end, counted, *after[1:], loop.op("Concat", read, f_BTH, axis=1)]
        loop.output(loop.squeezed(loop.op("Less", end, steps)), g.fresh("go_on"), np.bool_, [])
        for value, kind in zip(outputs, types, strict=True):
            loop.output(value, g.fresh("carried"), kind, None)
        begin = g.squeezed(g.op("Less", g.constant([0]), steps))
        inputs = ["", begin, g.constant([0]), *state, features]
        _, *ends, f_BTH = g.ops("Loop", inputs, len(types), body=loop.made())
        return f_BTH, ends

    def _attend(self, w: GraphWeights, tokens_BT: str, steps: int | str, state: State) -> tuple[str, State]:
        """Features of tokens for which there is room, and the state with them, `count` as it was."""
        t = GraphTracing(w)
        with t:
            parts = zip(state, self.state(), strict=True)
            before = (t.named(value, torch_type(part), ("B", *part.shape)) for value, part in parts)
            f_BTH, after = self.net.attend(t.named(tokens_BT, torch.int64, ("B", steps)), tuple(before))
            return t.value(f_BTH), [t.value(part) for part in after]

    def _with_room(self, w: GraphWeights, state: State) -> State:
        """The state in which no row is full: rows that hold C tokens have read their last C // 2 again."""
        g, context = w.graph, self.plan.context
        full_B = g.op("GreaterOrEqual", state[0], g.constant(context))
        any_full = g.op("Cast", g.op("ReduceMax", g.op("Cast", full_B, to=7), keepdims=0), to=9)
        again, same = g.sub(g.fresh("again")), g.sub(g.fresh("same"))
        self._reread(w.inside(again), again, full_B, state)
        for one, part in zip(state, self.state(), strict=True):
            same.output(one, g.fresh("kept"), type_of(part), ["B", *part.shape])
        return g.ops("If", [any_full], len(state), then_branch=again.made(), else_branch=same.made())

    def _reread(self, w: GraphWeights, g: Graph, full_B: str, state: State) -> None:
        context, half = self.plan.context, self.plan.context // 2
        types = [type_of(part) for part in self.state()]
        blank = [g.op("Mul", one, g.constant(0, kind)) for one, kind in zip(state, types, strict=True)]
        _, read = self._attend(w, g.slice(state[1], 1, context - half, context), half, blank)
        read[0] = g.op("Add", blank[0], g.constant(half))
        for one, old, part, kind in zip(read, state, self.state(), types, strict=True):
            kept = g.op("Where", rows_of(g, full_B, part), one, old)
            g.output(kept, g.fresh("kept"), kind, ["B", *part.shape])

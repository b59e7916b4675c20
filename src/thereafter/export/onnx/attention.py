"""Transformer blocks with the keys and values of what was read.

The state has a fixed size: `count` [B] tokens are in sight, in the first places of `seen` [B, C] and of keys and
values [B, K, C, D]; what stands behind them is looked at by nobody. Where a row is full, its last C // 2 tokens are
read again from position 0, as `models/feedforward.py` has it.

Shapes: B rows, T new tokens, C context, H features, K heads, D = H / K.
"""

from __future__ import annotations

import math

import numpy as np

from thereafter.export.onnx.cells import GraphWeights, State, normalised, rows_of, type_of
from thereafter.export.onnx.graph import Graph
from thereafter.export.plan import BlockPlan, StatePart, TransformerPlan


class AttentionGraph:
    """Word vectors and positions through blocks of causal attention."""

    def __init__(self, plan: TransformerPlan) -> None:
        self.plan = plan
        self.size = plan.embedding.shape[1]
        self.each = self.size // plan.heads

    def state(self) -> list[StatePart]:
        return self.plan.fixed_state()

    def step(self, w: GraphWeights, token_B: str, state: State) -> tuple[str, State]:
        g = w.graph
        f_BTH, after = self._attend(w, g.axes(token_B, 1), self._with_room(w, state))
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
        f_BTH, after = self._attend(w.inside(loop), piece_BT, before)
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

    def _attend(self, w: GraphWeights, tokens_BT: str, state: State) -> tuple[str, State]:
        """Features of tokens for which there is room, and the state with them, `count` as it was."""
        g, plan = w.graph, self.plan
        count_B, seen_BC, *caches = state
        time_T = g.op("Range", g.constant(0), g.squeezed(g.size(tokens_BT, 1)), g.constant(1))
        position_BT = g.op("Add", g.axes(count_B, 1), g.axes(time_T, 0))
        x = g.op("Mul", w.rows(plan.embedding, tokens_BT), g.constant(plan.scale, np.float32))
        x = g.op("Add", x, g.op("Gather", g.weight(plan.positions, "positions"), position_BT))
        after = [count_B, g.op("ScatterElements", seen_BC, position_BT, tokens_BT, axis=1)]
        shape = g.shape(g.size(tokens_BT, 0), plan.heads, g.size(tokens_BT, 1), self.each)
        where_BKTD = g.op("Expand", g.axes(position_BT, 1, 3), shape)
        slots = g.constant(np.arange(plan.context))
        allowed_B1TC = g.axes(g.op("LessOrEqual", slots, g.axes(position_BT, 2)), 1)
        for number, block in enumerate(plan.blocks):
            keys, values = caches[2 * number : 2 * number + 2]
            read = normalised(w, x, *block.norm_attention) if plan.pre else x
            y, kept = self._attention(w, block, read, (keys, values), where_BKTD, allowed_B1TC)
            after += kept
            x = self._added(w, block, x, y)
        return (x if plan.norm is None else normalised(w, x, *plan.norm)), after

    def _attention(
        self, w: GraphWeights, block: BlockPlan, x_BTH: str, cache: tuple[str, str], where_BKTD: str, allowed_B1TC: str
    ) -> tuple[str, State]:
        g, heads = w.graph, self.plan.heads
        parts = g.split(w.linear(x_BTH, *block.into), [self.size] * 3)
        q, k, v = (by_head(g, part, heads, self.each) for part in parts)
        keys, values = (
            g.op("ScatterElements", old, where_BKTD, new, axis=2) for old, new in zip(cache, (k, v), strict=True)
        )
        q = g.op("Mul", q, g.constant(1 / math.sqrt(self.each), np.float32))
        scores = g.op("MatMul", q, g.op("Transpose", keys, perm=[0, 1, 3, 2]))
        scores = g.op("Where", allowed_B1TC, scores, g.constant(-np.inf, np.float32))
        y_BKTD = g.op("MatMul", g.op("Softmax", scores, axis=-1), values)
        return w.linear(side_by_side(g, y_BKTD, self.size), *block.out), [keys, values]

    def _added(self, w: GraphWeights, block: BlockPlan, x: str, y: str) -> str:
        """What attention gives and what the feed-forward layer gives, each added to what it read."""
        g, pre = w.graph, self.plan.pre
        x = g.op("Add", x, y)
        x = x if pre else normalised(w, x, *block.norm_attention)
        x = g.op("Add", x, _fed(w, block, normalised(w, x, *block.norm_forward) if pre else x))
        return x if pre else normalised(w, x, *block.norm_forward)

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
        _, read = self._attend(w, g.slice(state[1], 1, context - half, context), blank)
        read[0] = g.op("Add", blank[0], g.constant(half))
        for one, old, part, kind in zip(read, state, self.state(), types, strict=True):
            kept = g.op("Where", rows_of(g, full_B, part), one, old)
            g.output(kept, g.fresh("kept"), kind, ["B", *part.shape])


def by_head(g: Graph, x_BTH: str, heads: int, each: int, steps: int = 0) -> str:
    """[B, T, H] as [B, K, T, D]; `steps`: T where it is fixed."""
    return g.op("Transpose", g.op("Reshape", x_BTH, g.constant([0, steps, heads, each])), perm=[0, 2, 1, 3])


def side_by_side(g: Graph, y_BKTD: str, size: int, steps: int = 0) -> str:
    """The heads again as [B, T, H]."""
    return g.op("Reshape", g.op("Transpose", y_BKTD, perm=[0, 2, 1, 3]), g.constant([0, steps, size]))


def _fed(w: GraphWeights, block: BlockPlan, x: str) -> str:
    """The feed-forward layer of a block."""
    return w.linear(gelu(w.graph, w.linear(x, *block.widen), block.approximate), *block.narrow)


def gelu(g: Graph, x: str, approximate: bool) -> str:
    """x Phi(x) by erf, or as GPT-2 has it: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    if approximate:
        cube = g.op("Mul", g.op("Mul", g.op("Mul", x, x), x), g.constant(0.044715, np.float32))
        inner = g.op("Tanh", g.op("Mul", g.op("Add", x, cube), g.constant(math.sqrt(2 / math.pi), np.float32)))
    else:
        inner = g.op("Erf", g.op("Mul", x, g.constant(math.sqrt(0.5), np.float32)))
    return g.op("Mul", g.op("Mul", x, g.constant(0.5, np.float32)), g.op("Add", inner, g.constant(1, np.float32)))


def causal_block(w: GraphWeights, block: BlockPlan, heads: int, x_BTH: str, steps: int) -> str:
    """A block that normalises before, over `steps` places that are read at once."""
    g, size = w.graph, len(block.out[0])
    parts = g.split(w.linear(normalised(w, x_BTH, *block.norm_attention), *block.into), [size] * 3)
    q, k, v = (by_head(g, part, heads, size // heads, steps) for part in parts)
    q = g.op("Mul", q, g.constant(1 / math.sqrt(size // heads), np.float32))
    scores = g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2]))
    hidden_TT = np.triu(np.full((steps, steps), -np.inf, np.float32), 1)
    y = g.op("MatMul", g.op("Softmax", g.op("Add", scores, g.weight(hidden_TT, "hidden")), axis=-1), v)
    x = g.op("Add", x_BTH, w.linear(side_by_side(g, y, size, steps), *block.out))
    return g.op("Add", x, _fed(w, block, normalised(w, x, *block.norm_forward)))

"""The two graphs of a plan.

    step       (token[B], state...)                 -> (log_p[B, V], state...)
    sequence   (tokens[B, T], lengths[B], state...) -> (log_p[B, T, V], state...)

log_p are those of the token that comes next. A state that comes out has the name it went in by, with "next_" before
it. A text begins with the fresh state (every part filled with its number in the metadata) and the token `start`, the
first above the vocabulary. Where every line starts afresh, a line end is read as such a beginning by the graph itself.

Shapes: B rows, T steps, V words, H features.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np

from thereafter.export.facts import facts_of
from thereafter.export.onnx.attention import AttentionGraph
from thereafter.export.onnx.bodies import GraphBody, StackGraph, WindowGraph
from thereafter.export.onnx.cells import State
from thereafter.export.onnx.graph import IR, OPSET, Graph, onnx_package
from thereafter.export.onnx.heads import log_p
from thereafter.export.onnx.layers import rows_of, scan, type_of
from thereafter.export.onnx.linear import GraphWeights
from thereafter.export.parts import WordingPlan
from thereafter.export.plans import NeuralPlan, RecurrentPlan, TransformerPlan
from thereafter.version import __version__

NEXT = "next_"


def body_of(plan: NeuralPlan) -> GraphBody:
    """The network of a plan."""
    if isinstance(plan, RecurrentPlan):
        return StackGraph(plan)
    return AttentionGraph(plan) if isinstance(plan, TransformerPlan) else WindowGraph(plan)


def step_graph(plan: NeuralPlan, *, int8: bool = False) -> Graph:
    """One token a row."""
    g, body = Graph("step"), body_of(plan)
    w = GraphWeights(g, int8=int8, products=int8)
    token_B = g.input("token", np.int64, ["B"])
    state = [g.input(part.name, type_of(part), ["B", *part.shape]) for part in body.state()]
    f_BH, after = step(w, body, plan.wording, token_B, state)
    g.output(log_p(w, plan.head, f_BH, plan.embedding), "log_p", np.float32, ["B", plan.wording.size])
    _put_out(g, body, after)
    return g


def sequence_graph(plan: NeuralPlan, *, int8: bool = False) -> Graph:
    """T tokens a row; what stands beyond a row's length is read by nobody, its log_p mean nothing."""
    g, body = Graph("sequence"), body_of(plan)
    w = GraphWeights(g, int8=int8)
    tokens_BT = g.input("tokens", np.int64, ["B", "T"])
    lengths_B = g.op("Cast", g.input("lengths", np.int64, ["B"]), to=6)
    state = [g.input(part.name, type_of(part), ["B", *part.shape]) for part in body.state()]
    if plan.wording.restart is None:
        f_BTH, after = body.sequence(w, tokens_BT, lengths_B, state)
    else:
        tokens_TB = g.op("Transpose", tokens_BT, perm=[1, 0])

        def one(inner: Graph, token_B: str, before: State) -> tuple[str, State]:
            return step(w.inside(inner), body, plan.wording, token_B, before)

        f_TBH, after = scan(g, tokens_TB, np.int64, lengths_B, state, body.state(), one)
        f_BTH = g.op("Transpose", f_TBH, perm=[1, 0, 2])
    g.output(log_p(w, plan.head, f_BTH, plan.embedding), "log_p", np.float32, ["B", "T", plan.wording.size])
    _put_out(g, body, after)
    return g


def step(w: GraphWeights, body: GraphBody, words: WordingPlan, token_B: str, state: State) -> tuple[str, State]:
    """A step of a body; rows that read a line end forget everything and read `<s>` in its place."""
    if words.restart is None:
        return body.step(w, token_B, state)
    g = w.graph
    ended_B = g.op("Equal", token_B, g.constant(words.restart))
    token_B = g.op("Where", ended_B, g.constant(words.start), token_B)
    fresh = []
    for part, one in zip(body.state(), state, strict=True):
        fresh.append(g.op("Where", rows_of(g, ended_B, part), g.constant(part.fresh, type_of(part)), one))
    return body.step(w, token_B, fresh)


def _put_out(g: Graph, body: GraphBody, after: State) -> None:
    for part, value in zip(body.state(), after, strict=True):
        g.output(value, NEXT + part.name, type_of(part), ["B", *part.shape])


def metadata(plan: NeuralPlan, graph: str, *, int8: bool) -> dict[str, str]:
    """What a program needs to know to feed a graph, as JSON texts by name."""
    facts = {"format": "thereafter-onnx 1", "graph": graph, "int8": int8, **facts_of(plan, body_of(plan).state())}
    return {name: json.dumps(value, ensure_ascii=False, separators=(",", ":")) for name, value in facts.items()}


def model_bytes(graph: Graph, facts: Mapping[str, str]) -> bytes:
    """The whole file of a graph."""
    onnx = onnx_package()
    made = onnx.helper.make_model(
        graph.made(),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR,
        producer_name="thereafter",
        producer_version=__version__,
    )
    onnx.helper.set_model_props(made, dict(facts))
    serialised: bytes = made.SerializeToString(deterministic=True)
    return serialised

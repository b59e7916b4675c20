"""The two graphs of a plan, and the network between tokens and features in each of them: FILE.onnx, a step, and
FILE-sequence.onnx, whole sequences; each holds all it needs.

    step       (token[B], state...)                 -> (log_p[B, V], state...)
    sequence   (tokens[B, T], lengths[B], state...) -> (log_p[B, T, V], state...)

log_p are those of the token that comes next. A state that comes out has the name it went in by, with "next_" before
it. A text begins with the fresh state (every part filled with its number in the metadata) and the token `start`, the
first above the vocabulary. Where every line starts afresh, a line end is read as such a beginning by the graph itself.

Shapes: B rows, T steps, V words, E word vector, H features, W tokens of a window, S = W - 1 + T.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from thereafter.base.packages import require
from thereafter.base.version import __version__
from thereafter.export.onnx import cells
from thereafter.export.onnx.attention import AttentionGraph
from thereafter.export.onnx.cells import GraphWeights, State
from thereafter.export.onnx.graph import IR, OPSET, Graph, onnx_package
from thereafter.export.plan import (
    AveragePlan,
    LayerPlan,
    NeuralPlan,
    NgramPlan,
    Plan,
    RecurrentPlan,
    StatePart,
    TransformerPlan,
    WindowPlan,
    WordingPlan,
    facts_of,
)
from thereafter.export.targets import FLOAT32, WrittenFiles
from thereafter.models.base import Floats, Ids

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


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
    state = [g.input(part.name, cells.type_of(part), ["B", *part.shape]) for part in body.state()]
    f_BH, after = step(w, body, plan.wording, token_B, state)
    g.output(cells.log_p(w, plan.head, f_BH, plan.embedding), "log_p", np.float32, ["B", plan.wording.size])
    _put_out(g, body, after)
    return g


def sequence_graph(plan: NeuralPlan, *, int8: bool = False) -> Graph:
    """T tokens a row; what stands beyond a row's length is read by nobody, its log_p mean nothing."""
    g, body = Graph("sequence"), body_of(plan)
    w = GraphWeights(g, int8=int8)
    tokens_BT = g.input("tokens", np.int64, ["B", "T"])
    lengths_B = g.op("Cast", g.input("lengths", np.int64, ["B"]), to=6)
    state = [g.input(part.name, cells.type_of(part), ["B", *part.shape]) for part in body.state()]
    if plan.wording.restart is None:
        f_BTH, after = body.sequence(w, tokens_BT, lengths_B, state)
    else:
        tokens_TB = g.op("Transpose", tokens_BT, perm=[1, 0])

        def one(inner: Graph, token_B: str, before: State) -> tuple[str, State]:
            return step(w.inside(inner), body, plan.wording, token_B, before)

        f_TBH, after = cells.scan(g, tokens_TB, np.int64, lengths_B, state, body.state(), one)
        f_BTH = g.op("Transpose", f_TBH, perm=[1, 0, 2])
    g.output(cells.log_p(w, plan.head, f_BTH, plan.embedding), "log_p", np.float32, ["B", "T", plan.wording.size])
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
        fresh.append(g.op("Where", cells.rows_of(g, ended_B, part), g.constant(part.fresh, cells.type_of(part)), one))
    return body.step(w, token_B, fresh)


def _put_out(g: Graph, body: GraphBody, after: State) -> None:
    for part, value in zip(body.state(), after, strict=True):
        g.output(value, NEXT + part.name, cells.type_of(part), ["B", *part.shape])


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


class StackGraph:
    """Word vectors through a stack of cells."""

    def __init__(self, plan: RecurrentPlan) -> None:
        self.plan = plan

    def state(self) -> list[StatePart]:
        return self.plan.state()

    def step(self, w: GraphWeights, token_B: str, state: State) -> tuple[str, State]:
        x_BI, after = w.rows(self.plan.embedding, token_B), []
        for layer, (before,) in zip(self.plan.layers, by_lane(self.plan.layers, state), strict=True):
            if cells.has_operator(layer.lane) and not w.products:
                end = cells.by_operator(w, layer.lane, w.graph.axes(x_BI, 0), "", before)[1]
                y_BO = end[0]
            else:
                y_BO, end = cells.step(w, layer.lane, cells.input_product(w, layer.lane, x_BI), before)
            x_BI = cells.joined(w, layer, x_BI, y_BO)
            after += end
        return x_BI, after

    def sequence(self, w: GraphWeights, tokens_BT: str, lengths_B: str, state: State) -> tuple[str, State]:
        g = w.graph
        x_TBI = w.rows(self.plan.embedding, g.op("Transpose", tokens_BT, perm=[1, 0]))
        after: State = []
        for layer, before in zip(self.plan.layers, by_lane(self.plan.layers, state), strict=True):
            x_TBI, ends = cells.layer_sequence(w, layer, x_TBI, lengths_B, before)
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


Arrays = dict[str, NDArray[np.generic]]


GraphBody = StackGraph | WindowGraph | AttentionGraph
"""What all of them can do: `state`, the arrays that are carried; `step`, features [B, H] and state after one token a
row; `sequence`, features [B, T, H] after every token, and the state at each row's end (`lengths_B` is int32)."""


class OnnxTarget:
    """Graphs of standard operators, which ONNX Runtime and others run."""

    ending: ClassVar[str] = ".onnx"
    program: ClassVar[str] = "ONNX Runtime"
    tolerance: ClassVar[float] = FLOAT32

    def refuses(self, plan: Plan, int8: bool) -> str | None:
        if isinstance(plan, NgramPlan):
            return "an n-gram is a search in a trie, for which ONNX has no operator; try --to c, --to html or --to arpa"
        return None

    def write(self, plan: Plan, path: Path, *, int8: bool) -> WrittenFiles:
        if isinstance(plan, NgramPlan):
            raise TypeError(plan.kind)
        whole = path.with_name(f"{path.stem}-sequence{path.suffix}")
        path.write_bytes(model_bytes(step_graph(plan, int8=int8), metadata(plan, "step", int8=int8)))
        whole.write_bytes(model_bytes(sequence_graph(plan, int8=int8), metadata(plan, "sequence", int8=int8)))
        state = sum(int(np.prod(part.shape)) * (8 if part.whole else 4) for part in body_of(plan).state())
        return WrittenFiles((path, whole), {"state": f"{state:,} bytes a row"})

    def runner(self, plan: Plan, written: WrittenFiles) -> OnnxPairRunner:
        return OnnxPairRunner(written.paths[0], written.paths[1])


class OnnxRunner:
    """The step graph in ONNX Runtime; all it knows of the model stands in the file."""

    name: ClassVar[str] = "ONNX Runtime"

    def __init__(self, path: Path, threads: int = 1) -> None:
        self._session = session(path, threads)
        facts = self._session.get_modelmeta().custom_metadata_map
        self._start, self._parts = json.loads(facts["start"]), json.loads(facts["state"])
        whole = {given.name for given in self._session.get_inputs() if "int64" in given.type}
        self._types = {part["name"]: np.int64 if part["name"] in whole else np.float32 for part in self._parts}
        self._names = [given.name for given in self._session.get_outputs()]
        self.state: Arrays = {}

    def start(self, rows: int) -> Floats:
        self.state = self.fresh(rows)
        return self.step(np.full(rows, self._start))

    def fresh(self, rows: int) -> Arrays:
        """The state at the beginning of a text."""
        return {
            part["name"]: np.full((rows, *part["shape"]), part["fresh"], self._types[part["name"]])
            for part in self._parts
        }

    def step(self, token_B: Ids) -> Floats:
        given = {"token": np.asarray(token_B, dtype=np.int64), **self.state}
        logp_BV, self.state = _carried(self._session, self._names, given)
        return logp_BV

    def close(self) -> None:
        self.state = {}


class OnnxPairRunner(OnnxRunner):
    """The step graph, and beside it the sequence graph with a state of its own."""

    def __init__(self, path: Path, whole: Path, threads: int = 1) -> None:
        super().__init__(path, threads)
        self._sequence = session(whole, threads)
        self._outputs = [given.name for given in self._sequence.get_outputs()]
        self._state_of_sequence: Arrays = {}

    def start(self, rows: int) -> Floats:
        self._state_of_sequence = self.fresh(rows)
        return super().start(rows)

    def whole(self, tokens_BT: Ids) -> Floats:
        tokens = np.asarray(tokens_BT, dtype=np.int64)
        given = {"tokens": tokens, "lengths": np.full(len(tokens), tokens.shape[1]), **self._state_of_sequence}
        logp_BTV, self._state_of_sequence = _carried(self._sequence, self._outputs, given)
        return logp_BTV


def _carried(
    session: InferenceSession, names: Sequence[str], given: Mapping[str, NDArray[np.generic]]
) -> tuple[Floats, Arrays]:
    """log p of one run, and the state after it under the names by which it goes in again."""
    outputs: Arrays = dict(zip(names, session.run(None, given), strict=True))
    logp = outputs.pop("log_p").astype(np.float32)
    return logp, {name.removeprefix(NEXT): value for name, value in outputs.items()}


def session(path: Path, threads: int = 1) -> InferenceSession:
    """A file in ONNX Runtime."""
    runtime = require("onnxruntime", "checking an ONNX file", install="thereafter[export]")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    options.log_severity_level = 3
    made: InferenceSession = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return made


TARGET = OnnxTarget()

"""FILE.onnx, a step, and FILE-sequence.onnx, whole sequences; each holds all it needs.

Shapes: B rows, T steps, V words.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from thereafter.base.packages import require
from thereafter.export.onnx.model import NEXT, body_of, metadata, model_bytes, sequence_graph, step_graph
from thereafter.export.plan import NgramPlan, Plan
from thereafter.export.targets import FLOAT32, WrittenFiles
from thereafter.models.base import Floats, Ids

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Arrays = dict[str, NDArray[np.generic]]


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

"""The network of a task written as ONNX graphs, checked with drawn inputs before they are handed over."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.data.codecs import store_codecs
from thereafter.errors import ExportError
from thereafter.export.check import MEASURED_STEPS, Checked, difference, refuse
from thereafter.export.export import Exported
from thereafter.export.onnx.model import model_bytes
from thereafter.export.onnx.target import TARGET, session
from thereafter.export.onnx.task_checks import LONGEST, ROWS, Feeds, TaskGraphs, graphs_of
from thereafter.export.placing import beside, check_place, moved_together
from thereafter.export.targets import FLOAT32
from thereafter.models.word_decoder import END, WordDecoder
from thereafter.tasks.fitting import Fitted

SEED = 7


def export_task(fitted: Fitted, path: Path, *, to: str = "onnx", int8: bool = False) -> Exported:
    """Write the graphs of a task's network: FILE.onnx, and of a translator FILE-encoder.onnx beside its decoder."""
    if to != "onnx":
        graphs_of(fitted.net)  # refuses a network that has no graph either
        raise ExportError(f"the run holds the task {fitted.task.name!r}, which has no form {to!r}; try --to onnx")
    if int8:
        raise ExportError("graphs of whole sequences multiply in float32; try it without --int8")
    made = graphs_of(fitted.net)
    check_place(path, TARGET)
    with beside(path) as folder:
        places = {}
        for number, (name, graph) in enumerate(made.graphs.items()):
            places[name] = folder / (f"{path.stem}-{name}{path.suffix}" if number else path.name)
            places[name].write_bytes(model_bytes(graph, task_facts(fitted, name)))
        checked = check_task(made, places)
        refuse(checked, FLOAT32, path.name)
        paths, replaced = moved_together(tuple(places.values()), path.parent)
    facts = {"graphs": ", ".join(made.graphs)}
    return Exported(paths, to, TARGET.program, False, checked, facts, replaced=replaced)


def task_facts(fitted: Fitted, graph: str) -> dict[str, str]:
    """What a program needs to feed a graph, as JSON texts: the codecs turn words, letters and labels into ids."""
    facts: dict[str, object] = {"format": "thereafter-onnx 1", "graph": graph, "task": fitted.task.name}
    facts["codecs"] = store_codecs(fitted.codecs)
    if isinstance(fitted.net, WordDecoder):
        facts |= {"start": fitted.net.start, "end": END}
    return {name: json.dumps(value, ensure_ascii=False, separators=(",", ":")) for name, value in facts.items()}


def check_task(made: TaskGraphs, places: Mapping[str, Path]) -> Checked:
    """Drawn batches of at least 1,000 steps in all through the network and through ONNX Runtime."""
    sessions = {name: session(path) for name, path in places.items()}

    def run(name: str, feeds: Feeds) -> dict[str, NDArray[np.generic]]:
        wanted = {given.name for given in sessions[name].get_inputs()}
        outputs = sessions[name].run(None, {key: feeds[key] for key in feeds if key in wanted})
        return dict(zip([given.name for given in sessions[name].get_outputs()], outputs, strict=True))

    draw, largest, steps = np.random.default_rng(SEED), 0.0, 0
    with progress.task("checking", total=MEASURED_STEPS, unit="steps") as advance:
        while steps < MEASURED_STEPS:
            for ours, theirs in made.compare(draw, run):
                largest = max(largest, difference(ours, theirs))
            steps += ROWS * LONGEST
            advance(ROWS * LONGEST)
    return Checked(steps, largest, 0.0, 0.0, "drawn inputs", made.what)

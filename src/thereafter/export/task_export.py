"""The network of a task written as ONNX graphs, checked with drawn inputs before they are handed over.

What a graph computes, and from which inputs, its network says (`tasks/graphs.py`); `onnx.tracing` writes it down, and
the check computes it again with drawn numbers.

    tagger       (words[B, T], lengths[B], letters[U, L], letter_lengths[U], spelled[B, T]) -> scores[B, T, K]
    classifier   (words[B, T], lengths[B]) -> log_p[B, K]
    filler       (words[B, T], lengths[B]) -> log_p[B, T, V], of each word by those on its sides alone
    series       (values[B, T, C], seen[B, T, C], lengths[B]) -> log_p[B, K]

A tagger's scores are log p of each word's tags, unless it has a CRF: then they are what its Viterbi search begins with,
and the constants start[K], transition[K, K] and end[K] come out beside them. Values of a series are scaled as the codec
`channels` says, 0 where missing; `seen` is an input only where the training series had gaps.

A forecaster gives the parameters of its distribution over the steps ahead:

    (past[B, L, D], seen[B, L, D], inputs[B, L, C], ahead[B, H, K])
        -> location, deviation               gaussian, squared and huber heads, linear, ar
           location, spread                  absolute head (Laplace)
           location, spread, freedom         student-t head
           location, dispersion              negative-binomial head: the mean, and what exceeds Poisson
           quantiles[B, H, D, Q], levels[Q]  quantile head

each [B, H, D], scaled as the codecs say: (y - mean) / deviation of the series. Missing values are 0, and false in
`seen`. `inputs` and `ahead` are inputs only where there are covariates. A recursive network gives one step, H = 1: what
it gives is put behind `past` by whoever asks for more. What a forecast is relative to is `WindowBatch.level`.

Translators and captioners are two graphs each: the encoder of a source or a picture, and a step of the decoder.

    encoder   (source[B, S], lengths[B])           -> (last, [memory[B, S, H], keys[B, S, A], inside[B, S],] state...)
    decoder   (token[B], the encoder's outputs...) -> (log_p[B, V], next_state...)

A source ends with the token `end`; a target begins with the token `start`. States are h_l0, c_l0, ... of the decoder;
`last` [B, H] is what the encoder's last layer ended with; memory, keys and inside are there where there is attention.

Of a Transformer the state is the keys and values of the N words written so far, none at first; `look_keys` and
`look_values` are those of the source, made once:

    encoder   (source[B, S], lengths[B])           -> (inside[B, S], look_keys_0[B, K, S, D], look_values_0, ...,
                                                       keys_0[B, K, 0, D], values_0, ...)
    decoder   (token[B], the encoder's outputs...) -> (log_p[B, V], next_keys_0[B, K, N + 1, D], ...)

A captioner's decoder is that of a recurrent translator, and its encoder reads pixels of 0 to 255, fitted to one size,
or features; the graph scales them itself:

    encoder   (pictures[P, C, H, W], or [P, D], [P, S, D] of features) -> (last, [memory, keys, inside,] state...)

Shapes: B rows, T words or steps, U distinct words, L letters or rows that are read, E word vector, C channels or
covariates, D targets or numbers of a head or place, K tags, labels, heads or what is known ahead, H features or steps
ahead, S places of a source, V words, N words so far, A numbers of a key, Q levels, P pictures.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.data.codecs import store_codecs
from thereafter.errors import ExportError
from thereafter.export.check import MEASURED_STEPS, Checked, difference, refuse
from thereafter.export.export import Exported, beside, check_place, moved_together
from thereafter.export.onnx.graph import Graph
from thereafter.export.onnx.model import TARGET, model_bytes, session
from thereafter.export.onnx.tracing import written_down
from thereafter.export.targets import FLOAT32
from thereafter.models.word_decoder import END, WordDecoder
from thereafter.tasks.fitting import Fitted
from thereafter.tasks.graphs import LONGEST, ROWS, Feeds, Graphed, Inputs, Ungraphed

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
            for ours, theirs in made.net.compare(draw, run):
                largest = max(largest, difference(ours, theirs))
            steps += ROWS * LONGEST
            advance(ROWS * LONGEST)
    return Checked(steps, largest, 0.0, 0.0, "drawn inputs", made.net.compared)


@dataclass(frozen=True)
class TaskGraphs:
    """The graphs of a network by name, the main one first."""

    graphs: Mapping[str, Graph]
    net: Graphed


def graphs_of(net: object) -> TaskGraphs:
    """The graphs of a network; ExportError says that it has none."""
    if isinstance(net, Graphed):
        return TaskGraphs({name: _graph(net, name, inputs) for name, inputs in net.graph_inputs().items()}, net)
    why = (
        net.no_graph
        if isinstance(net, Ungraphed)
        else "expected a tagger, a classifier of texts, series or pictures, a filler, a forecaster, a translator or a "
        "captioner; try torch.export on task_model.net"
    )
    raise ExportError(f"the network {type(net).__name__} has no exported form: {why}; --to run writes smaller weights")


def _graph(net: Graphed, graph: str, inputs: Inputs) -> Graph:
    with written_down(graph, net) as (tracing, copy):
        given = {name: tracing.input(name, kind, axes) for name, (kind, axes) in inputs.items()}
        for name, value in copy.graph_outputs(graph, given).items():
            tracing.output(value, name)
    tracing.g.prune()
    return tracing.g

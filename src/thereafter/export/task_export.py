"""The network of a task written as ONNX graphs, checked with drawn inputs before they are handed over.

Network and graphs must agree for the drawn inputs.

Shapes: B rows, T words, U distinct words, L letters or rows, C channels or covariates, D targets, K tags or labels,
S places of a source, V words.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from thereafter.base import progress
from thereafter.data.codecs import store_codecs
from thereafter.errors import ExportError
from thereafter.export.check import MEASURED_STEPS, Checked, difference, refuse
from thereafter.export.export import Exported, beside, check_place, moved_together
from thereafter.export.onnx.forecasters import forecaster_graph
from thereafter.export.onnx.graph import Graph
from thereafter.export.onnx.model import TARGET, model_bytes, session
from thereafter.export.onnx.tasks import channels_of, classifier_graph, filler_graph, series_graph, tagger_graph
from thereafter.export.onnx.translators import (
    decoder_graph,
    encoder_graph,
    picture_graph,
    transformer_decoder_graph,
    transformer_encoder_graph,
)
from thereafter.export.targets import FLOAT32
from thereafter.models.task_net import Batched, TaskNet
from thereafter.models.word_decoder import END, WordDecoder
from thereafter.series.batches import WindowBatch
from thereafter.series.classifying.network import SeriesBatch, SeriesClassifier
from thereafter.series.forecasters.network import Forecaster, ForecastNetwork
from thereafter.tasks.classify.network import ClassBatch, Classifier
from thereafter.tasks.fill import FillBatch, Filler
from thereafter.tasks.fitting import Fitted
from thereafter.tasks.tag.network import TagBatch, Tagger
from thereafter.tasks.translate.network import PairBatch, RecurrentTranslator, TransformerTranslator, Translator
from thereafter.vision.captioning.network import Captioner, PictureBatch

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


ROWS, LONGEST = 8, 40
FIELDS = {"quantiles": "values", "levels": "levels_Q", "deviation": "spread"}
"""What an output of a forecaster is called in its distribution, where that is something else."""
B = TypeVar("B", bound=Batched)
Feeds = dict[str, NDArray[np.generic]]
Run = Callable[[str, Feeds], Mapping[str, NDArray[np.generic]]]
"""A graph by its name, with its inputs: its outputs by name."""
Pair = tuple[NDArray[np.floating], NDArray[np.floating]]


@dataclass(frozen=True)
class TaskGraphs:
    """`graphs`: by name, the main one first. `compare`: what network and graphs give for a drawn batch. `what`: the
    numbers that are compared."""

    graphs: Mapping[str, Graph]
    compare: Callable[[np.random.Generator, Run], Iterator[Pair]]
    what: str = "log p"


def graphs_of(net: object) -> TaskGraphs:
    """The graphs of a network; ExportError says that it has none."""
    if isinstance(net, Tagger):
        return TaskGraphs({"tagger": tagger_graph(net)}, lambda draw, run: _tagged(net, draw, run))
    if isinstance(net, Classifier):
        return TaskGraphs({"classifier": classifier_graph(net)}, lambda draw, run: _labelled(net, draw, run))
    if isinstance(net, RecurrentTranslator):
        graphs = {"decoder": decoder_graph(net), "encoder": encoder_graph(net)}
        return TaskGraphs(graphs, lambda draw, run: _translated(net, draw, run))
    if isinstance(net, TransformerTranslator):
        graphs = {"decoder": transformer_decoder_graph(net), "encoder": transformer_encoder_graph(net)}
        return TaskGraphs(graphs, lambda draw, run: _translated(net, draw, run))
    if isinstance(net, Captioner):
        graphs = {"decoder": decoder_graph(net), "encoder": picture_graph(net)}
        return TaskGraphs(graphs, lambda draw, run: _captioned(net, draw, run))
    if isinstance(net, Filler):
        return TaskGraphs({"filler": filler_graph(net)}, lambda draw, run: _filled(net, draw, run))
    if isinstance(net, Forecaster):
        what = "scaled values, and in the logs of what is positive"
        return TaskGraphs({"forecaster": forecaster_graph(net)}, lambda draw, run: _forecast(net, draw, run), what)
    if isinstance(net, SeriesClassifier):
        return TaskGraphs({"classifier": series_graph(net)}, lambda draw, run: _labelled_series(net, draw, run))
    raise ExportError(
        f"the network {type(net).__name__} has no exported form: {why_not(net)}; --to run writes smaller weights"
    )


def why_not(net: object) -> str:
    """Why a network has none, and what to try."""
    reasons = {
        "ClipClassifier": "its frames go through convolutions that no graph is written of; try torch.export on net",
        "FramePredictor": "it draws frames from frames it has drawn, a loop that no graph is written of",
        "Glimpser": "where it looks next depends on what it saw, a loop that no graph is written of",
        "Drawer": "it draws with windows that it moves itself, a loop that no graph is written of",
        "Catcher": "it plays a game whose rule is part of the network",
    }
    return reasons.get(
        type(net).__name__,
        "expected a tagger, a classifier of texts, series or pictures, a filler, a forecaster, a translator or a "
        "captioner; try torch.export on task_model.net",
    )


def _rows(draw: np.random.Generator, words: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Drawn rows of words, [B, T], and their lengths."""
    lengths_B = _lengths(draw)
    return draw.integers(1, words, (ROWS, LONGEST)), lengths_B


def _lengths(draw: np.random.Generator) -> NDArray[np.int64]:
    """Drawn lengths, the first of them the longest."""
    lengths_B = draw.integers(1, LONGEST + 1, ROWS)
    lengths_B[0] = LONGEST
    return lengths_B


def _quietly(net: TaskNet[B], compute: Callable[[B], torch.Tensor], batch: B) -> torch.Tensor:
    """What the network itself gives for a batch."""
    with net.quietly():
        return compute(batch.to(net.device)).float().cpu()


def _tagged(net: Tagger, draw: np.random.Generator, run: Run) -> Iterator[Pair]:
    words_BT, lengths_B = _rows(draw, net.words.num_embeddings)
    letters = 2 if net.speller is None else net.speller.embedding.num_embeddings
    letters_UL, ends_U = draw.integers(1, letters, (30, 12)), draw.integers(1, 13, 30)
    ends_U[0] = 12
    spelled_BT = draw.integers(0, 30, words_BT.shape)
    feeds: Feeds = {"words": words_BT, "lengths": lengths_B}
    if net.speller is not None:
        feeds |= {"letters": letters_UL, "letter_lengths": ends_U, "spelled": spelled_BT}
    z_BTK = _quietly(
        net, net.scores, TagBatch(*map(torch.from_numpy, (words_BT, lengths_B, letters_UL, ends_U, spelled_BT)))
    )
    right = (z_BTK if net.crf is not None else z_BTK.log_softmax(-1)).numpy()
    got = run("tagger", feeds)["scores"].astype(np.float64)
    inside_BT = np.arange(LONGEST) < lengths_B[:, None]
    yield right[inside_BT], got[inside_BT]


def _labelled(net: Classifier, draw: np.random.Generator, run: Run) -> Iterator[Pair]:
    words_BT, lengths_B = _rows(draw, net.words.num_embeddings)
    right = _quietly(net, net.scores, ClassBatch(*map(torch.from_numpy, (words_BT, lengths_B)))).log_softmax(-1).numpy()
    yield right, run("classifier", {"words": words_BT, "lengths": lengths_B})["log_p"].astype(np.float64)


def _labelled_series(net: SeriesClassifier, draw: np.random.Generator, run: Run) -> Iterator[Pair]:
    channels = channels_of(net)
    lengths_B = _lengths(draw)
    seen_BTC = draw.random((ROWS, LONGEST, channels)) < (0.8 if net.gaps else 1.0)
    values_BTC = (draw.standard_normal(seen_BTC.shape) * seen_BTC).astype(np.float32)
    batch = SeriesBatch(*map(torch.from_numpy, (values_BTC, seen_BTC, lengths_B)))
    right = _quietly(net, net.scores, batch).log_softmax(-1).numpy()
    feeds: Feeds = {"values": values_BTC, "lengths": lengths_B, "seen": seen_BTC}
    yield right, run("classifier", feeds)["log_p"].astype(np.float64)


def _forecast(net: Forecaster, draw: np.random.Generator, run: Run) -> Iterator[Pair]:
    """Locations as they are, in units of the series; what is positive by its logs."""
    facts, counts = net.facts, isinstance(net, ForecastNetwork) and net.norm == "mean"
    shape, steps = (ROWS, facts.lookback, facts.targets), min(net.reach, facts.horizon)
    seen_BLD = draw.random(shape) < (0.8 if facts.gaps else 1.0)
    walk_BLD = draw.poisson(5.0, shape) if counts else 0.3 * draw.standard_normal(shape).cumsum(1)
    past_BLD = (walk_BLD * seen_BLD).astype(np.float32)
    inputs_BLC, ahead_BHK = (
        draw.standard_normal(size).astype(np.float32)
        for size in ((ROWS, facts.lookback, facts.covariates), (ROWS, steps, facts.known))
    )
    past, seen, inputs, ahead = map(torch.from_numpy, (past_BLD, seen_BLD, inputs_BLC, ahead_BHK))
    batch = WindowBatch(past, seen, inputs, ahead)
    with net.quietly():
        expected = net.expect(batch.to(net.device))
    got = run("forecaster", {"past": past_BLD, "seen": seen_BLD, "inputs": inputs_BLC, "ahead": ahead_BHK})
    for name, value in got.items():
        right = getattr(expected, FIELDS.get(name, name)).float().cpu().numpy().astype(np.float64)
        logs = name not in ("location", "quantiles") or counts
        yield (np.log(right), np.log(value.astype(np.float64))) if logs else (right, value.astype(np.float64))


def _filled(net: Filler, draw: np.random.Generator, run: Run) -> Iterator[Pair]:
    words_BT, lengths_B = _rows(draw, net.head.words)
    batch = FillBatch(*map(torch.from_numpy, (words_BT, lengths_B)))
    right = _quietly(net, lambda rows: net.head.log_prob(net.features(rows)), batch).numpy()
    got = run("filler", {"words": words_BT, "lengths": lengths_B})["log_p"].astype(np.float64)
    inside_BT = np.arange(LONGEST) < lengths_B[:, None]
    yield right[inside_BT], got[inside_BT]


def _translated(net: Translator, draw: np.random.Generator, run: Run) -> Iterator[Pair]:
    table, longest = net.words if net.source_words is None else net.source_words, min(LONGEST, net.settings.longest)
    source_BS, lengths_B = _rows(draw, table.words)
    source_BS, lengths_B = source_BS[:, :longest], np.minimum(lengths_B, longest)
    source_BS[np.arange(ROWS), lengths_B - 1] = END
    target_BT = draw.integers(1, net.words.words, (ROWS, longest))
    right = _quietly(net, net.scores, PairBatch(*map(torch.from_numpy, (source_BS, lengths_B, target_BT)))).numpy()
    yield from _written(net.start, target_BT, right, run, run("encoder", {"source": source_BS, "lengths": lengths_B}))


def _captioned(net: Captioner, draw: np.random.Generator, run: Run) -> Iterator[Pair]:
    shape, longest = (ROWS, *net.form.shape), min(LONGEST, net.settings.longest)
    pixels = net.form.kind == "pixels"
    pictures = draw.integers(0, 256, shape).astype(np.float32) if pixels else draw.random(shape).astype(np.float32)
    target_BT = draw.integers(1, net.words.words, (ROWS, longest))
    batch = PictureBatch(torch.from_numpy(pictures), torch.arange(ROWS), torch.from_numpy(target_BT), torch.arange(1))
    right = _quietly(net, net.scores, batch).numpy()
    yield from _written(net.start, target_BT, right, run, run("encoder", {"pictures": pictures}))


def _written(
    start: int,
    target_BT: NDArray[np.int64],
    right_BTV: NDArray[np.floating],
    run: Run,
    encoded: Mapping[str, NDArray[np.generic]],
) -> Iterator[Pair]:
    """Known targets through the decoder, a token at a time with the state carried."""
    memory, tokens_BT = dict(encoded), np.concatenate([np.full((ROWS, 1), start), target_BT[:, :-1]], axis=1)
    for step in range(tokens_BT.shape[1]):
        outputs = run("decoder", {"token": tokens_BT[:, step], **memory})
        memory |= {name.removeprefix("next_"): part for name, part in outputs.items() if name != "log_p"}
        yield right_BTV[:, step], outputs["log_p"].astype(np.float64)

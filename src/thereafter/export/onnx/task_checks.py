"""The graphs of a task's network, and drawn inputs for which network and graphs must agree.

Shapes: B rows, T words, U distinct words, L letters, K tags or labels, S places of a source, V words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from thereafter.errors import ExportError
from thereafter.export.onnx.graph import Graph
from thereafter.export.onnx.tasks import classifier_graph, tagger_graph
from thereafter.export.onnx.translators import decoder_graph, encoder_graph
from thereafter.models.classifier import ClassBatch, Classifier
from thereafter.models.recurrent_translator import RecurrentTranslator
from thereafter.models.tagger import TagBatch, Tagger
from thereafter.models.translator import PairBatch
from thereafter.models.word_decoder import END

ROWS, LONGEST = 8, 40
Feeds = dict[str, NDArray[np.generic]]
Run = Callable[[str, Feeds], Mapping[str, NDArray[np.generic]]]
"""A graph by its name, with its inputs: its outputs by name."""
Pair = tuple[NDArray[np.floating], NDArray[np.floating]]


@dataclass(frozen=True)
class TaskGraphs:
    """`graphs`: by name, the main one first. `compare`: what network and graphs give for a drawn batch."""

    graphs: Mapping[str, Graph]
    compare: Callable[[np.random.Generator, Run], Iterator[Pair]]


def graphs_of(net: object) -> TaskGraphs:
    """The graphs of a network; ExportError says that it has none."""
    if isinstance(net, Tagger):
        return TaskGraphs({"tagger": tagger_graph(net)}, lambda draw, run: _tagged(net, draw, run))
    if isinstance(net, Classifier):
        return TaskGraphs({"classifier": classifier_graph(net)}, lambda draw, run: _labelled(net, draw, run))
    if isinstance(net, RecurrentTranslator):
        graphs = {"decoder": decoder_graph(net), "encoder": encoder_graph(net)}
        return TaskGraphs(graphs, lambda draw, run: _translated(net, draw, run))
    raise ExportError(
        f"the network {type(net).__name__} has no exported form; expected a tagger, a classifier of texts or a "
        "recurrent translator; try torch.export on task_model.net"
    )


def _rows(draw: np.random.Generator, words: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Drawn rows of words, [B, T], and their lengths, the first of them T."""
    lengths_B = draw.integers(1, LONGEST + 1, ROWS)
    lengths_B[0] = LONGEST
    return draw.integers(1, words, (ROWS, LONGEST)), lengths_B


def _tagged(net: Tagger, draw: np.random.Generator, run: Run) -> Iterator[Pair]:
    words_BT, lengths_B = _rows(draw, net.words.num_embeddings)
    letters = 2 if net.speller is None else net.speller.embedding.num_embeddings
    letters_UL, ends_U = draw.integers(1, letters, (30, 12)), draw.integers(1, 13, 30)
    ends_U[0] = 12
    spelled_BT = draw.integers(0, 30, words_BT.shape)
    feeds: Feeds = {"words": words_BT, "lengths": lengths_B}
    if net.speller is not None:
        feeds |= {"letters": letters_UL, "letter_lengths": ends_U, "spelled": spelled_BT}
    batch = TagBatch(*map(torch.from_numpy, (words_BT, lengths_B, letters_UL, ends_U, spelled_BT)))
    with net.quietly():
        z_BTK = net.scores(batch.to(net.device)).float().cpu()
    right = (z_BTK if net.crf is not None else z_BTK.log_softmax(-1)).numpy()
    got = run("tagger", feeds)["scores"].astype(np.float64)
    inside_BT = np.arange(LONGEST) < lengths_B[:, None]
    yield right[inside_BT], got[inside_BT]


def _labelled(net: Classifier, draw: np.random.Generator, run: Run) -> Iterator[Pair]:
    words_BT, lengths_B = _rows(draw, net.words.num_embeddings)
    batch = ClassBatch(*map(torch.from_numpy, (words_BT, lengths_B)))
    with net.quietly():
        right = net.scores(batch.to(net.device)).float().log_softmax(-1).cpu().numpy()
    yield right, run("classifier", {"words": words_BT, "lengths": lengths_B})["log_p"].astype(np.float64)


def _translated(net: RecurrentTranslator, draw: np.random.Generator, run: Run) -> Iterator[Pair]:
    table = net.words if net.source_words is None else net.source_words
    source_BS, lengths_B = _rows(draw, table.words)
    source_BS[np.arange(ROWS), lengths_B - 1] = END
    target_BT = draw.integers(1, net.words.words, (ROWS, LONGEST))
    batch = PairBatch(torch.from_numpy(source_BS), torch.from_numpy(lengths_B), torch.from_numpy(target_BT))
    with net.quietly():
        right = net.scores(batch.to(net.device)).float().cpu().numpy()
    memory = dict(run("encoder", {"source": source_BS, "lengths": lengths_B}))
    tokens_BT = np.concatenate([np.full((ROWS, 1), net.start), target_BT[:, :-1]], axis=1)
    for step in range(LONGEST):
        outputs = run("decoder", {"token": tokens_BT[:, step], **memory})
        memory |= {name.removeprefix("next_"): part for name, part in outputs.items() if name != "log_p"}
        yield right[:, step], outputs["log_p"].astype(np.float64)

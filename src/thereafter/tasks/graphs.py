"""What the network of a task computes as graphs that other programs run (`export/task_export.py`), and its own check.

A network with graphs names their inputs, computes their outputs from tensors, and compares itself with what the graphs
give for drawn inputs. Most have one graph. Those that write words have two, an encoder of what is read and a step of
the decoder.

Shapes: B rows, T words or steps, S places of a source, H features, V words, A numbers of a key, F features of a step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar, Generic

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from thereafter.models.task_net import Memory, TaskNet, X_contra
from thereafter.models.word_decoder import RecurrentDecoder, WordDecoder

ROWS, LONGEST = 8, 40
"""Of drawn inputs."""
_POSITIVE = ("deviation", "spread", "freedom", "dispersion", "levels")
"""Outputs that are compared by their logs."""
Feeds = dict[str, NDArray[np.generic]]
Run = Callable[[str, Feeds], Mapping[str, NDArray[np.generic]]]
"""A graph by its name, with its inputs: its outputs by name."""
Pair = tuple[NDArray[np.floating], NDArray[np.floating]]
Tensors = Mapping[str, Tensor]
Inputs = dict[str, tuple[torch.dtype, Sequence[int | str]]]
"""Types and axes by name, where a letter is a free axis."""
WORDS: Inputs = {"words": (torch.int64, "BT"), "lengths": (torch.int64, "B")}


class Graphed(nn.Module, ABC):
    """A network that can be written as graphs."""

    compared: ClassVar[str] = "log p"
    """The numbers that `compare` compares."""

    @abstractmethod
    def graph_inputs(self) -> Mapping[str, Inputs]:
        """The inputs of each graph by its name, the main graph first; ExportError where this one has no graph."""

    @abstractmethod
    def graph_outputs(self, graph: str, inputs: Tensors) -> Tensors:
        """What a graph computes."""

    @abstractmethod
    def compare(self, draw: np.random.Generator, run: Run) -> Iterator[Pair]:
        """What the network and its graphs give for a drawn batch."""


class Ungraphed:
    """A network that has no graph."""

    no_graph: ClassVar[str]
    """Why, and what to try."""


class OneGraph(TaskNet[X_contra], Graphed, Generic[X_contra]):
    """A network in one graph, compared output by output."""

    @abstractmethod
    def draw_inputs(self, draw: np.random.Generator) -> Feeds:
        """Inputs of `ROWS` rows; those that the graph does not have are left out."""

    def compare(self, draw: np.random.Generator, run: Run) -> Iterator[Pair]:
        ((graph, inputs),) = self.graph_inputs().items()
        feeds = self.draw_inputs(draw)
        places = {name: "cpu" if name.endswith("lengths") else self.device for name in inputs}  # the host reads lengths
        with self.quietly():
            given = {name: torch.from_numpy(feeds[name]).to(place) for name, place in places.items()}
            outputs = self.graph_outputs(graph, given)
        ours = {name: tensor.detach().float().cpu().numpy().astype(np.float64) for name, tensor in outputs.items()}
        for name, value in run(graph, feeds).items():
            theirs = value.astype(np.float64)
            yield (np.log(ours[name]), np.log(theirs)) if name in _POSITIVE else (ours[name], theirs)


def draw_words(words: int, draw: np.random.Generator) -> Feeds:
    """Rows of words, [B, T], and their lengths, the first of them the longest."""
    lengths_B = draw.integers(1, LONGEST + 1, ROWS)
    lengths_B[0] = LONGEST
    return {"words": draw.integers(1, words, (ROWS, LONGEST)), "lengths": lengths_B}


class WritingGraphs(WordDecoder, Graphed):
    """An encoder and a step of a decoder, compared step by step with the state carried."""

    @abstractmethod
    def source_inputs(self) -> Inputs:
        """What the encoder reads."""

    @abstractmethod
    def encode_inputs(self, inputs: Tensors) -> Memory:
        """The memory of `source_inputs`."""

    @abstractmethod
    def draw_target(self, draw: np.random.Generator) -> tuple[Feeds, NDArray[np.int64], NDArray[np.floating]]:
        """Inputs of the encoder, targets [B, T], and the network's log p of every word at each of their steps."""

    def compare(self, draw: np.random.Generator, run: Run) -> Iterator[Pair]:
        feeds, target_BT, right_BTV = self.draw_target(draw)
        memory = dict(run("encoder", feeds))
        tokens_BT = np.concatenate([np.full((ROWS, 1), self.start), target_BT[:, :-1]], axis=1)
        for step in range(tokens_BT.shape[1]):
            outputs = run("decoder", {"token": tokens_BT[:, step], **memory})
            memory |= {name.removeprefix("next_"): part for name, part in outputs.items() if name != "log_p"}
            yield right_BTV[:, step], outputs["log_p"].astype(np.float64)


class RecurrentGraphs(RecurrentDecoder, WritingGraphs):
    """Those of a recurrent decoder."""

    def graph_inputs(self) -> dict[str, Inputs]:
        size, attention = self.settings.hidden, self.attention
        inputs: Inputs = {"token": (torch.int64, "B"), "last": (torch.float32, ("B", size))}
        inputs |= dict.fromkeys(self._states(), (torch.float32, ("B", size)))
        if attention is not None:
            width = size if attention.kind == "dot" else attention.of_memory.out_features
            inputs |= {"memory": (torch.float32, ("B", "S", size)), "keys": (torch.float32, ("B", "S", width))}
            inputs["inside"] = (torch.bool, "BS")
        return {"decoder": inputs, "encoder": self.source_inputs()}

    def graph_outputs(self, graph: str, inputs: Tensors) -> Tensors:
        states, seen = self._states(), {"memory": "h_BSH", "keys": "keys", "inside": "inside_BS"}
        if self.attention is None:
            seen = {}
        if graph == "encoder":
            source = self.prepare(self.encode_inputs(inputs))
            begun = {name: source[f"last_{field}"][:, layer] for name, (field, layer) in states.items()}
            return {"last": source["last_h"][:, -1], **{name: source[key] for name, key in seen.items()}, **begun}
        source = {"last_h": inputs["last"][:, None]} | {key: inputs[name] for name, key in seen.items()}
        layers = range(self.settings.layers)
        fields = dict.fromkeys(field for field, _ in states.values())
        before = {field: torch.stack([inputs[f"{field}_l{layer}"] for layer in layers], 1) for field in fields}
        f_B1F, after = self.advance(inputs["token"][:, None], source, before)
        written = {f"next_{name}": after[field][:, layer] for name, (field, layer) in states.items()}
        return {"log_p": self.head.log_prob(f_B1F[:, 0]), **written}

    def _states(self) -> dict[str, tuple[str, int]]:
        """The parts of the state by name: which field of which layer each is."""
        fields = list(self.decoder.lanes[0].cell.state_sizes())
        return {f"{field}_l{layer}": (field, layer) for layer in range(self.settings.layers) for field in fields}

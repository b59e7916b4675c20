"""One label for a whole series of numbers: read by recurrent layers or by convolutions, and pooled into one vector.

    x_t = [z_t, seen_t]                    scaled values, 0 where one is missing, and which of them are seen
    h_t = [forward, backward](x)_t         or  h = relu(norm(convolutions of widths 3, 7, 15 over x)), layer by layer,
                                           or  recurrent layers in residual blocks (`layers/blocks.py`)
    v   = pooled over t (`layers/blocks.py`)
    p(label | series) = softmax(W v + b)

`seen` is read only where the training series have gaps. `evidence` says which steps support a label: the gradient of
its score in the values of each step, times these (Simonyan, Vedaldi and Zisserman 2014).

The options are those of a series, or of a picture that is read as one.

Shapes: B rows, T steps, C channels, I numbers of a step, H features, K labels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from thereafter.cells.base import Cell
from thereafter.errors import OptionError
from thereafter.layers.blocks import FEEDS, POOLINGS, Pooling, RecurrentBlocks
from thereafter.layers.recurrent import Recurrent
from thereafter.models.settings import check_choice, check_share, check_size
from thereafter.series.forecasters.settings import cells
from thereafter.tasks.batching import TensorBatch
from thereafter.tasks.graphs import LONGEST, ROWS, Feeds, Inputs, OneGraph, Tensors, draw_words

_WIDTHS = (3, 7, 15)


CONVOLUTION = "conv"
STACKS = ("plain", "residual")


def encoders() -> tuple[str, ...]:
    """What can read a series."""
    return (*cells(), CONVOLUTION)


@dataclass(frozen=True)
class ReaderSettings:
    """What reads a series, or a picture as one, and how it becomes one vector."""

    encoder: str = "gru"
    """What reads the series: a recurrent cell or convolutions: `encoders()`."""
    hidden: int = 64
    """Units a layer in each direction; of convolutions, for each of their widths."""
    layers: int = 1
    """Layers, one over the other."""
    bidirectional: bool = True
    """Whether recurrent layers read in both directions."""
    pooling: str = "max"
    """How the steps become one vector: `POOLINGS`."""
    dropout: float = 0.2
    """The share of what is between layers and of the pooled vector that is dropped while training."""
    stack: str = "plain"
    """How recurrent layers are stacked: `STACKS`. Residual blocks have a feed-forward layer each, and may be deep."""
    feed: str = "gated"
    """The feed-forward layer of a residual block: `FEEDS`."""
    memory: int = 0
    """Steps for which fresh gates remember at the longest (0: as the cell has it)."""

    def __post_init__(self) -> None:
        check_choice("encoder", self.encoder, encoders())
        check_choice("pooling", self.pooling, POOLINGS)
        check_choice("stack", self.stack, STACKS)
        check_choice("feed", self.feed, FEEDS)
        check_size("hidden", self.hidden)
        check_size("layers", self.layers)
        check_share("dropout", self.dropout)
        if self.encoder == CONVOLUTION and self.pooling == "last":
            raise OptionError(
                f"pooling is 'last' and encoder is {CONVOLUTION!r}, whose last features see only the last steps; "
                "expected mean, max or attention; try pooling=max"
            )
        if self.encoder == CONVOLUTION and (self.stack != "plain" or self.memory):
            raise OptionError(
                f"encoder is {CONVOLUTION!r}, with stack={self.stack!r} and memory={self.memory}, which are for "
                "recurrent layers; expected stack='plain' and memory=0"
            )
        if self.memory and (self.memory < 2 or self.encoder == "rnn"):
            raise OptionError(
                f"memory is {self.memory} and encoder is {self.encoder!r}; expected 0, or at least 2 steps and cells "
                "with something that keeps a memory; try encoder=lstm"
            )


@dataclass(frozen=True)
class SeriesClassifierSettings(ReaderSettings):
    """Those of `ReaderSettings`, and the columns of a table where they are not recognised."""

    label: str = ""
    """The column of the labels. Default: recognised in the table."""
    series: str = ""
    """The column that names the series. Default: recognised in the table."""
    time: str = ""
    """The column of the time stamps. Default: recognised in the table."""
    channels: str = ""
    """The columns that are read, with commas between them. Default: all others with numbers."""


@dataclass(frozen=True)
class SeriesBatch(TensorBatch):
    """Rows of steps, scaled; values that are missing are 0 and False in `seen`. `labels_B` is None where asked for."""

    on_host: ClassVar[tuple[str, ...]] = ("lengths_B",)
    values_BTC: Tensor
    seen_BTC: Tensor
    lengths_B: Tensor
    labels_B: Tensor | None = None

    @property
    def ragged_B(self) -> Tensor | None:
        """The lengths of the rows; None where all are full."""
        return self.lengths_B if bool((self.lengths_B < self.values_BTC.shape[1]).any()) else None

    def places(self) -> dict[str, Tensor] | None:
        return None if self.ragged_B is not None else super().places()  # lengths are read by the host


class SeriesClassifier(OneGraph[SeriesBatch]):
    """See the module's equations."""

    def __init__(self, settings: ReaderSettings, *, channels: int, labels: int, gaps: bool) -> None:
        super().__init__()
        if labels < 2:
            raise OptionError(f"the classifier has {labels} label to choose from; expected at least 2")
        self.settings, self.channels, self.gaps = settings, channels, gaps
        inputs = 2 * channels if gaps else channels
        if settings.encoder == CONVOLUTION:
            self.reader: nn.Module = _StepConvolutions(settings, inputs)
            width = forward = settings.hidden * len(_WIDTHS)
        else:
            self.reader = _recurrent(settings, inputs)
            forward = settings.hidden
            width = 2 * forward if settings.bidirectional else forward
        if settings.memory:
            for one in self.reader.modules():
                if isinstance(one, Recurrent):
                    lengthen_memory(one, settings.memory)
        self.pooling = Pooling(settings.pooling, width, forward)
        self.head = nn.Linear(self.pooling.size, labels)

    def nats(self, batch: SeriesBatch) -> Tensor:
        if batch.labels_B is None:
            raise OptionError("a batch without labels has no loss; expected labels")
        return F.cross_entropy(self.scores(batch).float(), batch.labels_B, reduction="sum")

    def scores(self, batch: SeriesBatch, values_BTC: Tensor | None = None) -> Tensor:
        """The score of each label, [B, K]; `values_BTC`: the values, where the caller has others."""
        return self.scores_with_weights(batch, values_BTC)[0]

    def scores_with_weights(self, batch: SeriesBatch, values_BTC: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The scores [B, K], and the share of every step in the pooled vector, [B, T]."""
        x_BTI = batch.values_BTC if values_BTC is None else values_BTC
        lengths_B = batch.ragged_B
        if self.gaps:
            x_BTI = torch.cat((x_BTI, batch.seen_BTC.to(x_BTI.dtype)), 2)
        if isinstance(self.reader, Recurrent):
            h_BTH, _ = self.reader(x_BTI, lengths=lengths_B)
        elif isinstance(self.reader, RecurrentBlocks):
            h_BTH = self.reader(x_BTI, lengths_B)
        else:
            inside_BT = torch.ones(x_BTI.shape[:2], dtype=torch.bool, device=x_BTI.device)
            if lengths_B is not None:
                inside_BT = torch.arange(x_BTI.shape[1], device=x_BTI.device) < lengths_B.to(x_BTI.device)[:, None]
            h_BTH = self.reader(x_BTI, inside_BT)
        v_BH, weights_BT = self.pooling(h_BTH, lengths_B)
        z_BK: Tensor = self.head(F.dropout(v_BH, self.settings.dropout, self.training))
        return z_BK, weights_BT

    def decide(self, batch: SeriesBatch) -> Tensor:
        """The probability of every label, [B, K]."""
        return self.decide_with_weights(batch)[0]

    def decide_with_weights(self, batch: SeriesBatch) -> tuple[Tensor, Tensor]:
        """The probability of every label [B, K], and the share of every step in the pooled vector, [B, T]."""
        with self.quietly():
            z_BK, weights_BT = self.scores_with_weights(batch)
            return z_BK.float().softmax(-1), weights_BT

    def evidence(self, batch: SeriesBatch, labels_B: Tensor) -> Tensor:
        """How much each step supports a label, [B, T]: the gradient of its score times the values."""
        return self.evidence_by_value(batch, labels_B).sum(-1)

    def evidence_by_value(self, batch: SeriesBatch, labels_B: Tensor) -> Tensor:
        """The same value by value, [B, T, C]."""
        with self.evaluating(), torch.enable_grad():
            x_BTC = batch.values_BTC.detach().clone().requires_grad_()
            score = self.scores(batch, x_BTC).gather(1, labels_B[:, None]).sum()
            (slope_BTC,) = torch.autograd.grad(score, x_BTC)
        return slope_BTC * x_BTC.detach()

    def graph_inputs(self) -> dict[str, Inputs]:
        shape = ("B", "T", self.channels)
        inputs: Inputs = {"values": (torch.float32, shape)}
        inputs |= {"seen": (torch.bool, shape)} if self.gaps else {}
        return {"classifier": inputs | {"lengths": (torch.int64, "B")}}

    def graph_outputs(self, graph: str, inputs: Tensors) -> Tensors:
        batch = SeriesBatch(inputs["values"], inputs.get("seen", inputs["values"]), inputs["lengths"])
        return {"log_p": self.scores(batch).log_softmax(-1)}

    def draw_inputs(self, draw: np.random.Generator) -> Feeds:
        lengths_B = draw_words(2, draw)["lengths"]
        seen_BTC = draw.random((ROWS, LONGEST, self.channels)) < (0.8 if self.gaps else 1.0)
        values_BTC = (draw.standard_normal(seen_BTC.shape) * seen_BTC).astype(np.float32)
        return {"values": values_BTC, "lengths": lengths_B, "seen": seen_BTC}


class _StepConvolutions(nn.Module):
    """Layers of convolutions of several widths side by side, [B, T, widths H]; nothing is read beyond a row's end."""

    def __init__(self, settings: ReaderSettings, inputs: int) -> None:
        super().__init__()
        size, self.dropout = settings.hidden * len(_WIDTHS), settings.dropout
        self.layers = nn.ModuleList(
            nn.ModuleList(nn.Conv1d(size if layer else inputs, settings.hidden, width) for width in _WIDTHS)
            for layer in range(settings.layers)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(settings.layers))

    def forward(self, x_BTI: Tensor, inside_BT: Tensor) -> Tensor:
        h_BTH = x_BTI
        for number, (convolutions, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            if number:
                h_BTH = F.dropout(h_BTH, self.dropout, self.training)
            h_BHT = (h_BTH * inside_BT[..., None]).transpose(1, 2)
            pieces = [
                convolution(F.pad(h_BHT, ((width - 1) // 2, width // 2)))
                for width, convolution in zip(_WIDTHS, convolutions.children(), strict=True)
            ]
            h_BTH = torch.relu(norm(torch.cat(pieces, 1).transpose(1, 2)))
        return h_BTH


def _recurrent(settings: ReaderSettings, inputs: int) -> Recurrent | RecurrentBlocks:
    sizes = cells()[settings.encoder], inputs, settings.hidden, settings.layers
    both, dropout = settings.bidirectional, settings.dropout
    if settings.stack == "residual":
        return RecurrentBlocks(*sizes, bidirectional=both, feed=settings.feed, dropout=dropout)
    return Recurrent(*sizes, batch_first=True, bidirectional=both, dropout=dropout if settings.layers > 1 else 0.0)


# Fresh gates that remember for as long as a task needs: chrono initialisation (Tallec and Ollivier 2018).
#
#     b_keep = log u,   u uniform in [1, M - 1]         a gate sigmoid(b) keeps a memory for about u steps
#     b_new  = -log u                                   what an LSTM takes in is as little
#
# M is the longest memory in steps. Cells that are linear in their state are stacked deep and work at all scales at
# once: their memories are spread evenly on a logarithmic scale from 1 to M.


_RATE = "log_rate"  # of a cell whose memory does not depend on its input


def remembers(cell: Cell) -> bool:
    """Whether a cell has something that keeps its memory."""
    gate = cell.memory_gate
    return _RATE in cell.shapes() or (gate is not None and "bias_ih" in cell.shapes())


def lengthen_memory(stack: Recurrent, steps: int) -> None:
    """Draw the biases of all cells of a stack so that their memories last from 1 to `steps` steps."""
    if steps < 2:
        raise OptionError(f"memory is {steps}; expected 0 (as the cell has it) or at least 2 steps")
    for lane in stack.lanes:
        cell, weights = lane.cell, dict(stack.lane_weights(lane))
        if not remembers(cell):
            raise OptionError(f"memory is {steps}, and the cell {cell.name!r} has no gate that keeps; try memory=0")
        with torch.no_grad():
            log_H = torch.linspace(0.0, math.log(steps), cell.hidden_size)
            if _RATE in weights:
                weights[_RATE].copy_(-log_H)
            else:
                if not cell.linear:
                    log_H = torch.empty(cell.hidden_size).uniform_(1.0, max(2.0, steps - 1.0)).log()
                _fill(cell, weights, log_H)


def _fill(cell: Cell, weights: dict[str, Tensor], log_H: Tensor) -> None:
    gate = cell.memory_gate
    signs = {} if gate is None else {gate.name: 1.0 if gate.keeps else -1.0}
    if "forget" in signs:
        signs["input"] = -1.0
    for name, sign in signs.items():
        if name in cell.blocks:  # a coupled LSTM forgets by what it takes in
            rows = cell.rows(name)
            weights["bias_ih"][rows] = sign * log_H.to(weights["bias_ih"])
            if "bias_hh" in weights:
                weights["bias_hh"][rows] = 0.0

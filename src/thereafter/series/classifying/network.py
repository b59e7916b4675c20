"""One label for a whole series of numbers: read by recurrent layers or by convolutions, and pooled into one vector.

    x_t = [z_t, seen_t]                    scaled values, 0 where one is missing, and which of them are seen
    h_t = [forward, backward](x)_t         or  h = relu(norm(convolutions of widths 3, 7, 15 over x)), layer by layer,
                                           or  recurrent layers in residual blocks (`layers/blocks.py`)
    v   = pooled over t (`layers/blocks.py`)
    p(label | series) = softmax(W v + b)

`seen` is read only where the training series have gaps. `evidence` says which steps support a label: the gradient of
its score in the values of each step, times these (Simonyan, Vedaldi and Zisserman 2014).

Shapes: B rows, T steps, C channels, I numbers of a step, H features, K labels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from thereafter.cells.base import Cell
from thereafter.errors import OptionError
from thereafter.layers.blocks import Pooling, RecurrentBlocks
from thereafter.layers.recurrent import Recurrent
from thereafter.models.task_net import TaskNet
from thereafter.series.classifying.settings import CONVOLUTION, ReaderSettings
from thereafter.series.forecasters.settings import cells

_WIDTHS = (3, 7, 15)


@dataclass(frozen=True)
class SeriesBatch:
    """Rows of steps, scaled; values that are missing are 0 and False in `seen`. `labels_B` is None where asked for."""

    values_BTC: Tensor
    seen_BTC: Tensor
    lengths_B: Tensor
    labels_B: Tensor | None = None

    def __len__(self) -> int:
        return len(self.values_BTC)

    def to(self, device: torch.device) -> SeriesBatch:
        """The same on another device; lengths stay where the host can read them."""
        labels_B = None if self.labels_B is None else self.labels_B.to(device)
        return replace(
            self, values_BTC=self.values_BTC.to(device), seen_BTC=self.seen_BTC.to(device), labels_B=labels_B
        )

    @property
    def ragged_B(self) -> Tensor | None:
        """The lengths of the rows; None where all are full."""
        return self.lengths_B if bool((self.lengths_B < self.values_BTC.shape[1]).any()) else None

    def places(self) -> dict[str, Tensor] | None:
        if self.labels_B is None or self.ragged_B is not None:  # lengths are read by the host
            return None
        return {"values": self.values_BTC, "seen": self.seen_BTC, "labels": self.labels_B}

    def over(self, places: Mapping[str, Tensor]) -> SeriesBatch:
        return SeriesBatch(places["values"], places["seen"], self.lengths_B, places["labels"])


class SeriesClassifier(TaskNet[SeriesBatch]):
    """See the module's equations."""

    def __init__(self, settings: ReaderSettings, *, channels: int, labels: int, gaps: bool) -> None:
        super().__init__()
        if labels < 2:
            raise OptionError(f"the classifier has {labels} label to choose from; expected at least 2")
        self.settings, self.gaps = settings, gaps
        inputs = 2 * channels if gaps else channels
        if settings.encoder == CONVOLUTION:
            self.reader: nn.Module = _StepConvolutions(settings, inputs)
            width = forward = settings.hidden * len(_WIDTHS)
        else:
            self.reader = (_blocks if settings.stack == "residual" else _recurrent)(settings, inputs)
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
                for width, convolution in zip(_WIDTHS, _listed(convolutions), strict=True)
            ]
            h_BTH = torch.relu(norm(torch.cat(pieces, 1).transpose(1, 2)))
        return h_BTH


def _listed(modules: nn.Module) -> list[nn.Module]:
    return list(modules.children())


def _blocks(settings: ReaderSettings, inputs: int) -> RecurrentBlocks:
    return RecurrentBlocks(
        cells()[settings.encoder],
        inputs,
        settings.hidden,
        settings.layers,
        bidirectional=settings.bidirectional,
        feed=settings.feed,
        dropout=settings.dropout,
    )


def _recurrent(settings: ReaderSettings, inputs: int) -> Recurrent:
    return Recurrent(
        cells()[settings.encoder],
        inputs,
        settings.hidden,
        settings.layers,
        batch_first=True,
        bidirectional=settings.bidirectional,
        dropout=settings.dropout if settings.layers > 1 else 0.0,
    )


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
            if _RATE in weights:
                weights[_RATE].copy_(-_log_spread(cell.hidden_size, steps))
            else:
                _fill(cell, weights, _log_spread(cell.hidden_size, steps) if cell.linear else _log_drawn(cell, steps))


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


def _log_spread(units: int, steps: int) -> Tensor:
    return torch.linspace(0.0, math.log(steps), units)


def _log_drawn(cell: Cell, steps: int) -> Tensor:
    return torch.empty(cell.hidden_size).uniform_(1.0, max(2.0, steps - 1.0)).log()

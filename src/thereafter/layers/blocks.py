"""Recurrent layers in residual blocks: a deep stack whose layers may be linear in their states.

    x = W u + b                              once, where the input has another size
    x = x + recurrent(norm(x))               in every block
    x = x + feed(norm(x))                    plain: W2 gelu(W1 x);   gated: W3 (silu(W1 x) * W2 x)   (Shazeer 2020)
    y = norm(x)                              once, at the end

A linear cell mixes steps and not units, and is no function but a linear one; the feed-forward layers between do both.
So are stacks of state-space models built (Gu et al. 2022, S4; Orvieto et al. 2023, LRU) and those of minGRU (Feng et
al. 2024). Norms before a layer: Xiong et al. 2020.

Shapes: B rows, T steps, I inputs, H features (of both directions).
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from thereafter.layers.recurrent import Recurrent

FEEDS = ("gated", "plain", "none")
_WIDER = 2  # the inner size of a feed-forward layer, in sizes of a block


class RecurrentBlocks(nn.Module):
    """x_BTI and the lengths of the rows in, y_BTH out. What stands beyond a row's end reaches nothing inside it."""

    def __init__(
        self, cell: str, inputs: int, hidden: int, blocks: int, *, bidirectional: bool, feed: str, dropout: float
    ) -> None:
        super().__init__()
        size = 2 * hidden if bidirectional else hidden
        self.into = nn.Linear(inputs, size)
        self.blocks = nn.ModuleList(
            RecurrentBlock(cell, size, hidden, bidirectional=bidirectional, feed=feed, dropout=dropout)
            for _ in range(blocks)
        )
        self.norm = nn.LayerNorm(size)

    def forward(self, x_BTI: Tensor, lengths_B: Tensor | None) -> Tensor:
        x_BTH: Tensor = self.into(x_BTI)
        for block in self.blocks:
            x_BTH = block(x_BTH, lengths_B)
        y_BTH: Tensor = self.norm(x_BTH)
        return y_BTH


class RecurrentBlock(nn.Module):
    """One block, of `size` features in and out."""

    def __init__(self, cell: str, size: int, hidden: int, *, bidirectional: bool, feed: str, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.norm = nn.LayerNorm(size)
        self.recurrent = Recurrent(cell, size, hidden, batch_first=True, bidirectional=bidirectional)
        self.feed = None if feed == "none" else StepwiseLayer(size, _WIDER * size, gated=feed == "gated")
        self.norm_feed = None if feed == "none" else nn.LayerNorm(size)

    def forward(self, x_BTH: Tensor, lengths_B: Tensor | None) -> Tensor:
        y_BTH, _ = self.recurrent(self.norm(x_BTH), lengths=lengths_B)
        x_BTH = x_BTH + F.dropout(y_BTH, self.dropout, self.training)
        if self.feed is not None and self.norm_feed is not None:
            x_BTH = x_BTH + F.dropout(self.feed(self.norm_feed(x_BTH)), self.dropout, self.training)
        return x_BTH


class StepwiseLayer(nn.Module):
    """Step by step the same function of the features: `gated` or plain."""

    def __init__(self, size: int, inner: int, *, gated: bool) -> None:
        super().__init__()
        self.widen = nn.Linear(size, inner)
        self.gate = nn.Linear(size, inner) if gated else None
        self.narrow = nn.Linear(inner, size)

    def forward(self, x_BTH: Tensor) -> Tensor:
        wide = self.widen(x_BTH)
        inner = F.gelu(wide) if self.gate is None else F.silu(wide) * self.gate(x_BTH)
        y_BTH: Tensor = self.narrow(inner)
        return y_BTH

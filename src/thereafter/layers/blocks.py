"""Recurrent layers in residual blocks, a deep stack whose layers may be linear in their states; and its many steps
brought into one vector.

    x = W u + b                              once, where the input has another size
    x = x + recurrent(norm(x))               in every block
    x = x + feed(norm(x))                    plain: W2 gelu(W1 x);   gated: W3 (silu(W1 x) * W2 x)   (Shazeer 2020)
    y = norm(x)                              once, at the end

A linear cell mixes steps but not units, and is linear in its input; the feed-forward layers do the rest. Stacks
of state-space models (Gu et al. 2022, S4; Orvieto et al. 2023, LRU) and of minGRU (Feng et al. 2024) are built like
this. Norms before a layer: Xiong et al. 2020.

Many steps into one vector (`Pooling`): the last features, their mean, their maximum, or a learned weighting.

    last         forward features at the end of the row, backward ones at its beginning
    mean, max    over the steps inside the row
    attention    sum_t a_t h_t,  a_t = softmax_t(u . tanh(A h_t + b))                              (Yang et al. 2016)
    concat       [last, max, mean]                                                        (Howard and Ruder 2018)

Shapes: B rows, T steps, I inputs, H features (of both directions).
"""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from thereafter.layers.inputs import Sizes
from thereafter.layers.recurrent import Extras, Recurrent

FEEDS = ("gated", "plain", "none")
_WIDER = 2  # the inner size of a feed-forward layer, in sizes of a block


def locked_layers(
    cell: str,
    inputs: int,
    sizes: Sizes,
    dropout: float,
    *,
    layers: int = 1,
    bidirectional: bool = False,
    **extras: Unpack[Extras],
) -> Recurrent:
    """Recurrent layers over rows; the dropout between them, if there are several, keeps one mask for all steps.

    `sizes`: one for all `layers`, or a list with one for each.
    """
    count = layers if isinstance(sizes, int) else len(sizes)
    options: Extras = {**extras, "locked": True}
    between = dropout if count > 1 else 0.0
    return Recurrent(
        cell, inputs, sizes, count, batch_first=True, dropout=between, bidirectional=bidirectional, **options
    )


class RecurrentBlocks(nn.Module):
    """x_BTI and the lengths of the rows in, y_BTH out. Content beyond a row's end affects nothing inside it."""

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


POOLINGS = ("last", "mean", "max", "attention", "concat")


class Pooling(nn.Module):
    """h_BTH and the lengths of the rows in, one vector [B, size] and the share of every step in it [B, T] out.

    Without lengths all rows are full. `forward_size`: how many of the features run forward; the rest run backward.
    """

    def __init__(self, kind: str, features: int, forward_size: int) -> None:
        super().__init__()
        self.kind, self.forward_size = kind, forward_size
        self.size = 3 * features if kind == "concat" else features
        self.attention = nn.Linear(features, features) if kind == "attention" else None
        self.attended = nn.Linear(features, 1, bias=False) if kind == "attention" else None

    def forward(self, h_BTH: Tensor, lengths_B: Tensor | None) -> tuple[Tensor, Tensor]:
        if lengths_B is None:
            lengths_B = torch.full((len(h_BTH),), h_BTH.shape[1], device=h_BTH.device)
        lengths_B = lengths_B.to(h_BTH.device)
        inside_BT = torch.arange(h_BTH.shape[1], device=h_BTH.device) < lengths_B[:, None]
        if self.kind == "concat":
            parts = (self._last(h_BTH, lengths_B), largest_of(h_BTH, inside_BT), self._weighted(h_BTH, inside_BT))
            vectors, shares = zip(*parts, strict=True)
            return torch.cat(vectors, 1), torch.stack(shares).mean(0)
        if self.kind == "last":
            return self._last(h_BTH, lengths_B)
        return largest_of(h_BTH, inside_BT) if self.kind == "max" else self._weighted(h_BTH, inside_BT)

    def _weighted(self, h_BTH: Tensor, inside_BT: Tensor) -> tuple[Tensor, Tensor]:
        """The sum over the steps by their weights, which are equal unless they are learned."""
        if self.attention is not None and self.attended is not None:
            score_BT = self.attended(torch.tanh(self.attention(h_BTH))).squeeze(-1)
            share_BT = score_BT.masked_fill(~inside_BT, -torch.inf).softmax(-1)
        else:
            share_BT = inside_BT.to(h_BTH.dtype) / inside_BT.sum(1, keepdim=True)
        return (share_BT[..., None] * h_BTH).sum(1), share_BT

    def _last(self, h_BTH: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor]:
        rows_B = torch.arange(len(h_BTH), device=h_BTH.device)
        size, both = h_BTH.shape[2], h_BTH.shape[2] > self.forward_size
        v_BH = h_BTH[rows_B, lengths_B - 1, : self.forward_size]
        share_BT = torch.zeros_like(h_BTH[..., 0])
        share_BT = share_BT.scatter(1, lengths_B[:, None] - 1, self.forward_size / size)
        if both:
            v_BH = torch.cat((v_BH, h_BTH[:, 0, self.forward_size :]), 1)
            share_BT[:, 0] = share_BT[:, 0] + (1 - self.forward_size / size)
        return v_BH, share_BT


def largest_of(h_BTH: Tensor, inside_BT: Tensor) -> tuple[Tensor, Tensor]:
    """The maximum of each feature over a row, and the share of the features that come from each step."""
    v_BH, place_BH = h_BTH.masked_fill(~inside_BT[..., None], -torch.inf).max(1)
    # counted by comparing: scatter_add would sort first on a GPU, to add in a fixed order
    steps_T1 = torch.arange(h_BTH.shape[1], device=h_BTH.device).unsqueeze(1)
    given_BT = torch.eq(place_BH.unsqueeze(1), steps_T1).sum(2).to(v_BH.dtype)
    return v_BH, given_BT / v_BH.shape[1]

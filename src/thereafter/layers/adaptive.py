"""The adaptive softmax: frequent words cost much, rare ones little.

Shapes: N tokens, V words, H features, S words of the short list, K clusters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from thereafter.errors import OptionError, ShapeError
from thereafter.kernels.chain import pick_rows
from thereafter.layers.heads import check_places
from thereafter.layers.softmax import draw, rows_at_once, softmax_nll, wide_log_softmax


class AdaptiveSoftmax(nn.Module):
    """Words sorted by frequency: a short list, and clusters that are looked into only where they are meant.

        p(w) = p_head(w)                               for the S words of the short list
        p(w) = p_head(cluster i) p_i(w)                for the others,  p_i = softmax(W_i P_i f)

    P_i takes the features down to H / shrink^i: rare words get few parameters (Grave et al. 2017, Efficient softmax
    approximation for GPUs). `cutoffs`: the rank at which each cluster begins. `counts`: how often each word was seen;
    without them ids are taken for ranks.

    >>> head = AdaptiveSoftmax(8, 20, cutoffs=(5, 10))
    >>> head.log_prob(torch.zeros(1, 8)).exp().sum().round(decimals=5).item()
    1.0
    """

    rank_V: Tensor

    def __init__(
        self,
        features: int,
        words: int,
        cutoffs: Sequence[int],
        counts: Tensor | None = None,
        *,
        shrink: float = 4.0,
        chunk: int | None = None,
    ) -> None:
        super().__init__()
        if list(cutoffs) != sorted(set(cutoffs)) or (cutoffs and not 0 < cutoffs[0] <= cutoffs[-1] < words):
            raise OptionError(
                f"cutoffs are {tuple(cutoffs)}; expected rising ranks from 1 to below the {words} words; "
                f"try ({max(1, words // 20)}, {max(2, words // 4)})"
            )
        if counts is not None and len(counts) != words:
            raise ShapeError(f"there are {len(counts)} counts; expected one for each of {words} words")
        self.features, self.words, self.chunk = features, words, chunk
        self.ends = (*cutoffs, words)
        order_V = torch.arange(words) if counts is None else torch.argsort(counts, descending=True, stable=True)
        self.register_buffer("rank_V", torch.empty_like(order_V).scatter_(0, order_V, torch.arange(words)))
        self.weight = _drawn(self.ends[0] + len(cutoffs), features)
        self.bias = nn.Parameter(torch.zeros(len(self.weight)))
        narrow = [max(1, int(features / shrink ** (i + 1))) for i in range(len(cutoffs))]
        sizes = [end - begin for begin, end in zip(self.ends, self.ends[1:], strict=False)]
        self.down = nn.ParameterList(_drawn(size, features) for size in narrow)
        self.out = nn.ParameterList(_drawn(size, low) for size, low in zip(sizes, narrow, strict=True))

    def nll(self, f_NH: Tensor, targets_N: Tensor, table_RH: Tensor | None = None) -> Tensor:
        """-log p of each target, [N]; there is no matrix to share."""
        nll_N, inside = self._parts(f_NH, targets_N)
        for index, nll in inside:
            nll_N = nll_N.index_add(0, index, nll)
        return nll_N

    def total(self, f_NH: Tensor, targets_N: Tensor, table_RH: Tensor | None = None) -> Tensor:
        """The sum of `nll`, each part summed by itself, so that its gradients are computed in one pass."""
        nll_N, inside = self._parts(f_NH, targets_N, mean_of=max(1, len(f_NH)))
        return nll_N.sum() + sum(nll.sum() for _, nll in inside)

    def _parts(self, f_NH: Tensor, targets_N: Tensor, mean_of: int = 1) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """What the head pays for each token, and for each cluster its tokens and what they pay inside it."""
        rank_N = self.rank_V[targets_N]
        first_N, inside = rank_N, []
        for i, (begin, end) in enumerate(zip(self.ends, self.ends[1:], strict=False)):
            meant_N = (rank_N >= begin) & (rank_N < end)
            first_N = first_N.masked_fill(meant_N, self.ends[0] + i)
            index = meant_N.nonzero().squeeze(1)
            if len(index):
                down = F.linear(pick_rows(f_NH, index), self.down[i])
                own = rank_N.index_select(0, index) - begin
                inside.append(
                    (index, softmax_nll(down, self.out[i], None, own, end - begin, self.chunk, mean_of=mean_of))
                )
        return softmax_nll(f_NH, self.weight, self.bias, first_N, len(self.weight), self.chunk, mean_of=mean_of), inside

    def log_prob_of(self, f_NH: Tensor, targets_N: Tensor) -> Tensor:
        """log p of each target, [N], without gradients."""
        with torch.no_grad():
            return -self.nll(f_NH, targets_N)

    def log_prob(self, f_NH: Tensor) -> Tensor:
        """log p of every word, [N, V]."""
        short = self.ends[0]
        head = wide_log_softmax(F.linear(f_NH, self.weight, self.bias))
        parts = [head[:, :short]]
        for i, (down, out) in enumerate(zip(self.down, self.out, strict=True)):
            inside = wide_log_softmax(F.linear(F.linear(f_NH, down), out))
            parts.append(inside + head[:, short + i : short + i + 1])
        return torch.cat(parts, dim=1).index_select(1, self.rank_V)

    @torch.no_grad()
    def sample(self, f_NH: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """A word for each place, [N]: first of the short list and the clusters, then of the cluster that was drawn."""
        check_places(f_NH, self.features)
        rows = rows_at_once(len(f_NH), len(self.weight), self.chunk, f_NH.device.type)
        pieces = torch.split(f_NH, rows)
        first_N = torch.cat([draw(wide_log_softmax(F.linear(f, self.weight, self.bias)), generator) for f in pieces])
        rank_N = first_N.clone()
        for i, (down, out) in enumerate(zip(self.down, self.out, strict=True)):
            index = torch.eq(first_N, self.ends[0] + i).nonzero().squeeze(1)
            size = rows_at_once(len(index), len(out), self.chunk, f_NH.device.type)
            for part in torch.split(index, size):
                inside = wide_log_softmax(F.linear(F.linear(f_NH.index_select(0, part), down), out))
                rank_N[part] = self.ends[i] + draw(inside, generator)
        return torch.argsort(self.rank_V).index_select(0, rank_N)

    def extra_repr(self) -> str:
        return f"{self.features}, {self.words}, cutoffs={self.ends[:-1]}"


def _drawn(rows: int, columns: int) -> nn.Parameter:
    bound = 1 / math.sqrt(columns)
    return nn.Parameter(torch.empty(rows, columns).uniform_(-bound, bound))

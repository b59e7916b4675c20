"""A causal Transformer block.

Shapes: B rows, T new tokens, N tokens in sight (those read before and the new), H features, K heads, D = H / K.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from thereafter.errors import OptionError
from thereafter.layers.attention import attend


@dataclass(frozen=True)
class Sight:
    """Which of N tokens each of T new ones may look at, the same for all blocks.

    Row b has read `lengths[b]` tokens, left-aligned; the new ones come after them. Where these are equal for all rows,
    one mask (or none) serves all, and torch may choose its fastest way.
    """

    position_BT: Tensor
    alike: int | None
    allowed: Tensor | None

    @classmethod
    def of(cls, lengths: list[int], steps: int, device: torch.device) -> Sight:
        new_T = torch.arange(steps, device=device)
        if len(set(lengths)) <= 1:
            before = lengths[0] if lengths else 0
            if before == 0 or steps == 1:
                return cls(new_T.unsqueeze(0) + before, before, None)
            seen_N = torch.arange(before + steps, device=device)
            return cls(new_T.unsqueeze(0) + before, before, seen_N <= (new_T + before).unsqueeze(1))
        position_BT = torch.tensor(lengths, device=device).unsqueeze(1) + new_T
        seen_N = torch.arange(max(lengths) + steps, device=device)
        return cls(position_BT, None, (seen_N <= position_BT.unsqueeze(-1)).unsqueeze(1))

    def put(self, cached_BKND: Tensor, new_BKTD: Tensor) -> Tensor:
        """The keys or values of earlier tokens, with the new ones behind each row's own."""
        if self.alike is not None:
            return torch.cat([cached_BKND[:, :, : self.alike], new_BKTD], dim=2) if self.alike else new_BKTD
        rows, heads, _, size = new_BKTD.shape
        room = new_BKTD.new_zeros(rows, heads, self._seen, size)
        kept = min(cached_BKND.shape[2], self._seen)
        room[:, :, :kept] = cached_BKND[:, :, :kept]
        return room.scatter(2, self.position_BT[:, None, :, None].expand(-1, heads, -1, size), new_BKTD)

    @property
    def _seen(self) -> int:
        return 0 if self.allowed is None else self.allowed.shape[-1]


class CausalAttention(nn.Module):
    """softmax(q k^T / sqrt(D)) v for each head, over the token itself and those before it (Vaswani et al. 2017)."""

    def __init__(self, size: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        if size % heads:
            raise OptionError(f"the size is {size} and there are {heads} heads; expected a multiple")
        self.heads, self.dropout = heads, dropout
        self.into = nn.Linear(size, 3 * size)
        self.out = nn.Linear(size, size)

    def forward(
        self, x_BTH: Tensor, cache: tuple[Tensor, Tensor] | None, sight: Sight, weights: list[Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """The new tokens' outputs, and keys and values [B, K, N, D] with theirs.

        `cache`: the keys and values of earlier tokens. `weights` takes the attention [B, K, T, N].
        """
        rows, steps, size = x_BTH.shape
        q, k, v = self.into(x_BTH).view(rows, steps, 3, self.heads, size // self.heads).permute(2, 0, 3, 1, 4)
        if cache is not None:
            k, v = sight.put(cache[0], k), sight.put(cache[1], v)
        share = self.dropout if self.training else 0.0
        causal = sight.allowed is None and steps > 1
        y = attend(q, k, v, sight.allowed, dropout=share, causal=causal)
        if weights is not None:
            scores = q @ k.transpose(2, 3) / math.sqrt(size // self.heads)
            seen = torch.ones_like(scores, dtype=torch.bool).tril() if causal else sight.allowed
            weights.append((scores if seen is None else scores.masked_fill(~seen, -math.inf)).softmax(-1))
        return self.out(y.transpose(1, 2).reshape(rows, steps, size)), (k, v)


class Block(nn.Module):
    """Attention, then a feed-forward layer, each added to what it read.

    norm="pre":   x + f(norm(x))       trains without warm-up (Xiong et al. 2020)
    norm="post":  norm(x + f(x))       Vaswani et al. 2017
    """

    approximate = "none"
    """How gelu is computed: by erf, or "tanh" as GPT-2 does."""

    def __init__(self, size: int, heads: int, inner: int, *, norm: str = "pre", dropout: float = 0.0) -> None:
        super().__init__()
        if norm not in ("pre", "post"):
            raise OptionError(f"norm is {norm!r}; expected 'pre' or 'post'")
        self.pre = norm == "pre"
        self.attention = CausalAttention(size, heads, dropout)
        self.norm_attention, self.norm_forward = nn.LayerNorm(size), nn.LayerNorm(size)
        self.widen, self.narrow = nn.Linear(size, inner), nn.Linear(inner, size)
        self.dropout = dropout

    def initialise(self, layers: int) -> None:
        """Weights by fan-in and fan-out, biases 0; what is added to the stream is small in a deep stack."""
        for linear in (self.attention.into, self.attention.out, self.widen, self.narrow):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)
        if self.pre:
            with torch.no_grad():
                for linear in (self.attention.out, self.narrow):
                    linear.weight.mul_(1 / math.sqrt(2 * layers))

    def forward(
        self, x_BTH: Tensor, cache: tuple[Tensor, Tensor] | None, sight: Sight, weights: list[Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        read = self.norm_attention(x_BTH) if self.pre else x_BTH
        y_BTH, kept = self.attention(read, cache, sight, weights)
        x_BTH = x_BTH + F.dropout(y_BTH, self.dropout, self.training)
        x_BTH = x_BTH if self.pre else self.norm_attention(x_BTH)
        read = self.norm_forward(x_BTH) if self.pre else x_BTH
        y_BTH = self.narrow(
            F.dropout(F.gelu(self.widen(read), approximate=self.approximate), self.dropout, self.training)
        )
        x_BTH = x_BTH + F.dropout(y_BTH, self.dropout, self.training)
        return (x_BTH if self.pre else self.norm_forward(x_BTH)), kept

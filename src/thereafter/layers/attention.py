"""Attention of a decoder to an encoder's output: every word attends to the sentence again, not to one final state;
and a causal Transformer block.

    a_ts = softmax over s of score(q_t, h_s),      c_t = sum_s a_ts h_s

    dot:       score(q, h) = q . h                        Luong, Pham and Manning 2015
    bilinear:  score(q, h) = q . W h                      Luong, Pham and Manning 2015 ("general")
    additive:  score(q, h) = v . tanh(W1 q + W2 h)        Bahdanau, Cho and Bengio 2015

What does not depend on the query (W h, W2 h) is computed once per sentence: `keys`. All queries of a teacher-forced
sentence may come at once or one by one. Padding gets the weight 0, exactly.

`attend` is torch's fused attention with gradients that add in a fixed order. The gradients of q are sums over blocks of
keys, and torch's programs add these by atomic operations. Under its switch for deterministic algorithms they take a
fixed order, but only where that switch is strict, an error instead of a warning (ATen,
transformers/cuda/attention_backward.cu). During training it warns, since other operations have no such form. So it is
made strict while this one backward pass is launched: autograd runs it in a pass of its own.

Shapes: B rows, T queries or new tokens, N tokens in sight (those read before and the new), S places of the memory,
Q query size, M memory size, A inner size, H features, K heads, D = size / K. Padding of the memory may hold any finite
numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from thereafter.errors import OptionError, ShapeError, UnknownNameError
from thereafter.kernels.switches import CountedSwitch, apply_one, traced, transformed

KINDS = ("dot", "bilinear", "additive")

PIECE = 1 << 25
"""Numbers of [B, T, S, A] that additive scores compute at once (128 MB); more queries go in pieces, recomputed in the
backward pass, so that one long pair of sentences cannot fill the memory."""


class Attention(nn.Module):
    """Weights over a memory, and the mean of the memory under them.

    >>> look = Attention(2, 2, "dot")
    >>> memory = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [9.0, 9.0]]])
    >>> context, weights = look(torch.tensor([[0.0, 0.0]]), memory, mask_BS=torch.tensor([[True, True, False]]))
    >>> weights.tolist(), context.tolist()
    ([[0.5, 0.5, 0.0]], [[0.5, 0.5]])
    """

    def __init__(self, query_size: int, memory_size: int, kind: str = "additive", *, inner: int | None = None) -> None:
        super().__init__()
        if kind not in KINDS:
            raise UnknownNameError("attention", kind, KINDS)
        if kind == "dot" and query_size != memory_size:
            raise OptionError(
                f"queries have the size {query_size} and the memory {memory_size}; expected one size for both, since a "
                "dot product needs it; try 'bilinear'"
            )
        if inner is not None and kind != "additive":
            raise OptionError(f"inner is {inner} with {kind!r} attention, which has no inner layer; try 'additive'")
        self.kind, self.query_size, self.memory_size = kind, query_size, memory_size
        if kind == "bilinear":
            self.of_memory = nn.Linear(memory_size, query_size, bias=False)
        elif kind == "additive":
            size = query_size if inner is None else inner
            self.of_query = nn.Linear(query_size, size, bias=False)
            self.of_memory = nn.Linear(memory_size, size, bias=False)
            self.v_A = nn.Parameter(torch.empty(size).uniform_(-1 / math.sqrt(size), 1 / math.sqrt(size)))

    def keys(self, memory_BSM: Tensor) -> Tensor:
        """The key of each place of the memory, [B, S, Q] or [B, S, A]: once per sentence."""
        keys: Tensor = memory_BSM if self.kind == "dot" else self.of_memory(memory_BSM)
        return keys

    def forward(
        self, query: Tensor, memory_BSM: Tensor, keys: Tensor | None = None, mask_BS: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Contexts [B, T, M] and weights [B, T, S] of queries [B, T, Q]; without T for a single step, [B, Q].

        `keys`: those of this memory, if the caller has them. `mask_BS`: true where the memory is real; each row
        needs one such place.
        """
        if query.dim() not in (2, 3) or query.shape[-1] != self.query_size or memory_BSM.shape[-1] != self.memory_size:
            raise ShapeError(
                f"the query has the shape {tuple(query.shape)} and the memory {tuple(memory_BSM.shape)}; expected "
                f"[B, T, {self.query_size}] or [B, {self.query_size}] and [B, S, {self.memory_size}]"
            )
        _check_memory(query, memory_BSM, mask_BS)
        query_BTQ = query.unsqueeze(1) if query.dim() == 2 else query
        scores_BTS = self.scores(query_BTQ, self.keys(memory_BSM) if keys is None else keys)
        weights_BTS = masked_softmax(scores_BTS, mask_BS)
        context_BTM = weights_BTS.to(memory_BSM.dtype) @ memory_BSM
        if query.dim() == 2:
            return context_BTM.squeeze(1), weights_BTS.squeeze(1)
        return context_BTM, weights_BTS

    def scores(self, query_BTQ: Tensor, keys: Tensor) -> Tensor:
        """score(q_t, h_s), [B, T, S], before any mask."""
        if self.kind != "additive":
            return query_BTQ @ keys.transpose(1, 2)
        from_query_BTA = self.of_query(query_BTQ)
        rows, steps, size = from_query_BTA.shape
        at_once = max(1, PIECE // max(1, rows * keys.shape[1] * size))
        if steps <= at_once:
            return _additive(from_query_BTA, keys, self.v_A)
        pieces = from_query_BTA.split(at_once, 1)
        if not torch.is_grad_enabled():
            return torch.cat([_additive(piece, keys, self.v_A) for piece in pieces], 1)
        scores = [
            checkpoint(_additive, piece, keys, self.v_A, use_reentrant=False, preserve_rng_state=False)
            for piece in pieces
        ]
        return torch.cat(scores, 1)

    def extra_repr(self) -> str:
        return f"{self.query_size}, {self.memory_size}, {self.kind!r}"


class CrossAttention(nn.Module):
    """Several heads at once: softmax(q k^T / sqrt(D)) v of each, put side by side (Vaswani et al. 2017).

    Queries come from one sequence, keys and values from another; from the same one it is an encoder's own attention.

    >>> heads = CrossAttention(8, 2)
    >>> memory = torch.zeros(1, 5, 8)
    >>> heads(torch.zeros(1, 3, 8), heads.keys(memory)).shape
    torch.Size([1, 3, 8])
    """

    def __init__(self, size: int, heads: int, *, memory_size: int | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        if size % heads:
            raise OptionError(f"the size is {size} and there are {heads} heads; expected a multiple")
        self.heads, self.dropout = heads, dropout
        self.of_query = nn.Linear(size, size)
        self.of_memory = nn.Linear(size if memory_size is None else memory_size, 2 * size)
        self.out = nn.Linear(size, size)

    def keys(self, memory_BSM: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of the memory, [B, K, S, D] each: once per sentence."""
        rows, places, _ = memory_BSM.shape
        k, v = self.of_memory(memory_BSM).view(rows, places, 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        return k, v

    def forward(
        self,
        query_BTH: Tensor,
        keys: tuple[Tensor, Tensor],
        mask_BS: Tensor | None = None,
        weights: list[Tensor] | None = None,
    ) -> Tensor:
        """Outputs, [B, T, H]; `weights` takes [B, K, T, S]. `mask_BS` as in `Attention`."""
        k, v = keys
        rows, steps, size = query_BTH.shape
        _check_memory(query_BTH, k.transpose(1, 2), mask_BS)
        q = self.of_query(query_BTH).view(rows, steps, self.heads, -1).transpose(1, 2)
        seen = None if mask_BS is None else mask_BS[:, None, None, :]
        share = self.dropout if self.training else 0.0
        y = attend(q, k, v, seen, dropout=share)
        if weights is not None:
            weights.append(masked_softmax(q @ k.transpose(2, 3) / math.sqrt(size // self.heads), mask_BS))
        out: Tensor = self.out(y.transpose(1, 2).reshape(rows, steps, size))
        return out


def masked_softmax(scores: Tensor, mask_BS: Tensor | None) -> Tensor:
    """softmax over the last axis of [B, ..., S]; exactly 0 where the mask is false."""
    if mask_BS is None:
        return scores.softmax(-1)
    mask = mask_BS.view(mask_BS.shape[0], *[1] * (scores.dim() - 2), mask_BS.shape[1])
    return scores.masked_fill(~mask, -math.inf).softmax(-1)


def _additive(from_query_BTA: Tensor, keys_BSA: Tensor, v_A: Tensor) -> Tensor:
    # tanh in place: half the memory, and the backward pass needs only the result
    return (from_query_BTA.unsqueeze(2) + keys_BSA.unsqueeze(1)).tanh_() @ v_A


def _check_memory(query: Tensor, memory_BSX: Tensor, mask_BS: Tensor | None) -> None:
    if memory_BSX.dim() < 3 or len(query) != len(memory_BSX) or not memory_BSX.shape[1]:
        raise ShapeError(
            f"the query has the shape {tuple(query.shape)} and the memory {tuple(memory_BSX.shape)}; expected as many "
            "rows in both, and at least one place to look at"
        )
    rows, places = memory_BSX.shape[:2]
    if mask_BS is None:
        return
    if mask_BS.dtype != torch.bool or mask_BS.shape != (rows, places):
        raise ShapeError(
            f"the mask is {mask_BS.dtype} of the shape {tuple(mask_BS.shape)}; expected true and false of the shape "
            f"({rows}, {places}), true where the memory is real; try mask.bool()"
        )
    # no check on a GPU, which would have to synchronise: there such a row becomes NaN, which training notices
    if mask_BS.device.type == "cpu" and not bool(mask_BS.any(1).all()):
        row = int((~mask_BS.any(1)).nonzero()[0])
        raise ShapeError(
            f"row {row} of the mask is false everywhere; expected at least one place to look at; "
            "try leaving empty sentences out"
        )


R = TypeVar("R")


def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *, dropout: float = 0.0, causal: bool = False
) -> Tensor:
    """softmax(q k^T / sqrt(D)) v, [B, K, T, D], of q [B, K, T, D] and k, v [B, K, S, D].

    `mask`: true where a key is seen. `causal`: a query sees the keys up to its own place.
    """
    learning = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)
    ordered = q.device.type == "cuda" and torch.are_deterministic_algorithms_enabled()
    if not learning or not ordered or traced() or transformed():
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal)
    return apply_one(_OrderedAttention, q, k, v, mask, dropout, causal)


class _Strictness(CountedSwitch):
    """The strict switch of the process."""

    def put_on(self) -> None:
        self._loose = torch.is_deterministic_algorithms_warn_only_enabled()
        _set_warn_only(False)

    def put_back(self) -> None:
        _set_warn_only(self._loose)


_STRICT = _Strictness()


def _set_warn_only(loose: bool) -> None:
    torch._C._set_deterministic_algorithms(torch.are_deterministic_algorithms_enabled(), warn_only=loose)


def _strictly(compute: Callable[[], R]) -> R:
    """The result of `compute` while the switch is strict.

    Heads of odd sizes go by matrix products, which a strict switch refuses where torch used the GPU before the
    environment was set (`training/numerics.py`); their order is fixed all the same.
    """
    try:
        with _STRICT:
            return compute()
    except RuntimeError as error:
        if "CuBLAS" not in str(error):
            raise
    return compute()


class _KeptAttention(Protocol):
    """What the gradients of attention need."""

    inputs: tuple[Tensor, Tensor, Tensor]
    y: Tensor | None


class _OrderedAttention(torch.autograd.Function):
    """See `attend`."""

    @staticmethod
    def forward(
        ctx: _KeptAttention, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float, causal: bool
    ) -> Tensor:
        ctx.inputs = (
            q.detach().requires_grad_(q.requires_grad),
            k.detach().requires_grad_(k.requires_grad),
            v.detach().requires_grad_(v.requires_grad),
        )
        with torch.enable_grad():  # cuDNN's attention, which has no order, is not chosen under a strict switch
            ctx.y = _strictly(
                lambda: F.scaled_dot_product_attention(*ctx.inputs, attn_mask=mask, dropout_p=dropout, is_causal=causal)
            )
        return ctx.y.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx: _KeptAttention, dy: Tensor) -> tuple[Tensor | None, ...]:
        learned = [tensor for tensor in ctx.inputs if tensor.requires_grad]
        if ctx.y is None:
            raise RuntimeError("the gradients of attention were requested a second time; expected once")
        y, ctx.y = ctx.y, None  # its saved tensors are free after this
        gradients = iter(_strictly(lambda: torch.autograd.grad(y, learned, dy, retain_graph=True)))
        return (*(next(gradients) if tensor.requires_grad else None for tensor in ctx.inputs), None, None, None)


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
        """The keys or values of earlier tokens, with the new ones after each row's own."""
        if self.alike is not None:
            return torch.cat([cached_BKND[:, :, : self.alike], new_BKTD], dim=2) if self.alike else new_BKTD
        rows, heads, _, size = new_BKTD.shape
        room = new_BKTD.new_zeros(rows, heads, self._seen, size)
        width = min(cached_BKND.shape[2], self._seen)
        room[:, :, :width] = cached_BKND[:, :, :width]
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
        y_BTH, cached = self.attention(read, cache, sight, weights)
        x_BTH = x_BTH + F.dropout(y_BTH, self.dropout, self.training)
        x_BTH = x_BTH if self.pre else self.norm_attention(x_BTH)
        read = self.norm_forward(x_BTH) if self.pre else x_BTH
        y_BTH = self.narrow(
            F.dropout(F.gelu(self.widen(read), approximate=self.approximate), self.dropout, self.training)
        )
        x_BTH = x_BTH + F.dropout(y_BTH, self.dropout, self.training)
        return (x_BTH if self.pre else self.norm_forward(x_BTH)), cached

"""torch's fused attention with gradients that add in a fixed order.

The gradients of q are sums over blocks of keys, and torch's programs add these by atomic operations. Under its switch
for deterministic algorithms they take a fixed order, but only where that switch is strict, an error instead of a
warning (ATen, transformers/cuda/attention_backward.cu). In a training it warns, since other operations have no such
form. So it is made strict for the time in which this one backward pass is launched: autograd is asked for it in a pass
of its own.

Shapes: B rows, K heads, T queries, S keys, D features of a head.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from thereafter.kernels.functions import apply_one, traced, transformed

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


class _Strictness:
    """The strict switch of the process. The first of several threads sets it, the last puts it back.

    Users are counted, not kept waiting: autograd may begin another backward pass in the thread that is inside.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._loose = False

    def __enter__(self) -> None:
        with self._lock:
            if not self._users:
                self._loose = torch.is_deterministic_algorithms_warn_only_enabled()
                _set_warn_only(False)
            self._users += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                _set_warn_only(self._loose)


_STRICT = _Strictness()


def _set_warn_only(loose: bool) -> None:
    torch._C._set_deterministic_algorithms(torch.are_deterministic_algorithms_enabled(), warn_only=loose)


def _strictly(compute: Callable[[], R]) -> R:
    """What `compute` gives while the switch is strict.

    Heads of odd sizes go by matrix products, which a strict switch refuses where torch used the GPU before the
    environment was set (`training/determinism.py`); their order is fixed all the same.
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
            raise RuntimeError("the gradients of attention were asked for a second time; expected once")
        y, ctx.y = ctx.y, None  # what it keeps is free after this
        gradients = iter(_strictly(lambda: torch.autograd.grad(y, learned, dy, retain_graph=True)))
        return (*(next(gradients) if tensor.requires_grad else None for tensor in ctx.inputs), None, None, None)

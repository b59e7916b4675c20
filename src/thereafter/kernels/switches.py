"""What operators lack, and switches of torch's own: types for parts of torch that have none (autograd's `apply`, the
backends), the states in which torch looks at no numbers, because it writes down what is computed or records it; and
oneDNN, which is part of torch.

What oneDNN has in lower precision on this processor is tried out once per process. torch hands bfloat16 to oneDNN
without asking whether there are instructions for it. Where there are none its LSTM is an error ("could not create a
primitive descriptor"). Its products may fail as well: then torch warns, takes its own and switches oneDNN off for the
rest of the process, so that all that is computed later, float32 included, has other bits.

In float32 it multiplies some rows with a large matrix that is laid out for them once, y = x W^T + b
(`multiply_rows`). torch's own product lays W out anew each time, which for up to some hundred rows costs as much as the
product itself. Rows are independent in oneDNN: a row gets the same bits whoever is beside it, as long as there are two
at least. (MKL rounds in another order where there are fewer than about 16.)

Shapes: B rows, I inputs, O outputs.
"""

from __future__ import annotations

import platform
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache
from threading import Lock
from types import TracebackType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def apply_one(function: type[torch.autograd.Function], *args: object) -> Tensor:
    """The one tensor that a function makes."""
    result: Tensor = function.apply(*args)  # type: ignore[no-untyped-call]
    return result


def apply_many(function: type[torch.autograd.Function], *args: object) -> tuple[Tensor, ...]:
    """The tensors that a function makes."""
    results: tuple[Tensor, ...] = function.apply(*args)  # type: ignore[no-untyped-call]
    return results


def traced() -> bool:
    """Whether torch is writing down what is computed, to compile or to export it: then numbers cannot be looked at."""
    return torch.compiler.is_compiling() or torch._C._is_tracing() or _written.get()


_written: ContextVar[bool] = ContextVar("thereafter_written", default=False)


@contextmanager
def _set(variable: ContextVar[bool]) -> Iterator[None]:
    token = variable.set(True)
    try:
        yield
    finally:
        variable.reset(token)


def writing_down() -> AbstractContextManager[None]:
    """Inside the block a network is written down by `export.onnx.tracing`: its tensors have no numbers."""
    return _set(_written)


_unread: ContextVar[bool] = ContextVar("thereafter_unread", default=False)


def leaving_unread() -> AbstractContextManager[None]:
    """Inside the block nobody looks at numbers on a GPU: a step is recorded, or will be."""
    return _set(_unread)


def is_unread(x: Tensor) -> bool:
    """Whether the numbers of a tensor cannot be looked at: torch writes down what is computed, or a graph does."""
    return traced() or (_unread.get() and x.device.type != "cpu")


def transformed() -> bool:
    """Whether torch.func (vmap, grad, jvp) or a forward derivative goes through what is computed: they know torch's own
    operators alone."""
    return torch._C._functorch.maybe_current_level() is not None or torch.autograd.forward_ad._current_level >= 0


def backends() -> Any:
    """`torch.backends`: its functions have no types, and its stubs take the switches for functions."""
    return torch.backends


RECORDING = Lock()
"""One CUDA graph is recorded at a time: torch records all graphs of a process on one stream; two threads that record
at once would take each other's kernels. Held from before the capture until its end; to replay a graph needs no lock."""


class CountedSwitch(ABC):
    """A switch of the whole process that several threads want on: the first of them puts it on, the last puts it back.

    Users are counted, not kept waiting: one may come in the thread of another that is inside.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0

    @abstractmethod
    def put_on(self) -> None:
        """Remember how it is, and put it on."""

    @abstractmethod
    def put_back(self) -> None:
        """As it was."""

    def __enter__(self) -> None:
        with self._lock:
            if not self._users:
                self.put_on()
            self._users += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                self.put_back()


_SIDE = 64  # of the matrices tried: torch does not ask oneDNN for small ones


def uses_onednn() -> bool:
    """Whether torch takes oneDNN where it can."""
    return bool(backends().mkldnn.is_available() and backends().mkldnn.enabled)


def switches_off(dtype: torch.dtype) -> bool:
    """Whether a product of this type would make torch switch oneDNN off."""
    return uses_onednn() and not _has_products(dtype)


@cache
def _has_products(dtype: torch.dtype) -> bool:
    with keeping_switch(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what torch has to say is what is asked here
        _try_products(dtype)
        return uses_onednn()


@contextmanager
def keeping_switch() -> Iterator[None]:
    """Afterwards oneDNN is on or off as it was, whatever torch has done to it inside."""
    switch = backends().mkldnn
    before = switch.enabled
    try:
        yield
    finally:
        switch.enabled = before


@contextmanager
def sparing_onednn(dtype: torch.dtype) -> Iterator[None]:
    """Inside, torch takes its own products from the first on where oneDNN has none of this type. Nothing changes half
    way through, and afterwards oneDNN is on or off as it was."""
    switch = backends().mkldnn
    with keeping_switch():
        if switches_off(dtype):
            switch.enabled = False
        yield


def onednn_status() -> str:
    """What is there in bfloat16 on this machine's CPU, in a few words."""
    if not uses_onednn():
        return "oneDNN is off; torch's own products run"
    if switches_off(torch.bfloat16):
        return "oneDNN has no products here (tried); a training in it takes torch's own"
    return "oneDNN's products run (tried)"


def _try_products(dtype: torch.dtype) -> None:
    """The three products of a linear layer, forward and backward."""
    with torch.inference_mode(False), torch.enable_grad(), torch.autocast("cpu", enabled=False):
        x, weight = (torch.ones(_SIDE, _SIDE, dtype=dtype, requires_grad=True) for _ in range(2))
        torch.autograd.grad(F.linear(x, weight).sum(), (x, weight))


def switch_onednn(on: bool) -> None:
    """Let torch compute with oneDNN, or without it, for the whole process."""
    backends().mkldnn.enabled = on


FEWEST, MOST = 1 << 18, 1 << 27
"""Numbers of a matrix: smaller ones are not worth the call, larger ones not a second copy in memory."""
_ROWS = 64
"""The number of rows the layout is chosen for."""


def can_pack_for_rows(weight_OI: Tensor) -> bool:
    """Whether a matrix can be laid out, and is of a size for which it pays."""
    return (
        FEWEST <= weight_OI.numel() <= MOST
        and weight_OI.dtype == torch.float32
        and weight_OI.device.type == "cpu"
        and uses_onednn()
        and _has_row_products()
    )


def pack_for_rows(weight_OI: Tensor) -> Tensor:
    """The matrix in oneDNN's own layout, for `multiply_rows` alone."""
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight_OI.detach().contiguous(), _ROWS)
    return packed


def multiply_rows(x_BI: Tensor, packed_OI: Tensor, bias_O: Tensor | None = None) -> Tensor:
    """x W^T + b, [B, O], without gradients."""
    y_BO: Tensor = torch.ops.mkldnn._linear_pointwise(x_BI, packed_OI, bias_O, "none", [], "")
    return y_BO


@cache
def _has_row_products() -> bool:
    """Whether torch has these products; on other processors than Intel's and AMD's they have not been measured."""
    names = ("_reorder_linear_weight", "_linear_pointwise")
    return platform.machine().lower() in ("x86_64", "amd64") and all(hasattr(torch.ops.mkldnn, name) for name in names)

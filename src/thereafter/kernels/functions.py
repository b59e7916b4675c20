"""What operators lack: types for parts of torch that have none (autograd's `apply`, the backends), and the states in
which torch looks at no numbers, because it writes down what is computed or records it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from types import TracebackType
from typing import Any

import torch
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
    return torch.compiler.is_compiling() or torch._C._is_tracing()


_unread: ContextVar[bool] = ContextVar("thereafter_unread", default=False)


@contextmanager
def leaving_unread() -> Iterator[None]:
    """Inside the block nobody looks at numbers on a GPU: a step is recorded, or will be."""
    token = _unread.set(True)
    try:
        yield
    finally:
        _unread.reset(token)


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

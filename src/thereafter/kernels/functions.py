"""Parts of torch that have no types of their own, behind functions that have: autograd's `apply`, the backends."""

from __future__ import annotations

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


def backends() -> Any:
    """`torch.backends`: its functions have no types, and its stubs take the switches for functions."""
    return torch.backends

"""The contract of distributions over numbers, and what follows from a quantile function.

Shapes: `...` are the elements, each with a distribution of its own; Q levels; B, H, D as in forecasting.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol, Self

import numpy as np
import torch
from torch import Tensor

_EDGE = 1e-7  # of a uniform draw: its 0 would be a quantile of minus infinity


class Distribution(Protocol):
    """A distribution for every element of a tensor; arithmetic is in float32 at least."""

    def log_prob(self, y: Tensor) -> Tensor:
        """log p of each element, with gradients."""

    def mean(self) -> Tensor:
        """The mean of each element."""

    def quantiles(self, levels_Q: Tensor) -> Tensor:
        """The values below which the shares `levels_Q` lie, [..., Q]."""

    def cdf(self, y: Tensor) -> Tensor:
        """The share of each distribution that is not above its y."""

    def inverse(self, share: Tensor) -> Tensor:
        """The value below which a share lies, one share for each element."""

    def sample(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Independent draws, [count, ...], without gradients."""

    def moved(self, offset: Tensor, scale: Tensor) -> Self:
        """The distribution of offset + scale y; `scale` is positive."""

    def viewed(self, shape: tuple[int, ...], keep: int) -> Self:
        """Elements [B, a b] seen as [B, a, b], of which the first `keep` of axis 1 stay: `viewed((H, D), h)`."""


class Elementwise(ABC):
    """What any distribution has whose quantile function is known."""

    @abstractmethod
    def inverse(self, share: Tensor) -> Tensor:
        """The value below which a share lies; shapes broadcast."""

    @abstractmethod
    def mean(self) -> Tensor:
        """The mean of each element."""

    @abstractmethod
    def each(self, change: Callable[[Tensor], Tensor]) -> Self:
        """The same with each of its tensors changed alike."""

    def quantiles(self, levels_Q: Tensor) -> Tensor:
        """The values below which the shares `levels_Q` lie, [..., Q]."""
        return self.each(lambda parameter: parameter.unsqueeze(-1)).inverse(levels_Q.to(self.mean()))

    def viewed(self, shape: tuple[int, ...], keep: int) -> Self:
        """Elements [B, a b] seen as [B, a, b], of which the first `keep` of axis 1 stay."""
        return self.each(lambda parameter: parameter.reshape(len(parameter), *shape, *parameter.shape[2:])[:, :keep])

    @torch.no_grad()
    def sample(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Independent draws, [count, ...]: quantiles of uniform shares."""
        mean = self.mean()
        share = torch.rand((count, *mean.shape), generator=generator, dtype=mean.dtype, device=mean.device)
        return self.inverse(share.clamp(_EDGE, 1 - _EDGE))


def in_float32(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Tensors of one shape in one type, float32 at least: half precision would not resolve a tail."""
    dtype = torch.float32
    for tensor in tensors:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return in_one_shape(*(tensor.to(dtype) for tensor in tensors))


def in_one_shape(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Tensors expanded to the shape that all of them fit."""
    shape = np.broadcast_shapes(*(tensor.shape for tensor in tensors))
    return tuple(tensor.expand(shape) for tensor in tensors)

"""A distribution from its values at a few levels, as quantile regression gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor

from thereafter.errors import ShapeError
from thereafter.series.distributions.base import Elementwise, in_float32, in_one_shape

_NARROW = 1e-4  # of the mean gap between two levels: values that coincide do not make a density infinite
_LEAST = 1e-8


class Quantiles(Elementwise):
    """Values q_1 <= ... <= q_Q below which the shares l_1 < ... < l_Q lie. Its quantile function is linear between two
    levels and exponential beyond the outer ones, with a density that does not jump there:

        q(s) = q_k + (s - l_k) (q_{k+1} - q_k) / (l_{k+1} - l_k)        l_k <= s <= l_{k+1}
        q(s) = q_1 + t log(s / l_1),    t = l_1 (q_2 - q_1) / (l_2 - l_1)        s < l_1, and above l_Q alike
        p(y) = 1 / q'(s) where q(s) = y

    Values [..., Q] that cross are sorted (Chernozhukov, Fernandez-Val and Galichon 2010). Each level is learned by the
    pinball loss, max(l (y - q), (l - 1) (y - q)) (Koenker and Bassett 1978). The mean is the integral of q.

    >>> levels, values = torch.tensor([0.25, 0.5, 0.75]), torch.tensor([[-1.0, 0.0, 1.0]])
    >>> Quantiles(levels, values).inverse(torch.tensor([0.625])).item()
    0.5
    """

    def __init__(self, levels_Q: Tensor, values: Tensor) -> None:
        if levels_Q.dim() != 1 or len(levels_Q) < 2 or values.shape[-1:] != levels_Q.shape:
            raise ShapeError(
                f"levels are {tuple(levels_Q.shape)} and values {tuple(values.shape)}; expected [Q] and [..., Q], with "
                "two levels or more"
            )
        (values,) = in_float32(values)
        self.levels_Q, self.values = levels_Q.to(values), values.sort(-1).values
        self._steps_G = self.levels_Q.diff()

    def log_prob(self, y: Tensor) -> Tensor:
        gaps, first, last = self._widths()
        place = self._place(y)
        inside = (self._steps_G[place] / _pick(gaps, place)).log()
        left, right = self.values[..., 0] - y, y - self.values[..., -1]
        below = (self.levels_Q[0] / first).log() - left / first
        above = ((1 - self.levels_Q[-1]) / last).log() - right / last
        return torch.where(left > 0, below, torch.where(right > 0, above, inside))

    def mean(self) -> Tensor:
        _, first, last = self._widths()
        inside = ((self.values[..., 1:] + self.values[..., :-1]) / 2 * self._steps_G).sum(-1)
        below = self.levels_Q[0] * (self.values[..., 0] - first)
        return inside + below + (1 - self.levels_Q[-1]) * (self.values[..., -1] + last)

    def cdf(self, y: Tensor) -> Tensor:
        gaps, first, last = self._widths()
        place = self._place(y)
        part = (y - _pick(self.values, place)) / _pick(gaps, place)
        inside = self.levels_Q[place] + self._steps_G[place] * part.clamp(0.0, 1.0)
        left, right = self.values[..., 0] - y, y - self.values[..., -1]
        below = self.levels_Q[0] * torch.exp(-left.clamp_min(0.0) / first)
        above = 1 - (1 - self.levels_Q[-1]) * torch.exp(-right.clamp_min(0.0) / last)
        return torch.where(left > 0, below, torch.where(right > 0, above, inside))

    def inverse(self, share: Tensor) -> Tensor:
        share, _ = in_one_shape(share.to(self.values), self.values[..., 0])
        values = self.values.expand(*share.shape, -1)
        _, first, last = self._widths()
        place = (torch.searchsorted(self.levels_Q, share.contiguous(), right=True) - 1).clamp(0, len(self._steps_G) - 1)
        low, high = _pick(values, place), _pick(values, place + 1)
        inside = low + (share - self.levels_Q[place]) / self._steps_G[place] * (high - low)
        lowest, highest = self.levels_Q[0], self.levels_Q[-1]
        below = values[..., 0] + first * torch.log(torch.minimum(share, lowest) / lowest)
        above = values[..., -1] - last * torch.log(torch.minimum(1 - share, 1 - highest) / (1 - highest))
        return torch.where(share < lowest, below, torch.where(share > highest, above, inside))

    def quantiles(self, levels_Q: Tensor) -> Tensor:
        wider = type(self)(self.levels_Q, self.values.unsqueeze(-2))
        return wider.inverse(levels_Q.to(self.values))

    def moved(self, offset: Tensor, scale: Tensor) -> Self:
        return type(self)(self.levels_Q, offset.unsqueeze(-1) + scale.unsqueeze(-1) * self.values)

    def _place(self, y: Tensor) -> Tensor:
        """The gap between two levels in which y lies, the nearest for one outside."""
        inner = self.values[..., 1:-1]
        return (y.unsqueeze(-1) >= inner).sum(-1)

    def _widths(self) -> tuple[Tensor, Tensor, Tensor]:
        """The gaps between values [..., Q - 1], none of them 0, and the scales of both tails [...]."""
        gaps = self.values.diff(dim=-1)
        whole = (self.values[..., -1:] - self.values[..., :1]).detach()
        rounding = torch.finfo(gaps.dtype).eps * self.values[..., :1].detach().abs()
        gaps = torch.maximum(gaps, _NARROW * whole / gaps.shape[-1] + rounding + _LEAST)
        first = self.levels_Q[0] * gaps[..., 0] / self._steps_G[0]
        return gaps, first, (1 - self.levels_Q[-1]) * gaps[..., -1] / self._steps_G[-1]

    def each(self, change: Callable[[Tensor], Tensor]) -> Self:
        return type(self)(self.levels_Q, change(self.values))


def _pick(values: Tensor, place: Tensor) -> Tensor:
    """Of each element its value at a place, [...]."""
    return values.expand(*place.shape, -1).gather(-1, place.unsqueeze(-1)).squeeze(-1)

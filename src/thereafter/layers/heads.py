"""What a head is, a distribution whose parameters are made of features; and the normal distribution, which is for
numbers what the softmax is for words.

A network is a reader (inputs to vectors), a body (vectors to features) and a head (features to a distribution over
what comes). Who trains asks a head for nats, who writes for a sample, who forecasts for quantiles; none of them needs
to know whether words or numbers come out.

Shapes: N places, V words, H features, D numbers at a place, Q levels. Targets are [N], with more axes behind where
several numbers stand at a place.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from thereafter.errors import OptionError, ShapeError


class Head(Protocol):
    """A distribution over what stands at each of N places, given features [N, H]."""

    features: int
    """H: how many numbers it is made of."""

    def nll(self, f_NH: Tensor, targets_N: Tensor, table_RH: Tensor | None = None) -> Tensor:
        """-log p of each target, [N], with gradients. `table_RH`: the reader's matrix, for a head that shares it."""

    def total(self, f_NH: Tensor, targets_N: Tensor, table_RH: Tensor | None = None) -> Tensor:
        """The sum of `nll`, whose mean is about to be made small."""

    def log_prob_of(self, f_NH: Tensor, targets_N: Tensor) -> Tensor:
        """log p of each target, [N], without gradients."""

    def sample(self, f_NH: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """A draw for each place, shaped as targets are; the same from generators in the same state."""


class WordHead(Head, Protocol):
    """A head over V words, all of whose probabilities can be listed."""

    words: int

    def log_prob(self, f_NH: Tensor) -> Tensor:
        """log p of every word, [N, V]."""


class QuantileHead(Head, Protocol):
    """A head over numbers, which can say below what a share of them lies."""

    def quantiles(self, f_NH: Tensor, levels_Q: Tensor) -> Tensor:
        """The numbers below which the shares `levels_Q` of the distribution lie, shaped as targets with Q behind."""


def check_places(f_NH: Tensor, features: int, targets: Tensor | None = None, behind: tuple[int, ...] = ()) -> None:
    """Features are [N, H] and targets, where there are any, [N] with the axes `behind`."""
    wrong = targets is not None and targets.shape != (*f_NH.shape[:1], *behind)
    if f_NH.dim() != 2 or f_NH.shape[1] != features or wrong:
        given = "" if targets is None else f" and targets {tuple(targets.shape)}"
        wanted = "" if targets is None else f" and [{', '.join(map(str, ('N', *behind)))}]"
        raise ShapeError(
            f"features are {tuple(f_NH.shape)}{given}; expected [N, {features}]{wanted}; try flatten(0, 1)"
        )


_HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


class Gaussian(nn.Module):
    """Mean and spread of a normal distribution, both linear in the features:

        [mu; log sigma] = W f + b,    y ~ Normal(mu, sigma^2)
        -log p(y) = log sigma + (y - mu)^2 / (2 sigma^2) + (1/2) log 2 pi

    (Nix and Weigend 1994, Estimating the mean and variance of the target probability distribution.) With sigma given as
    its logarithm no number has to be refused. `size`: D numbers at each place, independent of each other once the
    features are known, so that their nats add up; None for one number, with no axis of its own. Products follow
    autocast; the density is worked out in float32 at least.

    >>> head = Gaussian(4)
    >>> head.nll(torch.zeros(3, 4), torch.zeros(3))[0].item()  # a normal distribution of mean 0 and deviation 1 at 0
    0.9189385175704956
    """

    def __init__(self, features: int, size: int | None = None) -> None:
        super().__init__()
        if features < 1 or (size is not None and size < 1):
            raise OptionError(f"features is {features} and size is {size}; expected 1 or more")
        self.features, self.size = features, size
        bound = 1 / math.sqrt(features)
        self.weight = nn.Parameter(torch.empty(2 * (size or 1), features).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(2 * (size or 1)))

    def moments(self, f_NH: Tensor) -> tuple[Tensor, Tensor]:
        """mu and log sigma, each shaped as targets are: [N], or [N, D]."""
        check_places(f_NH, self.features)
        both = F.linear(f_NH, self.weight, self.bias)
        both = both.to(torch.promote_types(both.dtype, torch.float32))
        mean, log_sigma = both.chunk(2, dim=1)
        return (mean[:, 0], log_sigma[:, 0]) if self.size is None else (mean, log_sigma)

    def nll(self, f_NH: Tensor, targets_N: Tensor, table_RH: Tensor | None = None) -> Tensor:
        """-log p of each target, [N], the sum over its numbers; there is no matrix to share."""
        check_places(f_NH, self.features, targets_N, self._behind)
        mean, log_sigma = self.moments(f_NH)
        nats = log_sigma + 0.5 * ((targets_N - mean) * torch.exp(-log_sigma)).square() + _HALF_LOG_TAU
        return nats if self.size is None else nats.sum(1)

    def total(self, f_NH: Tensor, targets_N: Tensor, table_RH: Tensor | None = None) -> Tensor:
        """The sum of `nll`."""
        return self.nll(f_NH, targets_N).sum()

    @torch.no_grad()
    def log_prob_of(self, f_NH: Tensor, targets_N: Tensor) -> Tensor:
        """log p of each target, [N], without gradients."""
        return -self.nll(f_NH, targets_N)

    @torch.no_grad()
    def sample(self, f_NH: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """mu + sigma times a standard normal draw, [N] or [N, D]."""
        mean, log_sigma = self.moments(f_NH)
        drawn = torch.randn(mean.shape, generator=generator, dtype=mean.dtype, device=mean.device)
        return mean + torch.exp(log_sigma) * drawn

    def quantiles(self, f_NH: Tensor, levels_Q: Tensor) -> Tensor:
        """mu + sigma Phi^-1(level), [N, Q] or [N, D, Q]."""
        if levels_Q.dim() != 1 or not bool(((levels_Q > 0) & (levels_Q < 1)).all()):
            raise OptionError(f"levels are {levels_Q.tolist()}; expected shares between 0 and 1; try [0.1, 0.5, 0.9]")
        mean, log_sigma = self.moments(f_NH)
        standard_Q: Tensor = torch.special.ndtri(levels_Q.to(mean))
        return mean.unsqueeze(-1) + torch.exp(log_sigma).unsqueeze(-1) * standard_Q

    @property
    def _behind(self) -> tuple[int, ...]:
        return () if self.size is None else (self.size,)

    def extra_repr(self) -> str:
        return f"{self.features}, size={self.size}"

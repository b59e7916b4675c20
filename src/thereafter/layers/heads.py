"""What a head is: a distribution whose parameters are made of features.

A network is a reader (inputs to vectors), a body (vectors to features) and a head (features to a distribution over
what comes). Who trains asks a head for nats, who writes for a sample, who forecasts for quantiles; none of them needs
to know whether words or numbers come out.

Shapes: N places, V words, H features, Q levels. Targets are [N], with more axes behind where several numbers stand at
a place.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from thereafter.errors import ShapeError


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

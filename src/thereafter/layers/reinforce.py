"""Learning from a reward where what was chosen has no gradient: the score-function estimator (Williams 1992).

    grad E[R] = E[(R - b) grad log pi(a)]          for any b that does not depend on the choice a

b is learned to be the expected reward, which leaves the mean as it is and takes much of the variance:

    loss = -(R - b) log pi(a) + (R - b)^2          R - b without gradient in the first term

Places are drawn from a Gaussian of fixed deviation: log pi(l) = -|l - mean|^2 / (2 s^2), less what does not depend on
the mean. Shapes: any number of axes of choices; the last axis of a place is its coordinates.
"""

from __future__ import annotations

import torch
from torch import Tensor


def draw_around(mean: Tensor, deviation: float) -> Tensor:
    """A place from the Gaussian around each mean; without a gradient, as a choice."""
    fixed = mean.detach()
    return fixed + deviation * torch.randn_like(fixed)


def log_density(place: Tensor, mean: Tensor, deviation: float) -> Tensor:
    """log pi of a place up to a constant, summed over its coordinates; its gradient is in the mean alone.

    >>> log_density(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 0.0]), 0.5).item()
    -2.0
    """
    return -(place.detach() - mean).square().sum(-1) / (2 * deviation**2)


def reward_loss(log_pi: Tensor, reward: Tensor, baseline: Tensor) -> Tensor:
    """The loss of every choice, whose gradient raises the expected reward; b learns to expect it."""
    surprise = reward.detach() - baseline
    return -surprise.detach() * log_pi + surprise.square()

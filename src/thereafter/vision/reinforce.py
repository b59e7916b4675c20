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


def reward_loss(log_pi: Tensor, reward: Tensor, baseline: Tensor, credit: Tensor | None = None) -> Tensor:
    """The loss of every choice, whose gradient raises the expected reward; b learns to expect it.

    `credit`: what each choice is judged by in place of the reward (`passed_on`).
    """
    surprise = reward.detach() - baseline
    judged = surprise.detach() if credit is None else (credit - baseline).detach()
    return -judged * log_pi + surprise.square()


def draw_choice(z: Tensor) -> Tensor:
    """A number for each row of scores, drawn from their softmax: the largest of z + noise of Gumbel (1954)."""
    return (z.detach() - torch.empty_like(z).exponential_().log()).argmax(-1)


def log_chance(choice: Tensor, z: Tensor) -> Tensor:
    """log pi of choices under the softmax of scores.

    >>> round(log_chance(torch.tensor(1), torch.tensor([0.0, 0.0])).item(), 4)
    -0.6931
    """
    return z.log_softmax(-1).gather(-1, choice.unsqueeze(-1)).squeeze(-1)


def passed_on(reward_B: Tensor, expected_BT: Tensor, credit: float) -> Tensor:
    """The reward of every choice of an episode, [B, T], where one reward comes at its end (Schulman et al. 2016).

        G_T = R        G_t = (1 - c) b_{t+1} + c G_{t+1}

    With c = 1 that is R for all of them. Less takes noise from what comes later, and trusts b instead.
    """
    expected_BT, steps = expected_BT.detach(), expected_BT.shape[1]
    rewards = [reward_B.to(expected_BT.dtype)]
    for step in range(steps - 1, 0, -1):
        rewards.append((1 - credit) * expected_BT[:, step] + credit * rewards[-1])
    return torch.stack(rewards[::-1], 1)

"""What the books say of gradients through time: their rate, what stops an explosion, gates that keep, and cuts."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from thereafter import nn
from thereafter.training.weights import clip_gradients


def _with_radius(size: int, radius: float, seed: int, *, orthogonal: bool) -> Tensor:
    """A matrix of a given spectral radius: a scaled rotation, or a scaled draw of normal numbers."""
    draw = torch.Generator().manual_seed(seed)
    matrix = torch.randn(size, size, generator=draw, dtype=torch.float64)
    if orthogonal:
        return radius * torch.linalg.qr(matrix)[0]
    return matrix * (radius / float(torch.linalg.eigvals(matrix).abs().max()))


def rnn_rate(
    nonlinearity: str, radius: float, *, steps: int, size: int = 24, seed: int = 0, orthogonal: bool = True
) -> dict[str, float]:
    """How the gradient of the last state in an earlier one shrinks: its factor a step, and what U's norm allows.

    `rate` is taken over the second half of the way, where the start no longer counts; `bound` is the largest singular
    value of U, which no step of a tanh network can exceed.
    """
    torch.manual_seed(seed)
    rnn = nn.RNN(size, size, nonlinearity=nonlinearity, bias=False, dtype=torch.float64, kernel="reference")
    U = _with_radius(size, radius, seed, orthogonal=orthogonal)
    with torch.no_grad():
        rnn.weight_hh_l0.copy_(U)
    x = torch.randn(steps, 1, size, dtype=torch.float64)
    norms = []
    for back in (steps // 2, steps):  # d h_T / d h_{T-back}: the sequence begins at that state
        h = torch.zeros(1, 1, size, dtype=torch.float64, requires_grad=True)
        if nonlinearity != "identity":
            with torch.no_grad():
                h.copy_(0.1 * torch.randn_like(h))
        out, _ = rnn(x[-back:], h)
        weight = torch.randn(size, generator=torch.Generator().manual_seed(seed + 1), dtype=torch.float64)
        norms.append(float(torch.autograd.grad((out[-1, 0] * weight).sum() / weight.norm(), h)[0].norm()))
    half = steps - steps // 2
    return {
        "rate": (norms[1] / norms[0]) ** (1 / half),
        "whole": norms[1],
        "radius": float(torch.linalg.eigvals(U).abs().max()),
        "bound": float(torch.linalg.matrix_norm(U, 2)),
    }


def explosion(
    clipped: float, *, updates: int, steps: int = 25, size: int = 16, radius: float = 1.2, seed: int = 0
) -> dict[str, float]:
    """A linear network whose states explode, trained by plain SGD to say the sum of its inputs; `clipped` 0: never.

    Gives the first and the last loss, and the largest length of one update of the weights.
    """
    torch.manual_seed(seed)
    rnn = nn.RNN(1, size, nonlinearity="identity", batch_first=True, kernel="reference")
    head = torch.nn.Linear(size, 1)
    with torch.no_grad():
        rnn.weight_hh_l0.copy_(_with_radius(size, radius, seed, orthogonal=True))
    weights = [*rnn.parameters(), *head.parameters()]
    losses, jumps = [], []
    x = torch.randn(16, steps, 1)
    for _ in range(updates):
        out, _ = rnn(x)
        loss = (head(out[:, -1]).squeeze(-1) - x.sum((1, 2))).square().mean()
        gradients = list(torch.autograd.grad(loss, weights))
        _, divisor = clip_gradients(gradients, clipped)
        with torch.no_grad():
            moved = 0.0
            for weight, gradient in zip(weights, gradients, strict=True):
                step = -0.01 * (gradient if divisor is None else gradient / divisor)
                weight += step
                moved += float(step.square().sum())
        losses.append(loss.item())
        jumps.append(math.sqrt(moved) if math.isfinite(moved) else math.inf)
        if not math.isfinite(losses[-1]):
            break
    return {"first": losses[0], "last": losses[-1], "jump": max(jumps)}


def kept_through(bias: float, *, steps: int, size: int = 32, seed: int = 0) -> dict[str, float]:
    """The gradient of an LSTM's last c in its first, at fresh weights: measured, and as sigmoid(bias) alone has it."""
    torch.manual_seed(seed)
    lstm = nn.LSTM(size, size, forget_bias=bias, dtype=torch.float64, kernel="reference")
    x = 0.1 * torch.randn(steps, 1, size, dtype=torch.float64)
    h = torch.zeros(1, 1, size, dtype=torch.float64)
    c = torch.zeros(1, 1, size, dtype=torch.float64, requires_grad=True)
    _, (_, last) = lstm(x, (h, c))
    weight = torch.randn(size, generator=torch.Generator().manual_seed(seed + 1), dtype=torch.float64)
    gradient = torch.autograd.grad((last[0, 0] * weight).sum() / weight.norm(), c)[0]
    return {"measured": float(gradient.norm()), "rule": (1 / (1 + math.exp(-bias))) ** steps}


def weights_of(kind: Any, inputs: int, hidden: int, layers: int = 1) -> int:
    """How many weights the recurrent layers have, counted on the tensors."""
    return sum(weight.numel() for weight in kind(inputs, hidden, layers).parameters())


def missed_by_truncation(decay: float, cut: int, *, steps: int = 400) -> float:
    """The share of dL/da that a cut `cut` steps before the loss leaves out, for h_t = a h_{t-1} + 1 and L = h_T.

    With one number for a state the gradient is a sum over the way back, a^d h_{T-d-1}, and the cut keeps `cut` terms
    of it; far from the start h no longer changes, and what is missed is a^cut.
    """
    rnn = nn.RNN(1, 1, nonlinearity="identity", bias=False, dtype=torch.float64, kernel="reference")
    with torch.no_grad():
        rnn.weight_ih_l0.fill_(1.0)
        rnn.weight_hh_l0.fill_(decay)
    x = torch.ones(steps, 1, 1, dtype=torch.float64)

    def gradient(kept: int) -> float:
        with torch.no_grad():
            _, h = rnn(x[: steps - kept]) if kept < steps else (None, torch.zeros(1, 1, 1, dtype=torch.float64))
        _, last = rnn(x[steps - kept :], h)
        return float(torch.autograd.grad(last.sum(), rnn.weight_hh_l0)[0])

    return 1 - gradient(cut) / gradient(steps)

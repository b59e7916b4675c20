"""Warping and drawing over tensors, so that a GPU can go on without the host: the same rules as `warping.Warping` and
`sampling.draw`, for many rows at once.

Weights are float64, as on the host: from the same log probabilities and the same uniform numbers come the same tokens.

Shapes: B rows, V words that can be predicted.
"""

from __future__ import annotations

import torch
from torch import Tensor

from thereafter.decoding.warping import FARTHEST, Warping

NOTHING = -1
"""Stands for a token where nothing is possible."""


class DeviceDrawing:
    """Tokens of rows that share a warping; its operators ask the device for nothing.

    `seen_BV`: the words that pay the repetition penalty; what is drawn is added to them.
    """

    def __init__(self, warping: Warping, forbidden: tuple[int, ...], like_BV: Tensor) -> None:
        self.warping = warping
        self._any_forbidden = bool(forbidden)
        self.forbidden_V = torch.zeros(like_BV.shape[1], dtype=torch.bool)
        self.forbidden_V[list(forbidden)] = True
        self.forbidden_V = self.forbidden_V.to(like_BV.device)
        self.seen_BV: Tensor | None = None
        if warping.repetition_penalty != 1:
            self.seen_BV = torch.zeros_like(like_BV, dtype=torch.bool)

    def draw(self, logp_BV: Tensor, u_B: Tensor) -> Tensor:
        """A token for each row [B]; `NOTHING` where none is possible. `u_B`: uniform numbers, float64."""
        logs_BV = self._possible(logp_BV)
        best_B, token_B = logs_BV.max(dim=1)
        if self.warping.temperature > 0:
            token_B = place_of(self._weights(logs_BV, best_B.unsqueeze(1)), u_B)
        if self.seen_BV is not None:
            self.seen_BV.scatter_(1, token_B.unsqueeze(1), True)
        return token_B.masked_fill(torch.isneginf(best_B), NOTHING)

    def weights(self, logp_BV: Tensor) -> Tensor:
        """As `Warping.weights` for every row, [B, V] in float64."""
        logs_BV = self._possible(logp_BV)
        return self._weights(logs_BV, logs_BV.amax(dim=1, keepdim=True))

    def _possible(self, logp_BV: Tensor) -> Tensor:
        """Log probabilities after the penalty and without forbidden words."""
        logs_BV = logp_BV.double()
        if self.seen_BV is not None:
            penalty = self.warping.repetition_penalty
            scaled_BV = torch.where(logs_BV < 0, logs_BV * penalty, logs_BV / penalty).clamp(-FARTHEST, FARTHEST)
            logs_BV = torch.where(self.seen_BV & ~torch.isneginf(logs_BV), scaled_BV, logs_BV)
        if self._any_forbidden:
            logs_BV = logs_BV.masked_fill(self.forbidden_V, -torch.inf)
        return logs_BV

    def _weights(self, logs_BV: Tensor, best_B1: Tensor) -> Tensor:
        warping = self.warping
        if warping.top_k is not None and warping.top_k < logs_BV.shape[1]:
            logs_BV = logs_BV.masked_fill(~among_largest(logs_BV, warping.top_k), -torch.inf)
        weights_BV = ((logs_BV - best_B1) / warping.temperature).exp()
        if warping.top_p < 1:
            weights_BV = nucleus(weights_BV, warping.top_p)
        if warping.min_p > 0:
            weights_BV = weights_BV.masked_fill(weights_BV < warping.min_p, 0.0)
        return weights_BV


def among_largest(scores_BV: Tensor, k: int) -> Tensor:
    """Which words are the k largest of their row: exactly k of them, ties to the lower id."""
    least_B1 = scores_BV.topk(k, dim=1).values[:, -1:]
    above_BV, equal_BV = scores_BV > least_B1, scores_BV == least_B1
    room_B1 = k - above_BV.sum(1, keepdim=True)
    return above_BV | (equal_BV & (equal_BV.cumsum(1) <= room_B1))


def nucleus(weights_BV: Tensor, top_p: float) -> Tensor:
    """As `warping.keep_nucleus`: a word is kept if all likelier ones together do not reach `top_p`.

    All rows are sorted at once, as one row of keys 2 row - weight: torch sorts a few long rows one after the other.
    """
    rows = 2.0 * torch.arange(len(weights_BV), device=weights_BV.device, dtype=weights_BV.dtype).unsqueeze(1)
    order_N = (rows - weights_BV).flatten().sort(stable=True).indices
    ordered_BV = weights_BV.flatten().index_select(0, order_N).view_as(weights_BV)
    sums_BV = ordered_BV.cumsum(1)
    kept_BV = torch.ones_like(sums_BV, dtype=torch.bool)
    kept_BV[:, 1:] = sums_BV[:, :-1] < top_p * sums_BV[:, -1:]
    kept_N = torch.zeros_like(kept_BV).flatten().scatter(0, order_N, kept_BV.flatten())
    return weights_BV.masked_fill(~kept_N.view_as(weights_BV), 0.0)


def place_of(weights_BV: Tensor, u_B: Tensor) -> Tensor:
    """Where the share u of each row's weight is reached: as `sampling.draw`."""
    ends_BV = weights_BV.cumsum(1)
    goal_B1 = u_B.unsqueeze(1) * ends_BV[:, -1:]
    drawn_B = torch.searchsorted(ends_BV, goal_B1, right=True).squeeze(1)
    places_V = torch.arange(weights_BV.shape[1], device=weights_BV.device)
    last_B = (places_V * (weights_BV > 0)).amax(1)  # rounding at the very end of the line
    return torch.minimum(drawn_B, last_B)

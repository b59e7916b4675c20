"""A linear-chain CRF as a plain loop over its steps, in torch's own operators.

    reference of log Z, s(x, y), p(y_t = j | x) and the best sequence; `tasks/tag/chains.py` has their equations.

This is what the programs of `gpu/crf.py` mean. A step is a few operators over [B, K, K]. Everything has derivatives of
any order; nothing is read from a GPU but by `chain_path`, which walks back on the CPU.

Shapes: B rows, T steps, K tags; steps beyond a row's length may hold anything, NaN included.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from thereafter.kernels.switches import is_unread, transformed


class Chain(NamedTuple):
    """Scores of tags and of their transitions. `tags_BT`: the row's own; `counted_B`: a weight for each row.

    A row of the weight 0, or of the length 0 where there are weights, adds nothing, whatever it holds.
    """

    emissions_BTK: Tensor
    start_K: Tensor
    transition_KK: Tensor
    end_K: Tensor
    lengths_B: Tensor
    tags_BT: Tensor | None = None
    counted_B: Tensor | None = None


class ChainKernel(Protocol):
    """What computes a chain: the plain loop, or programs on a GPU."""

    def values(self, chain: Chain) -> Tensor:
        """log Z of each row, [B]; with tags log Z - s(x, tags), the row's -log p; times its weight."""

    def marginals(self, chain: Chain) -> Tensor:
        """p(y_t = j | x), [B, T, K], 0 beyond a row's end."""

    def path(self, chain: Chain) -> Tensor:
        """The tags of the highest score, [B, T], 0 beyond a row's end; among equal ones the first."""


class ChainRows(NamedTuple):
    """Emissions in float32 at least, 0 beyond each row's end; which steps are real; the place of the last real one; how
    exponentials are added along an axis."""

    e_BTK: Tensor
    real_BT: Tensor
    last_B: Tensor
    log_sum: Callable[[Tensor, int], Tensor]


def real_steps(chain: Chain) -> Tensor:
    """Which steps are real, [B, T]: none of a row that is not counted."""
    steps_T = torch.arange(chain.emissions_BTK.shape[1], device=chain.emissions_BTK.device)
    return steps_T < _counted_lengths(chain).unsqueeze(1)


def _counted_lengths(chain: Chain) -> Tensor:
    return chain.lengths_B if chain.counted_B is None else chain.lengths_B * (chain.counted_B != 0)


def _real_rows(chain: Chain) -> ChainRows:
    e_BTK, real_BT = chain.emissions_BTK, real_steps(chain)
    wide_BTK = e_BTK.to(torch.promote_types(e_BTK.dtype, torch.float32))
    real_BTK = wide_BTK.masked_fill(~real_BT.unsqueeze(-1), 0.0)
    return ChainRows(real_BTK, real_BT, _counted_lengths(chain) - 1, _log_sum_for(chain, real_BTK))


def chain_values(chain: Chain) -> Tensor:
    """log Z of each row, [B]; with tags log Z - s(x, tags), the row's -log p; times its weight."""
    rows = _real_rows(chain)
    value_B = _log_partition(chain, rows)
    if chain.tags_BT is not None:
        value_B = value_B - _score(chain, rows, chain.tags_BT)
    if chain.counted_B is not None:
        value_B = torch.where(rows.last_B >= 0, value_B * chain.counted_B.to(value_B.dtype), 0.0)
    return value_B


def chain_scores(chain: Chain, tags_BT: Tensor) -> Tensor:
    """s(x, tags) of each row, [B]."""
    return _score(chain, _real_rows(chain), tags_BT)


def chain_marginals(chain: Chain) -> Tensor:
    """p(y_t = j | x), [B, T, K], 0 beyond a row's end."""
    rows = _real_rows(chain)
    if not rows.e_BTK.numel():
        return rows.e_BTK
    log_p_BTK = _alpha(chain, rows) + _beta(chain, rows)
    # by each step's own sum, which is log Z at all of them but for the last bits
    return log_p_BTK.softmax(-1).masked_fill(~rows.real_BT.unsqueeze(-1), 0.0)


@torch.no_grad()
def chain_path(chain: Chain) -> Tensor:
    """The tags of the highest score, [B, T], 0 beyond a row's end; among equal ones the first."""
    rows = _real_rows(chain)
    if not rows.e_BTK.numel():
        return chain.lengths_B.new_zeros(rows.real_BT.shape, dtype=torch.int64)
    into_KK = chain.transition_KK.t()
    first, *others = rows.e_BTK.unbind(1)
    best_BK = chain.start_K + first
    ends, came_from = [best_BK], []
    for e_BK in others:
        best_BK, from_BK = (best_BK.unsqueeze(1) + into_KK).max(2)
        best_BK = best_BK + e_BK
        ends.append(best_BK)
        came_from.append(from_BK)
    final_B = (_at(torch.stack(ends, 1), rows.last_B) + chain.end_K).argmax(1)
    # walking back is many steps of very little each: nothing for a GPU
    last, tag = rows.last_B.cpu().numpy(), final_B.cpu().numpy()
    final, row = tag, np.arange(len(tag))
    path = [tag]
    back_TBK = torch.stack(came_from).cpu().numpy() if came_from else np.empty((0, *best_BK.shape), np.int64)
    for t in range(len(back_TBK) - 1, -1, -1):
        # a row joins at its own end; until then it holds its last tag
        tag = np.where(t < last, back_TBK[t][row, tag], final)
        path.append(tag)
    path_BT = torch.from_numpy(np.stack(path[::-1], axis=1)).to(rows.real_BT.device)
    return path_BT.masked_fill(~rows.real_BT, 0)


class ChainLoop:
    """See `ChainKernel`: an operator at a time, on any device, in any type."""

    values = staticmethod(chain_values)
    marginals = staticmethod(chain_marginals)
    path = staticmethod(chain_path)


def _score(chain: Chain, rows: ChainRows, tags_BT: Tensor) -> Tensor:
    if not rows.e_BTK.numel():
        return rows.e_BTK.new_zeros(len(tags_BT))
    tags_BT = tags_BT.long().masked_fill(~rows.real_BT, 0)
    e_BT = rows.e_BTK.gather(2, tags_BT.unsqueeze(2)).squeeze(2)
    step_BT = chain.transition_KK[tags_BT[:, :-1], tags_BT[:, 1:]].masked_fill(~rows.real_BT[:, 1:], 0.0)
    return chain.start_K[tags_BT[:, 0]] + e_BT.sum(1) + step_BT.sum(1) + chain.end_K[_at(tags_BT, rows.last_B)]


def _log_partition(chain: Chain, rows: ChainRows) -> Tensor:
    if not rows.e_BTK.numel():
        return rows.e_BTK.new_zeros(len(rows.e_BTK))
    return rows.log_sum(_at(_alpha(chain, rows), rows.last_B) + chain.end_K, 1)


def _alpha(chain: Chain, rows: ChainRows) -> Tensor:
    """alpha, [B, T, K]. Rows walk on beyond their end: nobody looks at what they find there."""
    into_KK = chain.transition_KK.t()  # what is added up lies side by side
    first, *others = rows.e_BTK.unbind(1)
    alphas = [chain.start_K + first]
    for e_BK in others:
        alphas.append(rows.log_sum(alphas[-1].unsqueeze(1) + into_KK, 2) + e_BK)
    return torch.stack(alphas, 1)


def _beta(chain: Chain, rows: ChainRows) -> Tensor:
    """beta, [B, T, K]: log of the weight of all ways on from tag j at step t; `end` at a row's last step."""
    emissions = rows.e_BTK.unbind(1)
    betas = [chain.end_K.to(rows.e_BTK.dtype).expand(len(rows.e_BTK), -1)]
    for t in range(len(emissions) - 2, -1, -1):
        on_BK = rows.log_sum(chain.transition_KK + (emissions[t + 1] + betas[-1]).unsqueeze(1), 2)
        betas.append(torch.where((t < rows.last_B).unsqueeze(1), on_BK, chain.end_K))
    return torch.stack(betas[::-1], 1)


def _log_sum_for(chain: Chain, real_BTK: Tensor) -> Callable[[Tensor, int], Tensor]:
    """log sum exp along an axis, along which there may be nothing but -inf where scores forbid a tag."""
    unseen = real_BTK.device.type != "cpu" or is_unread(real_BTK) or transformed()  # a GPU would have to be waited for
    scores = (real_BTK, chain.start_K, chain.transition_KK, chain.end_K)
    may_forbid = unseen or any(bool(score.isneginf().any()) for score in scores)
    return _log_sum_of_any if may_forbid else torch.logsumexp


def _log_sum_of_any(x: Tensor, axis: int) -> Tensor:
    """log sum exp whose gradient is 0 along what is nothing but -inf; that of torch is NaN."""
    empty = x.isneginf().all(axis, keepdim=True)
    return x.masked_fill(empty, 0.0).logsumexp(axis).masked_fill(empty.squeeze(axis), -math.inf)


def _at(x: Tensor, place_B: Tensor) -> Tensor:
    """x[b, place[b]] of each row."""
    return x[torch.arange(len(x), device=x.device), place_B]

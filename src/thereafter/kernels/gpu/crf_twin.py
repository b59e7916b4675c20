"""The programs of code/crf.py in torch, on any device: row by row, step by step, with the same filling and shifts.

For tests and for readers. It computes in float32, and in float64 where the emissions are; names are the programs'.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from thereafter.kernels.chain import Chain
from thereafter.kernels.gpu.crf import ChainGradients, ChainWalk, gradients_of, padded_tags

_INF = math.inf


class CrfTwin:
    """See `ChainWalker`."""

    def forward(self, chain: Chain, keep: bool) -> ChainWalk:
        e_BTK = chain.emissions_BTK
        kind = _wide(e_BTK.dtype)
        # what nobody writes is NaN: nobody may read it
        reach_BTK = e_BTK.new_full(e_BTK.shape, math.nan, dtype=kind)
        shift_BT = e_BTK.new_full(e_BTK.shape[:2], math.nan, dtype=kind)
        values_B = e_BTK.new_zeros(len(e_BTK), dtype=kind)
        for row in range(len(e_BTK)):
            n, weight = _row_length(chain, row)
            if n > 0:
                total = _walk(chain, row, n, reach_BTK[row], shift_BT[row])
                if chain.tags_BT is not None:
                    total = total - _score(chain, row, n, chain.tags_BT[row])
                values_B[row] = total.to(kind) * weight
        return ChainWalk(values_B, reach_BTK, shift_BT) if keep else ChainWalk(values_B, None, None)

    def backward(self, chain: Chain, walk: ChainWalk, grad_B: Tensor, kind: torch.dtype) -> ChainGradients:
        e_BTK = chain.emissions_BTK
        filled = padded_tags(e_BTK.shape[2])
        d_BTK = e_BTK.new_zeros(e_BTK.shape, dtype=kind)
        partials_BPK = e_BTK.new_zeros((len(e_BTK), filled + 2, filled), dtype=_wide(e_BTK.dtype))
        for row in range(len(e_BTK)):
            n, weight = _row_length(chain, row)
            if n > 0:
                _walk_back(chain, walk, row, n, grad_B[row] * weight, d_BTK[row], partials_BPK[row])
        return gradients_of(d_BTK, partials_BPK)

    def path(self, chain: Chain) -> Tensor:
        e_BTK = chain.emissions_BTK
        path_BT = e_BTK.new_zeros(e_BTK.shape[:2], dtype=torch.int64)
        for row, n in enumerate(chain.lengths_B.clamp(0, e_BTK.shape[1]).tolist()):
            if n > 0:
                path_BT[row, :n] = _best(chain, row, n)
        return path_BT


def _walk(chain: Chain, row: int, n: int, reach_TK: Tensor, shift_T: Tensor) -> Tensor:
    """log Z of a row in float64; fills reach and shift up to its end."""
    e_TK, size = chain.emissions_BTK[row], chain.emissions_BTK.shape[2]
    step_KK = _fill(chain.transition_KK, -_INF)
    total = e_TK.new_zeros((), dtype=torch.float64)
    alpha_K = torch.zeros_like(step_KK[0])
    for t in range(n):
        if t == 0:
            reach_K = _fill(chain.start_K, -_INF)
        else:
            sum_KK = alpha_K[:, None] + step_KK
            most_K = _finite(sum_KK.max(0).values)
            reach_K = (sum_KK - most_K[None, :]).exp().sum(0).log() + most_K
        sum_K = reach_K + _fill(e_TK[t], 0.0)
        shift = _finite(sum_K.max())
        alpha_K = sum_K - shift
        total = total + shift.double()
        reach_TK[t], shift_T[t] = reach_K[:size], shift
    last_K = alpha_K + _fill(chain.end_K, -_INF)
    most = _finite(last_K.max())
    return total + ((last_K - most).exp().sum().log() + most).double()


def _score(chain: Chain, row: int, n: int, tags_T: Tensor) -> Tensor:
    tags = tags_T[:n].tolist()
    score = chain.emissions_BTK.new_zeros((), dtype=torch.float64)
    if not all(0 <= tag < len(chain.start_K) for tag in tags):
        return score + math.nan
    for t, tag in enumerate(tags):
        before = chain.start_K[tag] if t == 0 else chain.transition_KK[tags[t - 1], tag]
        score = score + chain.emissions_BTK[row, t, tag].double() + before.double()
    return score + chain.end_K[tags[-1]].double()


def _walk_back(
    chain: Chain, walk: ChainWalk, row: int, n: int, scale: Tensor, d_TK: Tensor, partials_PK: Tensor
) -> None:
    """Fills the gradients of a row."""
    if walk.reach_BTK is None or walk.shift_BT is None:
        raise ValueError("the forward pass kept nothing")
    e_TK, reach_TK, shift_T = chain.emissions_BTK[row], walk.reach_BTK[row], walk.shift_BT[row]
    size, filled = e_TK.shape[1], partials_PK.shape[1]
    step_KK, tag_TK = _fill(chain.transition_KK, -_INF), _one_hot(chain, row, n, filled)

    def alpha(t: int) -> Tensor:
        return _fill(reach_TK[t], -_INF) + _fill(e_TK[t], 0.0) - shift_T[t]

    last_K = alpha(n - 1) + _fill(chain.end_K, -_INF)
    power_K = (last_K - _finite(last_K.max())).exp()
    q_K = torch.where(power_K.sum() == 0, 0.0, power_K / power_K.sum())
    partials_PK[filled + 1] = scale * (q_K - tag_TK[n - 1])
    pairs_KK = torch.zeros_like(step_KK)
    for t in range(n - 1, 0, -1):
        d_TK[t] = (scale * (q_K - tag_TK[t]))[:size]
        reach_K = _fill(reach_TK[t], -_INF)
        away_K = torch.where(reach_K == -_INF, _INF, reach_K)
        pair_KK = (alpha(t - 1)[:, None] + step_KK - away_K[None, :]).exp() * q_K[None, :]
        q_K = pair_KK.sum(1)
        pairs_KK += pair_KK
        pairs_KK -= tag_TK[t - 1][:, None] * tag_TK[t][None, :]
    d_TK[0] = (scale * (q_K - tag_TK[0]))[:size]
    partials_PK[filled] = scale * (q_K - tag_TK[0])
    partials_PK[:filled] = scale * pairs_KK


def _best(chain: Chain, row: int, n: int) -> Tensor:
    e_TK, size = chain.emissions_BTK[row], chain.emissions_BTK.shape[2]
    step_KK = _fill(chain.transition_KK, -_INF)
    best_K = _fill(chain.start_K, -_INF) + _fill(e_TK[0], 0.0)
    came_from = []
    for t in range(1, n):
        best_K, from_K = (best_K[:, None] + step_KK).max(0)
        best_K = best_K + _fill(e_TK[t], 0.0)
        came_from.append(from_K.clamp(max=size - 1))
    path = [(best_K + _fill(chain.end_K, -_INF)).argmax().clamp(max=size - 1)]
    for from_K in reversed(came_from):
        path.append(from_K[path[-1]])
    return torch.stack(path[::-1])


def _row_length(chain: Chain, row: int) -> tuple[int, float]:
    """Steps of a row, never more than there are, and its weight."""
    weight = 1.0 if chain.counted_B is None else float(chain.counted_B[row])
    n = min(max(int(chain.lengths_B[row]), 0), chain.emissions_BTK.shape[1])
    return (n if weight != 0 else 0), weight


def _one_hot(chain: Chain, row: int, n: int, filled: int) -> Tensor:
    """The tags of a row as numbers 0 and 1, [n, K]; all 0 where there are none."""
    kind = _wide(chain.emissions_BTK.dtype)
    if chain.tags_BT is None:
        return chain.emissions_BTK.new_zeros((n, filled), dtype=kind)
    return (torch.arange(filled) == chain.tags_BT[row, :n, None]).to(kind)


def _fill(array: Tensor, value: float) -> Tensor:
    """Every dimension filled up to the programs' K, in the type that they compute in."""
    more = padded_tags(array.shape[-1]) - array.shape[-1]
    return torch.nn.functional.pad(array.to(_wide(array.dtype)), (0, more) * array.dim(), value=value)


def _finite(x: Tensor) -> Tensor:
    return torch.where(x.abs() == _INF, 0.0, x)


def _wide(kind: torch.dtype) -> torch.dtype:
    return torch.promote_types(kind, torch.float32)

"""The features that a neural model predicted each token of a text from, beside its log p.

Shapes: B rows, T steps, H features.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from thereafter.models.base import Floats, Ids, rows_at_once
from thereafter.models.state import NeuralState
from thereafter.models.task_net import Network


def observe(model: Network, tokens_BT: Ids, state: NeuralState) -> tuple[Floats, Floats, NeuralState]:
    """log p of each token [B, T], the features it was predicted from [B, T, H], and the state after the last."""
    with model.quietly():
        ids_BT = model.checked(tokens_BT)
        before_BTH, after = _before(model, ids_BT, state)
        logp_N = model.head.log_prob_of(before_BTH.flatten(0, 1), ids_BT.flatten())
        return logp_N.view(ids_BT.shape).float().cpu().numpy(), before_BTH.float().cpu().numpy(), after


def predictions(model: Network, tokens_T: Ids, state: NeuralState) -> Iterator[Floats]:
    """log p of every word before each token of one row, in pieces [P, V]."""
    size = rows_at_once(model.vocabulary_size)
    for begin in range(0, len(tokens_T), size):
        with model.quietly():
            ids_1P = model.checked(np.asarray(tokens_T)[None, begin : begin + size])
            before_1PH, state = _before(model, ids_1P, state)
            logp_PV = model.head.log_prob(before_1PH[0]).float().cpu().numpy()
        yield logp_PV


def last_features(model: Network, state: NeuralState) -> Floats:
    """The features the next prediction is made of, [B, H]."""
    return model.known(state).detach().float().cpu().numpy()


def _before(model: Network, tokens_BT: Tensor, state: NeuralState) -> tuple[Tensor, NeuralState]:
    if model.restart is None or not tokens_BT.numel():
        first_B1H = model.known(state).unsqueeze(1)
        if not tokens_BT.numel():
            return first_B1H[:, :0], state
        h_BTH, after = model.advance(tokens_BT, state)
        return torch.cat([first_B1H, h_BTH[:, :-1]], dim=1), after
    rows = [_over_lines(model, row_T, state.select(np.array([b]))) for b, row_T in enumerate(tokens_BT)]
    return torch.cat([before for before, _ in rows]), model.stack([after for _, after in rows])


def _over_lines(model: Network, tokens_T: Tensor, state: NeuralState) -> tuple[Tensor, NeuralState]:
    """One row, line by line: after a line end the state begins anew."""
    ends = (torch.eq(tokens_T, -1 if model.restart is None else model.restart).nonzero().flatten() + 1).tolist()
    parts: list[Tensor] = []
    for begin, end in zip([0, *ends], [*ends, len(tokens_T)], strict=True):
        if begin:
            state = model.begin(1)
        if end == begin:
            continue
        parts.append(model.known(state).unsqueeze(1))
        # the line end itself is scored and not read
        stop = end - 1 if end in ends else end
        if stop > begin:
            h_1TH, state = model.advance(tokens_T[None, begin:stop], state)
            parts.append(h_1TH[:, : end - begin - 1])
    return torch.cat(parts, dim=1), state

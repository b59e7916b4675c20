"""The direct path of a memory: how much of a gradient comes along its gates alone.

The memory s is c in an LSTM, h in a GRU, minGRU or minLSTM. A step multiplies it by a gate (f in an LSTM, the share of
the old state in the others) and adds something, so that in the backward pass one path does nothing but multiply:

    s_t = gate_t * s_{t-1} + ...      direct(k) = d loss / d s_T * gate_T * gate_{T-1} * ... * gate_{T-k+1}

What is left of d loss / d s_{T-k} went through recurrent matrices (Hochreiter and Schmidhuber 1997).

Shapes: B rows, T steps, S size of the memory, D distances back from the loss.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from thereafter.inspection.gradient_nodes import GradientNode


def direct_paths(
    nodes: Sequence[GradientNode], gradients: Sequence[Tensor], at: tuple[Tensor, Tensor]
) -> dict[str, NDArray[np.float64]]:
    """`gates`, `direct` and `additive`, each [layer, distance]; NaN where a layer has no direct path.

    `gates`: the product of gates, mean over units and rows. `direct`: the norm of what comes along the direct path
    alone, mean over rows. `additive`: its share of the gradient in the memory, direct . whole / |whole|^2 over all
    rows; above 1 where the other paths point the other way. `gradients`: those of the nodes by distance, [B, D, S]
    each; `at`: the rows [B, 1] and steps [B, D] they were taken from.
    """
    layers = list(dict.fromkeys(node.layer for node in nodes))
    paths = {key: np.full((len(layers), at[1].shape[1]), np.nan) for key in ("gates", "direct", "additive")}
    for node, whole_BDS in zip(nodes, gradients, strict=True):
        if node.kept_BTM is None:
            continue
        for key, values_D in _along(node.kept_BTM.detach()[at], whole_BDS).items():
            paths[key][layers.index(node.layer)] = values_D.cpu().numpy()
    return paths


def _along(gate_BDS: Tensor, whole_BDS: Tensor) -> dict[str, Tensor]:
    # nothing is multiplied at distance 0, the gate of the last step at 1, and so on
    shifted_BDS = torch.cat([torch.ones_like(gate_BDS[:, :1]), gate_BDS[:, :-1]], dim=1)
    product_BDS = shifted_BDS.cumprod(dim=1)
    direct_BDS = whole_BDS[:, :1] * product_BDS
    share_D = (direct_BDS * whole_BDS).sum(dim=(0, 2)) / whole_BDS.square().sum(dim=(0, 2))
    return {"gates": product_BDS.mean(dim=(0, 2)), "direct": direct_BDS.norm(dim=2).mean(dim=0), "additive": share_D}

"""Blocks of a text as tensors: what a plan says, cut out of the ids on the device that computes.

On a CPU blocks are cut by numpy, which also reads ids that are mapped from a file; elsewhere the ids and the plan of an
epoch lie on the device, and cutting a block asks the host for nothing.

Shapes: N ids, R rows of an epoch, B rows and T steps of a block.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from thereafter.text.batches import IdArray
from thereafter.training.order import Plan


@dataclass(frozen=True)
class Block:
    """Inputs and targets, one step apart; `mask` is None where every place holds a target. `count`: the targets."""

    inputs_BT: Tensor
    targets_BT: Tensor
    mask_BT: Tensor | None
    count: int


class Blocks:
    """All blocks of an epoch over some ids; `start_id` is what `<s>` is fed as."""

    def __init__(self, ids: IdArray, start_id: int, device: torch.device) -> None:
        self._ids_N = ids
        self._start_id = start_id
        self._device = device
        self._on_device_N: Tensor | None = None
        self._plan: Plan | None = None
        self._rows: tuple[Tensor, Tensor, Tensor] | None = None
        if device.type != "cpu":
            self._on_device_N = torch.from_numpy(np.array(ids, dtype=np.int32)).to(device)

    def __len__(self) -> int:
        return len(self._ids_N)

    def cut(self, plan: Plan, k: int) -> Block:
        """Block k of a plan."""
        return self._cut_here(plan, k) if self._on_device_N is None else self._cut_there(plan, k, self._on_device_N)

    def _cut_here(self, plan: Plan, k: int) -> Block:
        rows, width, count = plan.rows(k), plan.width(k), plan.count(k)
        step_T = np.arange(width)
        place_BT = np.minimum(plan.starts_R[rows, None] + step_T, len(self._ids_N) - 1)
        targets_BT = self._ids_N[place_BT].astype(np.int64)
        inputs_BT = self._ids_N[np.maximum(place_BT - 1, 0)].astype(np.int64)
        inputs_BT[plan.fresh_R[rows], 0] = self._start_id
        whole = count == place_BT.size
        mask_BT = None if whole else torch.from_numpy(step_T < plan.lengths_R[rows, None])
        return Block(torch.from_numpy(inputs_BT), torch.from_numpy(targets_BT), mask_BT, count)

    def _cut_there(self, plan: Plan, k: int, ids_N: Tensor) -> Block:
        if self._plan is not plan or self._rows is None:
            arrays = (plan.starts_R, plan.lengths_R, plan.fresh_R)
            self._plan, self._rows = plan, tuple(torch.from_numpy(a).to(self._device) for a in arrays)  # type: ignore[assignment]
        assert self._rows is not None
        rows, width, count = plan.rows(k), plan.width(k), plan.count(k)
        starts_B, lengths_B, fresh_B = (array[rows] for array in self._rows)
        step_T = torch.arange(width, device=self._device)
        place_BT = (starts_B[:, None] + step_T).clamp_(max=len(ids_N) - 1)
        targets_BT = ids_N[place_BT].long()
        inputs_BT = ids_N[(place_BT - 1).clamp_(min=0)].long()
        inputs_BT[:, 0] = torch.where(fresh_B, self._start_id, inputs_BT[:, 0])
        mask_BT = None if count == place_BT.numel() else step_T < lengths_B[:, None]
        return Block(inputs_BT, targets_BT, mask_BT, count)

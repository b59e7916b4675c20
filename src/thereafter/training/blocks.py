"""Batches of a text as tensors, cut out of its ids by a plan (`order.py`) on the device that computes.

On a CPU they are cut by numpy, which also reads ids that are mapped from a file. On a GPU the ids and the plan of an
epoch lie on the device, and the host does not wait for anything.

Shapes: N ids, R rows of an epoch, B rows and T steps of a block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from thereafter.text.chunks import IdArray
from thereafter.training.order import Plan


@dataclass(frozen=True)
class TextBatch:
    """Inputs and targets, one step apart; `mask` is None where every place holds a target. See `learner.Batch`."""

    inputs_BT: Tensor
    targets_BT: Tensor
    mask_BT: Tensor | None
    count: int
    rate_factor: float = 1.0

    @property
    def rows(self) -> int:
        return len(self.inputs_BT)

    def mean(self, total: Tensor) -> Tensor:
        return total / self.count  # every batch of a shape that is recorded has as many targets

    def places(self) -> dict[str, Tensor] | None:
        if self.mask_BT is not None:  # which places count is asked of the device, and a graph must ask it nothing
            return None
        return {"inputs": self.inputs_BT, "targets": self.targets_BT}

    def over(self, places: Mapping[str, Tensor]) -> Self:
        return replace(self, inputs_BT=places["inputs"], targets_BT=places["targets"])


class Blocks:
    """Cuts the blocks of an epoch out of ids; `start_id` is the input that stands for `<s>`."""

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

    def cut(self, plan: Plan, k: int) -> TextBatch:
        """Block k of a plan, as a batch."""
        return (
            self._cut_on_host(plan, k) if self._on_device_N is None else self.cut_on_device(plan, k, self._on_device_N)
        )

    def _cut_on_host(self, plan: Plan, k: int) -> TextBatch:
        rows, width, count = plan.rows(k), plan.width(k), plan.count(k)
        step_T = np.arange(width)
        place_BT = np.minimum(plan.starts_R[rows, None] + step_T, len(self._ids_N) - 1)
        targets_BT = self._ids_N[place_BT].astype(np.int64)
        inputs_BT = self._ids_N[np.maximum(place_BT - 1, 0)].astype(np.int64)
        inputs_BT[plan.fresh_R[rows], 0] = self._start_id
        whole = count == place_BT.size
        mask_BT = None if whole else torch.from_numpy(step_T < plan.lengths_R[rows, None])
        return TextBatch(torch.from_numpy(inputs_BT), torch.from_numpy(targets_BT), mask_BT, count)

    def cut_on_device(self, plan: Plan, k: int, ids_N: Tensor) -> TextBatch:
        """The same from ids that lie on the device, without asking the host for anything."""
        if self._plan is not plan or self._rows is None:
            starts_R, lengths_R, fresh_R = map(torch.from_numpy, (plan.starts_R, plan.lengths_R, plan.fresh_R))
            self._plan = plan
            self._rows = (starts_R.to(self._device), lengths_R.to(self._device), fresh_R.to(self._device))
        rows, width, count = plan.rows(k), plan.width(k), plan.count(k)
        starts_B, lengths_B, fresh_B = (array[rows] for array in self._rows)
        step_T = torch.arange(width, device=self._device)
        place_BT = (starts_B[:, None] + step_T).clamp_(max=len(ids_N) - 1)
        targets_BT = ids_N[place_BT].long()
        inputs_BT = ids_N[(place_BT - 1).clamp_(min=0)].long()
        inputs_BT[:, 0] = torch.where(fresh_B, self._start_id, inputs_BT[:, 0])
        mask_BT = None if count == place_BT.numel() else step_T < lengths_B[:, None]
        return TextBatch(inputs_BT, targets_BT, mask_BT, count)


class TextEpochs:
    """The epochs of a text, as `learner.Epochs`: `plan(epoch)` says in which order, `blocks` cut it.

    `steps`: where blocks have drawn lengths, the length that the learning rate is meant for; a shorter block is learned
    from at a lower rate (Merity, Keskar and Socher 2018).
    """

    def __init__(self, blocks: Blocks, plan: Callable[[int], Plan], steps: int | None = None) -> None:
        self._blocks, self._plan, self._steps = blocks, plan, steps

    def epoch(self, number: int) -> TextEpoch:
        return TextEpoch(self._blocks, self._plan(number), self._steps)


@dataclass(frozen=True)
class TextEpoch:
    """One epoch of a text, as `learner.Epoch`."""

    blocks: Blocks
    plan: Plan
    steps: int | None = None

    @property
    def carried(self) -> bool:
        return self.plan.carried

    def __len__(self) -> int:
        return len(self.plan)

    def batch(self, k: int) -> TextBatch:
        block = self.blocks.cut(self.plan, k)
        return block if self.steps is None else replace(block, rate_factor=block.inputs_BT.shape[1] / self.steps)

"""A recurrent layer whose input depends on its own output before: one step at a time, with gradients.

`layers/stream.py` steps without them, in place. Shapes: B rows, I inputs, U outputs.
"""

from __future__ import annotations

from torch import Tensor

from thereafter.cells.base import State
from thereafter.errors import OptionError
from thereafter.kernels.scan import unroll
from thereafter.layers.recurrent import Recurrent


class OneStep:
    """A stack of one layer and one direction, from the state of zeros on; `like` has B rows, its type and its device.

    `h_BU`: the output of the last step. `records`: with `record`, gates and states of every step by name.

    >>> import torch
    >>> layer = OneStep(Recurrent("lstm", 3, 2), torch.zeros(4, 3))
    >>> layer(torch.ones(4, 3)).shape, layer.h_BU.shape
    (torch.Size([4, 2]), torch.Size([4, 2]))
    """

    def __init__(self, stack: Recurrent, like: Tensor, *, record: bool = False) -> None:
        if len(stack.lanes) != 1:
            raise OptionError(f"the stack has {len(stack.lanes)} layers and directions; expected one")
        (lane,) = stack.lanes
        self._cell, self._weights, self._record = lane.cell, stack.lane_weights(lane), record
        self._state: State = lane.cell.zero_state(len(like), like)
        self.h_BU = self._state.h
        self.records: dict[str, list[Tensor]] = {}

    def __call__(self, x_BI: Tensor) -> Tensor:
        result = unroll(self._cell, x_BI.unsqueeze(1), self._state, self._weights, record=self._record)
        self._state, self.h_BU = result.state, result.y_BTO[:, 0]
        for name, array_BTU in (result.record or {}).items():
            self.records.setdefault(name, []).append(array_BTU[:, 0])
        return self.h_BU

"""y = x W^T + b for a few rows, with a matrix that is stored in fewer bytes: a head's, say.

Shapes: B rows, I inputs, O outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from thereafter.kernels.step.stepper import compiles
from thereafter.kernels.step.storing import Narrow, rounded

_MOST_IDLE, _MOST_SIZES = 8, 4  # buffers of one number of rows; numbers of rows


class _IdleProduct(NamedTuple):
    """A pass that nobody uses, with the buffers it reads and writes."""

    run: Callable[[], None]
    x_BI: Tensor
    y_BO: Tensor


class StoredProduct:
    """A product without gradients, which several threads may use at once; later training does not change it.

    >>> product = StoredProduct(torch.eye(3), torch.ones(3), "int8")
    >>> product(torch.tensor([[1.0, 2.0, 3.0]])).round(decimals=4)  # the last bits depend on the processor
    tensor([[2., 3., 4.]])
    """

    def __init__(self, weight_OI: Tensor, bias_O: Tensor, narrow: Narrow) -> None:
        self._narrow = narrow
        self._weight, self._bias, self._inputs = weight_OI.detach(), bias_O.detach().clone(), weight_OI.shape[1]
        self._packed: dict[str, Tensor] = {}
        self._idle: dict[int, list[_IdleProduct]] = {}
        self._compiled = compiles(self._weight)
        if self._compiled:
            self._make(1)  # the matrix is laid out now, whatever becomes of its weights
            self._weight = self._weight[:0]
        else:
            self._weight = rounded(self._weight, narrow).clone()

    def __call__(self, x_BI: Tensor) -> Tensor:
        """y, [B, O]."""
        if not self._compiled:
            return torch.addmm(self._bias, x_BI, self._weight.t())
        if len(x_BI) not in self._idle and len(self._idle) >= _MOST_SIZES:
            self._idle.clear()
        idle = self._idle.setdefault(len(x_BI), [])
        try:
            product = idle.pop()
        except IndexError:  # the first to ask, or others are at it
            product = self._make(len(x_BI))
        product.x_BI.copy_(x_BI)
        product.run()
        y_BO = product.y_BO.clone()
        if len(idle) < _MOST_IDLE:
            idle.append(product)
        return y_BO

    def _make(self, rows: int) -> _IdleProduct:
        from thereafter.kernels.step.compiled_steppers import PanelStore
        from thereafter.kernels.step.passes import PassSource, StepPass

        with torch.inference_mode(False), torch.no_grad():
            store = PanelStore(self._bias, self._narrow, self._packed)
            layout = store.layout(1, len(self._bias))
            matrix, bias = store.matrix("weight", self._weight, layout), store.bias("bias", self._bias, layout)
            x_BI, y_BO = self._bias.new_zeros(rows, self._inputs), self._bias.new_zeros(rows, len(self._bias))
            run = StepPass("copies 1", layout, store.form, [PassSource(matrix, x_BI, bias)], {"to_a": y_BO})
        return _IdleProduct(run, x_BI, y_BO)

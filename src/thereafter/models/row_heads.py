"""The head's product for some rows at once, with its matrix laid out for them: see `kernels.row_products`, and
`kernels.stored_product` for one that is stored in fewer bytes.

Shapes: B rows, H features, V words.

y = x W^T + b for a few rows, with a matrix that is stored in fewer bytes: a head's, say.

Shapes: B rows, I inputs, O outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from thereafter.kernels.row_products import can_pack, multiply, pack
from thereafter.kernels.step.stepper import compiles
from thereafter.kernels.step.storing import Narrow, rounded
from thereafter.layers.heads import WordHead
from thereafter.layers.softmax import Softmax, wide_log_softmax
from thereafter.models.versions import Versions, versions


class RowHead:
    """Laid out when several rows are first predicted, thrown away when the weights have changed."""

    def __init__(self, narrow: Narrow | None = None) -> None:
        self._narrow = narrow
        self._packed: tuple[Versions, Tensor] | None = None
        self._stored: tuple[Versions, StoredProduct] | None = None

    def log_prob(self, head: WordHead, f_BH: Tensor) -> Tensor:
        """log p of every word, [B, V]."""
        if self._narrow is not None and f_BH.is_cpu and isinstance(head, Softmax) and not torch.is_grad_enabled():
            return wide_log_softmax(self._product(head, self._narrow)(f_BH))
        if len(f_BH) < 2 or not isinstance(head, Softmax) or torch.is_grad_enabled() or not can_pack(head.matrix):
            return head.log_prob(f_BH)
        weights, packed = versions([head.matrix]), self._packed  # looked at once: threads may put their own there
        if packed is None or packed[0] != weights:
            packed = self._packed = (weights, pack(head.matrix[: head.words]))
        return wide_log_softmax(multiply(f_BH, packed[1], head.bias))

    def _product(self, head: Softmax, narrow: Narrow) -> StoredProduct:
        weights, stored = versions([head.matrix, head.bias]), self._stored
        if stored is None or stored[0] != weights:
            stored = self._stored = (weights, StoredProduct(head.matrix[: head.words], head.bias, narrow))
        return stored[1]

    def __deepcopy__(self, memo: dict[int, object]) -> RowHead:
        return RowHead(self._narrow)

    def __reduce__(self) -> tuple[type[RowHead], tuple[Narrow | None]]:
        return RowHead, (self._narrow,)


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
